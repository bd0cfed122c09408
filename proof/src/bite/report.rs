//! What caught what, for people and for files. A report can be filled by several runs: each puts what
//! it tried in the place of what was known of these bugs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::catalogue::{Bug, Catalogue};
use super::trial::{Catch, How, Trial, Verdict};
use crate::Failure;

/// Tests that are named in a table; a file for programs has them all.
const NAMED_MAX: usize = 3;

/// What runs have come to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Bugs that the catalogue has.
    pub of: usize,
    /// The bugs that were tried.
    pub trials: Vec<Trial>,
}

impl Report {
    /// What was written earlier, of bugs that are still there.
    pub fn read(text: &str, catalogue: &Catalogue) -> Result<Self, Failure> {
        let json: Value = serde_json::from_str(text)?;
        let entries = json.get("trials").and_then(Value::as_array).ok_or("it has no trials")?;
        let mut report = Self { of: catalogue.bugs.len(), trials: Vec::new() };
        for entry in entries {
            let bug = catalogue.bugs.iter().find(|bug| entry["bug"] == *bug.name);
            report.trials.extend(bug.map(|bug| trial(bug, entry)).transpose()?);
        }
        Ok(report)
    }

    /// Notes what became of a bug, whatever was known of it; rows keep the catalogue's order.
    pub fn put(&mut self, trial: Trial, catalogue: &Catalogue) {
        let place = |name: &str| catalogue.bugs.iter().position(|bug| bug.name == name);
        self.trials.retain(|known| known.bug.name != trial.bug.name);
        self.trials.push(trial);
        self.trials.sort_by_key(|known| place(&known.bug.name));
    }

    /// The same of these bugs alone.
    pub fn only(&self, catalogue: &Catalogue) -> Self {
        let mut report = self.clone();
        report.trials.retain(|known| catalogue.bugs.iter().any(|bug| bug.name == known.bug.name));
        report
    }

    /// Whether a bug was caught.
    pub fn has_caught(&self, bug: &Bug) -> bool {
        let caught = |trial: &Trial| matches!(trial.verdict, Verdict::Caught(_));
        self.trials.iter().any(|trial| trial.bug.name == bug.name && caught(trial))
    }

    /// How many were caught.
    pub fn caught(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Caught(_)))
    }

    /// How many survived.
    pub fn survived(&self) -> usize {
        self.count(|verdict| *verdict == Verdict::Survived)
    }

    /// How many could not be tried.
    pub fn unusable(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Unusable(_)))
    }

    fn count(&self, is_it: impl Fn(&Verdict) -> bool) -> usize {
        self.trials.iter().filter(|trial| is_it(&trial.verdict)).count()
    }

    /// A table for people.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from(
            "| bug | class | suite | caught by | commit | seconds |\n|---|---|---|---|---|---:|\n",
        );
        for Trial { bug, commit, verdict, took } in &self.trials {
            let (suite, tests) = told(verdict);
            let (name, class, took) = (&bug.name, &bug.class, took.as_secs_f64());
            let _ =
                writeln!(text, "| {name} | {class} | {suite} | {tests} | {commit} | {took:.0} |");
        }
        let (caught, tried, of) = (self.caught(), self.trials.len(), self.of);
        let _ = writeln!(
            text,
            "\n{caught} of {tried} that were tried are caught; {of} are written down."
        );
        text
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let trials: Vec<_> = self.trials.iter().map(entry).collect();
        let report = json!({
            "bugs": self.of,
            "tried": self.trials.len(),
            "caught": self.caught(),
            "survived": self.survived(),
            "unusable": self.unusable(),
            "trials": trials,
        });
        format!("{report:#}\n")
    }
}

fn entry(trial: &Trial) -> Value {
    let Trial { bug, commit, verdict, took } = trial;
    let mut entry = json!({
        "bug": bug.name,
        "area": bug.area,
        "class": bug.class,
        "why": bug.why,
        "file": bug.file,
        "commit": commit,
        "seconds": took.as_secs_f64(),
    });
    let (word, details) = match verdict {
        Verdict::Caught(Catch { suite, tests, how }) => {
            ("caught", json!({ "suite": suite, "how": word(*how), "tests": tests }))
        }
        Verdict::Survived => ("survived", json!({})),
        Verdict::Unusable(why) => ("unusable", json!({ "reason": why })),
    };
    if let (Some(entry), Value::Object(details)) = (entry.as_object_mut(), details) {
        entry.insert("verdict".into(), word.into());
        entry.extend(details);
    }
    entry
}

fn word(how: How) -> &'static str {
    match how {
        How::Failed => "failed",
        How::Hung => "hung",
        How::Died => "died",
    }
}

/// The other way round.
fn trial(bug: &Bug, entry: &Value) -> Result<Trial, Failure> {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let verdict = match entry["verdict"].as_str() {
        Some("caught") => {
            let tests = entry["tests"].as_array().into_iter().flatten();
            let tests = tests.filter_map(Value::as_str).map(str::to_owned).collect();
            let known = [How::Failed, How::Hung, How::Died];
            let how = known.into_iter().find(|how| entry["how"] == word(*how));
            let how = how.ok_or_else(|| format!("{}: caught, but how?", bug.name))?;
            Verdict::Caught(Catch { suite: text("suite"), tests, how })
        }
        Some("survived") => Verdict::Survived,
        Some("unusable") => Verdict::Unusable(text("reason")),
        _ => return Err(format!("{} has no verdict", bug.name).into()),
    };
    let took = Duration::try_from_secs_f64(entry["seconds"].as_f64().unwrap_or_default())?;
    Ok(Trial { bug: bug.clone(), commit: text("commit"), verdict, took })
}

/// The suite that caught it, and which of its tests did, in words.
pub fn told(verdict: &Verdict) -> (String, String) {
    match verdict {
        Verdict::Caught(Catch { suite, tests, how }) => {
            let tests = match (how, tests.len()) {
                (How::Hung, 0) => "its tests did not end".into(),
                (How::Died, 0) => "its process died".into(),
                (How::Hung, _) => format!("{}, time-out", named(tests)),
                (How::Failed | How::Died, _) => named(tests),
            };
            (suite.clone(), tests)
        }
        Verdict::Survived => ("–".into(), "**nothing**".into()),
        Verdict::Unusable(_) => ("–".into(), "*not tried*".into()),
    }
}

/// Some tests, and how many more there are.
fn named(tests: &[String]) -> String {
    let named = tests.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match tests.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bug(name: &str) -> Bug {
        Bug {
            name: name.into(),
            area: "core".into(),
            class: "missing guard".into(),
            why: "w".into(),
            file: "f".into(),
            find: "a".into(),
            put: "b".into(),
            suites: vec!["core".into()],
        }
    }

    fn catalogue() -> Catalogue {
        let bugs = ["one", "two", "three", "four"].map(bug).to_vec();
        Catalogue { bugs, ..Catalogue::default() }
    }

    fn trial(name: &str, verdict: Verdict) -> Trial {
        let (commit, took) = ("1a2b3c4".into(), Duration::from_secs(2));
        Trial { bug: bug(name), commit, verdict, took }
    }

    fn caught(how: How, tests: &[&str]) -> Verdict {
        let tests = tests.iter().map(|test| (*test).to_owned()).collect();
        Verdict::Caught(Catch { suite: "core".into(), tests, how })
    }

    fn report() -> Report {
        let mut report = Report { of: 9, ..Report::default() };
        report.put(trial("four", caught(How::Hung, &[])), &catalogue());
        report.put(trial("two", Verdict::Survived), &catalogue());
        report.put(trial("three", Verdict::Unusable("broken".into())), &catalogue());
        report.put(trial("one", caught(How::Failed, &["x::y", "z", "u", "v"])), &catalogue());
        report
    }

    #[test]
    fn each_bug_has_a_row_and_its_verdict() {
        let report = report();
        assert_eq!((report.caught(), report.survived(), report.unusable()), (2, 1, 1));
        let text = report.to_markdown();
        let row = "| one | missing guard | core | x::y, z, u and 1 more | 1a2b3c4 | 2 |\n| two |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| two | missing guard | – | **nothing** | 1a2b3c4 | 2 |"), "{text}");
        assert!(text.contains("| core | its tests did not end | 1a2b3c4 | 2 |"), "{text}");
        assert!(
            text.ends_with("2 of 4 that were tried are caught; 9 are written down.\n"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["trials"][0]["tests"][1], "z");
        assert_eq!(json["trials"][3]["how"], "hung");
        assert_eq!((&json["survived"], &json["bugs"]), (&1.into(), &9.into()));
    }

    #[test]
    fn another_run_goes_on_where_one_has_ended() {
        let mut gone = catalogue();
        gone.bugs.remove(2);
        let mut read = Report::read(&report().to_json(), &gone).unwrap();
        assert_eq!((read.of, read.trials.len()), (3, 3), "what is no longer there is left out");
        assert_eq!(read.to_json(), Report { of: 3, ..report() }.only(&gone).to_json());
        assert!(read.has_caught(&bug("one")) && !read.has_caught(&bug("two")));
        read.put(trial("two", caught(How::Failed, &["x"])), &gone);
        assert_eq!((read.trials.len(), read.caught()), (3, 3), "a row is replaced");
        assert_eq!(read.trials[1].bug.name, "two");
        assert!(Report::read("{}", &gone).is_err());
    }
}
