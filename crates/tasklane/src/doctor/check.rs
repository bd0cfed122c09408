//! Judges what was seen. Each check says what it found and, where something is wrong, what to do.

use std::time::SystemTime;

use serde::Serialize;
use tasklane_client::wire;

use super::look::{Seen, Shown};
use crate::show::{Paint, many};

/// What is thought of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// Works, and may be meant so.
    Warning,
    /// Does not work, or will not for long.
    Problem,
    /// Could not be seen.
    Unknown,
}

impl Verdict {
    pub(super) const fn paint(self) -> Paint {
        match self {
            Self::Ok => Paint::Good,
            Self::Warning => Paint::Doubtful,
            Self::Problem => Paint::Bad,
            Self::Unknown => Paint::Faint,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "PROBLEM",
            Self::Unknown => "unknown",
        }
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

/// Clocks may differ by so many seconds before anybody notices.
const SKEW_SECONDS: f64 = 2.0;
/// By so many, times that producers give are wrong.
const SKEW_SECONDS_MAX: f64 = 30.0;
/// A certificate should be renewed so many days before its end.
const CERTIFICATE_DAYS: f64 = 14.0;
/// A disk with less room than this is nearly full.
const DISK_BYTES: u64 = 1024 * 1024 * 1024;
const DISK_BYTES_MIN: u64 = 128 * 1024 * 1024;
/// Events not read yet: more than a busy second makes.
const EVENTS_LAG: u64 = 50_000;
/// Connections are files to the system.
const FILES_MIN: u64 = 4_096;
/// Names shown of many.
const NAMES_SHOWN: usize = 5;

/// Every check, in the order in which it helps to read them.
pub(super) fn judge(seen: &Seen) -> Vec<Finding> {
    if let Err(why) = &seen.reached {
        let advice = "is the server running, and is this its address? Give another with --server, \
                      or TASKLANE_SERVER";
        return vec![problem("reachable", why, advice)];
    }
    let mut findings = vec![ok("reachable", &seen.url), ready(seen)];
    match &seen.health {
        Ok(health) => {
            findings.extend([version(health), door(seen, health), durability(health)]);
            findings.push(clock(seen));
            findings.extend(machine(health));
        }
        Err((status, why)) => findings.push(refused(*status, why)),
    }
    findings.push(judged("workers", &seen.stats, workers));
    findings.push(judged("queues", &seen.queues, |queues| self::queues(queues)));
    findings.push(judged("dead letters", &seen.minutes, dead_letters));
    findings
}

fn finding(
    check: &'static str,
    verdict: Verdict,
    found: impl ToString,
    advice: Option<&str>,
) -> Finding {
    Finding { check, verdict, found: found.to_string(), advice: advice.map(str::to_owned) }
}

fn ok(check: &'static str, found: impl ToString) -> Finding {
    finding(check, Verdict::Ok, found, None)
}

fn warning(check: &'static str, found: impl ToString, advice: &str) -> Finding {
    finding(check, Verdict::Warning, found, Some(advice))
}

fn problem(check: &'static str, found: impl ToString, advice: &str) -> Finding {
    finding(check, Verdict::Problem, found, Some(advice))
}

/// A check on what was shown; what was not is unknown.
fn judged<T>(check: &'static str, shown: &Shown<T>, judge: impl Fn(&T) -> Finding) -> Finding {
    match shown {
        Ok(shown) => judge(shown),
        Err((_, why)) => finding(check, Verdict::Unknown, why, None),
    }
}

fn ready(seen: &Seen) -> Finding {
    match &seen.ready {
        Ok(()) => ok("ready", "the store takes writes"),
        Err(why) => problem(
            "ready",
            why,
            "look at the disk and the server's log; docs/operations.md tells what a store does \
             when its disk is full or fails",
        ),
    }
}

fn refused(status: u16, why: &str) -> Finding {
    match status {
        401 => problem("key", why, "put a good key into TASKLANE_API_KEY"),
        403 => problem("key", why, "use a key with the scope read"),
        _ => problem("health", why, "look at the server's log"),
    }
}

fn version(health: &wire::Health) -> Finding {
    let (own, theirs) = (env!("CARGO_PKG_VERSION"), &health.version);
    match own == theirs {
        true => ok("version", own),
        false => {
            let found = format!("the server has {theirs}, this is {own}");
            warning("version", found, "bring both to the same version")
        }
    }
}

/// Who can come in, and who can listen.
fn door(seen: &Seen, health: &wire::Health) -> Finding {
    let host = seen.url.split_once("://").map_or("", |(_, rest)| rest);
    let near = ["127.", "localhost", "[::1]"].iter().any(|own| host.starts_with(own));
    let secure = seen.url.starts_with("https://");
    let open = health.machine.as_ref().is_some_and(|machine| machine.authentication == "off");
    match (open, near, secure) {
        (true, true, _) => ok("door", "open, as on a machine of one's own"),
        (true, false, _) => problem(
            "door",
            "whoever reaches the server may do everything",
            "tasklane keys bootstrap makes a first key; then the server asks for one",
        ),
        (false, false, false) if seen.has_key => warning(
            "door",
            "the key crosses the network for everybody to read",
            "set tls.certificate and tls.key, or put a proxy with TLS before the server",
        ),
        _ => ok("door", "who calls is asked"),
    }
}

fn durability(health: &wire::Health) -> Finding {
    let advice = match health.durability.as_ref() {
        "memory" => {
            "what was answered is lost at the end, or in a power cut: keep the store in a \
                     folder, with durability = \"fsync\""
        }
        "interval" => "a power cut loses what was answered last: durability = \"fsync\" does not",
        durability => return ok("durability", durability),
    };
    warning("durability", &health.durability, advice)
}

fn clock(seen: &Seen) -> Finding {
    let Some((ahead, exact)) = seen.clock else {
        return finding("clock", Verdict::Unknown, "not compared", None);
    };
    let skew = (ahead.abs() - exact).max(0.0);
    let word = if ahead > 0.0 { "before" } else { "behind" };
    let found = format!("the server's clock is {skew:.1} s {word} this machine's");
    let advice = "let both machines follow a time server";
    match skew {
        skew if skew > SKEW_SECONDS_MAX => problem("clock", found, advice),
        skew if skew > SKEW_SECONDS => warning("clock", found, advice),
        _ => ok("clock", "as on this machine"),
    }
}

/// What only a key without bounds is shown.
fn machine(health: &wire::Health) -> Vec<Finding> {
    let Some(machine) = &health.machine else {
        let found = "shown only to keys whose read has no bounds";
        return vec![finding("machine", Verdict::Unknown, found, None)];
    };
    let mut findings = vec![events(machine.events_lag)];
    findings.extend(machine.disk.as_ref().map(disk));
    findings.extend(machine.files.as_ref().map(files));
    findings.extend(machine.certificate_ends_at.map(certificate));
    findings
}

fn events(lag: u64) -> Finding {
    let found = format!("{lag} events not read from the store yet");
    match lag > EVENTS_LAG {
        true => problem(
            "events",
            found,
            "live readers and figures are behind: the machine has too little processor for the load",
        ),
        false => ok("events", found),
    }
}

fn disk(disk: &wire::Disk) -> Finding {
    let found = format!("{} MiB of {} free", disk.free_bytes >> 20, disk.total_bytes >> 20);
    let advice = "make room on the store's disk; POST /admin/maintenance removes what has been kept \
                  long enough, with {\"emergency\": true} all that has ended";
    match disk.free_bytes {
        free if free < DISK_BYTES_MIN => problem("disk", found, advice),
        free if free < DISK_BYTES || free < disk.total_bytes / 20 => warning("disk", found, advice),
        _ => ok("disk", found),
    }
}

fn files(files: &wire::OpenFiles) -> Finding {
    let found = format!("{} of {} files open", files.open, files.max);
    let advice = "each connection is a file: raise the limit (ulimit -n, LimitNOFILE) and start the \
                  server again";
    match files.max {
        max if files.open.saturating_mul(10) > max.saturating_mul(9) => {
            problem("files", found, advice)
        }
        max if max < FILES_MIN => warning("files", found, advice),
        _ => ok("files", found),
    }
}

fn certificate(ends_at: wire::Time) -> Finding {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let left = (ends_at.0.as_micros() as f64 / 1e6 - now.as_secs_f64()) / 86_400.0;
    let advice = "renew it; the server takes a new file by itself within seconds";
    match left {
        left if left <= 0.0 => problem("certificate", format!("ended at {ends_at}"), advice),
        left if left < CERTIFICATE_DAYS => {
            warning("certificate", format!("ends in {left:.1} days"), advice)
        }
        left => ok("certificate", format!("good for {left:.0} days")),
    }
}

fn workers(stats: &wire::QueueStats) -> Finding {
    let wire::Depths { critical, high, normal, low } = &stats.queues;
    let waiting: u64 = [critical, high, normal, low].iter().map(|depth| depth.depth).sum();
    let wire::WorkerCounts { active, paused, draining, unhealthy, .. } = stats.workers;
    let found = format!("{active} active, {} waiting", many(waiting, "task"));
    if active == 0 && waiting > 0 {
        let found = format!("{} waiting, and no worker takes any", many(waiting, "task"));
        let advice = match paused + draining + unhealthy {
            0 => "start a worker",
            _ => "workers are there, but paused, draining or unhealthy: tasklane workers",
        };
        return problem("workers", found, advice);
    }
    match unhealthy {
        0 => ok("workers", found),
        _ => warning(
            "workers",
            format!("{found}; {unhealthy} unhealthy"),
            "their machines are short of memory or processor, or their tasks fail in a row: \
             tasklane workers ID",
        ),
    }
}

fn queues(queues: &[wire::Queue]) -> Finding {
    let paused = || queues.iter().filter(|queue| queue.paused);
    let waiting: u64 = paused().map(|queue| queue.depth).sum();
    let names: Vec<&str> = paused().map(|queue| queue.name.as_ref()).take(NAMES_SHOWN).collect();
    let found = format!("{} paused: {}", paused().count(), names.join(", "));
    match (names.is_empty(), waiting) {
        (true, _) => ok("queues", "none is paused"),
        (false, 0) => ok("queues", found),
        (false, waiting) => warning(
            "queues",
            format!("{found}; {} waiting in them", many(waiting, "task")),
            "tasklane resume QUEUE lets them go on",
        ),
    }
}

fn dead_letters(minutes: &wire::Minutes) -> Finding {
    let made: u64 = minutes.minutes.iter().map(|minute| minute.dead_lettered).sum();
    match made {
        0 => ok("dead letters", "none made in the last ten minutes"),
        made => warning(
            "dead letters",
            format!("{made} made in the last ten minutes"),
            "tasklane dlq summary groups them by what went wrong",
        ),
    }
}
