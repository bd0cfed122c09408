//! The packed form in which stores write what they need not search.
//!
//! Every record begins with its format's version. A change of form gets a new number; readers
//! know all numbers up to their own and refuse higher ones, so an old program never guesses at
//! what a newer one wrote. Numbers are variable-length integers; text and bytes carry their
//! length. Nothing here panics on damaged input: it says [`Damaged`].

mod access;
mod entry;
mod feed;
mod primitive;
mod record;
mod settings;
mod spec;

pub use access::{decode_api_key, decode_audit, encode_api_key, encode_audit};
pub use entry::{decode_entry, encode_entry};
pub use feed::{Before, LaneNumbers, decode_feed, encode_feed, encode_notice};
pub use primitive::{Damaged, Reader, Writer};
pub use record::{decode_record, encode_record};
pub use settings::{
    Counts, decode_counts, decode_queue, decode_worker, encode_counts, encode_queue, encode_worker,
};
pub use spec::{StoredSpec, decode_lane, decode_spec, encode_lane, encode_spec};

/// The version this program writes, and the only one it reads: no program that wrote another was
/// ever released.
pub const VERSION: u8 = 3;
