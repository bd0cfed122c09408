//! Tasks that ended in one transaction, packed into one row: what retention and lists need of them.

use tasklane_core::Priority;
use tasklane_store::codec::Damaged;

/// Tasks in one row, so that it fits a page.
pub(crate) const PART_TASKS_MAX: usize = 256;

/// It has rows in `trail`.
pub(crate) const HAS_TRAIL: u8 = 1;
/// It has an idempotency key.
pub(crate) const HAS_KEY: u8 = 2;
/// It has a row in `alias`.
pub(crate) const HAS_ALIAS: u8 = 4;

/// An ended task, as far as removing it needs: no look at its other rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) key: i64,
    pub(crate) lane: u32,
    pub(crate) priority: Priority,
    pub(crate) flags: u8,
}

/// Thirteen bytes each: key, lane, and priority with flags.
pub(crate) fn pack(tasks: &[Ended]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(tasks.len() * 13);
    for task in tasks {
        bytes.extend_from_slice(&task.key.to_le_bytes());
        bytes.extend_from_slice(&task.lane.to_le_bytes());
        bytes.push((task.flags << 2) | task.priority.number());
    }
    bytes
}

pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<Ended>, Damaged> {
    let (tasks, rest) = bytes.as_chunks::<13>();
    if !rest.is_empty() {
        return Err(Damaged("not a list of ended tasks"));
    }
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, byte| (n << 8) | u64::from(*byte));
    let unpack = |task: &[u8; 13]| {
        let [.., last] = *task;
        let (key, rest) = task.split_at(8);
        Ok(Ended {
            key: number(key) as i64,
            lane: number(rest.split_at(4).0) as u32,
            priority: Priority::from_number(u64::from(last & 3))
                .map_err(|_| Damaged("not a priority"))?,
            flags: last >> 2,
        })
    };
    tasks.iter().map(unpack).collect()
}

/// Tasks whose keys follow one another, at most `max` together: between the first and the last of
/// them no other task can be, so that one statement removes them by their range. Neighbours mostly
/// came in one write, and ended in one: 2,600 instructions to remove a task, 7,500 one by one
/// (callgrind, drain by 100 of tasks of eight lanes).
pub(crate) fn runs(tasks: &[Ended], max: usize) -> impl Iterator<Item = &[Ended]> {
    tasks.chunk_by(|one, next| follows(one.key, next.key)).flat_map(move |run| run.chunks(max))
}

/// Whether there is no key between two.
pub(crate) const fn follows(one: i64, next: i64) -> bool {
    one.wrapping_add(1) == next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_damage_is_noticed() {
        let tasks = Priority::DESCENDING.map(|priority| Ended {
            key: i64::MAX - 5,
            lane: u32::MAX,
            priority,
            flags: HAS_TRAIL | HAS_KEY | HAS_ALIAS,
        });
        let bytes = pack(&tasks);
        assert_eq!(unpack(&bytes).unwrap(), tasks);
        assert!(unpack(&bytes[1..]).is_err());
        assert_eq!(unpack(&[]).unwrap(), []);
    }

    #[test]
    fn a_run_has_no_room_for_a_key_of_another_task() {
        let (lane, priority, flags) = (1, Priority::DESCENDING[0], 0);
        let tasks = [1, 2, 3, 5, 7, 8].map(|key| Ended { key, lane, priority, flags });
        let keys = |max| -> Vec<Vec<i64>> {
            runs(&tasks, max).map(|run| run.iter().map(|ended| ended.key).collect()).collect()
        };
        assert_eq!(keys(16), [vec![1, 2, 3], vec![5], vec![7, 8]]);
        assert_eq!(keys(2), [vec![1, 2], vec![3], vec![5], vec![7, 8]]);
    }
}
