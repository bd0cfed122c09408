//! The seam between Tasklane and whatever keeps its tasks: commands in, verdicts out.
//!
//! [`Store`] is the whole contract; the types it speaks in are in the modules beside it. The
//! promises are those of docs/guarantees.md, and the `conformance` feature holds the suite that
//! defines them: a store is what passes it. [`codec`] is the packed form that stores write, so
//! that they need not each invent one.
//!
//! Nothing here knows of SQL, Redis or HTTP.

mod apart;
pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod feed;
mod figures;
mod hint;
mod maintenance;
mod query;
mod request;
mod stats;
mod store;

pub use apart::apart;
pub use error::{ApiKeyRefusal, StoreError, SubmitProblem, SubmitRefusal, WorkerRefusal};
pub use feed::{
    Cursor, FeedEvent, FeedPage, Position, QueueChange, Reason, Subject, TaskNotice, WorkerChange,
};
pub use figures::{Figures, Spread, Tally};
pub use hint::{Hints, Woken};
pub use maintenance::{Maintained, maintain};
pub use query::{AuditFrom, Filter, Page, PageCursor, Query, StoredTask, Trail};
pub use request::{
    Admit, Changed, ClaimRequest, Claimed, Direction, LeaseRef, Leases, Overdue, Prune, Pruned,
    Renewal, Renewed, Requested, Submission, Submitted,
};
pub use stats::{LaneStats, QueueState, Stats};
pub use store::{Answer, Durability, ExecutedAndClaimed, Finding, Signal, Status, Store};
