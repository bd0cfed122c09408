//! What a run told: facts as lines "# name value", figures as lines "on who name value". The same as
//! JSON, with medians, for others to read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All that one run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// What it was made on, and with which versions.
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) figures: Vec<Figure>,
}

/// One figure over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The setting: a server, a number of lanes.
    pub(crate) on: String,
    /// What was measured: a program, a depth.
    pub(crate) who: String,
    pub(crate) name: String,
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// In the order of the rounds.
    pub(crate) values: Vec<f64>,
}

impl Figure {
    fn new(on: &str, who: &str, name: &str, values: Vec<f64>) -> Self {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let (median, least, most) =
            (at(sorted.len().saturating_sub(1) / 2), at(0), at(sorted.len().saturating_sub(1)));
        let [on, who, name] = [on, who, name].map(str::to_owned);
        Self { on, who, name, median, least, most, values }
    }
}

impl Run {
    /// Reads the lines of a run; a line that is neither a fact nor a figure is an error.
    pub(crate) fn parse(lines: &str) -> Result<Self, String> {
        let mut facts = BTreeMap::new();
        let mut order: Vec<[&str; 3]> = Vec::new();
        let mut values: BTreeMap<[&str; 3], Vec<f64>> = BTreeMap::new();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            if let Some((name, value)) = line.strip_prefix("# ").and_then(|l| l.split_once(' ')) {
                facts.insert(name.to_owned(), value.to_owned());
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [on, who, name, value] = words.as_slice() else {
                return Err(format!("not a record: {line}"));
            };
            let value = value.parse().ok().filter(|value: &f64| value.is_finite());
            let value = value.ok_or_else(|| format!("not a number: {line}"))?;
            let key = [*on, *who, *name];
            values.entry(key).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            values.entry(key).or_default().push(value);
        }
        let figure = |key: [&str; 3]| {
            let [on, who, name] = key;
            Figure::new(on, who, name, values.get(&key).cloned().unwrap_or_default())
        };
        Ok(Self { facts, figures: order.into_iter().map(figure).collect() })
    }

    /// One figure, if it was measured.
    pub(crate) fn figure(&self, on: &str, who: &str, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.on == on && f.who == who && f.name == name)
    }

    /// One over the other, round by round: rounds differ more than what is compared within one.
    pub(crate) fn ratio(&self, over: [&str; 3], under: [&str; 3]) -> Option<Figure> {
        let find = |[on, who, name]: [&str; 3]| self.figure(on, who, name);
        let (over, under) = (find(over)?, find(under)?);
        let pairs = over.values.iter().zip(&under.values).filter(|(_, under)| **under > 0.0);
        let values: Vec<f64> = pairs.map(|(over, under)| over / under).collect();
        (!values.is_empty()).then(|| Figure::new("", "", "ratio", values))
    }

    /// A fact, or a word that says that it is not known.
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("unknown", String::as_str)
    }

    /// Where and when it was made, in one sentence.
    pub(crate) fn made(&self, by: &str) -> String {
        format!(
            "Made by `{by}` on {} at {}: {} cores ({}) and {} GB for everything together, {} rounds; load of the machine before {}, after {}.",
            self.fact("date"),
            self.fact("commit"),
            self.fact("cores"),
            self.fact("processor"),
            self.fact("memory_gb"),
            self.fact("rounds"),
            self.fact("load_before"),
            self.fact("load_after"),
        )
    }
}

/// A rate as people say it: 512, 1.7k, 54k.
pub(crate) fn short(value: f64) -> String {
    match value {
        v if v < 1_000.0 => format!("{v:.0}"),
        v if v < 9_950.0 => format!("{:.1}k", v / 1e3),
        v if v < 999_500.0 => format!("{:.0}k", v / 1e3),
        v => format!("{:.1}M", v / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "# cores 2\n# processor A B\nredis a submit 10\nredis b submit 5\nredis a submit 30\nredis b submit 10\nredis a submit 20\nredis b submit 2\n";

    #[test]
    fn figures_have_medians_and_spread() {
        let run = Run::parse(LINES).unwrap();
        let figure = run.figure("redis", "a", "submit").unwrap();
        assert_eq!((figure.median, figure.least, figure.most), (20.0, 10.0, 30.0));
        assert_eq!(run.fact("processor"), "A B");
        assert_eq!(run.fact("memory_gb"), "unknown");
    }

    #[test]
    fn ratios_are_of_one_round_each() {
        let run = Run::parse(LINES).unwrap();
        let ratio = run.ratio(["redis", "a", "submit"], ["redis", "b", "submit"]).unwrap();
        assert_eq!(ratio.values, [2.0, 3.0, 10.0]);
        assert!(run.ratio(["redis", "a", "submit"], ["redis", "c", "submit"]).is_none());
    }

    #[test]
    fn json_gives_the_same_run() {
        let run = Run::parse(LINES).unwrap();
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert!(Run::parse("redis a submit").is_err());
        assert!(Run::parse("redis a submit many").is_err());
        assert!(Run::parse("redis a submit NaN").is_err());
    }

    #[test]
    fn rates_are_short() {
        let rates = [512.0, 1_651.0, 9_960.0, 54_321.0, 999_600.0];
        assert_eq!(rates.map(short), ["512", "1.7k", "10k", "54k", "1.0M"]);
    }
}
