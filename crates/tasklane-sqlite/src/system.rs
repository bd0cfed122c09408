//! The machine's own clock and random source.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tasklane_core::{Clock, Random, Timestamp};

/// The clocks of this machine.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Timestamp::from_micros(micros(since)),
            Err(before) => Timestamp::from_micros(-micros(before.duration())),
        }
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Random bits of the operating system, fetched a page at a time: one system call serves 512
/// numbers, and nothing predictable stands between the kernel and a lease token.
pub struct SystemRandom {
    bytes: [u8; 4096],
    used: usize,
}

impl Default for SystemRandom {
    fn default() -> Self {
        Self { bytes: [0; 4096], used: 4096 }
    }
}

impl std::fmt::Debug for SystemRandom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SystemRandom(..)")
    }
}

impl Random for SystemRandom {
    fn next_u64(&mut self) -> u64 {
        if self.used >= self.bytes.len() {
            #[expect(clippy::expect_used, reason = "without randomness no token is safe to issue")]
            getrandom::fill(&mut self.bytes).expect("the system has a random source");
            self.used = 0;
        }
        let number = self.bytes.get(self.used..).and_then(|rest| rest.first_chunk::<8>());
        self.used += 8;
        number.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}
