//! Signs of life. A worker that renews all it holds costs one row, however much that is.

use hashbrown::{HashMap, HashSet};
use tasklane_core::{Health, LeaseToken, TaskId, Timestamp, WorkerId, WorkerState};
use tasklane_store::{LeaseRef, Leases, Renewal, Renewed, WorkerRefusal, codec};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::ON_ITS_OWN;
use crate::fault::Fault;
use crate::rows::{self, time, worker_id, worker_uuid};

struct Sign {
    state: WorkerState,
    health: Health,
    renewals: i64,
    renewed_until: Timestamp,
}

struct Held {
    worker: WorkerId,
    token: LeaseToken,
    is_cancelling: bool,
    since: i64,
    ends_at: Timestamp,
    is_changed: bool,
}

impl Session<'_> {
    pub(crate) async fn renew(
        &mut self,
        renewals: &[Renewal],
    ) -> Result<Vec<Result<Renewed, WorkerRefusal>>, Fault> {
        let mut signs = self.signs(renewals).await?;
        let mut held = self.held(renewals).await?;
        let mut verdicts = Vec::with_capacity(renewals.len());
        for renewal in renewals {
            verdicts.push(match signs.get_mut(&renewal.worker) {
                Some(sign) => Ok(self.renew_one(renewal, sign, &mut held)),
                None => Err(WorkerRefusal::Gone),
            });
        }
        self.write_signs(&signs).await?;
        self.write_held(&held).await?;
        Ok(verdicts)
    }

    fn renew_one(
        &self,
        renewal: &Renewal,
        sign: &mut Sign,
        held: &mut HashMap<TaskId, Held>,
    ) -> Renewed {
        sign.health = renewal.health.unwrap_or(sign.health);
        let mut own: Vec<LeaseRef> = held
            .iter()
            .filter(|(_, lease)| lease.worker == renewal.worker)
            .map(|(id, lease)| LeaseRef { task: *id, token: lease.token })
            .collect();
        own.sort_unstable_by_key(|lease| lease.task);
        let wanted = match &renewal.leases {
            Leases::All => &own,
            Leases::These(these) => these,
        };
        let mut renewed =
            Renewed { state: sign.state, held: 0, cancel: Vec::new(), lost: Vec::new() };
        let ends_at = self.now.plus(self.shared.rules.lease);
        let mut kept = HashSet::new();
        for wanted in wanted {
            let lease = held.get_mut(&wanted.task).filter(|lease| lease.token == wanted.token);
            let Some(lease) = lease else {
                renewed.lost.push(wanted.task);
                continue;
            };
            kept.insert(wanted.task);
            renewed.held += 1;
            if lease.is_cancelling {
                renewed.cancel.push(wanted.task);
            }
            if lease.worker != renewal.worker {
                // Named by another worker, which has its token: its own one's renewals say nothing.
                (lease.since, lease.ends_at) = (ON_ITS_OWN, ends_at);
                lease.is_changed = true;
            } else if lease.since == ON_ITS_OWN {
                lease.since = sign.renewals;
                lease.is_changed = true;
            }
        }
        // What is left out runs on towards its end, whatever its worker renews later.
        for lease in own.iter().filter(|lease| !kept.contains(&lease.task)) {
            let Some(lease) = held.get_mut(&lease.task) else { continue };
            if lease.since != ON_ITS_OWN {
                if sign.renewals > lease.since {
                    lease.ends_at = sign.renewed_until;
                }
                lease.since = ON_ITS_OWN;
                lease.is_changed = true;
            }
        }
        sign.renewals += 1;
        sign.renewed_until = ends_at;
        renewed
    }

    /// Workers that are known and not dead; their signs of life are locked.
    async fn signs(&self, renewals: &[Renewal]) -> Result<HashMap<WorkerId, Sign>, Fault> {
        let wanted: Vec<Uuid> =
            renewals.iter().map(|renewal| worker_uuid(renewal.worker)).collect();
        let sql = "SELECT a.worker, w.record, a.renewals, a.renewed_until, a.cpu_percent,
                          a.memory_percent, a.load
                   FROM alive a JOIN worker w ON w.worker = a.worker
                   WHERE a.worker = ANY($1) ORDER BY a.worker FOR UPDATE OF a";
        let mut signs = HashMap::new();
        for row in self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await? {
            let (_, state) = codec::decode_worker(row.get(1))?;
            if state == WorkerState::Dead {
                continue;
            }
            let load: Option<i64> = row.get(6);
            let health = Health {
                cpu_percent: row.get(4),
                memory_percent: row.get(5),
                load: load.and_then(|load| u32::try_from(load).ok()),
            };
            let (renewals, renewed_until) = (row.get(2), time(row.get(3)));
            signs.insert(worker_id(row.get(0)), Sign { state, health, renewals, renewed_until });
        }
        Ok(signs)
    }

    /// The leases of these workers, and those that are named.
    async fn held(&self, renewals: &[Renewal]) -> Result<HashMap<TaskId, Held>, Fault> {
        let workers: Vec<Uuid> =
            renewals.iter().map(|renewal| worker_uuid(renewal.worker)).collect();
        let named = renewals.iter().flat_map(|renewal| match &renewal.leases {
            Leases::All => &[][..],
            Leases::These(these) => these,
        });
        let named: Vec<Uuid> = named.map(|lease| rows::uuid(lease.task)).collect();
        let sql = "SELECT id, worker, token, cancelling, since, ends_at FROM lease
                   WHERE worker = ANY($1)
                   UNION
                   SELECT id, worker, token, cancelling, since, ends_at FROM lease
                   WHERE id = ANY($2)";
        let parameters = [(&workers as _, Type::UUID_ARRAY), (&named as _, Type::UUID_ARRAY)];
        let mut held = HashMap::new();
        for row in self.transaction.query(sql, &parameters).await? {
            let lease = Held {
                worker: worker_id(row.get(1)),
                token: LeaseToken::from_bytes(row.get::<_, Uuid>(2).into_bytes()),
                is_cancelling: row.get(3),
                since: row.get(4),
                ends_at: time(row.get(5)),
                is_changed: false,
            };
            held.insert(rows::task_id(row.get(0))?, lease);
        }
        Ok(held)
    }

    async fn write_signs(&self, signs: &HashMap<WorkerId, Sign>) -> Result<(), Fault> {
        let ids: Vec<Uuid> = signs.keys().map(|id| worker_uuid(*id)).collect();
        let renewals: Vec<i64> = signs.values().map(|sign| sign.renewals).collect();
        let until: Vec<i64> = signs.values().map(|sign| sign.renewed_until.as_micros()).collect();
        let cpu: Vec<Option<f32>> = signs.values().map(|sign| sign.health.cpu_percent).collect();
        let memory: Vec<Option<f32>> =
            signs.values().map(|sign| sign.health.memory_percent).collect();
        let load: Vec<Option<i64>> =
            signs.values().map(|sign| sign.health.load.map(i64::from)).collect();
        let now = self.now.as_micros();
        let sql = "UPDATE alive a SET seen_at = $7, renewals = n.renewals, renewed_until = n.until,
                   cpu_percent = n.cpu, memory_percent = n.memory, load = n.load
                   FROM unnest($1, $2, $3, $4, $5, $6)
                       AS n(worker, renewals, until, cpu, memory, load)
                   WHERE a.worker = n.worker";
        let parameters = [
            (&ids as _, Type::UUID_ARRAY),
            (&renewals as _, Type::INT8_ARRAY),
            (&until as _, Type::INT8_ARRAY),
            (&cpu as _, Type::FLOAT4_ARRAY),
            (&memory as _, Type::FLOAT4_ARRAY),
            (&load as _, Type::INT8_ARRAY),
            (&now as _, Type::INT8),
        ];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }

    async fn write_held(&self, held: &HashMap<TaskId, Held>) -> Result<(), Fault> {
        let mut changed: Vec<_> = held.iter().filter(|(_, lease)| lease.is_changed).collect();
        if changed.is_empty() {
            return Ok(());
        }
        changed.sort_unstable_by_key(|(id, _)| **id);
        let ids: Vec<Uuid> = changed.iter().map(|(id, _)| rows::uuid(**id)).collect();
        let tokens: Vec<Uuid> =
            changed.iter().map(|(_, lease)| Uuid::from_bytes(*lease.token.as_bytes())).collect();
        let since: Vec<i64> = changed.iter().map(|(_, lease)| lease.since).collect();
        let ends: Vec<i64> = changed.iter().map(|(_, lease)| lease.ends_at.as_micros()).collect();
        let sql = "UPDATE lease l SET since = n.since, ends_at = n.ends_at
                   FROM unnest($1, $2, $3, $4) AS n(id, token, since, ends_at)
                   WHERE l.id = n.id AND l.token = n.token";
        let parameters = [
            (&ids as _, Type::UUID_ARRAY),
            (&tokens as _, Type::UUID_ARRAY),
            (&since as _, Type::INT8_ARRAY),
            (&ends as _, Type::INT8_ARRAY),
        ];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }
}
