//! Looks for contradictions (S18): each task against its trail and every index it should be in.

use bytes::Bytes;
use hashbrown::HashMap;
use tasklane_core::{Priority, State, StateName, TaskId, WorkerId, trail};
use tasklane_store::Finding;

use super::stats::count;
use crate::catalog::Catalog;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::stored::Stored;
use crate::value;

/// Tasks looked at in one go.
const TASKS_AT_ONCE: usize = 100;
/// Lanes and workers looked at in one go.
const FIRSTS_AT_ONCE: usize = 500;
/// How often a look is repeated because something was written in between.
const LOOKS_MAX: usize = 5;

type Counted = HashMap<(u32, Priority), [u64; StateName::COUNT]>;

impl Shared {
    pub(crate) async fn check(&self) -> Result<Vec<Finding>, Fault> {
        let damages = self.damages();
        let (begin, _) = self.look(Vec::new()).await?;
        let mut findings = Vec::new();
        let mut counted = Counted::new();
        let mut before = None;
        loop {
            let ids = self.ids_before(before).await?;
            let Some(last) = ids.last() else { break };
            before = Some(*last.as_bytes());
            for ids in ids.chunks(TASKS_AT_ONCE) {
                self.check_tasks(ids, &mut counted, &mut findings).await?;
            }
        }
        self.check_firsts(&mut findings).await?;
        let counts = Read::plain("HGETALL", Key::Counts, []);
        let (end, _) = self.look(vec![counts.clone()]).await?;
        // Counters can be compared only if nothing has happened meanwhile.
        if begin.meta.version == end.meta.version {
            let mut stored = count(end.plain(&counts).cloned())?;
            stored.retain(|_, counts| counts.iter().any(|count| *count > 0));
            if stored != counted {
                let problem = "they do not count what there is".into();
                findings.push(Finding { place: "counters".into(), problem });
            }
            if findings.is_empty() {
                self.disprove(damages);
            }
        }
        Ok(findings)
    }

    /// Whether lanes and leases begin where they are said to begin.
    async fn check_firsts(&self, findings: &mut Vec<Finding>) -> Result<(), Fault> {
        let alive = Read::plain("HKEYS", Key::Workers, []);
        let (snapshot, catalog) = self.look(vec![alive.clone()]).await?;
        let mut firsts = Vec::new();
        for lane in 0..u32::try_from(catalog.lane_count()).unwrap_or(u32::MAX) {
            let queue = catalog.lane_and_queue(lane)?.1;
            for priority in Priority::DESCENDING {
                let noted = vec![lane.to_string().into_bytes()];
                let noted = Read::Plain("ZSCORE", Key::Heads(queue, priority), noted);
                firsts.push((Key::Lane(lane, priority), noted));
            }
        }
        let workers = value::strings(snapshot.plain(&alive).cloned().unwrap_or_default())?;
        for worker in workers {
            if let Ok(id) = <[u8; 16]>::try_from(&worker[..]) {
                let noted = Read::Plain("ZSCORE", Key::Leases, vec![worker.to_vec()]);
                firsts.push((Key::Held(WorkerId::from_bytes(id)), noted));
            }
        }
        let first = |key: &Key| Read::plain("ZRANGE", key.clone(), ["0", "0", "WITHSCORES"]);
        for firsts in firsts.chunks(FIRSTS_AT_ONCE) {
            let reads = firsts.iter().flat_map(|(key, noted)| [first(key), noted.clone()]);
            let (snapshot, _) = self.look(reads.collect()).await?;
            let answer = |read: &Read| snapshot.plain(read).cloned().unwrap_or_default();
            for (key, noted) in firsts {
                let there = value::scored(answer(&first(key)))?.first().map(|(at, _)| *at);
                let noted = value::bytes(answer(noted))?;
                let noted = noted.map(|score| value::number(&score)).transpose()?;
                if there != noted {
                    let problem = format!("begins at {there:?}, but {noted:?} is noted");
                    findings.push(Finding { place: format!("{key:?}"), problem });
                }
            }
        }
        Ok(())
    }

    async fn check_tasks(
        &self,
        ids: &[TaskId],
        counted: &mut Counted,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Fault> {
        for _ in 0..LOOKS_MAX {
            let found = self.tasks(ids, false).await?;
            let absent = ids.iter().zip(&found).filter(|(_, found)| found.is_none());
            let absent: Vec<_> = absent.map(|(id, _)| *id).collect();
            let all = found.into_iter().flatten().map(|(stored, _)| stored).collect::<Vec<_>>();
            let catalog = self.catalog();
            let reads = all.iter().map(|stored| reads_of(stored, &catalog));
            let reads = reads.collect::<Result<Vec<_>, _>>()?;
            let fields = all.iter().flat_map(|stored| fields_of(stored.task.id));
            let every = reads.iter().flatten().map(|(read, _)| read.clone()).chain(fields);
            let every = every.chain(absent.iter().flat_map(|id| reads_of_absent(*id)));
            let (snapshot, catalog) = self.look(every.collect()).await?;
            let came = |id: &TaskId| task_field(*id, &snapshot).is_some();
            if absent.iter().any(came) || all.iter().any(|stored| !is_same(stored, &snapshot)) {
                continue;
            }
            for id in absent {
                findings.extend(finding_of_absent(id, &snapshot)?);
            }
            for (stored, reads) in all.iter().zip(&reads) {
                let key = (stored.lane, stored.task.spec.priority);
                let counts = counted.entry(key).or_default();
                if let Some(count) = counts.get_mut(stored.task.state.name().index()) {
                    *count += 1;
                }
                let problem = problem_of(stored, reads, &snapshot, &catalog)?;
                let place = format!("task {}", stored.task.id);
                findings.extend(problem.map(|problem| Finding { place, problem }));
            }
            return Ok(());
        }
        Ok(())
    }
}

fn fields_of(id: TaskId) -> [Read; 3] {
    let field = |key| Read::Field(key, id.as_bytes().to_vec());
    [field(Key::Task), field(Key::Record), field(Key::Trail)]
}

/// The block of the index that an id belongs to, and what should be there for it.
fn reads_of_absent(id: TaskId) -> [Read; 2] {
    let block = Read::Blocks { from: *id.as_bytes(), count: 1 };
    [block, Read::Field(Key::Task, id.as_bytes().to_vec())]
}

fn task_field(id: TaskId, snapshot: &Snapshot) -> Option<Bytes> {
    snapshot.field(&Key::Task, id.as_bytes()).cloned().flatten()
}

/// Of a task that is not there: whether it is still in the index, or was removed since it was listed.
fn finding_of_absent(id: TaskId, snapshot: &Snapshot) -> Result<Option<Finding>, Fault> {
    let [block, _] = reads_of_absent(id);
    for block in value::array(snapshot.plain(&block).cloned().unwrap_or_default())? {
        let ids = value::bytes(block)?.unwrap_or_default();
        if ids.chunks_exact(16).any(|listed| listed == id.as_bytes()) {
            let problem = "listed, but there is no such task".into();
            return Ok(Some(Finding { place: format!("task {id}"), problem }));
        }
    }
    Ok(None)
}

/// Whether a task has not changed between two looks.
fn is_same(stored: &Stored, snapshot: &Snapshot) -> bool {
    let id = stored.task.id;
    let record = snapshot.field(&Key::Record, id.as_bytes()).cloned().flatten();
    let fresh = stored.pack_record();
    task_field(id, snapshot).is_some() && record.is_none_or(|record: Bytes| record[..] == fresh[..])
}

/// What should be there besides a task, and what is wrong if it is not.
fn reads_of(stored: &Stored, catalog: &Catalog) -> Result<Vec<(Read, &'static str)>, Fault> {
    let task = &stored.task;
    let (id, queue) = (task.id.as_bytes().to_vec(), catalog.lane_and_queue(stored.lane)?.1);
    let scored = |key: Key, member: Vec<u8>| Read::Plain("ZSCORE", key, vec![member]);
    let mut reads = Vec::new();
    match &task.state {
        State::Pending { .. } => {
            let mut member = task.place.sequence.0.to_be_bytes().to_vec();
            member.extend(&id);
            let lane = Key::Lane(stored.lane, task.spec.priority);
            reads.push((scored(lane, member), "pending, but not in its lane"));
        }
        State::Assigned(lease) | State::Running(lease) => {
            let held = scored(Key::Held(lease.worker), id.clone());
            reads.push((held, "held, but not by its worker"));
            let worker = lease.worker.as_bytes().to_vec();
            reads.push((scored(Key::Leases, worker), "held, but its worker has no deadline"));
        }
        state => {
            let ended = Key::Ended(state.name(), queue);
            if let Some(at) = state.ended().map(|ended| ended.at.as_micros().to_string()) {
                let same_time = Read::plain("ZRANGEBYSCORE", ended, [&at, &at]);
                reads.push((same_time, "not listed among the ended"));
            }
        }
    }
    if let (Some(ordering), false) = (&task.spec.ordering_key, task.state.name().is_terminal()) {
        let line = Key::Line(queue, ordering.as_str().into());
        reads.push((scored(line, id), "not among the tasks of its ordering key"));
    }
    Ok(reads)
}

fn problem_of(
    stored: &Stored,
    reads: &[(Read, &'static str)],
    snapshot: &Snapshot,
    catalog: &Catalog,
) -> Result<Option<String>, Fault> {
    for (read, problem) in reads {
        let answer = snapshot.plain(read).cloned().unwrap_or_default();
        let there = match read {
            Read::Plain("ZRANGEBYSCORE", ..) => {
                let lists = value::strings(answer)?;
                let own = |id: &[u8]| id == stored.task.id.as_bytes();
                lists.iter().any(|ids| ids.chunks(16).any(own))
            }
            _ => value::bytes(answer)?.is_some(),
        };
        if !there {
            return Ok(Some((*problem).into()));
        }
    }
    let id = stored.task.id;
    let packed = task_field(id, snapshot).unwrap_or_default();
    let admitted = Stored::unpack_task(id, &packed, catalog)?;
    let apart = || snapshot.field(&Key::Trail, id.as_bytes()).cloned().flatten();
    let entries = stored.entries.or_read(apart);
    let entries = trail::whole(&stored.task, crate::trail::unpack(entries)?);
    let (spec, admission) = (admitted.task.spec, admitted.task.admission);
    Ok(match trail::replay(id, spec, admission, &entries) {
        _ if stored.cut => None,
        Ok(replayed) if trail::agrees(&stored.task, &replayed) => None,
        Ok(replayed) => Some(format!("its trail leads to {replayed:?}")),
        Err(illegal) => Some(illegal.to_string()),
    })
}
