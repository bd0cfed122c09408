//! The bugs, and the tests that are run on them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tasklane_core::SeededRandom;

use super::block::Block;
use crate::Failure;

/// A bug that some test must catch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bug {
    /// What it is called; no two are called the same.
    pub name: String,
    /// The file of the catalogue that it stands in, without its ending.
    pub area: String,
    /// Which kind of mistake it is.
    pub class: String,
    /// What it would do to somebody.
    pub why: String,
    /// The file it is put into.
    pub file: String,
    /// The text it stands in for; exactly once in that file.
    pub find: String,
    /// What is written instead.
    pub put: String,
    /// The suites that are run, one after the other until one catches it.
    pub suites: Vec<String>,
}

/// Tests that are run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// What bugs call it.
    pub name: String,
    /// What is said to cargo.
    pub run: Vec<String>,
    /// Variables that are set for it.
    pub set: Vec<(String, String)>,
    /// How long its tests may take; after that they hang.
    pub within: Duration,
}

/// Everything in the folder of the catalogue.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// In the order of files and lines, so that bugs of one crate follow each other.
    pub bugs: Vec<Bug>,
    /// By name.
    pub suites: BTreeMap<String, Suite>,
}

impl Catalogue {
    /// Reads every `.txt` of a folder.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let mut catalogue = Self::default();
        let entries = std::fs::read_dir(folder);
        let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "txt"));
        files.sort();
        for file in files {
            let area = file.file_stem().unwrap_or_default().to_string_lossy();
            let text = std::fs::read_to_string(&file)?;
            catalogue.add(&area, &text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        catalogue.check()?;
        Ok(catalogue)
    }

    /// Adds the blocks of one file.
    pub fn add(&mut self, area: &str, text: &str) -> Result<(), Failure> {
        for block in Block::read_all(text)? {
            match block.kind.as_str() {
                "bug" => self.bugs.push(bug(area, block)?),
                "suite" => {
                    let suite = suite(block)?;
                    self.suites.insert(suite.name.clone(), suite);
                }
                kind => return Err(format!("line {}: {kind} is no kind", block.line).into()),
            }
        }
        Ok(())
    }

    /// Refuses bugs of the same name, and suites that nobody has described.
    pub fn check(&self) -> Result<(), Failure> {
        for (at, bug) in self.bugs.iter().enumerate() {
            if self.bugs.iter().take(at).any(|earlier| earlier.name == bug.name) {
                return Err(format!("{} is there twice", bug.name).into());
            }
            if let Some(other) = bug.suites.iter().find(|name| !self.suites.contains_key(*name)) {
                return Err(format!("{}: there is no suite {other}", bug.name).into());
            }
        }
        Ok(())
    }

    /// Leaves only the bugs of these areas; each must have some.
    pub fn keep_areas(&mut self, areas: &[String]) -> Result<(), Failure> {
        if let Some(empty) = areas.iter().find(|area| self.bugs.iter().all(|b| b.area != **area)) {
            return Err(format!("there is no area {empty}").into());
        }
        self.bugs.retain(|bug| areas.contains(&bug.area));
        Ok(())
    }

    /// Leaves only the bugs of these names; each must be there.
    pub fn keep_named(&mut self, names: &[String]) -> Result<(), Failure> {
        if let Some(other) = names.iter().find(|name| self.bugs.iter().all(|b| b.name != **name)) {
            return Err(format!("there is no bug {other}").into());
        }
        self.bugs.retain(|bug| names.contains(&bug.name));
        Ok(())
    }

    /// Leaves so many, chosen by `seed`; those that stay keep their order.
    pub fn keep_sample(&mut self, count: usize, seed: u64) {
        let mut random = SeededRandom::new(seed);
        while self.bugs.len() > count {
            let at = random.below(self.bugs.len() as u64) as usize;
            self.bugs.remove(at);
        }
    }

    /// The suites that the bugs name.
    pub fn used_suites(&self) -> impl Iterator<Item = &Suite> {
        let used = |name: &str| self.bugs.iter().any(|bug| bug.suites.iter().any(|s| s == name));
        self.suites.values().filter(move |suite| used(&suite.name))
    }
}

fn bug(area: &str, mut block: Block) -> Result<Bug, Failure> {
    let suites = block.require("tests")?;
    let bug = Bug {
        name: block.name.clone(),
        area: area.into(),
        class: block.require("class")?,
        why: block.require("why")?.replace('\n', " "),
        file: block.require("file")?,
        find: block.require("find")?,
        put: block.take("put").ok_or_else(|| format!("{} puts nothing", block.name))?,
        suites: suites.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    block.finish()?;
    Ok(bug)
}

fn suite(mut block: Block) -> Result<Suite, Failure> {
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let within = block.require("within_seconds")?;
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("{text}: no value"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    let set = words(block.take("set").unwrap_or_default());
    let suite = Suite {
        name: block.name.clone(),
        run: words(block.require("run")?),
        set: set.iter().map(pair).collect::<Result<_, String>>()?,
        within: Duration::from_secs(within.parse().map_err(|_| format!("{within}: no number"))?),
    };
    block.finish()?;
    Ok(suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "suite core\nrun: test -p core\nset: STEPS=5\nwithin_seconds: 60\n\
                        bug one\nclass: a\nwhy: b\nfile: c.rs\ntests: core\nfind:\n    x\nput:\n";

    fn catalogue(bugs: usize) -> Catalogue {
        let mut catalogue = Catalogue::default();
        catalogue.add("area", TEXT).unwrap();
        let one = catalogue.bugs[0].clone();
        catalogue.bugs = (0..bugs).map(|n| Bug { name: n.to_string(), ..one.clone() }).collect();
        catalogue
    }

    #[test]
    fn bugs_and_suites_are_read_and_their_names_checked() {
        let mut catalogue = Catalogue::default();
        catalogue.add("area", TEXT).unwrap();
        assert!(catalogue.check().is_ok());
        let bug = &catalogue.bugs[0];
        assert_eq!((bug.find.as_str(), bug.put.as_str(), bug.area.as_str()), ("x", "", "area"));
        let suite = &catalogue.suites["core"];
        assert_eq!(suite.run, ["test", "-p", "core"]);
        assert_eq!(suite.set, [("STEPS".to_owned(), "5".to_owned())]);
        assert_eq!(suite.within, Duration::from_secs(60));
        catalogue.add("area", TEXT).unwrap();
        assert!(catalogue.check().is_err(), "the same bug twice");
        catalogue.bugs.truncate(1);
        catalogue.suites.clear();
        assert!(catalogue.check().is_err(), "a suite that is not there");
    }

    #[test]
    fn a_bug_that_leaves_something_out_is_refused() {
        for field in ["class", "why", "file", "tests", "find", "put"] {
            let without: Vec<_> = TEXT.lines().filter(|line| !line.starts_with(field)).collect();
            let text = without.join("\n");
            assert!(Catalogue::default().add("area", &text).is_err(), "without {field}");
        }
    }

    #[test]
    fn a_sample_follows_from_its_seed_and_keeps_the_order() {
        let names = |seed| {
            let mut sampled = catalogue(20);
            sampled.keep_sample(5, seed);
            sampled.bugs.iter().map(|bug| bug.name.parse::<u32>().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        assert!(names(1).is_sorted() && names(1).len() == 5);
        let mut few = catalogue(3);
        few.keep_sample(5, 1);
        assert_eq!(few.bugs.len(), 3);
    }

    #[test]
    fn what_is_asked_for_by_name_must_be_there() {
        let mut named = catalogue(3);
        assert!(named.keep_named(&["7".into()]).is_err());
        named.keep_named(&["2".into(), "0".into()]).unwrap();
        assert_eq!(named.bugs.iter().map(|bug| bug.name.as_str()).collect::<Vec<_>>(), ["0", "2"]);
        assert!(named.keep_areas(&["elsewhere".into()]).is_err());
        named.keep_areas(&["area".into()]).unwrap();
        assert_eq!(named.bugs.len(), 2);
        assert_eq!(named.used_suites().count(), 1);
    }
}
