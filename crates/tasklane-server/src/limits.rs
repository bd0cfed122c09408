//! Bounds of the server, by name. Those of tasks are in core.

use std::time::Duration;

/// Nesting of a body.
pub const BODY_DEPTH_MAX: usize = 64;
/// Bytes of all headers of a request.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a request's target.
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// How long a poll or a look at a task may wait.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// Results, starts or leases in one call of a worker.
pub const REPORTS_MAX: usize = 10_000;
/// Tasks in one call to the store.
pub const BATCH_WEIGHT_MAX: usize = 4_096;
/// Tasks that may wait for a call to the store; beyond it callers are refused.
pub const WAITING_WEIGHT_MAX: usize = 200_000;
/// Bytes of submissions that may be under way: about 20 ms of work for two processors. Beyond it they
/// are refused, so that the calls of workers do not wait behind them: with 1,000 batches of 24 KiB
/// under way 99 of 100 heartbeats were answered within 116 ms only. `make overload` measures it.
pub const SUBMITTING_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Submissions that may be under way however large they are.
pub const SUBMITTING_CALLS_MIN: usize = 8;
/// From how many bytes on a body takes its turn at being taken apart: about 100 µs of work.
pub const LARGE_BODY_BYTES: usize = 16 * 1024;
/// From how many bytes on a body is taken apart beside other calls: about a millisecond of work.
pub const LONG_BODY_BYTES: usize = 256 * 1024;
/// Polls that may be parked.
pub const PARKED_MAX: usize = 50_000;
/// Parked polls served in one call to the store.
pub const PARKED_CHUNK: usize = 64;
/// How often parked polls look for themselves, should a hint have been lost.
pub const PARKED_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Tasks remembered that their workers should stop, until an answer to a result tells them so. Heartbeats
/// tell of those beyond.
pub const CANCELS_REMEMBERED_MAX: usize = 10_000;
/// How many of them one answer tells: each is looked at in the store before.
pub const CANCELS_TOLD_AT_ONCE: usize = 32;
/// Tasks of one call that operates on a filter.
pub const OPERATION_TASKS_MAX: usize = 10_000;
/// Events kept in memory for live readers.
pub const EVENTS_IN_MEMORY: usize = 65_536;
/// Bytes that these take at most, about.
pub const EVENT_BYTES_IN_MEMORY: usize = 64 * 1024 * 1024;
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
/// Events read from the store at once.
pub const FEED_PAGE: usize = 4_096;
/// How often the feed is looked at, should a hint have been lost.
pub const FEED_LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long to rest between two looks at a busy feed: at most 500 a second, whatever is written.
pub const FEED_REST: Duration = Duration::from_millis(2);
/// The same while no live reader and nobody who waits for a task is there.
pub const FEED_REST_ALONE: Duration = Duration::from_millis(20);
/// How long to rest after the store failed a look at the feed.
pub const FEED_REST_AFTER_FAILURE: Duration = Duration::from_millis(500);
/// How long a new reader waits for the feed to be there.
pub const FEED_BEGIN_WITHIN: Duration = Duration::from_secs(5);
/// Events that a live reader looks at before it writes.
pub const READER_PAGE: usize = 512;
/// Bytes that are written to a live reader at once, one event more or less.
pub const READER_CHUNK_BYTES: usize = 64 * 1024;
/// How often a live reader hears something, events or not.
pub const READER_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a live reader is told where it is, while no events are for it.
pub const READER_CURSOR_EVERY: Duration = Duration::from_secs(10);
/// How long the last words to a live reader may take.
pub const READER_END_WITHIN: Duration = Duration::from_secs(1);
/// When a live reader should come back after the end of a server.
pub const READER_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes of a message from a WebSocket's client, which has nothing to say.
pub const SOCKET_RECEIVED_BYTES_MAX: usize = 4 * 1024;
/// Names in one list of a filter for live events.
pub const FILTER_NAMES_MAX: usize = 256;
/// Looks that may wait for the end of a task.
pub const WAITERS_MAX: usize = 50_000;
/// How often a look that waits looks for itself.
pub const WAITER_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often keys are read from the store: how long a revocation on another server may take.
pub const KEYS_REFRESHED_EVERY: Duration = Duration::from_secs(2);
/// How often refused calls are written to the audit log.
pub const REFUSALS_RECORDED_EVERY: Duration = Duration::from_secs(1);
/// How long refused calls that are alike are counted before they are one more record.
pub const REFUSALS_FOLDED_FOR: Duration = Duration::from_secs(600);
/// Refused calls that are told apart; what comes beyond them counts as one.
pub const REFUSALS_TOLD_APART: usize = 32;
/// Bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Keys that tokens may be signed with: each may have to be tried.
pub const TOKEN_KEYS_MAX: usize = 16;
/// Bytes of a secret that tokens are signed with: as many as its hash has.
pub const TOKEN_SECRET_BYTES_MIN: usize = 32;
/// Tokens that were believed and are remembered.
pub const TOKENS_REMEMBERED: usize = 1_024;
/// Callers, or addresses, whose calls are counted apart; the others share one count.
pub const RATE_BUCKETS_MAX: usize = 65_536;
/// How often, at most, to look for some of them that need not be counted any more.
pub const RATE_BUCKETS_SWEPT_EVERY: Duration = Duration::from_secs(1);
/// Minutes of statistics.
pub const MINUTES_MAX: usize = 1_440;
/// Queues whose pace is known.
pub const PACES_MAX: usize = 10_000;
/// Types that metrics tell apart; the others are one.
pub const METRIC_TYPES_MAX: usize = 200;
/// Queues that metrics tell apart; the others are one.
pub const METRIC_QUEUES_MAX: usize = 1_000;
/// Spans that may wait to be sent; what comes beyond them is dropped.
pub const TRACE_SPANS_WAITING_MAX: usize = 4_096;
/// Spans sent at once.
pub const TRACE_BATCH_SPANS_MAX: usize = 512;
/// How often spans are sent before they are given up.
pub const TRACE_ATTEMPTS_MAX: u32 = 3;
/// How long a collector may take for one batch.
pub const TRACE_SENT_WITHIN: Duration = Duration::from_secs(10);
/// The same once the server is asked to end.
pub const TRACE_LAST_SENT_WITHIN: Duration = Duration::from_secs(2);
/// How often the log is told that spans are lost.
pub const TRACE_FAILURES_LOGGED_EVERY: Duration = Duration::from_secs(60);
/// Slow calls that the log is told of, one by one, in the time below; others are counted.
pub const SLOW_CALLS_LOGGED_MAX: u32 = 20;
/// How long that is.
pub const SLOW_CALLS_LOGGED_WITHIN: Duration = Duration::from_secs(10);

/// Tasks that applications asked for inside the store, admitted in one write.
pub const REQUESTS_AT_ONCE: usize = 100;
/// How often a server looks for them.
pub const REQUESTS_LOOKED_FOR_EVERY: Duration = Duration::from_millis(250);
