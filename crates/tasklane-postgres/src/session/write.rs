//! Writing what has changed: one statement for nearly all of it.

use hashbrown::HashMap;
use tasklane_core::{Random, Sequence, TaskId, limits};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::change::{Home, Subject};
use super::packed::RowTypes;
use super::room::IS_WAITING;
use super::table::{CountRows, Rows};
use super::{Session, Woken};
use crate::connection::Parameter;
use crate::fault::Fault;
use crate::rows::uuid;

/// Entries of trails in a transaction, up to which it is worth a look at each.
const SMALL: usize = 64;

/// The statement that writes what has become of tasks.
const PUT: &str =
    "SELECT put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                              $18, $19, $20, $21, $22, $23)";

/// What is written last, together with the commit.
#[derive(Debug, Default)]
pub(crate) struct LastPut {
    rows: Rows,
    told: Told,
}

/// What a transaction tells others.
#[derive(Debug, Default)]
pub(super) struct Told {
    at: Option<i64>,
    count: i32,
    events: Vec<u8>,
    origin: i64,
    claimable: i64,
    /// Anywhere, if there are none.
    lanes: Option<Vec<i32>>,
    counts: CountRows,
}

impl LastPut {
    pub(super) fn new(rows: Rows, told: Option<Told>) -> Self {
        Self { rows, told: told.unwrap_or_default() }
    }

    pub(crate) const fn sql() -> &'static str {
        PUT
    }

    pub(crate) fn parameters(&self, types: &RowTypes) -> Vec<Parameter<'_>> {
        let Self { rows, told } = self;
        let mut parameters: Vec<Parameter<'_>> = vec![
            (&rows.leave_pend, Type::UUID_ARRAY),
            (&rows.leave_wait, Type::UUID_ARRAY),
            (&rows.leave_lease, Type::UUID_ARRAY),
            (&rows.guarded, Type::UUID_ARRAY),
            (&rows.guards, Type::INT8_ARRAY),
            (&rows.tokens, Type::UUID_ARRAY),
            (&rows.task, types.task.clone()),
            (&rows.pend, types.pend.clone()),
            (&rows.wait, types.wait.clone()),
            (&rows.lease, types.lease.clone()),
            (&rows.ended, types.ended.clone()),
            (&rows.trail, types.trail.clone()),
        ];
        let telling: [Parameter<'_>; 6] = [
            (&told.at, Type::INT8),
            (&told.count, Type::INT4),
            (&told.events, Type::BYTEA),
            (&told.origin, Type::INT8),
            (&told.claimable, Type::INT8),
            (&told.lanes, Type::INT4_ARRAY),
        ];
        parameters.extend(telling);
        parameters.extend(told.counts.parameters());
        parameters
    }
}

impl Session<'_> {
    /// Writes every task that has changed.
    pub(crate) async fn flush(&mut self) -> Result<(), Fault> {
        let put = LastPut::new(self.gather().await?, None);
        if !put.rows.is_empty() {
            self.transaction.execute(LastPut::sql(), &put.parameters(&self.shared.types)).await?;
        }
        Ok(())
    }

    /// Writes what has changed if a claim could tell: tasks that are pending now, or were.
    pub(crate) async fn flush_claimable(&mut self) -> Result<(), Fault> {
        let is_pending = |id| {
            let subject: Option<&Subject> = self.work.get(id);
            subject.is_some_and(|subject| {
                subject.home == Home::Pend || Home::of(&subject.task.state) == Home::Pend
            })
        };
        if self.changed.iter().any(is_pending) { self.flush().await } else { Ok(()) }
    }

    /// What is to be written of every task that has changed. What is rarely written is by now.
    pub(super) async fn gather(&mut self) -> Result<Rows, Fault> {
        self.draw().await?;
        let changed = std::mem::take(&mut self.changed);
        let written_at = self.now.plus(self.begun.elapsed());
        let mut rows = Rows::default();
        for id in &changed {
            let Some(mut subject) = self.work.remove(id) else { continue };
            self.renumber(&mut subject.task);
            subject.lease.version = self.number(subject.lease.version);
            let entries = std::mem::take(&mut subject.entries);
            let numbered = entries.into_iter().map(|mut entry| {
                entry.stamp.sequence = self.number(entry.stamp.sequence);
                entry
            });
            if !subject.is_discarded {
                numbered.for_each(|entry| rows.trail(*id, &entry));
            }
            rows.add(&subject, written_at);
            subject.home =
                if subject.is_discarded { Home::Nowhere } else { Home::of(&subject.task.state) };
            subject.is_changed = false;
            subject.guard = None;
            if !subject.is_discarded {
                self.work.insert(*id, subject);
            }
        }
        self.write_rare(&rows).await?;
        self.write_lines().await?;
        Ok(rows)
    }

    async fn write_rare(&self, rows: &Rows) -> Result<(), Fault> {
        for (sql, ids) in [
            (
                "INSERT INTO task(id, lane, bytes, ordering, spec, payload)
                 SELECT id, lane, bytes, ordering, spec, payload FROM history WHERE id = ANY($1)",
                &rows.revived,
            ),
            ("DELETE FROM history WHERE id = ANY($1)", &rows.leave_history),
            ("DELETE FROM task WHERE id = ANY($1)", &rows.discarded),
            ("DELETE FROM body WHERE id = ANY($1)", &rows.discarded),
            ("DELETE FROM trail WHERE id = ANY($1)", &rows.discarded),
        ] {
            if !ids.is_empty() {
                self.transaction.execute(sql, &[(ids, Type::UUID_ARRAY)]).await?;
            }
        }
        if !rows.body.is_empty() {
            let sql = "INSERT INTO body(id, payload) SELECT * FROM unnest($1, $2)";
            self.transaction.execute(sql, &rows.body.parameters()).await?;
        }
        if !rows.ended_again.is_empty() {
            let sql = "UPDATE history h SET state = e.state, priority = e.priority,
                           ended_at = e.ended_at, ended_number = e.ended_number, record = e.record
                       FROM unnest($1) AS e WHERE h.id = e.id";
            let parameters = [(&rows.ended_again as _, self.shared.types.ended.clone())];
            self.transaction.execute(sql, &parameters).await?;
        }
        self.cut_trails(&rows.trailed).await
    }

    /// Looking by chance is enough to keep a bound on trails: of a small transaction at all of it, for
    /// a task that everything happens to, of a large one at a few. Eight times as rarely as a small one
    /// is written, a task is missed two hundred times in a row once in 10¹¹.
    async fn cut_trails(&self, trailed: &[Uuid]) -> Result<(), Fault> {
        let mut random = self.random();
        let mut chance = |of: u64| random.next_u64().is_multiple_of(of);
        let mut looked: Vec<Uuid> = if trailed.len() > SMALL {
            trailed.iter().filter(|_| chance(64)).copied().collect()
        } else if chance(8) {
            trailed.to_vec()
        } else {
            return Ok(());
        };
        looked.sort_unstable();
        looked.dedup();
        if looked.is_empty() {
            return Ok(());
        }
        // The newer half stays, and a mark.
        let sql = "WITH long AS (
                SELECT wanted.id, (SELECT t.sequence FROM trail t WHERE t.id = wanted.id
                                   ORDER BY t.sequence DESC LIMIT 1 OFFSET $3) AS keep
                FROM unnest($1) AS wanted(id)
                WHERE EXISTS (SELECT 1 FROM trail t WHERE t.id = wanted.id
                              ORDER BY t.sequence DESC LIMIT 1 OFFSET $2)
            ), cut AS (
                DELETE FROM trail t USING long WHERE t.id = long.id AND t.sequence < long.keep
                AND t.sequence > 0
            )
            INSERT INTO trail(id, sequence, entry) SELECT id, 0, ''::bytea FROM long
            ON CONFLICT DO NOTHING";
        let most = limits::TRAIL_ENTRIES_MAX as i64;
        let keep = most / 2;
        let parameters =
            [(&looked as _, Type::UUID_ARRAY), (&most as _, Type::INT8), (&keep as _, Type::INT8)];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }

    /// Writes who joined and who left the lines of ordering keys; forgets keys that nobody has.
    async fn write_lines(&mut self) -> Result<(), Fault> {
        let (mut queues, mut keys, mut sequences, mut ids) = (vec![], vec![], vec![], vec![]);
        let (mut left, mut free_queues, mut free_keys) = (vec![], vec![], vec![]);
        let mut lines = std::mem::take(&mut self.lines);
        for ((queue, key), line) in &mut lines {
            left.extend(line.left.drain().map(uuid));
            if line.is_free() {
                free_queues.push(*queue);
                free_keys.push(key.clone());
            }
            let joined: Vec<(Sequence, TaskId)> = std::mem::take(&mut line.joined)
                .into_iter()
                .map(|(sequence, id)| (self.number(sequence), id))
                .collect();
            for (sequence, id) in &joined {
                queues.push(*queue);
                keys.push(key.clone());
                sequences.push(sequence.0 as i64);
                ids.push(uuid(*id));
            }
            line.written(joined);
        }
        // A key that is free again is no longer locked once its row is gone.
        lines.retain(|_, line| !line.is_free());
        self.lines = lines;
        if !left.is_empty() {
            let sql = "DELETE FROM ordered WHERE id = ANY($1)";
            self.transaction.execute(sql, &[(&left, Type::UUID_ARRAY)]).await?;
        }
        if !ids.is_empty() {
            let sql = "INSERT INTO ordered(queue, key, sequence, id)
                       SELECT * FROM unnest($1, $2, $3, $4)";
            let parameters = [
                (&queues as _, Type::INT4_ARRAY),
                (&keys as _, Type::TEXT_ARRAY),
                (&sequences as _, Type::INT8_ARRAY),
                (&ids as _, Type::UUID_ARRAY),
            ];
            self.transaction.execute(sql, &parameters).await?;
        }
        if !free_keys.is_empty() {
            let sql = "DELETE FROM ordering_key k USING unnest($1, $2) AS free(queue, key)
                       WHERE k.queue = free.queue AND k.key = free.key COLLATE \"C\"";
            let parameters =
                [(&free_queues as _, Type::INT4_ARRAY), (&free_keys as _, Type::TEXT_ARRAY)];
            self.transaction.execute(sql, &parameters).await?;
        }
        Ok(())
    }

    /// What others should know, if there is anything: events, and what has been counted.
    pub(super) fn told(&mut self) -> Option<Told> {
        let mut counts = CountRows::default();
        let mut waiting: HashMap<i32, i64> = HashMap::new();
        let counted = std::mem::take(&mut self.counts);
        for ((queue, lane, priority, state), by) in counted.into_iter().filter(|(_, by)| *by != 0) {
            counts.queue.push(queue);
            counts.lane.push(lane);
            counts.priority.push(i16::from(priority));
            counts.state.push(i16::from(state));
            counts.change.push(by);
            if IS_WAITING.contains(&state) {
                *waiting.entry(queue).or_default() += by;
            }
        }
        let more = waiting.into_iter().filter(|(_, by)| *by > 0);
        self.outcome.waiting = more.map(|(queue, by)| (queue, by.unsigned_abs())).collect();
        let count = self.numbers.given() as i32;
        (count > 0 || !counts.is_empty()).then(|| Told {
            at: Some(self.now.as_micros()),
            count,
            events: std::mem::take(&mut self.events),
            origin: self.shared.origin,
            claimable: self.outcome.claimable as i64,
            lanes: match &self.outcome.woken {
                Woken::In(lanes) => Some(lanes.clone()),
                Woken::Anywhere => None,
            },
            counts,
        })
    }
}
