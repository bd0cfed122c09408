//! What depth costs: rates, memory and restarts over the number of queued tasks. In records, a
//! figure is on a number of lanes, of a depth.

use std::fmt::Write;

use super::record::{Figure, Run, short};
use super::svg::{Curve, curves, whole};

const RATES: [&str; 4] = ["submit", "claim", "settle", "drain"];
const FEW: &str = "8";
const MANY: &str = "10000";

/// The page and its charts, by the names of their files.
pub(crate) fn files(run: &Run) -> Vec<(String, String)> {
    let mut files = vec![("growth.md".to_owned(), page(run))];
    for (lanes, file, title) in [
        (FEW, "growth-rates.svg", "Tasks a second over queued tasks, 8 lanes"),
        (MANY, "growth-lanes.svg", "Tasks a second over queued tasks, 10,000 lanes"),
    ] {
        let lines: Vec<Curve> = RATES.iter().map(|name| curve(run, lanes, name, name)).collect();
        files.push((file.to_owned(), curves(title, "queued", "tasks a second", &lines)));
    }
    let both =
        |name| vec![curve(run, FEW, name, "8 lanes"), curve(run, MANY, name, "10,000 lanes")];
    let memory = curves("Memory over queued tasks", "queued", "MB resident", &both("rss_mb"));
    files.push(("growth-memory.svg".to_owned(), memory));
    let ready = curves("From start to ready", "queued", "ms", &both("ready_ms"));
    files.push(("growth-ready.svg".to_owned(), ready));
    files
}

fn page(run: &Run) -> String {
    let mut text = format!("# What depth costs\n\n{}\n", run.made("bench/growth"));
    text.push_str(
        "\nThe embedded store with so many tasks queued: batches of 100, payloads of 100 bytes, 4 calls in flight, each answered \
         after its sync; \"drain\" settles a batch and claims the next. Memory is of the process that holds the store, at the end of \
         that load; ready is from the start of `tasklane serve` on that store until `/readyz` says yes, after an orderly end and after \
         `kill -9`; server is its memory then. Medians, with the least and the most in brackets.\n\n",
    );
    text.push_str("| lanes | queued | submit | claim | settle | drain | memory | ready | after kill -9 | server |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for lanes in [FEW, MANY] {
        for depth in depths(run, lanes) {
            let depth = depth.as_str();
            let cell = |name, told: fn(&Figure) -> String| {
                run.figure(lanes, depth, name).map_or("–".to_owned(), told)
            };
            let queued = depth.parse().map_or(depth.to_owned(), whole);
            let _ = write!(text, "| {lanes} | {queued} |");
            for name in RATES {
                let _ = write!(text, " {} |", cell(name, rate));
            }
            for name in ["rss_mb", "ready_ms", "ready_after_kill_ms", "server_rss_mb"] {
                let told: fn(&Figure) -> String =
                    if name.ends_with("mb") { megabytes } else { milliseconds };
                let _ = write!(text, " {} |", cell(name, told));
            }
            text.push('\n');
        }
    }
    for (file, title) in [
        ("growth-rates.svg", "Rates with 8 lanes"),
        ("growth-lanes.svg", "Rates with 10,000 lanes"),
        ("growth-memory.svg", "Memory"),
        ("growth-ready.svg", "From start to ready"),
    ] {
        let _ = write!(text, "\n![{title}]({file})\n");
    }
    text + &targets(run)
}

/// One line of what the design asks for; absent figures give none.
struct Target {
    what: String,
    got: Option<Figure>,
    unit: &'static str,
    bound: f64,
    at_least: bool,
}

impl Target {
    fn row(&self) -> Option<String> {
        let Self { what, unit, bound, at_least, .. } = self;
        let got = self.got.as_ref()?.median;
        let (sign, met, digits) =
            if *at_least { ("≥", got >= *bound, 2) } else { ("≤", got <= *bound, 0) };
        let verdict = if met { "met" } else { "**missed**" };
        Some(format!("| {what} | {got:.digits$}{unit} | {sign} {bound}{unit} | {verdict} |\n"))
    }
}

fn targets(run: &Run) -> String {
    let head = "\n## Against the targets\n\n| what | measured | target | |\n|---|---|---|---|\n";
    let rows = asked(run).iter().filter_map(Target::row).collect::<String>();
    head.to_owned() + &rows
}

/// Target 5 of the design, at the greatest depth that was measured.
fn asked(run: &Run) -> Vec<Target> {
    let depths = depths(run, FEW);
    let (Some(least), Some(most)) = (depths.first(), depths.last()) else { return Vec::new() };
    let [queued, few] = [most, least].map(|depth| depth.parse().map_or(depth.clone(), whole));
    let ratio = |what, over, under, bound| Target {
        what,
        got: run.ratio(over, under),
        unit: " ×",
        bound,
        at_least: true,
    };
    let deep = format!("claims with {queued} queued over claims with {few}");
    let wide = format!("claims with 10,000 lanes over claims with 8, {queued} queued");
    let mut targets = vec![
        ratio(deep, [FEW, most, "claim"], [FEW, least, "claim"], 0.8),
        ratio(wide, [MANY, most, "claim"], [FEW, most, "claim"], 0.5),
    ];
    for (lanes, named) in [(FEW, "8"), (MANY, "10,000")] {
        for (name, told, unit, bound) in [
            ("rss_mb", "memory under load", " MB", 500.0),
            ("server_rss_mb", "memory of the server, restarted", " MB", 500.0),
            ("ready_ms", "ready after an orderly end", " ms", 2_000.0),
            ("ready_after_kill_ms", "ready after kill -9", " ms", 2_000.0),
        ] {
            let what = format!("{told}, {queued} queued in {named} lanes");
            let got = run.figure(lanes, most, name).cloned();
            targets.push(Target { what, got, unit, bound, at_least: false });
        }
    }
    targets
}

/// The depths that were measured, from the least.
fn depths(run: &Run, lanes: &str) -> Vec<String> {
    let mut depths: Vec<u64> =
        run.figures.iter().filter(|f| f.on == lanes).filter_map(|f| f.who.parse().ok()).collect();
    depths.sort_unstable();
    depths.dedup();
    depths.iter().map(u64::to_string).collect()
}

fn curve(run: &Run, lanes: &str, name: &str, label: &str) -> Curve {
    let point = |depth: String| {
        let figure = run.figure(lanes, &depth, name)?;
        Some([depth.parse().ok()?, figure.median, figure.least, figure.most])
    };
    let points = depths(run, lanes).into_iter().filter_map(point).collect();
    Curve { label: label.to_owned(), points, dashed: lanes == MANY }
}

fn rate(figure: &Figure) -> String {
    format!("{}/s ({}–{})", short(figure.median), short(figure.least), short(figure.most))
}

fn megabytes(figure: &Figure) -> String {
    format!("{:.0} MB", figure.median)
}

fn milliseconds(figure: &Figure) -> String {
    format!("{:.0} ms ({:.0}–{:.0})", figure.median, figure.least, figure.most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "8 10000 claim 200000\n8 10000000 claim 150000\n10000 10000000 claim 90000\n8 10000000 rss_mb 612\n8 10000000 ready_ms 40\n";

    #[test]
    fn targets_are_judged_at_the_greatest_depth() {
        let page = page(&Run::parse(LINES).unwrap());
        assert!(page.contains("| 0.75 × | ≥ 0.8 × | **missed** |"), "{page}");
        assert!(page.contains("| 0.60 × | ≥ 0.5 × | met |"), "{page}");
        assert!(page.contains("| 612 MB | ≤ 500 MB | **missed** |"), "{page}");
        assert!(page.contains("| 40 ms | ≤ 2000 ms | met |"), "{page}");
        assert!(page.contains("| 8 | 10 M | – | 150k/s (150k–150k) |"), "{page}");
    }

    #[test]
    fn depths_are_in_order_of_size() {
        let run = Run::parse("8 1000000 claim 1\n8 10000 claim 1\n8 100000 claim 1\n").unwrap();
        assert_eq!(depths(&run, "8"), ["10000", "100000", "1000000"]);
        assert_eq!(curve(&run, "8", "claim", "x").points.len(), 3);
    }
}
