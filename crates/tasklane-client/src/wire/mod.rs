//! The bodies of the HTTP interface.
//!
//! Members that are absent are left out, never null. Unknown members are errors; the other
//! spellings that are taken stand beside each member as `alias`. Wire types are apart from the
//! domain's: names in requests are plain text here, and become checked names in the server, which
//! can say what is wrong with each.

mod access;
mod dead_letter;
mod digits;
mod event;
mod operator;
mod problem;
mod queue;
mod report;
mod shape;
mod stats;
mod submit;
mod task;
mod value;
mod worker;

pub use access::{AuditPage, AuditRecord, Key, KeyPage, MadeKey, NewKey, Scope};
pub use dead_letter::{
    DeadLetterGroup, DeadLetterPage, DeadLetterSummary, ReplayMany, ReplayOne, Replayed,
    RetryDeadLetters,
};
pub use digits::hex;
pub use event::{Event, EventData, EventFailure};
pub use operator::{
    BackedUp, Backup, CancelMany, Changed, Disk, Health, Machine, Maintenance, Matched, OpenFiles,
    Refused, Reloaded, Removed, Requeue, Requeued, TaskFilter, UpdateTask,
};
pub use problem::{FieldError, Problem};
pub use queue::{
    AgingSettings, DepthSettings, Queue, QueueMember, QueueOrigins, QueuePage, QueuePatch,
    RetentionSettings,
};
pub use report::{
    ProgressAnswer, ProgressReport, Report, ReportStatus, ReportVerdict, Reports, ReportsAnswer,
};
pub use stats::{
    Depth, Depths, Minute, Minutes, QueueStats, Recovery, Throughput, Waits, WorkerCounts,
};
pub use submit::{Batch, BatchAnswer, Jitter, Labels, NewTask, Receipt, Retry, Strategy};
pub use task::{
    Attempt, Explanation, Failure, History, HistoryEntry, Obstacle, Progress, Task, TaskPage,
    TaskProgress,
};
pub use value::{
    Json, KindWord, NumberText, OUT_OF_RANGE, PriorityWord, Seconds, StateWord, TaskIdText, Time,
    TokenText, WorkerIdText,
};
pub use worker::{
    ClaimedTask, HealthReport, Heartbeat, HeartbeatAnswer, HeartbeatStatus, LeaseRef, Poll,
    PollAnswer, Register, Registered, Start, StartAnswer, Worker, WorkerPage,
};
