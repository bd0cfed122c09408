//! The machine's own random source, and its clock where only an idea of the time is wanted.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tasklane_core::{Random, Timestamp};

/// Random bits of the operating system, fetched a page at a time and shared by all transactions.
pub(crate) struct SharedRandom(Mutex<Page>);

struct Page {
    bytes: [u8; 4096],
    used: usize,
}

impl Default for SharedRandom {
    fn default() -> Self {
        Self(Mutex::new(Page { bytes: [0; 4096], used: 4096 }))
    }
}

impl Random for &SharedRandom {
    fn next_u64(&mut self) -> u64 {
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if page.used >= page.bytes.len() {
            #[expect(clippy::expect_used, reason = "without randomness no token is safe to issue")]
            getrandom::fill(&mut page.bytes).expect("the system has a random source");
            page.used = 0;
        }
        let number = page.bytes.get(page.used..).and_then(|rest| rest.first_chunk::<8>()).copied();
        page.used += 8;
        number.map_or(0, u64::from_le_bytes)
    }
}

/// This machine's wall time.
pub(crate) fn wall() -> Timestamp {
    let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp::from_micros(micros(since)),
        Err(before) => Timestamp::from_micros(-micros(before.duration())),
    }
}
