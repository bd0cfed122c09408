//! Settings of tasks by priority and type, and the rules that classify failures.

use tasklane_core::limits::{RETRIES_MAX, RETRY_FACTOR_MAX};

use crate::config::field::named;
use crate::config::kind::Kind;
use crate::config::setting::Setting;
use crate::config::values::{TaskValues, Values};

/// The longest timeout, and the longest delay before a retry: seven days.
const WEEK_SECONDS: f64 = 604_800.0;

pub(super) const RETRIES: Kind = Kind::Whole { min: 0, max: RETRIES_MAX as u64 };
pub(super) const TIMEOUT: Kind = Kind::Seconds { min: 0.001, max: WEEK_SECONDS };
pub(super) const DELAY: Kind = Kind::Seconds { min: 0.0, max: WEEK_SECONDS };
pub(super) const FACTOR: Kind = Kind::Decimal { min: 1.0, max: RETRY_FACTOR_MAX };
pub(super) const PRIORITY: Kind = Kind::Choice(&["critical", "high", "normal", "low"]);
pub(super) const STRATEGY: Kind = Kind::Choice(&["exponential", "linear", "fixed"]);
pub(super) const JITTER: Kind = Kind::Choice(&["none", "proportional", "full"]);

/// What tasks get where they say nothing: the same rows for several sections, with others before
/// and between them. `$task` gives the values of a task.
macro_rules! task_settings {
    ($section:literal, $task:path, [$($before:expr),* $(,)?], [$($after:expr),* $(,)?]) => {
        &[
            $($before,)*
            Setting::new(
                concat!($section, ".max_retries"),
                crate::config::table::task::RETRIES,
                "Retries after the first failure.",
                |v, name| &mut $task(v, name).max_retries,
            )
            .example("7"),
            Setting::new(
                concat!($section, ".timeout_seconds"),
                crate::config::table::task::TIMEOUT,
                "How long one attempt may run.",
                |v, name| &mut $task(v, name).timeout,
            )
            .example("60"),
            Setting::new(
                concat!($section, ".dead_letter"),
                Kind::Flag,
                "Whether a task that has used up its retries is kept as a dead letter; else it is failed.",
                |v, name| &mut $task(v, name).dead_letter,
            )
            .example("false"),
            $($after,)*
            Setting::new(
                concat!($section, ".retry.strategy"),
                crate::config::table::task::STRATEGY,
                "How the delay before a retry grows.",
                |v, name| &mut $task(v, name).strategy,
            )
            .example("linear"),
            Setting::new(
                concat!($section, ".retry.initial_seconds"),
                crate::config::table::task::DELAY,
                "The delay before the first retry.",
                |v, name| &mut $task(v, name).initial,
            )
            .example("5"),
            Setting::new(
                concat!($section, ".retry.factor"),
                crate::config::table::task::FACTOR,
                "The growth of the exponential strategy.",
                |v, name| &mut $task(v, name).factor,
            )
            .example("3.0"),
            Setting::new(
                concat!($section, ".retry.max_seconds"),
                crate::config::table::task::DELAY,
                "What the delay does not pass.",
                |v, name| &mut $task(v, name).max,
            )
            .example("600"),
            Setting::new(
                concat!($section, ".retry.jitter"),
                crate::config::table::task::JITTER,
                "How the delay is blurred: not at all, by a tenth, or down to nothing.",
                |v, name| &mut $task(v, name).jitter,
            )
            .example("full"),
        ]
    };
}
pub(super) use task_settings;

fn of_priority<'a>(values: &'a mut Values, name: &str) -> &'a mut TaskValues {
    named(&mut values.priorities, name)
}

fn of_type<'a>(values: &'a mut Values, name: &str) -> &'a mut TaskValues {
    named(&mut values.types, name)
}

/// By priority.
pub(super) static PRIORITIES: &[Setting] = task_settings!("priorities.*", of_priority, [], []);

/// By type.
pub(super) static TYPES: &[Setting] = task_settings!(
    "types.*",
    of_type,
    [Setting::new(
        "types.*.priority",
        PRIORITY,
        "The priority of its tasks that name none.",
        |v, name| &mut of_type(v, name).priority
    )
    .example("high")],
    []
);

const ERROR_KIND: Kind = Kind::Choice(&[
    "transient",
    "rate_limited",
    "timeout",
    "resource",
    "unknown",
    "permanent",
    "bug",
]);

/// Failures whose worker did not say what kind they are.
pub(super) static CLASSIFY: &[Setting] = &[
    Setting::new(
        "classify.*.code",
        Kind::Text("CODE"),
        "The rule is for failures with exactly this code.",
        |v, name| &mut named(&mut v.classify, name).code,
    )
    .example("ECONNRESET"),
    Setting::new(
        "classify.*.message_contains",
        Kind::Text("TEXT"),
        "The rule is for failures whose message has this in it, in any case; instead of code.",
        |v, name| &mut named(&mut v.classify, name).message_contains,
    )
    .example("out of memory"),
    Setting::new(
        "classify.*.kind",
        ERROR_KIND,
        "What kind such a failure is. The first rule that fits decides.",
        |v, name| &mut named(&mut v.classify, name).kind,
    )
    .example("transient"),
];
