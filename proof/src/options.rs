//! Arguments of a proof: the program under test, then options by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::parent::Engine;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// The server under test.
    pub program: PathBuf,
    values: BTreeMap<String, String>,
}

impl Options {
    /// Reads `PROGRAM [--NAME VALUE]…`, with no other names than these.
    pub fn parse(
        mut arguments: impl Iterator<Item = String>,
        known: &[&str],
    ) -> Result<Self, Failure> {
        let program = arguments.next().filter(|first| !first.starts_with("--"));
        let usage = format!("PROGRAM comes first, then any of {}", known.join(", "));
        let program = program.ok_or(usage)?.into();
        let mut values = BTreeMap::new();
        while let Some(name) = arguments.next() {
            if !known.contains(&name.as_str()) {
                return Err(format!("{name} is none of {}", known.join(", ")).into());
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            values.insert(name, value);
        }
        Ok(Self { program, values })
    }

    /// A number, or what it is otherwise.
    pub fn number(&self, name: &str, otherwise: u64) -> Result<u64, Failure> {
        match self.values.get(name) {
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
        self.values.get("--store").map_or(Ok(Engine::Sqlite), |text| Engine::parse(text))
    }

    /// A file to write.
    pub fn file(&self, name: &str) -> Option<&Path> {
        self.values.get(name).map(Path::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, Failure> {
        Options::parse(text.split(' ').map(str::to_owned), &["--seed", "--store"])
    }

    #[test]
    fn options_have_values_and_names_that_are_known() -> Result<(), Failure> {
        let options = parse("tasklane --seed 7 --store redis")?;
        assert_eq!((options.seed()?, options.engine()?), (7, Engine::Redis));
        assert_eq!((options.number("--more", 3)?, options.file("--report")), (3, None));
        for wrong in ["--seed 7", "tasklane --sed 7", "tasklane --seed"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("tasklane --seed x")?.seed().is_err());
        Ok(())
    }
}
