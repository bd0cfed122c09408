//! Signs of life. A worker that renews all its leases costs one field, however many they are.

use bytes::{Buf, BufMut, Bytes};
use tasklane_core::{Health, TaskId};
use tasklane_store::{LeaseRef, Leases, Renewal, WorkerRefusal};

use super::Session;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::stored::{Renewed, task_id};
use crate::value;

impl Session<'_> {
    pub(crate) fn renew(
        &mut self,
        renewals: &[Renewal],
    ) -> Result<Vec<Result<tasklane_store::Renewed, WorkerRefusal>>, Fault> {
        renewals.iter().map(|renewal| self.renew_one(renewal)).collect()
    }

    fn renew_one(
        &mut self,
        renewal: &Renewal,
    ) -> Result<Result<tasklane_store::Renewed, WorkerRefusal>, Fault> {
        let (id, count) = (renewal.worker, self.held_count(renewal.worker)?);
        let Some(worker) = self.hear(id)? else { return Ok(Err(WorkerRefusal::Gone)) };
        if let Some(health) = &renewal.health {
            self.writes.set(Key::Health, *id.as_bytes(), pack_health(health));
        }
        let mut renewed = tasklane_store::Renewed {
            state: worker.state,
            held: 0,
            cancel: Vec::new(),
            lost: Vec::new(),
        };
        match &renewal.leases {
            Leases::All => {
                renewed.held = count;
                renewed.cancel = self.asked_to_stop(renewal)?;
                self.renew_all(renewal)?;
            }
            Leases::These(leases) => self.renew_these(renewal, leases, count, &mut renewed)?,
        }
        Ok(Ok(renewed))
    }

    /// One field for all leases of a worker; what is overdue looks there. But where the clock has
    /// stepped back, leases would be looked at too late: then each is noted by itself.
    fn renew_all(&mut self, renewal: &Renewal) -> Result<(), Fault> {
        if self.now < self.snapshot.meta.latest {
            for id in self.held_by(renewal.worker)? {
                self.renew_lease(id, self.renewed_now())?;
            }
            return Ok(());
        }
        let mut packed = Vec::with_capacity(Renewed::BYTES);
        self.renewed_now().pack(&mut packed);
        self.writes.set(Key::Renewed, *renewal.worker.as_bytes(), packed);
        Ok(())
    }

    fn renew_these(
        &mut self,
        renewal: &Renewal,
        leases: &[LeaseRef],
        count: usize,
        renewed: &mut tasklane_store::Renewed,
    ) -> Result<(), Fault> {
        let mut own = Vec::new();
        let mut others = Vec::new();
        for wanted in leases {
            let stored = self.task(wanted.task)?;
            let lease = stored.and_then(|stored| stored.task.state.lease().copied());
            let Some(lease) = lease.filter(|lease| lease.token == wanted.token) else {
                renewed.lost.push(wanted.task);
                continue;
            };
            renewed.held += 1;
            if lease.cancel_requested.is_some() {
                renewed.cancel.push(wanted.task);
            }
            let list = if lease.worker == renewal.worker { &mut own } else { &mut others };
            list.push(wanted.task);
        }
        own.sort_unstable();
        own.dedup();
        if own.len() == count {
            self.renew_all(renewal)?;
        } else {
            others.extend(own);
        }
        let renewed = self.renewed_now();
        others.into_iter().try_for_each(|id| self.renew_lease(id, renewed))
    }

    /// Renews one lease by itself, unless that was done later.
    pub(super) fn renew_lease(&mut self, id: TaskId, renewed: Renewed) -> Result<(), Fault> {
        self.task(id)?;
        let Some(Some(mut stored)) = self.tasks.remove(&id) else { return Ok(()) };
        if let Some(lease) = stored.task.state.lease()
            && stored.renewed < renewed
        {
            let next = self.next_deadline(&stored, lease, renewed.at);
            self.writes.hold(lease.worker, id, Some(next));
            stored.renewed = renewed;
            self.writes.set(Key::Record, *id.as_bytes(), stored.pack_record());
        }
        self.tasks.insert(id, Some(stored));
        Ok(())
    }

    /// Tasks of a worker that should stop.
    fn asked_to_stop(&mut self, renewal: &Renewal) -> Result<Vec<TaskId>, Fault> {
        let held = Key::Held(renewal.worker);
        let changed =
            self.writes.scores(&held).is_some() || self.writes.members(&Key::Cancel).is_some();
        if changed {
            let asked = self.members(&Key::Cancel)?;
            let mut held = self.held_by(renewal.worker)?;
            held.retain(|id| asked.binary_search_by(|asked| asked[..].cmp(id.as_bytes())).is_ok());
            return Ok(held);
        }
        let mut members = value::strings(self.plain(Read::Common(held, Key::Cancel)))?;
        members.sort_unstable();
        members.iter().map(|member| task_id(member)).collect()
    }
}

fn pack_health(health: &Health) -> Vec<u8> {
    let mut packed = Vec::with_capacity(15);
    let numbers = [
        health.cpu_percent.map(f32::to_bits),
        health.memory_percent.map(f32::to_bits),
        health.load,
    ];
    for number in numbers {
        packed.put_u8(u8::from(number.is_some()));
        packed.put_u32(number.unwrap_or_default());
    }
    packed
}

pub(crate) fn unpack_health(mut packed: Bytes) -> Result<Health, Fault> {
    if packed.len() != 15 {
        return Err(Fault::Corrupt("a worker's health is not one".into()));
    }
    let mut next = || {
        let there = packed.get_u8() != 0;
        Some(packed.get_u32()).filter(|_| there)
    };
    let (cpu, memory, load) = (next(), next(), next());
    let percent = |bits: Option<u32>| bits.map(f32::from_bits);
    Ok(Health { cpu_percent: percent(cpu), memory_percent: percent(memory), load })
}
