//! Arguments of a proof: options by name, behind the program under test where one comes first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::parent::Engine;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    /// Reads `[--NAME VALUE]…`, with no other names than these; the last value of a name counts.
    pub fn parse(
        mut arguments: impl Iterator<Item = String>,
        known: &[&str],
    ) -> Result<Self, Failure> {
        let mut values = BTreeMap::new();
        while let Some(name) = arguments.next() {
            if !known.contains(&name.as_str()) {
                return Err(format!("{name} is none of {}", known.join(", ")).into());
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            values.insert(name, value);
        }
        Ok(Self { values })
    }

    /// The same behind the program under test: `PROGRAM [--NAME VALUE]…`.
    pub fn with_program(
        mut arguments: impl Iterator<Item = String>,
        known: &[&str],
    ) -> Result<(PathBuf, Self), Failure> {
        let program = arguments.next().filter(|first| !first.starts_with("--"));
        let usage = || format!("PROGRAM comes first, then any of {}", known.join(", "));
        let program = program.ok_or_else(usage)?;
        Ok((program.into(), Self::parse(arguments, known)?))
    }

    /// A number, or what it is otherwise.
    pub fn number(&self, name: &str, otherwise: u64) -> Result<u64, Failure> {
        match self.text(name) {
            Some(text) => Ok(text.parse().map_err(|_| format!("{name} {text}: no number"))?),
            None => Ok(otherwise),
        }
    }

    /// Whether it was given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// `--seed`, or one that nobody has chosen.
    pub fn seed(&self) -> Result<u64, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        self.number("--seed", since.as_micros() as u64)
    }

    /// `--store`, the embedded one unless said otherwise.
    pub fn engine(&self) -> Result<Engine, Failure> {
        self.text("--store").map_or(Ok(Engine::Sqlite), Engine::parse)
    }

    /// What is said to `make` for the same proof with this seed.
    pub fn again(&self, proof: &str, seed: u64) -> String {
        let store = self.text("--store").filter(|store| *store != "sqlite");
        let store = store.map_or_else(String::new, |store| format!(" STORE={store}"));
        format!("make {proof}{store} SEED={seed}")
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A file or a folder.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(PathBuf, Options), Failure> {
        Options::with_program(text.split(' ').map(str::to_owned), &["--seed", "--store"])
    }

    #[test]
    fn options_have_values_and_names_that_are_known() -> Result<(), Failure> {
        let (program, options) = parse("tasklane --seed 6 --store redis --seed 7")?;
        assert_eq!(program, PathBuf::from("tasklane"));
        assert_eq!((options.seed()?, options.engine()?), (7, Engine::Redis));
        assert_eq!((options.number("--more", 3)?, options.path("--report")), (3, None));
        assert_eq!(options.again("crash", 7), "make crash STORE=redis SEED=7");
        assert_eq!(parse("tasklane --store sqlite")?.1.again("crash", 7), "make crash SEED=7");
        for wrong in ["--seed 7", "tasklane --sed 7", "tasklane --seed"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("tasklane --seed x")?.1.seed().is_err());
        Ok(())
    }
}
