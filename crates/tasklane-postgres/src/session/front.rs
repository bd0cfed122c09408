//! The fronts of lines, read without locks: what a claim chooses from.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use tasklane_core::{
    CapabilitySet, Place, Random, SeededRandom, Selection, Sequence, WorkerId, WorkerSpec,
    WorkerState, limits,
};
use tasklane_store::{ClaimRequest, codec};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::claim::Claimer;
use crate::chooser::{Chooser, Head, Line};
use crate::fault::Fault;
use crate::rows::{self, time, worker_id};

/// The lanes that have pending tasks, by steps down the index.
pub(crate) const FRONTS: &str = "
    WITH RECURSIVE front AS (
        (SELECT queue, priority, lane FROM pend ORDER BY queue, priority, lane LIMIT 1)
        UNION ALL
        SELECT next.* FROM front CROSS JOIN LATERAL (
            SELECT p.queue, p.priority, p.lane FROM pend p
            WHERE (p.queue, p.priority, p.lane) > (front.queue, front.priority, front.lane)
            ORDER BY p.queue, p.priority, p.lane LIMIT 1
        ) AS next
    )
    SELECT queue, priority, lane FROM front";

impl Session<'_> {
    /// Reads the fronts of all lines that somebody in the call takes.
    pub(super) async fn chooser(
        &mut self,
        requests: &[ClaimRequest],
        claimers: &HashMap<WorkerId, Claimer>,
    ) -> Result<Chooser, Fault> {
        let mut lines = Vec::new();
        let wanted = requests.iter().map(|request| request.count).max().unwrap_or_default();
        let selections: Vec<Selection> = requests
            .iter()
            .filter_map(|request| Some((claimers.get(&request.worker)?, request)))
            .filter(|(claimer, _)| claimer.state == WorkerState::Active)
            .map(|(claimer, request)| selection(&claimer.spec, request.narrowed.as_ref()))
            .collect();
        let (mut queues, rotation) = (BTreeMap::new(), self.shared.rotation());
        if !selections.is_empty() && wanted > 0 {
            let fronts = self.transaction.query(FRONTS, &[]).await?;
            self.shared.lanes.meet(self.transaction, fronts.iter().map(|row| row.get(2))).await?;
            for row in fronts {
                let (queue, lane): (i32, i32) = (row.get(0), row.get(2));
                let known = self.lane(lane);
                let taken = known.is_some_and(|known| {
                    selections.iter().any(|selection| selection.takes(&known.lane))
                });
                if taken {
                    let priority = rows::priority(row.get(1))?;
                    let heads = Default::default();
                    let line = Line { queue, priority, lane, heads, has_more: true, read_to: None };
                    lines.push(line);
                    queues.insert(queue, Default::default());
                }
            }
            let numbers: Vec<i32> = queues.keys().copied().collect();
            let sql = "SELECT queue, settings FROM queue WHERE queue = ANY($1)";
            for row in self.transaction.query(sql, &[(&numbers, Type::INT4_ARRAY)]).await? {
                queues.insert(row.get(0), codec::decode_queue(row.get(1))?);
            }
        }
        let random = SeededRandom::new(self.random().next_u64());
        let mut chooser = Chooser { now: self.now, lines, queues, rotation, random };
        let all: Vec<usize> = (0..chooser.lines.len()).collect();
        self.read_lines(&mut chooser, &all, wanted).await?;
        Ok(chooser)
    }

    pub(super) async fn read_on_line(
        &mut self,
        chooser: &mut Chooser,
        at: usize,
        wanted: usize,
    ) -> Result<(), Fault> {
        self.read_lines(chooser, &[at], wanted * 8).await
    }

    /// Reads lines from where they were read to. Many lines share a claim, so a part is read of
    /// each.
    async fn read_lines(
        &mut self,
        chooser: &mut Chooser,
        which: &[usize],
        wanted: usize,
    ) -> Result<(), Fault> {
        let limit = (wanted.min(limits::CLAIM_TASKS_MAX) / 8 + 2) as i64;
        let (mut at, mut queues, mut priorities, mut lanes) = (vec![], vec![], vec![], vec![]);
        let (mut ready, mut sequences) = (vec![], vec![]);
        for index in which {
            let Some(line) = chooser.lines.get(*index) else { continue };
            at.push(*index as i64);
            queues.push(line.queue);
            priorities.push(i16::from(line.priority.number()));
            lanes.push(line.lane);
            let read_to = line.read_to;
            ready.push(read_to.map_or(i64::MIN, |place| place.ready_at.as_micros()));
            sequences.push(read_to.map_or(0, |place| place.sequence.0 as i64));
        }
        if at.is_empty() {
            return Ok(());
        }
        let sql = "SELECT w.at, h.* FROM unnest($1, $2, $3, $4, $5, $6)
                AS w(at, queue, priority, lane, ready_at, sequence)
            CROSS JOIN LATERAL (
                SELECT p.id, p.ready_at, p.sequence, p.expires_at, p.withheld_from,
                       p.withheld_until, p.bytes
                FROM pend p WHERE p.queue = w.queue AND p.priority = w.priority AND p.lane = w.lane
                AND (p.ready_at, p.sequence) > (w.ready_at, w.sequence)
                ORDER BY p.ready_at, p.sequence LIMIT $7
            ) AS h";
        let parameters = [
            (&at as _, Type::INT8_ARRAY),
            (&queues as _, Type::INT4_ARRAY),
            (&priorities as _, Type::INT2_ARRAY),
            (&lanes as _, Type::INT4_ARRAY),
            (&ready as _, Type::INT8_ARRAY),
            (&sequences as _, Type::INT8_ARRAY),
            (&limit as _, Type::INT8),
        ];
        let found = self.transaction.query(sql, &parameters).await?;
        let mut read: HashMap<i64, i64> = HashMap::new();
        for row in &found {
            let index: i64 = row.get(0);
            *read.entry(index).or_default() += 1;
            let Some(line) = chooser.lines.get_mut(index as usize) else { continue };
            let sequence = Sequence(row.get::<_, i64>(3).unsigned_abs());
            let place = Place { ready_at: time(row.get(2)), sequence };
            let withheld: (Option<Uuid>, Option<i64>) = (row.get(5), row.get(6));
            let head = Head {
                id: rows::task_id(row.get(1))?,
                place,
                expires_at: row.get::<_, Option<i64>>(4).map(time),
                withheld: withheld.0.map(worker_id).zip(withheld.1.map(time)),
                bytes: usize::try_from(row.get::<_, i32>(7)).unwrap_or_default(),
            };
            line.read_to = Some(place);
            line.heads.push_back(head);
        }
        for index in at {
            if let Some(line) = chooser.lines.get_mut(index as usize) {
                line.has_more = read.get(&index).copied().unwrap_or_default() == limit;
            }
        }
        Ok(())
    }

    /// The lanes among the lines that a worker with this selection takes.
    pub(super) fn taken(&self, selection: &Selection, chooser: &Chooser) -> HashSet<i32> {
        let numbers = chooser.lines.iter().map(|line| line.lane);
        let takes =
            |number: &i32| self.lane(*number).is_some_and(|known| selection.takes(&known.lane));
        numbers.filter(takes).collect()
    }
}

/// What a worker takes by this request.
pub(super) fn selection(spec: &WorkerSpec, narrowed: Option<&CapabilitySet>) -> Selection {
    let mut selection = spec.selection.clone();
    if let Some(narrowed) = narrowed {
        selection.capabilities = selection.capabilities.intersection(narrowed);
    }
    selection
}
