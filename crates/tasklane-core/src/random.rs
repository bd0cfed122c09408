//! Randomness as an argument, so that every decision can be replayed.

/// A source of random bits. Production sources must be unpredictable: lease tokens come from here.
pub trait Random {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;

    /// A number in `0.0..1.0`.
    fn next_unit(&mut self) -> f64 {
        // 53 bits are what a double holds exactly.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// 128 random bits.
    fn next_u128(&mut self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }
}

/// A small deterministic generator (SplitMix64) for tests, models and simulations. Not for tokens.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// A generator whose whole output follows from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

impl Random for SeededRandom {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
