//! Ordering keys: one task of a key at a time (S8). Keys are locked before tasks, in order.

use std::collections::VecDeque;

use hashbrown::HashSet;
use tasklane_core::{Sequence, TaskId, lifecycle};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use crate::fault::Fault;
use crate::rows;

/// How many of a line are read at first: who ends frees the next, so a few are enough.
const READ_AT_ONCE: i64 = 8;

/// The live tasks of one key, in order.
#[derive(Debug, Default)]
pub(super) struct Line {
    first: VecDeque<(Sequence, TaskId)>,
    /// Those behind `first` are not read yet.
    has_more: bool,
    /// What this transaction adds at the end, not written yet.
    pub(super) joined: Vec<(Sequence, TaskId)>,
    /// What it takes out, not written yet.
    pub(super) left: HashSet<TaskId>,
}

impl Line {
    pub(super) fn join(&mut self, sequence: Sequence, id: TaskId) {
        self.joined.push((sequence, id));
    }

    pub(super) fn leave(&mut self, id: TaskId) {
        self.first.retain(|(_, known)| *known != id);
        let before = self.joined.len();
        self.joined.retain(|(_, known)| *known != id);
        if self.joined.len() == before {
            self.left.insert(id);
        }
    }

    /// Nobody is in it.
    pub(super) fn is_free(&self) -> bool {
        self.first.is_empty() && !self.has_more && self.joined.is_empty()
    }

    /// What was to be written is.
    pub(super) fn written(&mut self, joined: impl IntoIterator<Item = (Sequence, TaskId)>) {
        if self.has_more {
            // They are behind what is not read.
            return;
        }
        self.first.extend(joined);
    }
}

impl Session<'_> {
    /// Locks keys and reads the beginning of their lines; those that are locked already stay so.
    pub(super) async fn lock_keys(&mut self, mut keys: Vec<(i32, Box<str>)>) -> Result<(), Fault> {
        keys.retain(|key| !self.lines.contains_key(key));
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(());
        }
        self.numbers.lock();
        let queues: Vec<i32> = keys.iter().map(|(queue, _)| *queue).collect();
        let texts: Vec<&str> = keys.iter().map(|(_, key)| &**key).collect();
        let parameters = [(&queues as _, Type::INT4_ARRAY), (&texts as _, Type::TEXT_ARRAY)];
        let lock = "INSERT INTO ordering_key(queue, key)
                    SELECT * FROM unnest($1, $2) AS wanted(queue, key) ORDER BY queue, key COLLATE \"C\"
                    ON CONFLICT (queue, key) DO UPDATE SET key = excluded.key";
        self.transaction.execute(lock, &parameters).await?;
        let read = "SELECT wanted.queue, wanted.key, o.sequence, o.id
                    FROM unnest($1, $2) AS wanted(queue, key)
                    CROSS JOIN LATERAL (
                        SELECT sequence, id FROM ordered
                        WHERE ordered.queue = wanted.queue AND ordered.key = wanted.key COLLATE \"C\"
                        ORDER BY sequence LIMIT $3
                    ) AS o";
        let [one, other] = parameters;
        let found =
            self.transaction.query(read, &[one, other, (&READ_AT_ONCE, Type::INT8)]).await?;
        for row in found {
            let key = (row.get(0), Box::from(row.get::<_, &str>(1)));
            let (sequence, id): (i64, Uuid) = (row.get(2), row.get(3));
            let line = self.lines.entry(key).or_default();
            line.first.push_back((Sequence(sequence.unsigned_abs()), rows::task_id(id)?));
        }
        for key in keys {
            let line = self.lines.entry(key).or_default();
            line.has_more = line.first.len() as i64 == READ_AT_ONCE;
        }
        Ok(())
    }

    pub(super) fn line(&mut self, queue: i32, key: &str) -> Result<&mut Line, Fault> {
        let line = self.lines.get_mut(&(queue, Box::from(key)));
        line.ok_or_else(|| Fault::Corrupt(format!("ordering key {key} is not locked")))
    }

    /// Whether no live task has this key.
    pub(super) async fn key_is_free(&mut self, queue: i32, key: &str) -> Result<bool, Fault> {
        self.read_on(queue, key).await?;
        Ok(self.line(queue, key)?.is_free())
    }

    /// Lets the first of a line go on, if it is blocked.
    pub(super) async fn free_next(&mut self, queue: i32, key: &str) -> Result<(), Fault> {
        self.read_on(queue, key).await?;
        let line = self.line(queue, key)?;
        let next = line.first.front().or_else(|| line.joined.first());
        let Some((_, id)) = next.copied() else { return Ok(()) };
        self.load(&[id]).await?;
        let Some(subject) = self.work.get(&id) else {
            return Err(rows::corrupt(rows::uuid(id), "missing, though it waits for its key"));
        };
        if let Ok(lifecycle::Decision::Change(event)) = lifecycle::unblock(&subject.task) {
            self.change(id, event, None)?;
        }
        Ok(())
    }

    /// Reads further where the beginning of a line is used up.
    async fn read_on(&mut self, queue: i32, key: &str) -> Result<(), Fault> {
        let line = self.line(queue, key)?;
        if !line.first.is_empty() || !line.has_more {
            return Ok(());
        }
        let left: Vec<Uuid> = line.left.iter().map(|id| rows::uuid(*id)).collect();
        let sql = "SELECT sequence, id FROM ordered
                   WHERE queue = $1 AND key = $2 AND id <> ALL($3) ORDER BY sequence LIMIT $4";
        let parameters = [
            (&queue as _, Type::INT4),
            (&key as _, Type::TEXT),
            (&left as _, Type::UUID_ARRAY),
            (&READ_AT_ONCE as _, Type::INT8),
        ];
        let found = self.transaction.query(sql, &parameters).await?;
        let mut first = VecDeque::new();
        for row in &found {
            let (sequence, id): (i64, Uuid) = (row.get(0), row.get(1));
            first.push_back((Sequence(sequence.unsigned_abs()), rows::task_id(id)?));
        }
        let line = self.line(queue, key)?;
        line.has_more = found.len() as i64 == READ_AT_ONCE;
        line.first = first;
        Ok(())
    }
}
