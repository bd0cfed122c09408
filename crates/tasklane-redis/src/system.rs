//! The machine's random source.

use tasklane_core::Random;

/// Random bits of the operating system, fetched a page at a time.
pub(crate) struct SystemRandom {
    bytes: [u8; 1024],
    used: usize,
}

impl Default for SystemRandom {
    fn default() -> Self {
        Self { bytes: [0; 1024], used: 1024 }
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
