//! Bounds of the client, by name.

use std::time::Duration;

/// Bytes of an answer: more than a page of the largest payloads.
pub const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of one live event.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// How long one call may take, beyond the time that it asks the server to wait.
pub const CALL_WITHIN: Duration = Duration::from_secs(30);
/// How long connecting may take.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection without a call is kept: less than servers do.
pub const IDLE_MAX: Duration = Duration::from_secs(25);
/// How long one call asks the server to wait for a task's end.
pub const WAIT_AT_ONCE: Duration = Duration::from_secs(30);
/// The longest `Retry-After` that is waited for; a longer one is the caller's to wait for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// How long a stream of events may say nothing: servers say something every 15 seconds.
pub const EVENTS_SILENT_MAX: Duration = Duration::from_secs(45);
/// How long a backup may take.
pub const BACKUP_WITHIN: Duration = Duration::from_secs(3_600);
/// How often a handler's progress is told at most.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// How long running tasks get to finish when a worker ends.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(30);
/// How long a handler that was told to stop gets before it is dropped.
pub const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How long a worker that ends tries to tell its last results.
pub const FAREWELL_WITHIN: Duration = Duration::from_secs(10);
/// How long a poll that waits gets to end when its worker ends.
pub const LAST_POLL_WITHIN: Duration = Duration::from_secs(2);
/// The longest pause between two tries to reach a server that is away.
pub const AWAY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Results told in one call.
pub const REPORTS_AT_ONCE: usize = 1_000;
/// Bytes of results told in one call, one more or less: half of what servers take.
pub const REPORT_BYTES_AT_ONCE: usize = 8 * 1024 * 1024;
