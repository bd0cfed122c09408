//! Where lanes begin, by what this group does.

use tasklane_core::Priority;

use super::Session;
use crate::fault::Fault;
use crate::heads::Heads;
use crate::keys::Key;
use crate::read::Read;
use crate::sorted::First;
use crate::value;

impl Session<'_> {
    /// Reads where the lanes of a queue and priority begin.
    pub(super) fn load_heads(&mut self, queue: u32, priority: Priority) -> Result<(), Fault> {
        let key = Key::Heads(queue, priority);
        if self.heads.contains_key(&key) {
            return Ok(());
        }
        let heads = match self.snapshot.heads(&key) {
            Some(heads) => heads.clone(),
            None => self.read_heads(&key)?,
        };
        self.heads.insert(key, heads);
        // What this group has changed already.
        for lane in self.writes.touched(queue, priority) {
            let changes = self.writes.scores(&Key::Lane(lane, priority));
            let added: Option<Vec<i64>> =
                changes.map(|changes| changes.values().copied().collect()).unwrap_or_default();
            match added {
                Some(added) => {
                    if let Some(heads) = self.heads.get_mut(&Key::Heads(queue, priority)) {
                        added.into_iter().for_each(|ready_at| heads.enter(lane, ready_at));
                    }
                }
                None => self.note_head(queue, lane, priority),
            }
        }
        Ok(())
    }

    fn read_heads(&mut self, key: &Key) -> Result<Heads, Fault> {
        let mut heads = Heads::default();
        for (ready_at, lane) in value::scored(self.plain(heads_read(key.clone())))? {
            let lane = u32::try_from(value::number(&lane)?).unwrap_or(u32::MAX);
            heads.set(lane, Some(ready_at));
        }
        Ok(heads)
    }

    /// Finds out anew where a lane begins, if that is known of its queue.
    pub(super) fn note_head(&mut self, queue: u32, lane: u32, priority: Priority) {
        let key = Key::Heads(queue, priority);
        if !self.heads.contains_key(&key) {
            return;
        }
        let first = match self.first(&Key::Lane(lane, priority), super::DEPTH, true) {
            First::Is(ready_at, _) => Some(ready_at),
            First::None | First::Unknown => None,
        };
        if let Some(heads) = self.heads.get_mut(&key) {
            heads.set(lane, first);
        }
    }
}

pub(super) fn heads_read(key: Key) -> Read {
    Read::plain("ZRANGE", key, ["0", "-1", "WITHSCORES"])
}
