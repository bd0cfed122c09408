//! Tasklane beside its peers: the page, its charts, and README's table.

use std::fmt::Write;

use super::record::{Figure, Run, short};
use super::svg::{Bar, bars};

/// Somebody who was measured.
struct Party {
    on: &'static str,
    who: &'static str,
    label: &'static str,
    /// The facts that hold its versions.
    versions: &'static [&'static str],
    /// What an answer to a submission means.
    answer: &'static str,
    settings: &'static str,
}

const TASKLANE: &str = "one server over HTTP; submit by 64 connections, bulk by 1000 on 4, claim and complete by 100 with 4 workers, or one a call with 64, each reporting and claiming in one call";
const SYNCED: &str = "synced to disk";
const PARTIES: [Party; 9] = [
    Party {
        on: "embedded",
        who: "tasklane",
        label: "Tasklane, embedded",
        versions: &[],
        answer: SYNCED,
        settings: TASKLANE,
    },
    Party {
        on: "redis",
        who: "tasklane",
        label: "Tasklane on Redis",
        versions: &["redis"],
        answer: SYNCED,
        settings: "as above",
    },
    Party {
        on: "postgres",
        who: "tasklane",
        label: "Tasklane on PostgreSQL",
        versions: &["postgresql"],
        answer: SYNCED,
        settings: "as above",
    },
    Party {
        on: "redis",
        who: "bullmq",
        label: "BullMQ",
        versions: &["bullmq", "redis"],
        answer: SYNCED,
        settings: "one process; 64 adds at a time, `addBulk` of 1000 with 4 at a time, a worker with concurrency 100, `removeOnComplete`",
    },
    Party {
        on: "redis",
        who: "celery",
        label: "Celery",
        versions: &["celery", "redis"],
        answer: SYNCED,
        settings: "64 threads that send, prefork workers as many as cores, `task_acks_late`, prefetch 100 each, results ignored; it has no bulk",
    },
    Party {
        on: "postgres",
        who: "graphile-worker",
        label: "graphile-worker",
        versions: &["graphile-worker", "postgresql"],
        answer: SYNCED,
        settings: "one process with 64 connections; 64 `addJob` at a time, `addJobs` of 1000 with 4 at a time, 24 at once with a local queue of 500 and batched completion; waits without these two",
    },
    Party {
        on: "postgres",
        who: "river",
        label: "River",
        versions: &["river", "postgresql"],
        answer: SYNCED,
        settings: "64 connections; 64 `Insert` at a time, `InsertManyFast` of 1000 with 4 at a time, 2000 workers, fetches 2 ms apart and every 20 ms at least, as in its own benchmark",
    },
    Party {
        on: "embedded",
        who: "beanstalkd",
        label: "beanstalkd, synced",
        versions: &["beanstalkd"],
        answer: SYNCED,
        settings: "`-b` with `-f0`; 64 connections, bulk is 1000 puts before the answers are read on 4, a drain deletes and takes the next in one go",
    },
    Party {
        on: "embedded",
        who: "beanstalkd-memory",
        label: "beanstalkd, in memory",
        versions: &["beanstalkd"],
        answer: "in memory",
        settings: "the same without a log",
    },
];

/// What is charted: a name in records, a name in files, a title.
const RATES: [(&str, &str, &str); 3] = [
    ("submit", "peers-submit.svg", "Submit, one a call, 64 at a time: tasks a second"),
    ("bulk", "peers-bulk.svg", "Submit in bulk: tasks a second"),
    ("drain", "peers-drain.svg", "Claim and complete: tasks a second"),
];

/// The least ratios that the design asks for: what, ours, theirs, how much.
type Target = (&'static str, [&'static str; 3], [&'static str; 3], f64);
const ADD: [&str; 3] = ["redis", "bullmq", "submit"];
const BULK: [&str; 3] = ["redis", "bullmq", "bulk"];
const DRAIN: [&str; 3] = ["redis", "bullmq", "drain"];
const LOG: [&str; 3] = ["embedded", "echo", "submit"];
const HASH: [&str; 3] = ["redis", "echo", "submit"];
const PG_ADD: [&str; 3] = ["postgres", "graphile-worker", "submit"];
const PG_BULK: [&str; 3] = ["postgres", "graphile-worker", "bulk"];
const PG_DRAIN: [&str; 3] = ["postgres", "graphile-worker", "drain"];
#[rustfmt::skip]
const TARGETS: [Target; 15] =
    [
        ("embedded, HTTP: submit / an echo that syncs a log", ["embedded", "tasklane", "submit"], LOG, 0.7),
        ("embedded, HTTP: submit / BullMQ's", ["embedded", "tasklane", "submit"], ADD, 1.75),
        ("embedded, HTTP: bulk / BullMQ's", ["embedded", "tasklane", "bulk"], BULK, 8.0),
        ("embedded, HTTP: drain / BullMQ's", ["embedded", "tasklane", "drain"], DRAIN, 5.0),
        ("Redis, store: submit by 25 / BullMQ's adds", ["redis", "store", "submit_by_25"], ADD, 2.0),
        ("Redis, store: by 1000 / BullMQ's bulk", ["redis", "store", "submit_by_1000"], BULK, 8.0),
        ("Redis, store: drain by 100 / BullMQ's", ["redis", "store", "drain_by_100"], DRAIN, 3.5),
        ("Redis, HTTP: submit / an echo that keeps it in Redis", ["redis", "tasklane", "submit"], HASH, 0.7),
        ("Redis, HTTP: submit / BullMQ's", ["redis", "tasklane", "submit"], ADD, 1.25),
        ("Redis, HTTP: drain / BullMQ's", ["redis", "tasklane", "drain"], DRAIN, 3.0),
        ("PostgreSQL, store: submit by 25 / graphile-worker's adds", ["postgres", "store", "submit_by_25"], PG_ADD, 30.0),
        ("PostgreSQL, store: by 1000 / graphile-worker's bulk", ["postgres", "store", "submit_by_1000"], PG_BULK, 1.5),
        ("PostgreSQL, store: drain by 100 / graphile-worker's", ["postgres", "store", "drain_by_100"], PG_DRAIN, 1.0),
        ("PostgreSQL, HTTP: submit / graphile-worker's", ["postgres", "tasklane", "submit"], PG_ADD, 15.0),
        ("PostgreSQL, HTTP: drain / graphile-worker's", ["postgres", "tasklane", "drain"], PG_DRAIN, 0.7),
    ];

/// The page and its charts, by the names of their files.
pub(crate) fn files(run: &Run) -> Vec<(String, String)> {
    let mut files = vec![("peers.md".to_owned(), page(run))];
    for (name, file, title) in RATES {
        let told = |figure: &Figure| short(figure.median);
        files.push((file.to_owned(), bars(title, &rows(run, name, told))));
    }
    let told = |figure: &Figure| format!("{} ms", wait(figure.median));
    let title = "Pick-up at 200 a second: p99 in ms";
    let waits = bars(title, &rows(run, "pickup_p99_ms", told));
    files.push(("peers-pickup.svg".to_owned(), waits));
    files
}

/// README's table, from its first to its last line.
pub(crate) fn readme(run: &Run) -> String {
    let mut text = String::from(
        "| | an answer means | submit, one a call | in bulk | claim and complete | pick-up p50 / p99 |\n|---|---|---|---|---|---|\n",
    );
    for party in measured(run) {
        let Party { on, who, label, answer, .. } = party;
        let label = if *who == "tasklane" { format!("**{label}**") } else { (*label).to_owned() };
        let rate =
            |name| run.figure(on, who, name).map_or("–".to_owned(), |f| short(f.median) + "/s");
        let _ = writeln!(
            text,
            "| {label} | {answer} | {} | {} | {} | {} |",
            rate("submit"),
            rate("bulk"),
            rate("drain"),
            waits(run, party)
        );
    }
    let _ = write!(
        text,
        "\nMedians of {} rounds on {} cores that load, servers and workers share, {}; {}. \
         Spread, settings, charts and how to run it: [bench/results/peers.md](bench/results/peers.md).",
        run.fact("rounds"),
        run.fact("cores"),
        run.fact("date"),
        versions(run, PARTIES.iter().flat_map(|party| party.versions)),
    );
    text
}

fn page(run: &Run) -> String {
    let mut text = format!("# Tasklane beside others\n\n{}\n", run.made("bench/peers/run"));
    text.push_str(
        "\nIn each round all take turns on one Redis (`appendfsync always`) and one PostgreSQL (as it is installed, \
         `synchronous_commit` on, except for `shared_buffers=64MB`, `autovacuum_naptime=5s`, `max_connections=200`, \
         `max_locks_per_transaction=256` and the locale C), reached by sockets; Tasklane's server is reached by TCP. Payloads of 100 bytes, handlers that do \
         nothing. A figure is the median, with the least and the most over the rounds in brackets. Pick-up is \
         from the call that submits to the begin of the handler, at 200 a second.\n\n",
    );
    text.push_str("| | submit, one a call | in bulk | claim and complete | one a call | pick-up p50 / p99 | bytes of Redis per queued task |\n|---|---|---|---|---|---|---|\n");
    for party in measured(run) {
        let Party { on, who, label, .. } = party;
        let cell = |name| run.figure(on, who, name).map_or("–".to_owned(), spread);
        let bytes =
            run.figure(on, who, "bytes").map_or("–".to_owned(), |f| format!("{:.0}", f.median));
        let _ = writeln!(
            text,
            "| {label} | {} | {} | {} | {} | {} | {bytes} |",
            cell("submit"),
            cell("bulk"),
            cell("drain"),
            cell("drain_by_1"),
            waits(run, party),
        );
    }
    for (_, file, title) in RATES {
        let _ = write!(text, "\n![{title}]({file})\n");
    }
    text.push_str("\n![Pick-up at 200 a second](peers-pickup.svg)\n\n## Settings\n\n");
    for party in measured(run) {
        let versions = versions(run, party.versions);
        let versions = if versions.is_empty() { versions } else { format!(" ({versions})") };
        let _ = writeln!(
            text,
            "- **{}**{versions}: an answer means {}; {}.",
            party.label, party.answer, party.settings
        );
    }
    text + &targets(run)
}

fn targets(run: &Run) -> String {
    let mut text = String::from(
        "\n## Against the targets\n\nRatios round by round; \"store\" is the store without a server, with 4 calls in flight. On PostgreSQL bulk \
         and drains are held against what it does at the least ([floor.md](floor.md), [why](../../docs/adr/0011-targets.md)); what \
         anything over HTTP can reach is in the same rounds ([why](../../docs/adr/0015-beside-bullmq.md), [floor-redis.md](floor-redis.md)).\n\n\
         | what | ours | theirs | ratio | target | |\n|---|---|---|---|---|---|\n",
    );
    for (what, own, other, least) in TARGETS {
        let find = |[on, who, name]: [&str; 3]| run.figure(on, who, name);
        let (Some(ratio), Some(ours), Some(theirs)) =
            (run.ratio(own, other), find(own), find(other))
        else {
            continue;
        };
        let verdict = if ratio.median >= least { "met" } else { "**missed**" };
        let digits = if least < 1.0 { 2 } else { 1 };
        let _ = writeln!(
            text,
            "| {what} | {}/s | {}/s | {:.digits$} × ({:.digits$}–{:.digits$}) | ≥ {least} × | {verdict} |",
            short(ours.median),
            short(theirs.median),
            ratio.median,
            ratio.least,
            ratio.most
        );
    }
    text
}

fn measured(run: &Run) -> impl Iterator<Item = &'static Party> {
    PARTIES.iter().filter(|party| run.figure(party.on, party.who, "submit").is_some())
}

fn rows(run: &Run, name: &str, told: impl Fn(&Figure) -> String) -> Vec<Bar> {
    let figures = PARTIES.iter().filter_map(|p| Some((p, run.figure(p.on, p.who, name)?)));
    let bar = |(party, figure): (&Party, &Figure)| Bar {
        label: party.label.to_owned(),
        told: told(figure),
        value: figure.median,
        least: figure.least,
        most: figure.most,
        own: party.who == "tasklane",
    };
    figures.map(bar).collect()
}

fn spread(figure: &Figure) -> String {
    let Figure { median, least, most, .. } = figure;
    format!("{}/s ({}–{})", short(*median), short(*least), short(*most))
}

fn waits(run: &Run, party: &Party) -> String {
    let figure = |name| run.figure(party.on, party.who, name).map(|f| wait(f.median));
    match (figure("pickup_p50_ms"), figure("pickup_p99_ms")) {
        (Some(half), Some(most)) => format!("{half} / {most} ms"),
        _ => "–".to_owned(),
    }
}

fn wait(ms: f64) -> String {
    if ms < 9.95 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

/// Names and versions, each once.
fn versions<'a>(run: &Run, names: impl IntoIterator<Item = &'a &'static str>) -> String {
    let mut told: Vec<String> = Vec::new();
    for name in names {
        let version = format!("{name} {}", run.fact(name));
        if !told.contains(&version) {
            told.push(version);
        }
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "# rounds 3\n# bullmq 6.7.0\nembedded tasklane submit 50000\nembedded tasklane submit 60000\nembedded tasklane submit 40000\nredis bullmq submit 20000\nredis bullmq submit 40000\nredis bullmq submit 10000\nredis bullmq pickup_p50_ms 1.1\nredis bullmq pickup_p99_ms 12.3\n";

    #[test]
    fn readme_has_a_row_for_each_that_was_measured() {
        let table = readme(&Run::parse(LINES).unwrap());
        assert!(
            table.contains("| **Tasklane, embedded** | synced to disk | 50k/s | – | – | – |"),
            "{table}"
        );
        assert!(
            table.contains("| BullMQ | synced to disk | 20k/s | – | – | 1.10 / 12 ms |"),
            "{table}"
        );
        assert!(!table.contains("| Celery"), "{table}");
    }

    #[test]
    fn the_page_has_spread_and_verdicts() {
        let page = page(&Run::parse(LINES).unwrap());
        assert!(page.contains("50k/s (40k–60k)"), "{page}");
        assert!(page.contains("| 2.5 × (1.5–4.0) | ≥ 1.75 × | met |"), "{page}");
        assert!(page.contains("**BullMQ** (bullmq 6.7.0, redis unknown)"), "{page}");
    }

    #[test]
    fn each_chart_has_a_bar_for_each_that_was_measured() {
        let files = files(&Run::parse(LINES).unwrap());
        let submit = files.iter().find(|(name, _)| name == "peers-submit.svg").unwrap();
        assert_eq!(submit.1.matches("<rect").count(), 2);
    }
}
