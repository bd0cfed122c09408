//! What comes of a session: what is to be written, in few commands, and what is known after it.

use bytes::BufMut;
use tasklane_core::{Random, Sequence, StateName, Timestamp};
use tasklane_store::Position;

use super::{Decided, Outcome, Session};
use crate::keys::Key;
use crate::known::Left;
use crate::link::Kind;
use crate::read::Read;
use crate::signal::News;
use crate::snapshot::Meta;
use crate::sorted::{First, Sorted};
use crate::value;
use crate::writes::Head;

/// Counters from which on it pays to know them: each that is not costs a command.
const COUNTERS_MANY: usize = 4;
/// Completed tasks that are listed as one.
const ENDED_TOGETHER_MAX: usize = 64;

impl Session<'_> {
    /// With `must_write`, something is written even if nothing has changed: an answer that waits for
    /// replicas or a file covers only what was written before it on the same connection. Somebody who
    /// asks again for what they do not have yet would be told otherwise that it is safe.
    pub(crate) fn finish(mut self, must_write: bool) -> Outcome {
        if !self.is_missing() {
            self.settle_counters();
        }
        if self.is_missing() {
            self.read_ahead();
            let front = |(key, (depth, is_lane))| match is_lane {
                true => Read::Front(key, depth),
                false => Read::First(key, depth),
            };
            self.missing.extend(self.fronts.into_iter().map(front));
            return Outcome::Missing(self.missing);
        }
        if !self.hot.is_empty() {
            self.memory.hot = std::mem::take(&mut self.hot);
        }
        self.list_completed();
        self.renew_holdings();
        self.find_leading();
        self.find_heads();
        let before = self.snapshot.meta;
        let mut note = |name: &str, number: i64| {
            self.writes.set(Key::Meta, name, number.to_string().into_bytes());
        };
        if self.last != before.last {
            note("last", self.last.0 as i64);
        }
        if self.last_key != before.last_key {
            note("last_key", self.last_key);
        }
        if self.catalog.lane_count() != before.lanes as usize {
            note("lanes", self.catalog.lane_count() as i64);
        }
        if self.catalog.queues_version() != before.queues {
            note("queues", self.catalog.queues_version());
        }
        let written = must_write || !self.writes.is_empty();
        let latest = if written { before.latest.max(self.now) } else { before.latest };
        if must_write || latest > before.latest {
            self.writes.set(Key::Meta, "latest", latest.as_micros().to_string());
        }
        let floor = if written { before.floor.max(self.floor) } else { before.floor };
        if floor > before.floor {
            self.writes.set(Key::Meta, "floor", floor.to_string());
        }
        let events = self.last.0 - before.last.0;
        if events > 0 {
            let first = before.last.next();
            let entry = pack_feed(first, events, self.now, &self.events);
            self.writes.entry(Key::Feed, self.last.0, entry);
        }
        let meta = Meta {
            version: before.version + i64::from(written),
            last: self.last,
            epoch: before.epoch,
            lanes: u32::try_from(self.catalog.lane_count()).unwrap_or(u32::MAX),
            queues: self.catalog.queues_version(),
            last_key: self.last_key,
            latest,
            floor,
            mark: if written { new_mark(self.random) } else { before.mark },
        };
        let (tasks, sorted, heads, held) = (self.tasks, self.sorted, self.heads, self.held);
        Outcome::Decided(Box::new(Decided {
            left: Left { meta, tasks, sorted, heads, held },
            writes: self.writes,
            kind: if self.admitted { Kind::Admission } else { Kind::Other },
            catalog: self.catalog,
            memory: self.memory,
            news: News {
                last: Position(self.last.0),
                events,
                claimable: self.claimable,
                woken: self.woken,
            },
        }))
    }

    /// Those that were completed together are listed together.
    fn list_completed(&mut self) {
        for ((queue, at), ids) in self.completed.drain() {
            for ids in ids.chunks(ENDED_TOGETHER_MAX) {
                let member: Vec<u8> = ids.iter().flat_map(|id| *id.as_bytes()).collect();
                let key = Key::Ended(StateName::Completed, queue);
                self.writes.score(key, member, Some(at.as_micros()));
            }
        }
    }

    /// What is taken from the front of a lane is taken from there by one command.
    fn find_leading(&mut self) {
        for key in self.sorted.keys() {
            let known = self.snapshot.sorted(key).zip(self.writes.scores(key));
            let Some((known, changes)) = known else { continue };
            let gone = |member: &[u8]| matches!(changes.get(member), Some(None));
            let leading = known.leading(gone);
            if leading.len() > 1 {
                self.writes.lead(key.clone(), leading);
            }
        }
    }

    /// Where nobody else writes, counters are known, and many of them are set by one command.
    fn settle_counters(&mut self) {
        let many = self.snapshot.is_kept() && self.writes.counter_count() >= COUNTERS_MANY;
        let (snapshot, mut missing) = (self.snapshot, Vec::new());
        self.writes.settle_counters(|field| match snapshot.field(&Key::Counts, field) {
            Some(count) => count.as_ref().map_or(Some(0), |count| value::number(count).ok()),
            None => {
                missing.push(Read::Field(Key::Counts, field.to_vec()));
                None
            }
        });
        if many {
            missing.into_iter().for_each(|read| self.miss(read));
        }
    }

    /// Where the lanes begin that have changed. Of one that was not looked at, only that it begins
    /// with what came into it, or before.
    fn find_heads(&mut self) {
        let sorted = &self.sorted;
        self.writes.note_heads(|key, changes| match sorted.get(key).map(Sorted::first) {
            Some(First::Is(at, _)) => Head::At(at),
            Some(First::None) => Head::Nowhere,
            Some(First::Unknown) => Head::Unknown,
            None => {
                let entered: Option<Vec<i64>> = changes.values().copied().collect();
                let first = entered.and_then(|entered| entered.into_iter().min());
                first.map_or(Head::Unknown, Head::NotAfter)
            }
        });
    }
}

/// A number for a write that no other has. Numbers in Lua are exact up to 2⁵³.
pub(crate) fn new_mark(random: &mut impl Random) -> u64 {
    random.next_u64() >> 12
}

/// The events of one write: the first number, how many, when, and the events themselves.
fn pack_feed(first: Sequence, count: u64, at: Timestamp, events: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(20 + events.len());
    packed.put_u64(first.0);
    packed.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
    packed.put_i64(at.as_micros());
    packed.put_slice(events);
    packed
}
