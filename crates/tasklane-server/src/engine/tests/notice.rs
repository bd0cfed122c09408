//! An event made up for tests.

use tasklane_core::{
    CapabilitySet, EventKind, Lane, Priority, QueueName, StateName, TaskId, TaskType,
};
use tasklane_store::TaskNotice;

/// Something happened to a task of type `a`; it is pending.
pub(in crate::engine) fn notice(kind: EventKind) -> TaskNotice {
    let mut bytes = [0; 16];
    (bytes[6], bytes[8]) = (0x70, 0x80);
    TaskNotice {
        id: TaskId::from_bytes(bytes).unwrap(),
        lane: Lane {
            queue: QueueName::default_queue(),
            task_type: TaskType::new("a").unwrap(),
            capabilities: CapabilitySet::default(),
        },
        kind,
        from: None,
        to: StateName::Pending,
        priority: Priority::Normal,
        attempt: 1,
        worker: None,
        fence: None,
        started: false,
        waited: None,
        due_at: None,
        duration: None,
        error: None,
        reason: None,
        progress: None,
    }
}
