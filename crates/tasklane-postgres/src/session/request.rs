//! Admitting what applications asked for in SQL. A server that finds a request taken leaves it.

use hashbrown::HashSet;
use tasklane_core::{CapabilitySet, Draft, Intent, Lane, QueueName, Spec, limits};
use tasklane_store::{Admit, Submission};
use tokio_postgres::types::Type;

use super::Session;
use crate::fault::Fault;
use crate::lanes::nameless;

impl Session<'_> {
    pub(crate) async fn admit_requested(&mut self, admits: &[Admit]) -> Result<Vec<bool>, Fault> {
        let numbers: Vec<i64> = admits.iter().map(|admit| admit.number as i64).collect();
        let sql = "SELECT number FROM request WHERE number = ANY($1)
                   ORDER BY number FOR UPDATE SKIP LOCKED";
        let found = self.transaction.query(sql, &[(&numbers, Type::INT8_ARRAY)]).await?;
        let ours: HashSet<u64> =
            found.iter().map(|row| row.get::<_, i64>(0).unsigned_abs()).collect();
        let ours = |admit: &&Admit| ours.contains(&admit.number);
        let (good, mut refused): (Vec<&Admit>, Vec<(&Draft, String)>) = (
            admits.iter().filter(ours).filter(|admit| admit.problem.is_none()).collect(),
            admits
                .iter()
                .filter(ours)
                .filter_map(|admit| Some((&admit.draft, admit.problem.as_ref()?.to_string())))
                .collect(),
        );
        // Each by itself: they came in different transactions.
        let submissions: Vec<Submission> =
            good.iter().map(|admit| Submission { tasks: vec![admit.draft.clone()] }).collect();
        for (admit, verdict) in good.iter().zip(self.submit(&submissions).await?) {
            if let Err(refusal) = verdict {
                refused.push((&admit.draft, refusal.problem.to_string()));
            }
        }
        for (draft, why) in refused {
            self.refuse(draft, &why).await?;
        }
        let taken: Vec<bool> = admits.iter().map(|admit| ours(&admit)).collect();
        let done: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
        let sql = "DELETE FROM request WHERE number = ANY($1)";
        self.transaction.execute(sql, &[(&done, Type::INT8_ARRAY)]).await?;
        Ok(taken)
    }

    /// Nobody waits for an answer, so it is kept as a dead letter that says why. It has neither time
    /// nor keys, which may be what was wrong with it, and its own id if nobody else has that.
    async fn refuse(&mut self, draft: &Draft, why: &str) -> Result<(), Fault> {
        let wanted = &draft.spec.lane;
        let lane = self.lane_for_refused(draft).await?;
        let why = match lane == *wanted {
            true => why.into(),
            false => format!("{why} (queue {}, type {})", wanted.queue, wanted.task_type),
        };
        let spec = Spec { lane, idempotency_key: None, ordering_key: None, ..draft.spec.clone() };
        let payload = draft.payload.clone();
        let plain = Draft { id: None, digest: None, spec, schedule: None, expires: None, payload };
        let id = match draft.id {
            Some(id) if !self.work.contains_key(&id) && self.peek(&[id]).await?.is_empty() => id,
            _ => self.shared.new_id(self.now),
        };
        self.admit_all(&[(id, &plain)]).await?;
        let refused = self.execute_one(id, &Intent::Refuse(why.into()), None).await?;
        refused.map(|_| ()).map_err(|refusal| Fault::Corrupt(refusal.to_string()))
    }

    /// Its own lane, unless that would be one too many: then one that is the same for all of these.
    async fn lane_for_refused(&self, draft: &Draft) -> Result<Lane, Fault> {
        let lane = &draft.spec.lane;
        let is_made = self.made.values().any(|made| made.lane == *lane);
        if is_made || self.lane_count(1).await? < limits::LANES_MAX {
            return Ok(lane.clone());
        }
        self.meet_lanes(std::iter::once(draft)).await?;
        if self.shared.lanes.find(lane).is_some() {
            return Ok(lane.clone());
        }
        let (queue, task_type) = (QueueName::default_queue(), nameless()?);
        Ok(Lane { queue, task_type, capabilities: CapabilitySet::default() })
    }
}
