//! Ids and chance.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tasklane_core::{Random, SeededRandom, TaskId};

/// One source for the whole process, so that its ids rise.
struct Source {
    random: SeededRandom,
    millis: u64,
    counter: u64,
}

static SOURCE: Mutex<Option<Source>> = Mutex::new(None);
/// Ids of one millisecond that are told apart by their counter.
const COUNTER_MAX: u64 = 0xF_FFFF;

/// A new id for a task: a UUIDv7 that is above all that this process made before. Whoever sends a
/// task with the same id again gets the same task (S2).
pub fn task_id() -> TaskId {
    let now = since_epoch().as_millis();
    let now = u64::try_from(now).unwrap_or(u64::MAX);
    with_source(|source| {
        if now > source.millis {
            // Somewhere in the lower half: ids of two processes should not meet.
            (source.millis, source.counter) = (now, source.random.next_u64() & (COUNTER_MAX >> 1));
        } else if source.counter >= COUNTER_MAX {
            (source.millis, source.counter) = (source.millis + 1, 0);
        } else {
            source.counter += 1;
        }
        TaskId::generate(source.millis, source.counter, &mut source.random)
    })
}

/// A number in `0.0..1.0`.
pub(crate) fn unit() -> f64 {
    with_source(|source| source.random.next_unit())
}

fn with_source<T>(draw: impl FnOnce(&mut Source) -> T) -> T {
    let mut source = SOURCE.lock().unwrap_or_else(PoisonError::into_inner);
    draw(source.get_or_insert_with(|| {
        // Nothing here is a secret: without a random source of the system the clock will do.
        let clock = since_epoch().as_nanos() as u64;
        let seed = getrandom::u64().unwrap_or(clock ^ (u64::from(std::process::id()) << 32));
        Source { random: SeededRandom::new(seed), millis: 0, counter: 0 }
    }))
}

fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise() {
        let ids: Vec<_> = (0..10_000).map(|_| task_id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
