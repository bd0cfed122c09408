//! What caught what, for people and for files.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::trial::{Catch, How, Trial, Verdict};

/// What a run has come to.
#[derive(Debug, Clone)]
pub struct Report {
    /// What the choice of bugs follows from.
    pub seed: u64,
    /// Bugs that the catalogue has.
    pub of: usize,
    /// The bugs that were tried.
    pub trials: Vec<Trial>,
}

impl Report {
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
        let mut text = String::from("| bug | class | caught by | tests |\n|---|---|---|---|\n");
        for Trial { bug, verdict, .. } in &self.trials {
            let (by, tests) = told(verdict);
            let _ = writeln!(text, "| {} | {} | {by} | {tests} |", bug.name, bug.class);
        }
        let (caught, tried) = (self.caught(), self.trials.len());
        let _ = writeln!(text, "\n{caught} of {tried} caught.");
        text
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let trials: Vec<_> = self.trials.iter().map(entry).collect();
        let report = json!({
            "seed": self.seed,
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
    let Trial { bug, verdict, took } = trial;
    let mut entry = json!({
        "bug": bug.name,
        "area": bug.area,
        "class": bug.class,
        "why": bug.why,
        "file": bug.file,
        "seconds": took.as_secs_f64(),
    });
    let (word, details) = match verdict {
        Verdict::Caught(Catch { suite, tests, how }) => {
            let how = match how {
                How::Failed => "failed",
                How::Hung => "hung",
                How::Died => "died",
            };
            ("caught", json!({ "suite": suite, "how": how, "tests": tests }))
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

/// Who caught it, in words, and how many tests did.
pub fn told(verdict: &Verdict) -> (String, usize) {
    match verdict {
        Verdict::Caught(Catch { suite, tests, how }) => {
            let first = tests.first().map_or("", String::as_str);
            let by = match how {
                How::Failed => format!("{suite}: {first}"),
                How::Hung if first.is_empty() => format!("{suite}: its tests did not end"),
                How::Hung => format!("{suite}: {first}, time-out"),
                How::Died => format!("{suite}: its process died"),
            };
            (by, tests.len().max(1))
        }
        Verdict::Survived => ("**nothing**".into(), 0),
        Verdict::Unusable(_) => ("*not tried*".into(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bite::catalogue::Bug;
    use std::time::Duration;

    fn trial(name: &str, verdict: Verdict) -> Trial {
        let bug = Bug {
            name: name.into(),
            area: "core".into(),
            class: "missing guard".into(),
            why: "w".into(),
            file: "f".into(),
            find: "a".into(),
            put: "b".into(),
            suites: vec!["core".into()],
        };
        Trial { bug, verdict, took: Duration::from_secs(2) }
    }

    #[test]
    fn each_bug_has_a_row_and_its_verdict() {
        let tests = vec!["x::y".to_owned(), "z".to_owned()];
        let catch = |how, tests| Verdict::Caught(Catch { suite: "core".into(), tests, how });
        let trials = vec![
            trial("one", catch(How::Failed, tests)),
            trial("two", Verdict::Survived),
            trial("three", Verdict::Unusable("broken".into())),
            trial("four", catch(How::Hung, Vec::new())),
        ];
        let report = Report { seed: 7, of: 9, trials };
        assert_eq!((report.caught(), report.survived(), report.unusable()), (2, 1, 1));
        let text = report.to_markdown();
        assert!(text.contains("| one | missing guard | core: x::y | 2 |"), "{text}");
        assert!(text.contains("| two | missing guard | **nothing** | 0 |"), "{text}");
        assert!(text.ends_with("2 of 4 caught.\n"), "{text}");
        let json: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["trials"][0]["tests"][1], "z");
        assert_eq!(json["trials"][3]["how"], "hung");
        assert_eq!((&json["survived"], &json["bugs"]), (&1.into(), &9.into()));
    }
}
