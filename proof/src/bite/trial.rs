//! One bug after the other.

use std::time::{Duration, Instant};

use super::cargo::{Built, Cargo, Tested};
use super::catalogue::{Bug, Catalogue};
use super::tree::Tree;
use crate::Failure;

/// What came of a bug.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Tests failed.
    Caught(Catch),
    /// Every test passed, so that one is missing.
    Survived,
    /// It is not a bug but a mistake of the catalogue: the copy with it cannot be built.
    Unusable(String),
}

/// How a bug was caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catch {
    /// The suite that caught it.
    pub suite: String,
    /// The tests that failed.
    pub tests: Vec<String>,
    /// How they told.
    pub how: How,
}

/// How tests tell of a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// They failed.
    Failed,
    /// They did not end.
    Hung,
    /// Their process died.
    Died,
}

/// A bug and what came of it.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The bug.
    pub bug: Bug,
    /// The commit that it was put into.
    pub commit: String,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took, with building.
    pub took: Duration,
}

/// Who is told how far it is.
pub trait Observer {
    /// The clean copy passed a suite.
    fn passed(&mut self, suite: &str, took: Duration);
    /// A bug is about to be tried.
    fn begins(&mut self, bug: &Bug);
    /// A bug was tried.
    fn tried(&mut self, trial: Trial) -> Result<(), Failure>;
}

/// Tries every bug of a catalogue in a copy. Fails if the tests do not pass without a bug: then
/// nothing that they say of one means anything.
pub fn run(
    catalogue: &Catalogue,
    tree: &Tree,
    cargo: &Cargo,
    observer: &mut impl Observer,
) -> Result<(), Failure> {
    for bug in &catalogue.bugs {
        tree.check(bug)?;
    }
    for suite in catalogue.used_suites() {
        let started = Instant::now();
        if let Built::Not(why) = cargo.build(suite)? {
            return Err(format!("{} cannot be built without a bug:\n{why}", suite.name).into());
        }
        match cargo.test(suite)? {
            Tested::Passed => observer.passed(&suite.name, started.elapsed()),
            other => return Err(format!("{} fails without a bug: {other:?}", suite.name).into()),
        }
    }
    for bug in &catalogue.bugs {
        observer.begins(bug);
        let started = Instant::now();
        let put = tree.put(bug)?;
        let verdict = judge(bug, catalogue, cargo);
        put.take_out()?;
        let (bug, commit) = (bug.clone(), tree.commit().to_owned());
        observer.tried(Trial { bug, commit, verdict: verdict?, took: started.elapsed() })?;
    }
    Ok(())
}

/// Runs suites on a bug that is in the copy until one catches it.
fn judge(bug: &Bug, catalogue: &Catalogue, cargo: &Cargo) -> Result<Verdict, Failure> {
    let suites = bug.suites.iter().filter_map(|name| catalogue.suites.get(name));
    for (at, suite) in suites.enumerate() {
        match cargo.build(suite)? {
            Built::Anew => {}
            // The tests of a later suite may be those of an earlier one, told apart by their names.
            Built::Already if at > 0 => {}
            Built::Already => {
                let why = format!("{} is not made of {}", suite.name, bug.file);
                return Ok(Verdict::Unusable(why));
            }
            Built::Not(why) => return Ok(Verdict::Unusable(why)),
        }
        let (tests, how) = match cargo.test(suite)? {
            Tested::Passed => continue,
            Tested::Failed(tests) => (tests, How::Failed),
            Tested::Hung(tests) => (tests, How::Hung),
            Tested::Died => (Vec::new(), How::Died),
        };
        return Ok(Verdict::Caught(Catch { suite: suite.name.clone(), tests, how }));
    }
    Ok(Verdict::Survived)
}
