//! Bounds of the server, by name. Those of tasks are in core.

use std::time::Duration;

/// Bytes of a body that holds one thing.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Nesting of a body.
pub const BODY_DEPTH_MAX: usize = 64;
/// Bytes of all headers of a request.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a request's target.
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// How long a client may take to send its headers.
pub const HEADERS_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a client may take to send a body.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Connections at once.
pub const CONNECTIONS_MAX: usize = 20_000;
/// How long a poll or a look at a task may wait.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// Results, starts or leases in one call of a worker.
pub const REPORTS_MAX: usize = 10_000;
/// Tasks in one call to the store.
pub const BATCH_WEIGHT_MAX: usize = 4_096;
/// Tasks that may wait for a call to the store; beyond it callers are refused.
pub const WAITING_WEIGHT_MAX: usize = 200_000;
/// Polls that may be parked.
pub const PARKED_MAX: usize = 50_000;
/// Parked polls served in one call to the store.
pub const PARKED_CHUNK: usize = 64;
/// How often parked polls look for themselves, should a hint have been lost.
pub const PARKED_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Tasks of one call that operates on a filter.
pub const OPERATION_TASKS_MAX: usize = 10_000;
/// Events kept in memory for live readers.
pub const EVENTS_IN_MEMORY: usize = 65_536;
/// Live readers at once.
pub const READERS_MAX: usize = 1_000;
/// Ids in one list of a call.
pub const IDS_MAX: usize = 10_000;
/// Records in a page of a list that names no limit.
pub const PAGE_DEFAULT: usize = 50;
/// How long one call that operates on many tasks may take.
pub const OPERATION_TIME_MAX: Duration = Duration::from_secs(5);
/// Dead letters that a replay may bring back in a second, where it names a rate.
pub const REPLAY_RATE_MAX: u32 = 100_000;
/// Groups of dead letters shown.
pub const GROUPS_MAX: usize = 100;
/// Tasks named in a group of dead letters.
pub const GROUP_TASKS_MAX: usize = 10;
/// Bytes of a dead letter's error that its fingerprint looks at.
pub const FINGERPRINT_BYTES_MAX: usize = 512;
/// How old a proof that the store takes writes may be.
pub const READY_AGE_MAX: Duration = Duration::from_secs(1);
