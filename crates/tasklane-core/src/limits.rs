//! Every bound of the system, by name. What has no bound here must not grow.

use std::time::Duration;

/// Bytes of a queue name, task type or capability.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes of an idempotency or ordering key.
pub const KEY_BYTES_MAX: usize = 256;
/// Capabilities one task may require or one worker may have.
pub const CAPABILITIES_MAX: usize = 32;
/// Entries of a task's metadata.
pub const METADATA_ENTRIES_MAX: usize = 64;
/// Bytes of a task's metadata, names and values together.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a `traceparent` or `tracestate` header.
pub const TRACE_BYTES_MAX: usize = 512;
/// Bytes of a payload, unless configured.
pub const PAYLOAD_BYTES_DEFAULT: usize = 256 * 1024;
/// Bytes of a payload or result whatever is configured.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Tasks of one submission.
pub const BATCH_TASKS_MAX: usize = 10_000;
/// Retries a task may ask for.
pub const RETRIES_MAX: u32 = 100;
/// How far ahead a task may be scheduled, delayed or expire: five years.
pub const SCHEDULE_AHEAD_MAX: Duration = Duration::from_secs(5 * 366 * 86_400);
/// Shortest execution timeout.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Longest execution timeout: seven days.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Longest backoff delay a retry policy may name: seven days.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Largest growth factor of a retry policy.
pub const RETRY_FACTOR_MAX: f64 = 100.0;
/// Bytes kept of an error's message; the rest is cut.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Bytes kept of an error's code; the rest is cut.
pub const ERROR_CODE_BYTES_MAX: usize = 128;
/// Bytes kept of an error's stack; the rest is cut.
pub const ERROR_STACK_BYTES_MAX: usize = 16 * 1024;
/// Bytes of an error's details; larger ones are left out.
pub const ERROR_DETAILS_BYTES_MAX: usize = 16 * 1024;
/// Bytes kept of a progress message; the rest is cut.
pub const PROGRESS_MESSAGE_BYTES_MAX: usize = 1024;
/// Shortest lease, and shortest silence that makes a worker dead.
pub const LEASE_MIN: Duration = Duration::from_millis(10);
/// Tasks one claim may ask for.
pub const CLAIM_TASKS_MAX: usize = 1_000;
/// Bytes of payloads that one call hands out, one task more or less. Beyond it each request of the
/// call still gets one task.
pub const CLAIM_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Leases one worker may hold.
pub const WORKER_CAPACITY_MAX: u32 = 10_000;
/// Patterns a worker or a key may name for queues or types.
pub const PATTERNS_MAX: usize = 256;
/// Workers a store knows at once, the dead ones it still shows included.
pub const WORKERS_MAX: usize = 100_000;
/// Lanes (queue, type, capability set), and queues, that a store may ever come to know.
pub const LANES_MAX: usize = 100_000;
/// Records in one page of a list.
pub const PAGE_MAX: usize = 1_000;
/// Bytes of payloads and results in one page of a list, one task more or less.
pub const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Records one list call looks at.
pub const EXAMINED_MAX: usize = 10_000;
/// Tasks one slice of bulk work may touch (S21).
pub const SLICE_TASKS: usize = 1_000;
/// How long one slice of bulk work may hold the writer (S21).
pub const SLICE_TIME: Duration = Duration::from_millis(5);
/// Stored trail entries of one task; beyond it the oldest half is dropped and the trail says so.
pub const TRAIL_ENTRIES_MAX: usize = 1_000;
/// Fences stay below 2^53 so that they survive JSON.
pub const FENCE_MAX: u64 = (1 << 53) - 1;
/// API keys a store keeps, those included that no longer open anything.
pub const API_KEYS_MAX: usize = 10_000;
/// Bytes of each text in a record of the audit log; the rest is cut.
pub const AUDIT_TEXT_BYTES_MAX: usize = 512;
