//! Builds and tests the copy, within a time limit.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use super::catalogue::Suite;
use crate::Failure;

/// How long a build may take; the first one compiles everything.
const BUILD_WITHIN: Duration = Duration::from_secs(3_600);
/// How often it is asked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Lines of a build that failed that are shown.
const LINES_SHOWN: usize = 40;

/// Cargo in the copy, with a target folder of its own.
#[derive(Debug)]
pub struct Cargo {
    folder: PathBuf,
    target: PathBuf,
}

/// What came of building.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Built {
    /// It was compiled.
    Anew,
    /// There was nothing to compile.
    Already,
    /// It cannot be compiled, and why.
    Not(String),
}

/// What came of running tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tested {
    /// All passed.
    Passed,
    /// These failed.
    Failed(Vec<String>),
    /// These, if any is known, had not ended when the time was over; or these had failed before.
    Hung(Vec<String>),
    /// The process of the tests died, so that no test can be named.
    Died,
}

impl Cargo {
    /// In the copy at `folder`, compiling into `target`.
    pub fn new(folder: &Path, target: &Path) -> Self {
        Self { folder: folder.to_owned(), target: target.to_owned() }
    }

    /// Compiles the tests of a suite.
    pub fn build(&self, suite: &Suite) -> Result<Built, Failure> {
        let options = suite.run.iter().take_while(|word| *word != "--").map(String::as_str);
        let options: Vec<_> = options.chain(["--no-run"]).collect();
        let (status, _, errors) = self.run(suite, &options, BUILD_WITHIN)?;
        Ok(match status {
            None => return Err("the build does not end".into()),
            Some(status) if !status.success() => Built::Not(end_of(&errors)),
            Some(_) if errors.lines().any(|line| line.trim().starts_with("Compiling ")) => {
                Built::Anew
            }
            Some(_) => Built::Already,
        })
    }

    /// Runs the tests of a suite, which are compiled already.
    pub fn test(&self, suite: &Suite) -> Result<Tested, Failure> {
        let options: Vec<_> = suite.run.iter().map(String::as_str).collect();
        let (status, output, errors) = self.run(suite, &options, suite.within)?;
        let passed = status.map(|status| status.success());
        // What never began has caught nothing.
        if passed != Some(true) && !output.lines().any(|line| line.starts_with("running ")) {
            return Err(format!("{} does not begin:\n{}", suite.name, end_of(&errors)).into());
        }
        Ok(verdict(passed, &output))
    }

    /// How it ended, if it did in time, and what it wrote.
    fn run(
        &self,
        suite: &Suite,
        options: &[&str],
        within: Duration,
    ) -> Result<(Option<ExitStatus>, String, String), Failure> {
        fs::create_dir_all(&self.target)?;
        // Into files: servers that tests leave behind would keep a pipe open.
        let (output, errors) = (self.target.join("output.log"), self.target.join("errors.log"));
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let child = Command::new(program)
            .args(options)
            .envs(suite.set.iter().map(|(name, value)| (name, value)))
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_TERM_COLOR", "never")
            .current_dir(&self.folder)
            .stdin(std::process::Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?)
            .process_group(0)
            .spawn()?;
        let status = wait(child, within)?;
        let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((status, read(output)?, read(errors)?))
    }
}

/// Waits for a process; when its time is over it is killed, with all that it has started.
fn wait(mut child: Child, within: Duration) -> Result<Option<ExitStatus>, Failure> {
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() >= within {
            break None;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    if status.is_none() {
        let group = format!("-{}", child.id());
        Command::new("kill").args(["-KILL", "--", &group]).status()?;
        child.wait()?;
    }
    Ok(status)
}

/// What the output of tests says. `passed` is how their process ended, if it did.
fn verdict(passed: Option<bool>, output: &str) -> Tested {
    let failed = || named(output, " ... FAILED").into_iter().map(str::to_owned).collect::<Vec<_>>();
    match passed {
        Some(true) => Tested::Passed,
        Some(false) if failed().is_empty() => Tested::Died,
        Some(false) => Tested::Failed(failed()),
        None if !failed().is_empty() => Tested::Hung(failed()),
        None => {
            let mut slow = named(output, " has been running for over 60 seconds");
            let ended = named(output, " ... ok");
            slow.retain(|name| !ended.contains(name));
            Tested::Hung(slow.into_iter().map(str::to_owned).collect())
        }
    }
}

/// The tests of which this is said, in order.
fn named<'a>(output: &'a str, said: &str) -> BTreeSet<&'a str> {
    let name = |line: &'a str| line.strip_prefix("test ")?.strip_suffix(said);
    output.lines().filter_map(name).collect()
}

fn end_of(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 3 tests\ntest b::two ... FAILED\ntest a::one ... ok\n\
                          test c ... FAILED\n\nfailures:\n    b::two\n";

    #[test]
    fn failed_tests_are_named() {
        let failed = vec!["b::two".to_owned(), "c".to_owned()];
        assert_eq!(verdict(Some(false), OUTPUT), Tested::Failed(failed.clone()));
        assert_eq!(verdict(None, OUTPUT), Tested::Hung(failed));
        assert_eq!(verdict(Some(true), OUTPUT), Tested::Passed);
        assert_eq!(verdict(Some(false), "running 3 tests\n"), Tested::Died);
    }

    #[test]
    fn tests_that_do_not_end_are_named_unless_they_did_after_all() {
        let slow = "test a has been running for over 60 seconds\n\
                    test b has been running for over 60 seconds\ntest a ... ok\n";
        assert_eq!(verdict(None, slow), Tested::Hung(vec!["b".into()]));
    }

    #[test]
    fn what_does_not_end_is_killed_with_all_it_has_started() {
        let (started, folder) = (Instant::now(), tempfile::tempdir().unwrap());
        let child = Command::new("sh")
            .args(["-c", "sleep 600 & echo $! > pid; wait"])
            .current_dir(folder.path())
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = || fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
        while !pid().ends_with('\n') {
            assert!(started.elapsed() < Duration::from_secs(60), "it does not begin");
            std::thread::sleep(LOOK_EVERY);
        }
        assert_eq!(wait(child, Duration::from_millis(100)).unwrap(), None);
        assert!(started.elapsed() < Duration::from_secs(60));
        let pid = pid();
        let state = || fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // The signal is with it when `wait` returns; to die of it may take it a moment more.
        let ended = || state().is_empty() || state().contains(") Z ");
        while !ended() {
            assert!(started.elapsed() < Duration::from_secs(60), "{}", state());
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
