//! Handing tasks to workers, in the order of S8.

use bytes::Bytes;
use hashbrown::HashMap;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{
    Intent, QueueSettings, Selection, TaskId, WorkerId, WorkerSpec, WorkerState, limits,
};
use tasklane_store::{ClaimRequest, Claimed, WorkerRefusal, codec};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::Home;
use super::look::SERVED;
use super::stream::{Head, Next, Streams};
use crate::fault::Fault;
use crate::rows::{self, worker_id, worker_uuid};

/// A worker as claims see it.
#[derive(Debug, Clone)]
pub(crate) struct Claimer {
    spec: WorkerSpec,
    state: WorkerState,
    /// That it has by now.
    pub(super) leases: i64,
    renewals: i64,
}

/// Workers of a call, one after the other, that take the same.
struct Party<'r> {
    selection: Selection,
    /// With their places in the call, and what each may have if those before it get all they ask for.
    members: Vec<(usize, &'r ClaimRequest, usize)>,
}

impl Claimer {
    /// How many it may have by a request, by now.
    fn wanted(&self, request: &ClaimRequest) -> usize {
        let held = usize::try_from(self.leases).unwrap_or_default();
        let free = (self.spec.capacity as usize).saturating_sub(held);
        request.count.min(free).min(limits::CLAIM_TASKS_MAX)
    }
}

impl Session<'_> {
    pub(crate) async fn claim(
        &mut self,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Result<Vec<TaskId>, WorkerRefusal>>, Fault> {
        self.hear(requests).await?;
        let known = |request: &ClaimRequest| self.heard.contains_key(&request.worker);
        let mut verdicts: Vec<_> = requests
            .iter()
            .map(|request| if known(request) { Ok(Vec::new()) } else { Err(WorkerRefusal::Gone) })
            .collect();
        let parties = self.parties(requests);
        if parties.is_empty() {
            return Ok(verdicts);
        }
        let settings = self.queue_settings().await?;
        let mut bytes = 0;
        for party in parties {
            self.claim_for(&party, &settings, &mut bytes, &mut verdicts).await?;
        }
        Ok(verdicts)
    }

    /// Tasks as they are handed out, once their numbers are drawn.
    pub(crate) fn handed(&self, ids: &[TaskId]) -> Result<Vec<Claimed>, Fault> {
        let handed = ids.iter().map(|id| {
            let subject = self.subject(*id)?;
            let mut task = subject.task.clone();
            self.renumber(&mut task);
            let payload = subject.payload.clone().unwrap_or_default();
            Ok(Claimed { task, payload, lease: self.shared.rules.lease })
        });
        handed.collect()
    }

    /// Locks workers that are known and not dead, and notes a sign of life; those that were heard
    /// already are. Their leases are counted after that, so that claims under way together do not
    /// share room. In the same go, asks how queues are to be served.
    pub(crate) async fn hear(&mut self, requests: &[ClaimRequest]) -> Result<(), Fault> {
        let mut wanted: Vec<WorkerId> = requests
            .iter()
            .map(|request| request.worker)
            .filter(|worker| !self.heard.contains_key(worker))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(());
        }
        let floors: Vec<i64> =
            wanted.iter().map(|worker| self.shared.floors.of_leases(*worker)).collect();
        let workers: Vec<Uuid> = wanted.iter().map(|worker| worker_uuid(*worker)).collect();
        let now = self.now.as_micros();
        let parameters = [
            (&workers as _, Type::UUID_ARRAY),
            (&floors as _, Type::INT8_ARRAY),
            (&now as _, Type::INT8),
        ];
        let hear = ("SELECT * FROM hear($1, $2, $3)", &parameters[..]);
        let (heard, served) = self.transaction.query_both(hear, (SERVED, &[])).await?;
        self.served = Some(served);
        for row in heard {
            let worker = worker_id(row.get(0));
            let (spec, state) = codec::decode_worker(row.get(1))?;
            let note = || self.shared.floors.note_leases(worker, row.get(4), self.now);
            self.shared.timeline.remember(self.transaction.timeline, note);
            let claimer = Claimer { spec, state, leases: row.get(3), renewals: row.get(2) };
            self.heard.insert(worker, claimer);
        }
        Ok(())
    }

    /// Who may have something, in order; those together that take the same.
    fn parties<'r>(&self, requests: &'r [ClaimRequest]) -> Vec<Party<'r>> {
        let mut parties: Vec<Party<'r>> = Vec::new();
        let mut promised: HashMap<WorkerId, usize> = HashMap::new();
        for (at, request) in requests.iter().enumerate() {
            let Some(claimer) = self.heard.get(&request.worker) else { continue };
            if claimer.state != WorkerState::Active || claimer.wanted(request) == 0 {
                continue;
            }
            let promised = promised.entry(request.worker).or_default();
            let wanted = claimer.wanted(request).saturating_sub(*promised);
            *promised += wanted;
            let mut selection = claimer.spec.selection.clone();
            if let Some(narrowed) = &request.narrowed {
                selection.capabilities = selection.capabilities.intersection(narrowed);
            }
            let member = (at, request, wanted);
            match parties.last_mut() {
                Some(party) if party.selection == selection => party.members.push(member),
                _ => parties.push(Party { selection, members: vec![member] }),
            }
        }
        parties
    }

    async fn claim_for(
        &mut self,
        party: &Party<'_>,
        settings: &HashMap<i32, QueueSettings>,
        bytes: &mut usize,
        verdicts: &mut [Result<Vec<TaskId>, WorkerRefusal>],
    ) -> Result<(), Fault> {
        let mut streams = self.streams(&party.selection, settings).await?;
        // Not pending any more, whatever the tables still say.
        let were = |id: &&TaskId| self.work.get(*id).is_some_and(|known| known.home == Home::Pend);
        streams.seen.extend(self.changed.iter().filter(were));
        let mut later: usize = party.members.iter().map(|(_, _, wanted)| wanted).sum();
        for (at, request, wanted) in &party.members {
            later -= wanted;
            let claimed = self.claim_one(request, later, &mut streams, bytes).await?;
            if let Some(verdict) = verdicts.get_mut(*at) {
                *verdict = Ok(claimed);
            }
        }
        self.outcome.floors.extend(streams.floors(self.now));
        self.outcome.rotation = Some(streams.rotation);
        Ok(())
    }

    /// `later` is what those after this worker would have.
    async fn claim_one(
        &mut self,
        request: &ClaimRequest,
        later: usize,
        streams: &mut Streams,
        bytes: &mut usize,
    ) -> Result<Vec<TaskId>, Fault> {
        let most = self.heard.get(&request.worker).map_or(0, |claimer| claimer.wanted(request));
        let mut claimed = Vec::new();
        let mut set_aside = Vec::new();
        // Tasks passed because they are too late or withheld: a slice of them and no more (S21).
        let mut passed = 0;
        while claimed.len() < most
            && passed < limits::SLICE_TASKS
            && (claimed.is_empty() || *bytes < limits::CLAIM_BYTES_MAX)
        {
            let at = match streams.next() {
                Next::Stream(at) => at,
                Next::Nothing => break,
                Next::Unknown => {
                    self.look_behind(streams).await?;
                    continue;
                }
                Next::Unread => {
                    self.read_streams(streams, most - claimed.len() + later).await?;
                    continue;
                }
            };
            let Some(head) = streams.take(at) else { break };
            if head.is_expired(self.now) {
                passed += 1;
                if self.expire(head.id).await? {
                    streams.read_anew();
                }
            } else if head.is_withheld(request.worker, self.now) {
                passed += 1;
                set_aside.push((at, head));
            } else {
                self.hand_over(&head, request, streams)?;
                streams.claimed(at, &head);
                *bytes += head.bytes;
                claimed.push(head.id);
            }
        }
        streams.put_back(set_aside);
        self.fetch_payloads(&claimed).await?;
        Ok(claimed)
    }

    fn hand_over(
        &mut self,
        head: &Head,
        request: &ClaimRequest,
        streams: &Streams,
    ) -> Result<(), Fault> {
        let subject = self.subject(head.id)?;
        let order = streams.settings.get(&subject.queue).map(|settings| settings.order);
        let claim = lifecycle::claim(
            &subject.task,
            request.worker,
            request.auto_start,
            &order.unwrap_or_default(),
            self.now,
            &mut self.random(),
        );
        let claim = claim.map_err(|refusal| Fault::Corrupt(refusal.to_string()))?;
        if let Some(promoted) = claim.promoted {
            self.change(head.id, promoted, None)?;
        }
        let renewals = self.heard.get(&request.worker).map(|claimer| claimer.renewals);
        if let Some(subject) = self.work.get_mut(&head.id) {
            subject.lease.renewals = renewals.unwrap_or_default();
        }
        self.change(head.id, claim.claimed, None)?;
        Ok(())
    }

    /// Reads the payloads that have a table of their own.
    async fn fetch_payloads(&mut self, claimed: &[TaskId]) -> Result<(), Fault> {
        let lacks = |id: &&TaskId| self.work.get(*id).is_some_and(|known| known.payload.is_none());
        let apart: Vec<Uuid> = claimed.iter().filter(lacks).map(|id| rows::uuid(*id)).collect();
        if apart.is_empty() {
            return Ok(());
        }
        let sql = "SELECT id, payload FROM body WHERE id = ANY($1)";
        for row in self.transaction.query(sql, &[(&apart, Type::UUID_ARRAY)]).await? {
            if let Some(subject) = self.work.get_mut(&rows::task_id(row.get(0))?) {
                subject.payload = Some(Bytes::copy_from_slice(row.get(1)));
            }
        }
        Ok(())
    }

    /// A claim met it before maintenance did. Says whether that let another one go on.
    async fn expire(&mut self, id: TaskId) -> Result<bool, Fault> {
        let moment = Moment {
            now: self.now,
            rules: &self.shared.rules,
            elapsed: Elapsed::default(),
            key_free: false,
        };
        let task = &self.subject(id)?.task;
        let decision = lifecycle::decide(task, &Intent::Expire, &moment, &mut self.random());
        let Ok(Decision::Change(event)) = decision else { return Ok(false) };
        let before = self.outcome.claimable;
        self.happen(id, event, None).await?;
        let freed = self.outcome.claimable > before;
        if freed {
            self.flush().await?;
        }
        Ok(freed)
    }
}
