//! Random numbers that a seed gives again.

/// SplitMix64: small, quick, and the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Tells yes once in so many times.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns a value half of the time.
    pub(crate) fn maybe<T>(&mut self, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        if self.one_in(2) { Some(make(self)) } else { None }
    }
}

/// The seed of a quick run that is told none: whether a change passes is not to be drawn by lot.
const QUICK: u64 = 1;

/// Returns the seed of this run: `IDEM_TEST_SEED`; else of a quick run always the same, of a full one another each time.
pub(crate) fn seed() -> u64 {
    match std::env::var("IDEM_TEST_SEED") {
        Ok(told) => told.parse().expect("IDEM_TEST_SEED is a whole number"),
        Err(_) if crate::drive::full() => by_chance(),
        Err(_) => QUICK,
    }
}

fn by_chance() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
