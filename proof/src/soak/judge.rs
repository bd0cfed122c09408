//! Whether anything grows: what was sampled, in thirds.
//!
//! The time in which caches fill is left out. The rest is cut into three, and the middle of each
//! third counts, so that single samples decide nothing.

use std::time::Duration;

use super::load::UNDER_WAY_MAX;
use super::sample::Sample;

/// What is left out at the beginning: a fifth, within these bounds.
const WARM_UP: (Duration, Duration) = (Duration::from_secs(8), Duration::from_secs(120));
/// How much more memory the last third may hold than the second, in percent. What the allocator
/// keeps moves by a percent or two from second to second; a leak of one byte per lifecycle is more
/// than this in the long form.
const MEMORY_GROWTH_MAX: f64 = 5.0;
/// Descriptors and threads that may come and go with single calls.
const COMING_AND_GOING: u64 = 4;
/// What the database may take, in terms of what it would take if it were written anew.
const DISK_TIMES_MAX: f64 = 2.0;
/// Pages that are free because tasks came and went between two looks.
const DISK_FLOOR_BYTES: u64 = 4 << 20;
/// How much larger the database of the last third may be than that of the second, in percent.
const DISK_GROWTH_MAX: f64 = 10.0;
/// The write-ahead log: the writer steps in at 32 MiB and waits for who reads it, and again after each
/// 4 MiB while somebody does so for long.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// Tasks that have ended stay for as long as they are kept, and until the next look for them.
const KEPT_FOR_MAX: f64 = super::RETENTION_SECONDS as f64 + 3.0;
/// What the last third may be slower than the first.
const SPEED_MIN: f64 = 0.8;
/// Samples of a third, at least.
const SAMPLES_MIN: usize = 3;

/// What the store holds: compacted at the end, with the tasks that it had then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) bytes: u64,
    pub(super) tasks: u64,
}

impl Live {
    /// The same at the moment of most tasks: a database keeps the pages that it once needed.
    fn at_most(&self, samples: &[Sample]) -> u64 {
        let most = samples.iter().map(|sample| sample.tasks).max().unwrap_or(0).max(self.tasks);
        (self.bytes as f64 * most as f64 / self.tasks.max(1) as f64) as u64
    }
}

/// What follows from the samples.
#[derive(Debug)]
pub(super) struct Verdict {
    /// When the measurement began.
    pub(super) warm_after: Duration,
    /// Each check: whether it holds, and its figures.
    pub(super) checks: Vec<(bool, String)>,
    /// Of the second third and of the last.
    pub(super) memory_bytes: [u64; 2],
    /// Lifecycles a second, of the first third and of the last.
    pub(super) speed: [f64; 2],
    /// The database at its largest, and what is live of it.
    pub(super) disk: Option<(u64, u64)>,
}

impl Verdict {
    pub(super) fn holds(&self) -> bool {
        self.checks.iter().all(|(holds, _)| *holds)
    }
}

/// Judges all samples; `None` if there are too few.
pub(super) fn judge(samples: &[Sample], live: Option<Live>) -> Option<Verdict> {
    let end = samples.last()?.at;
    let warm_after = (end / 5).clamp(WARM_UP.0, WARM_UP.1);
    let warm = samples.iter().position(|sample| sample.at >= warm_after)?;
    let measured = samples.get(warm..)?;
    let third = measured.len() / 3;
    if third < SAMPLES_MIN {
        return None;
    }
    let (first, rest) = measured.split_at_checked(third)?;
    let (second, last) = rest.split_at_checked(third)?;
    let [before, after] = [second, last].map(|part| median(part, |sample| sample.memory_bytes));
    let growth = 100.0 * (after as f64 / before.max(1) as f64 - 1.0);
    let mut checks = vec![(
        growth <= MEMORY_GROWTH_MAX,
        format!(
            "memory {:.1} MiB, then {:.1}: {growth:+.1} %, at most {MEMORY_GROWTH_MAX:+}",
            mebibytes(before),
            mebibytes(after)
        ),
    )];
    checks.push(constant("descriptors", first, last, |sample| sample.descriptors));
    checks.push(constant("threads", first, last, |sample| sample.threads));
    checks.push(judge_tasks(samples, last));
    let disk = live.map(|live| {
        let live = live.at_most(samples);
        let disk = samples.iter().map(|sample| sample.database_bytes).max().unwrap_or(0);
        checks.extend(judge_disk(samples, disk, live));
        checks.push(judge_disk_growth(second, last));
        (disk, live)
    });
    let (speed, check) = judge_speed(first, last);
    checks.push(check);
    Some(Verdict { warm_after, checks, memory_bytes: [before, after], speed, disk })
}

/// What must not grow at all: the middle stays, and the most is not more, but for single calls.
fn constant(
    name: &str,
    first: &[Sample],
    last: &[Sample],
    of: impl Fn(&Sample) -> u64,
) -> (bool, String) {
    let [before, after] = [first, last].map(|part| median(part, &of));
    let [most_before, most] = [first, last].map(|part| part.iter().map(&of).max().unwrap_or(0));
    let holds = after <= before + 1 && most <= most_before + COMING_AND_GOING;
    (holds, format!("{name} {before}, then {after} (at most {most_before}, then {most})"))
}

/// No more tasks are in the store than are under way or kept.
fn judge_tasks(samples: &[Sample], last: &[Sample]) -> (bool, String) {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let speed = |(from, to): (&Sample, &Sample)| {
        (to.ended - from.ended) as f64 / (to.at - from.at).as_secs_f64().max(1e-3)
    };
    let fastest = pairs.map(speed).fold(0.0, f64::max);
    let most = UNDER_WAY_MAX + (fastest * KEPT_FOR_MAX) as u64;
    let tasks = median(last, |sample| sample.tasks);
    (tasks <= most, format!("tasks in the store {tasks}, at most {most} by what is kept"))
}

fn judge_disk_growth(second: &[Sample], last: &[Sample]) -> (bool, String) {
    let [before, after] = [second, last].map(|part| median(part, |sample| sample.database_bytes));
    let most = (before as f64 * (1.0 + DISK_GROWTH_MAX / 100.0)) as u64 + DISK_FLOOR_BYTES;
    let text = format!(
        "disk of the database {:.1} MiB, then {:.1}, at most {:.1}",
        mebibytes(before),
        mebibytes(after),
        mebibytes(most)
    );
    (after <= most, text)
}

fn judge_disk(samples: &[Sample], disk: u64, live: u64) -> [(bool, String); 2] {
    let most = (live as f64 * DISK_TIMES_MAX) as u64 + DISK_FLOOR_BYTES;
    let log = samples.iter().map(|sample| sample.log_bytes).max().unwrap_or(0);
    [
        (
            disk <= most,
            format!(
                "database {:.1} MiB, {:.2} times the {:.1} MiB that live; at most {DISK_TIMES_MAX}",
                mebibytes(disk),
                disk as f64 / live.max(1) as f64,
                mebibytes(live)
            ),
        ),
        (
            log <= LOG_BYTES_MAX,
            format!("log {:.1} MiB, at most {:.0}", mebibytes(log), mebibytes(LOG_BYTES_MAX)),
        ),
    ]
}

/// By the clock; or, where others had the processors meanwhile, by the work for a lifecycle.
fn judge_speed(first: &[Sample], last: &[Sample]) -> ([f64; 2], (bool, String)) {
    let speed = [first, last].map(|part| {
        let (ended, seconds, _) = passed(part);
        ended / seconds
    });
    let work = [first, last].map(|part| {
        let (ended, _, worked) = passed(part);
        1e6 * worked / ended.max(1.0)
    });
    let ([before, after], [dear_before, dear]) = (speed, work);
    let holds = after >= before * SPEED_MIN || dear * SPEED_MIN <= dear_before;
    let text = format!(
        "{before:.0} lifecycles a second, then {after:.0}, at least × {SPEED_MIN}; \
         {dear_before:.0} us of a processor for each, then {dear:.0}"
    );
    (speed, (holds, text))
}

/// Lifecycles, seconds, and seconds of processors, from the first sample to the last.
fn passed(part: &[Sample]) -> (f64, f64, f64) {
    let (Some(from), Some(to)) = (part.first(), part.last()) else { return (0.0, 1.0, 0.0) };
    let seconds = (to.at - from.at).as_secs_f64().max(1e-3);
    ((to.ended - from.ended) as f64, seconds, (to.worked - from.worked).as_secs_f64())
}

fn median(part: &[Sample], of: impl Fn(&Sample) -> u64) -> u64 {
    let mut values: Vec<u64> = part.iter().map(of).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minute of samples, changed by `change` at each second.
    fn samples(change: impl Fn(u64, &mut Sample)) -> Vec<Sample> {
        let sample = |second: u64| {
            let mut sample = Sample {
                at: Duration::from_secs(second),
                ended: second * 1_000,
                memory_bytes: (100 << 20) + ((second % 7) << 18),
                descriptors: 40 + second % 2,
                threads: 12,
                worked: Duration::from_millis(second * 500),
                database_bytes: 30 << 20,
                log_bytes: 10 << 20,
                tasks: 5_000,
            };
            change(second, &mut sample);
            sample
        };
        (0..=60).map(sample).collect()
    }

    fn broken(change: impl Fn(u64, &mut Sample)) -> Vec<String> {
        let live = Live { bytes: 20 << 20, tasks: 5_000 };
        let verdict = judge(&samples(change), Some(live)).map(|verdict| verdict.checks);
        let checks = verdict.into_iter().flatten();
        let words = checks.filter(|(holds, _)| !holds).map(|(_, text)| text);
        words.filter_map(|text| Some(text.split(' ').next()?.to_owned())).collect()
    }

    #[test]
    fn what_stays_as_it_is_holds() {
        assert_eq!(broken(|_, _| {}), Vec::<String>::new());
    }

    #[test]
    fn what_grows_is_found() {
        assert_eq!(broken(|at, sample| sample.memory_bytes += at << 20), ["memory"]);
        assert_eq!(broken(|at, sample| sample.descriptors += at / 10), ["descriptors"]);
        assert_eq!(broken(|at, sample| sample.threads += at / 10), ["threads"]);
        assert_eq!(broken(|at, sample| sample.database_bytes += at << 20), ["database", "disk"]);
        assert_eq!(broken(|at, sample| sample.tasks += at * 1_000), ["tasks"]);
        assert_eq!(broken(|_, sample| sample.log_bytes = 200 << 20), ["log"]);
        let slower = |at: u64, sample: &mut Sample| {
            sample.ended = if at < 30 { at * 1_000 } else { 30_000 + (at - 30) * 500 };
        };
        assert_eq!(broken(slower), ["1000"]);
    }

    #[test]
    fn a_machine_that_others_use_is_no_fault() {
        let pushed_aside = |at: u64, sample: &mut Sample| {
            let at = if at < 30 { at } else { 30 + (at - 30) / 2 };
            sample.ended = at * 1_000;
            sample.worked = Duration::from_millis(at * 500);
        };
        assert_eq!(broken(pushed_aside), Vec::<String>::new());
    }

    #[test]
    fn a_few_seconds_say_nothing() {
        assert!(judge(samples(|_, _| {}).get(..12).unwrap_or_default(), None).is_none());
    }
}
