//! Writing what has changed: one statement for all rows of a kind.

use tasklane_core::{Random, Sequence, TaskId, limits};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::Home;
use super::table::{Rows, TrailRows};
use crate::fault::Fault;
use crate::rows::uuid;

impl Session<'_> {
    /// Draws numbers and writes every task that has changed.
    pub(crate) async fn flush(&mut self) -> Result<(), Fault> {
        self.draw().await?;
        let changed = std::mem::take(&mut self.changed);
        let mut rows = Rows::default();
        for id in &changed {
            let Some(mut subject) = self.work.remove(id) else { continue };
            self.renumber(&mut subject.task);
            let entries = std::mem::take(&mut subject.entries);
            let numbered = entries.into_iter().map(|mut entry| {
                entry.stamp.sequence = self.number(entry.stamp.sequence);
                entry
            });
            if !subject.is_discarded {
                numbered.for_each(|entry| rows.trail.add(*id, &entry));
            }
            rows.add(&subject);
            subject.home =
                if subject.is_discarded { Home::Nowhere } else { Home::of(&subject.task.state) };
            subject.is_changed = false;
            if !subject.is_discarded {
                self.work.insert(*id, subject);
            }
        }
        self.write_rows(&rows).await?;
        self.write_lines().await
    }

    async fn write_rows(&self, rows: &Rows) -> Result<(), Fault> {
        for (sql, ids) in [
            ("DELETE FROM pend WHERE id = ANY($1)", &rows.leave_pend),
            ("DELETE FROM wait WHERE id = ANY($1)", &rows.leave_wait),
            ("DELETE FROM lease WHERE id = ANY($1)", &rows.leave_lease),
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
        for (sql, parameters) in rows.written() {
            self.transaction.execute(sql, &parameters).await?;
        }
        if !rows.ended.id.is_empty() {
            let sql = "DELETE FROM task WHERE id = ANY($1)";
            self.transaction.execute(sql, &[(&rows.ended.id, Type::UUID_ARRAY)]).await?;
        }
        self.cut_trails(&rows.trail).await
    }

    /// Looking now and then is enough to keep a bound on trails: by number for a task that
    /// everything happens to, by chance for one among many.
    async fn cut_trails(&self, trail: &TrailRows) -> Result<(), Fault> {
        let mut random = self.random();
        let mut look = |sequence: i64| sequence % 64 == 0 || random.next_u64().is_multiple_of(64);
        let written = trail.id.iter().zip(&trail.sequence);
        let mut looked: Vec<Uuid> =
            written.filter(|(_, sequence)| look(**sequence)).map(|(id, _)| *id).collect();
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

    /// Adds what has been counted: as new rows, so that nobody waits for a counter.
    pub(super) async fn write_counts(&mut self) -> Result<(), Fault> {
        let (mut queues, mut lanes) = (Vec::new(), Vec::new());
        let (mut priorities, mut states, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let counts = std::mem::take(&mut self.counts);
        for ((queue, lane, priority, state), by) in counts.into_iter().filter(|(_, by)| *by != 0) {
            queues.push(queue);
            lanes.push(lane);
            priorities.push(i16::from(priority));
            states.push(i16::from(state));
            changes.push(by);
        }
        if queues.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO delta(queue, lane, priority, state, change)
                   SELECT * FROM unnest($1, $2, $3, $4, $5)";
        let parameters = [
            (&queues as _, Type::INT4_ARRAY),
            (&lanes as _, Type::INT4_ARRAY),
            (&priorities as _, Type::INT2_ARRAY),
            (&states as _, Type::INT2_ARRAY),
            (&changes as _, Type::INT8_ARRAY),
        ];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }
}
