//! What is still known after a write. Every commit names the version that it was decided on, so that
//! what is no longer true, because another server has written, is noticed before anything happens.
//!
//! Only what the next groups will ask for is kept: tasks that are held, the beginnings of lanes, a
//! few counters. Everything else is forgotten, and read again when somebody asks.

use hashbrown::HashMap;
use redis::Value;
use tasklane_core::{State, TaskId, WorkerId};

use crate::heads::Heads;
use crate::keys::Key;
use crate::read::Read;
use crate::session::place_member;
use crate::snapshot::{Meta, Snapshot};
use crate::sorted::Sorted;
use crate::stored::Stored;
use crate::value;
use crate::writes::Writes;

/// Tasks, fields and the like that are remembered; with more, all is forgotten.
const THINGS_MAX: usize = 20_000;

/// How a group of calls left what it has touched.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) meta: Meta,
    pub(crate) tasks: HashMap<TaskId, Option<Box<Stored>>>,
    pub(crate) sorted: HashMap<Key, Sorted>,
    pub(crate) heads: HashMap<Key, Heads>,
    /// By how much the leases of workers have changed.
    pub(crate) held: HashMap<WorkerId, i64>,
}

impl Snapshot {
    /// Goes on to what is there once this is written. Says whether it is worth being remembered.
    pub(crate) fn advance(&mut self, writes: &Writes, left: Left) -> bool {
        (self.meta, self.kept) = (left.meta, true);
        self.advance_held(&left.held);
        self.plain.clear();
        self.advance_fields(writes);
        self.advance_heads(writes, left.heads);
        self.advance_sorted(writes, left.sorted);
        self.advance_tasks(left.tasks);
        let fields: usize = self.fields.values().map(HashMap::len).sum();
        let things = [self.tasks.len(), self.sorted.len(), self.held.len(), fields];
        things.into_iter().sum::<usize>() <= THINGS_MAX
    }

    fn advance_held(&mut self, changed: &HashMap<WorkerId, i64>) {
        for (read, answer) in &self.plain {
            if let Read::Plain("ZCARD", Key::Held(worker), _) = read
                && let Value::Int(count) = answer
            {
                self.held.insert(*worker, *count);
            }
        }
        for (worker, by) in changed {
            if let Some(count) = self.held.get_mut(worker) {
                *count += by;
            }
        }
    }

    fn advance_fields(&mut self, writes: &Writes) {
        for (key, changes) in writes.all_fields() {
            let Some(known) = self.fields.get_mut(key) else { continue };
            for (field, value) in changes {
                match known.get_mut(field) {
                    Some(known) if is_small(key) => known.clone_from(value),
                    Some(_) => drop(known.remove(field)),
                    None => {}
                }
            }
        }
        // What is large, or asked for once, stays only as long as it takes to decide on it.
        self.fields.retain(|key, _| is_small(key) || matches!(key, Key::Task | Key::Record));
        let Some(depths) = self.fields.get_mut(&Key::Depth) else { return };
        for (queue, by) in writes.all_depths() {
            if let Some(depth) = depths.get_mut(queue.to_string().as_bytes()) {
                let before = depth.as_ref().and_then(|bytes| value::number(bytes).ok());
                *depth = Some((before.unwrap_or_default() + by).to_string().into());
            }
        }
    }

    /// Before the lanes themselves: what was known of a lane tells what became of its head.
    fn advance_heads(&mut self, writes: &Writes, left: HashMap<Key, Heads>) {
        for (queue, lane, priority) in writes.all_lanes() {
            let key = Key::Heads(queue, priority);
            if left.contains_key(&key) {
                continue;
            }
            let Some(heads) = self.heads.get_mut(&key) else { continue };
            let changes = writes.scores(&Key::Lane(lane, priority)).into_iter().flatten();
            let entered: Option<Vec<i64>> = changes.map(|(_, score)| *score).collect();
            match entered {
                Some(entered) => entered.into_iter().for_each(|at| heads.enter(lane, at)),
                None => drop(self.heads.remove(&key)),
            }
        }
        self.heads.extend(left);
    }

    fn advance_sorted(&mut self, writes: &Writes, left: HashMap<Key, Sorted>) {
        for (key, changes) in writes.all_scores() {
            if left.contains_key(key) {
                continue;
            }
            let Some(sorted) = self.sorted.get_mut(key) else { continue };
            let mut known = true;
            for (member, score) in changes {
                match score {
                    Some(score) => sorted.insert(*score, member.clone().into()),
                    // Where it stood is not known any more.
                    None => known = false,
                }
            }
            if !known || !sorted.written() {
                self.sorted.remove(key);
            }
        }
        for (key, mut sorted) in left {
            match sorted.written() {
                true => drop(self.sorted.insert(key, sorted)),
                false => drop(self.sorted.remove(&key)),
            }
        }
    }

    /// Held tasks will be settled, and pending ones at the front claimed.
    fn advance_tasks(&mut self, left: HashMap<TaskId, Option<Box<Stored>>>) {
        for (id, stored) in left {
            let kept = stored.filter(|stored| match stored.task.state {
                State::Assigned(_) | State::Running(_) => true,
                State::Pending { .. } => {
                    let lane = Key::Lane(stored.lane, stored.task.spec.priority);
                    let at = stored.task.place.ready_at.as_micros();
                    let sorted = self.sorted.get(&lane);
                    sorted.is_some_and(|sorted| sorted.contains(at, &place_member(&stored.task)))
                }
                _ => false,
            });
            for key in [Key::Task, Key::Record] {
                if let Some(fields) = self.fields.get_mut(&key) {
                    fields.remove(&id.as_bytes()[..]);
                }
            }
            match kept {
                Some(stored) => drop(self.tasks.insert(id, stored)),
                None => drop(self.tasks.remove(&id)),
            }
        }
    }
}

/// Hashes whose fields are few and short, and that most groups ask for.
const fn is_small(key: &Key) -> bool {
    matches!(key, Key::Counts | Key::Depth | Key::Workers | Key::Renewed | Key::Health)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hashbrown::HashMap;

    use super::*;

    #[test]
    fn what_is_large_is_not_remembered() {
        let mut snapshot = Snapshot::default();
        for key in [Key::Payload, Key::Trail, Key::Idempotency, Key::Workers] {
            let field = HashMap::from_iter([(vec![7], Some(Bytes::from_static(b"read")))]);
            snapshot.fields.insert(key, field);
        }
        assert!(snapshot.advance(&Writes::default(), Left::default()));
        assert_eq!(snapshot.fields.keys().collect::<Vec<_>>(), [&Key::Workers]);
    }
}
