//! Settings of queues: for all of them, and by name.

use super::task::{PRIORITY, task_settings};
use super::{FOREVER, NEVER, whole};
use crate::config::field::named;
use crate::config::kind::Kind;
use crate::config::setting::Setting;
use crate::config::values::{QueueValues, TaskValues, Values};

const ORDER: Kind = Kind::Choice(&["aging", "weighted"]);
const DEPTH: Kind = whole(0, 1_000_000_000_000);

fn of_queue<'a>(values: &'a mut Values, name: &str) -> &'a mut QueueValues {
    named(&mut values.queues, name)
}

fn task_of_queue<'a>(values: &'a mut Values, name: &str) -> &'a mut TaskValues {
    &mut of_queue(values, name).task
}

/// For all queues. What an operator sets over HTTP wins over these and over those by name.
pub(super) static DEFAULTS: &[Setting] = &[
    Setting::new(
        "queue_defaults.order",
        ORDER,
        "How queues choose among priorities: by waiting time, or by drawing.",
        |v, _| &mut v.queue_defaults.order,
    ),
    Setting::new(
        "queue_defaults.weights",
        Kind::Shares,
        "With order = \"weighted\": shares of critical, high, normal and low.",
        |v, _| &mut v.queue_defaults.weights,
    ),
    Setting::new(
        "queue_defaults.aging.normal_seconds",
        NEVER,
        "How long a task waits until it counts at least as normal.",
        |v, _| &mut v.queue_defaults.normal,
    ),
    Setting::new(
        "queue_defaults.aging.high_seconds",
        NEVER,
        "How long a task waits until it counts at least as high.",
        |v, _| &mut v.queue_defaults.high,
    ),
    Setting::new(
        "queue_defaults.aging.critical_seconds",
        NEVER,
        "How long a task waits until it counts as critical.",
        |v, _| &mut v.queue_defaults.critical,
    ),
    Setting::new(
        "queue_defaults.depth_limits.normal",
        DEPTH,
        "From which depth of a queue low and normal tasks are refused.",
        |v, _| &mut v.depth_defaults.normal,
    ),
    Setting::new(
        "queue_defaults.depth_limits.high",
        DEPTH,
        "From which depth of a queue all but critical tasks are refused.",
        |v, _| &mut v.depth_defaults.high,
    ),
    Setting::new(
        "queue_defaults.depth_limits.all",
        DEPTH,
        "From which depth of a queue all tasks are refused.",
        |v, _| &mut v.depth_defaults.all,
    ),
];

/// By name.
pub(super) static QUEUES: &[Setting] = task_settings!(
    "queues.*",
    task_of_queue,
    [
        Setting::new(
            "queues.*.priority",
            PRIORITY,
            "The priority of its tasks that name none.",
            |v, name| &mut task_of_queue(v, name).priority
        )
        .example("low"),
        Setting::new(
            "queues.*.weight",
            whole(1, 1_000),
            "Its share among queues when a worker takes several; 1 unless set.",
            |v, name| &mut of_queue(v, name).weight
        )
        .example("2"),
        Setting::new(
            "queues.*.order",
            ORDER,
            "How it chooses among priorities: by waiting time, or by drawing.",
            |v, name| &mut of_queue(v, name).order.order
        )
        .example("weighted"),
        Setting::new(
            "queues.*.weights",
            Kind::Shares,
            "With order = \"weighted\": shares of critical, high, normal and low.",
            |v, name| &mut of_queue(v, name).order.weights
        )
        .example("60,25,10,5"),
    ],
    [
        Setting::new(
            "queues.*.aging.normal_seconds",
            NEVER,
            "How long its tasks wait until they count at least as normal.",
            |v, name| &mut of_queue(v, name).order.normal
        )
        .example("60"),
        Setting::new(
            "queues.*.aging.high_seconds",
            NEVER,
            "How long its tasks wait until they count at least as high.",
            |v, name| &mut of_queue(v, name).order.high
        )
        .example("900"),
        Setting::new(
            "queues.*.aging.critical_seconds",
            NEVER,
            "How long its tasks wait until they count as critical.",
            |v, name| &mut of_queue(v, name).order.critical
        )
        .example("never"),
        Setting::new(
            "queues.*.depth_limits.normal",
            DEPTH,
            "From which depth low and normal tasks are refused.",
            |v, name| &mut of_queue(v, name).depth.normal
        )
        .example("1000"),
        Setting::new(
            "queues.*.depth_limits.high",
            DEPTH,
            "From which depth all but critical tasks are refused.",
            |v, name| &mut of_queue(v, name).depth.high
        )
        .example("2000000"),
        Setting::new(
            "queues.*.depth_limits.all",
            DEPTH,
            "From which depth all tasks are refused.",
            |v, name| &mut of_queue(v, name).depth.all
        )
        .example("20000000"),
        Setting::new(
            "queues.*.retention.completed_seconds",
            FOREVER,
            "How long its completed tasks are kept.",
            |v, name| &mut of_queue(v, name).retention.completed
        )
        .example("3600"),
        Setting::new(
            "queues.*.retention.cancelled_seconds",
            FOREVER,
            "How long its cancelled tasks are kept.",
            |v, name| &mut of_queue(v, name).retention.cancelled
        )
        .example("3600"),
        Setting::new(
            "queues.*.retention.failed_seconds",
            FOREVER,
            "How long its failed tasks are kept.",
            |v, name| &mut of_queue(v, name).retention.failed
        )
        .example("86400"),
        Setting::new(
            "queues.*.retention.dead_letter_seconds",
            FOREVER,
            "How long its dead letters are kept.",
            |v, name| &mut of_queue(v, name).retention.dead_letter
        )
        .example("forever"),
    ]
);
