//! Removing what has been kept long enough, a slice at a time.

use bytes::{Buf, Bytes};
use tasklane_core::{StateName, TaskId, Timestamp, WorkerId};
use tasklane_store::{Prune, Pruned};

use super::Session;
use super::submit::IdempotencyRecord;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::stored::task_id;
use crate::value;

/// Tasks removed in one slice: a script that removes more would hold up others.
const TASKS_MAX: usize = 500;
/// Entries of the feed, idempotency records and workers looked at in one slice.
pub(super) const ROWS_MAX: usize = 1_000;

/// Lists of tasks that were completed together, looked at in one slice.
const COMPLETED_MAX: usize = 64;
const ID_BYTES: usize = 16;

/// Tasks that ended together.
struct Ended {
    at: i64,
    state: StateName,
    key: Key,
    /// Their ids.
    member: Bytes,
}

impl Session<'_> {
    pub(crate) fn prune(&mut self, prune: &Prune) -> Result<Pruned, Fault> {
        let mut pruned = Pruned::default();
        if !self.is_dry() {
            self.prune_tasks(prune, &mut pruned)?;
            self.prune_idempotency(prune, &mut pruned)?;
            self.prune_events(prune, &mut pruned)?;
            self.prune_workers(prune, &mut pruned)?;
            self.prune_api_keys(prune, &mut pruned)?;
            self.prune_audit(prune, &mut pruned)?;
        }
        Ok(pruned)
    }

    fn prune_tasks(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let limit = prune.limit.min(TASKS_MAX);
        let mut left = limit;
        for Ended { at, state, key, member } in self.kept_long_enough(prune, limit, pruned)? {
            let (over, kept) = member.split_at(member.len().min(left * ID_BYTES));
            for id in over.chunks(ID_BYTES) {
                self.remove_ended(task_id(id)?, at, state, pruned)?;
                left -= 1;
            }
            if !over.is_empty() {
                self.writes.score(key.clone(), member.clone(), None);
            }
            if !kept.is_empty() {
                if !over.is_empty() {
                    self.writes.score(key, kept, Some(at));
                }
                pruned.more = true;
                break;
            }
        }
        Ok(())
    }

    /// Removes a task, unless it has been discarded, or revived by another call of this group.
    fn remove_ended(
        &mut self,
        id: TaskId,
        at: i64,
        state: StateName,
        pruned: &mut Pruned,
    ) -> Result<(), Fault> {
        let Some(stored) = self.task(id)? else { return Ok(()) };
        let ended = stored.task.state.ended();
        let same = stored.task.state.name() == state;
        if same && ended.is_some_and(|ended| ended.at.as_micros() == at) {
            let state = self.remove(id)?;
            if let Some(count) = pruned.tasks.get_mut(state.index()) {
                *count += 1;
            }
        }
        Ok(())
    }

    /// Ended tasks whose time is over, the first to end first.
    fn kept_long_enough(
        &mut self,
        prune: &Prune,
        limit: usize,
        pruned: &mut Pruned,
    ) -> Result<Vec<Ended>, Fault> {
        let queues: Vec<_> = self
            .catalog
            .queues()
            .map(|(number, _, settings)| (number, settings.retention))
            .collect();
        let ended = StateName::ALL.into_iter().filter(|state| state.is_terminal());
        let mut found = Vec::new();
        for state in ended {
            for (queue, own) in &queues {
                let retention = own.filter(|_| !prune.override_queues).unwrap_or(prune.retention);
                let Some(kept_for) = retention.of(state) else { continue };
                let max = self.now.minus(kept_for).as_micros();
                let key = Key::Ended(state, *queue);
                // Those that were completed together are many in one.
                let limit = match state {
                    StateName::Completed => limit.min(COMPLETED_MAX) + 1,
                    _ => limit + 1,
                };
                let read = Read::Next { key: key.clone(), max, after: None, limit };
                let members = value::scored(self.plain(read))?;
                pruned.more |= members.len() == limit;
                let ended = |(at, member)| Ended { at, state, key: key.clone(), member };
                found.extend(members.into_iter().map(ended));
            }
        }
        found.sort_unstable_by(|one, other| (one.at, &one.member).cmp(&(other.at, &other.member)));
        Ok(found)
    }

    /// Records of tasks that live are passed over, and not looked at again in the same round.
    fn prune_idempotency(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let max = self.now.minus(prune.idempotency_for).as_micros().to_string();
        let (offset, count) = (self.memory.idempotency_skipped.to_string(), ROWS_MAX.to_string());
        let with = ["-inf", &max, "LIMIT", &offset, &count];
        let read = Read::plain("ZRANGEBYSCORE", Key::IdempotencyAge, with);
        let fields = value::strings(self.plain(read))?;
        for field in &fields {
            let record = self.field(&Key::Idempotency, field);
            let over = match record.map(IdempotencyRecord::unpack).transpose()? {
                None => true,
                Some(record) if record.ended.is_some() => true,
                Some(record) => {
                    let stored = self.task(record.task)?;
                    stored.is_none_or(|stored| stored.task.state.name().is_terminal())
                }
            };
            if over {
                self.writes.unset(Key::Idempotency, field.clone());
                self.writes.score(Key::IdempotencyAge, field.clone(), None);
                pruned.idempotency_records += 1;
            } else {
                self.memory.idempotency_skipped += 1;
            }
        }
        if fields.len() < ROWS_MAX {
            self.memory.idempotency_skipped = 0;
        } else {
            pruned.more = true;
        }
        Ok(())
    }

    /// Whole writes from the old end on, as long as each is too old or too many; the newest stays.
    fn prune_events(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let over = self.now.minus(prune.events_for);
        let count = ROWS_MAX.to_string();
        let read = Read::plain("XRANGE", Key::Feed, ["-", "+", "COUNT", &count]);
        let newest = self.snapshot.meta.last.0;
        let mut removed = 0;
        let mut kept_from = None;
        for mut entry in value::entries(self.plain(read))? {
            if entry.len() < 20 {
                return Err(Fault::Corrupt("an entry of the feed is cut short".into()));
            }
            let (first, count, at) = (entry.get_u64(), entry.get_u32(), entry.get_i64());
            let last = first + u64::from(count) - 1;
            let old = Timestamp::from_micros(at) <= over;
            let kept = newest - first + 1;
            if last >= newest || (!old && kept <= prune.events_max) {
                break;
            }
            pruned.events += u64::from(count);
            kept_from = Some(last + 1);
            removed += 1;
        }
        if let Some(first) = kept_from {
            self.writes.trim(Key::Feed, first);
            pruned.more |= removed >= ROWS_MAX;
        }
        Ok(())
    }

    fn prune_workers(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let max = self.now.minus(prune.workers_for).as_micros();
        let read = Read::Next { key: Key::Dead, max, after: None, limit: ROWS_MAX };
        for (_, member) in value::scored(self.plain(read))? {
            let Ok(bytes) = <[u8; 16]>::try_from(member.as_ref()) else { continue };
            self.remove_worker(WorkerId::from_bytes(bytes))?;
            pruned.workers += 1;
        }
        Ok(())
    }
}
