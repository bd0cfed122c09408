//! Looking for contradictions (S18): every task against its trail, its rows and the counters.

use hashbrown::HashMap;
use tasklane_core::{Chain, StateName, TaskId, trail};
use tasklane_store::{Finding, codec};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::View;
use crate::fault::Fault;
use crate::rows::{self, Loaded};

/// Findings reported at most.
const FINDINGS_MAX: usize = 1_000;
/// Tasks looked at in one go.
const READ_AT_ONCE: i64 = 1_000;

/// Every task with where it is: id, lane, spec, record, then whether it is in pend, wait, lease and
/// history with what its record says.
const TASKS: &str = "
    SELECT * FROM (
        (SELECT t.id, t.lane, t.spec, coalesce(p.record, w.record, l.record) AS record,
                p.id IS NOT NULL AS pend, w.id IS NOT NULL AS wait, l.id IS NOT NULL AS lease,
                NULL::int2 AS state, p.priority, p.ready_at, p.sequence, l.token, w.due_at
         FROM (SELECT * FROM task WHERE id > $1 ORDER BY id LIMIT $2) t
         LEFT JOIN pend p ON p.id = t.id LEFT JOIN wait w ON w.id = t.id
         LEFT JOIN lease l ON l.id = t.id)
        UNION ALL
        (SELECT id, lane, spec, record, false, false, false, state, priority, ended_at,
                ended_number, NULL, NULL
         FROM history WHERE id > $1 ORDER BY id LIMIT $2)
    ) every ORDER BY id LIMIT $2";

/// Rows of tasks that are not where they should be.
const STRAYS: [(&str, &str); 6] = [
    (
        "pend",
        "SELECT count(*) FROM pend x WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = x.id)",
    ),
    (
        "wait",
        "SELECT count(*) FROM wait x WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = x.id)",
    ),
    (
        "lease",
        "SELECT count(*) FROM lease x WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = x.id)",
    ),
    (
        "ordered",
        "SELECT count(*) FROM ordered x WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = x.id)",
    ),
    (
        "trail",
        "SELECT count(*) FROM trail x WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = x.id)
         AND NOT EXISTS (SELECT 1 FROM history h WHERE h.id = x.id)",
    ),
    (
        "body",
        "SELECT count(*) FROM body x WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = x.id)
         AND NOT EXISTS (SELECT 1 FROM history h WHERE h.id = x.id)",
    ),
];

#[derive(Default)]
struct Check {
    findings: Vec<Finding>,
    /// Lane, priority, state → tasks found.
    counts: HashMap<(i32, i16, i16), i64>,
    ordered: i64,
}

impl Check {
    fn find(&mut self, place: &str, problem: String) {
        self.findings.push(Finding { place: place.into(), problem });
    }
}

impl View<'_> {
    pub(crate) async fn check(&self) -> Result<Vec<Finding>, Fault> {
        let mut check = Check::default();
        let mut after = Uuid::nil();
        while check.findings.len() < FINDINGS_MAX {
            let parameters = [(&after as _, Type::UUID), (&READ_AT_ONCE as _, Type::INT8)];
            let found = self.transaction.query(TASKS, &parameters).await?;
            let Some(last) = found.last() else { break };
            after = last.get(0);
            self.check_tasks(&found, &mut check).await?;
        }
        self.check_counters(&mut check).await?;
        self.check_strays(&mut check).await?;
        self.check_audit(&mut check).await?;
        check.findings.truncate(FINDINGS_MAX);
        Ok(check.findings)
    }

    async fn check_tasks(&self, found: &[Row], check: &mut Check) -> Result<(), Fault> {
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(1))).await?;
        let ids: Vec<Uuid> = found.iter().map(|row| row.get(0)).collect();
        let mut trails = self.entries(&ids).await?;
        let holders = self.holders(&ids).await?;
        for row in found {
            let (id, lane): (Uuid, i32) = (row.get(0), row.get(1));
            let place = format!("task {id}");
            let known = self.shared.lanes.get(lane);
            let loaded = match rows::unpack(id, known, row.get(2), row.get(3)) {
                Ok(loaded) => loaded,
                Err(fault) => {
                    check.find(&place, fault.to_string());
                    continue;
                }
            };
            let state = loaded.task.state.name();
            let counter =
                (lane, i16::from(loaded.task.spec.priority.number()), state.index() as i16);
            *check.counts.entry(counter).or_default() += 1;
            let has_key = loaded.task.spec.ordering_key.is_some() && !state.is_terminal();
            check.ordered += i64::from(has_key);
            let holds = holders.get(&loaded.task.id).copied();
            if has_key && holds.is_none_or(|holds| holds == (state == StateName::Blocked)) {
                check.find(&place, format!("{state}, which its ordering key does not say"));
            }
            let trail = trails.remove(&loaded.task.id).unwrap_or_default();
            if let Some(problem) = misled(&loaded, trail) {
                check.find(&place, problem);
            }
            if let Some(problem) = misplaced(&loaded, row) {
                check.find(&place, problem);
            }
        }
        Ok(())
    }

    /// For tasks with an ordering key: whether they are the first of it.
    async fn holders(&self, ids: &[Uuid]) -> Result<HashMap<TaskId, bool>, Fault> {
        let sql = "SELECT o.id, NOT EXISTS (
                       SELECT 1 FROM ordered b WHERE b.queue = o.queue AND b.key = o.key
                       AND b.sequence < o.sequence)
                   FROM ordered o WHERE o.id = ANY($1)";
        let found = self.transaction.query(sql, &[(&ids, Type::UUID_ARRAY)]).await?;
        found.iter().map(|row| Ok((rows::task_id(row.get(0))?, row.get(1)))).collect()
    }

    async fn check_counters(&self, check: &mut Check) -> Result<(), Fault> {
        let sql = "SELECT lane, priority, state, sum(count)::int8 FROM (
                       SELECT lane, priority, state, count FROM tally
                       UNION ALL SELECT lane, priority, state, change FROM delta) c
                   GROUP BY lane, priority, state";
        for row in self.transaction.query(sql, &[]).await? {
            let counter: (i32, i16, i16) = (row.get(0), row.get(1), row.get(2));
            let (counted, there): (i64, i64) =
                (row.get(3), check.counts.remove(&counter).unwrap_or_default());
            if counted != there {
                let place = format!("tally of lane {}, priority {}", counter.0, counter.1);
                check.find(&place, format!("state {}: {counted}, but {there} tasks", counter.2));
            }
        }
        for ((lane, priority, state), there) in std::mem::take(&mut check.counts) {
            let place = format!("tally of lane {lane}, priority {priority}");
            check.find(&place, format!("state {state} is not counted, but {there} tasks"));
        }
        Ok(())
    }

    async fn check_strays(&self, check: &mut Check) -> Result<(), Fault> {
        for (table, sql) in STRAYS {
            let strays: i64 = self.transaction.one(sql, &[]).await?.get(0);
            if strays > 0 {
                check.find(table, format!("{strays} rows of tasks that are not there"));
            }
        }
        let ordered: i64 = self.transaction.one("SELECT count(*) FROM ordered", &[]).await?.get(0);
        if ordered != check.ordered {
            check.find("ordered", format!("{ordered} rows, but {} tasks", check.ordered));
        }
        let sql = "SELECT count(*) FROM ordering_key k WHERE NOT EXISTS (
                       SELECT 1 FROM ordered o WHERE o.queue = k.queue AND o.key = k.key)";
        let unused: i64 = self.transaction.one(sql, &[]).await?.get(0);
        if unused > 0 {
            check.find("ordering_key", format!("{unused} keys that no task has"));
        }
        Ok(())
    }

    /// The audit log is one chain.
    async fn check_audit(&self, check: &mut Check) -> Result<(), Fault> {
        let mut chain = Chain::default();
        let found = self.transaction.query("SELECT record FROM audit ORDER BY number", &[]).await?;
        for row in found {
            if let Err(broken) = chain.follow(&codec::decode_audit(row.get(0))?) {
                check.find("audit", broken.to_string());
                break;
            }
        }
        Ok(())
    }
}

/// A task that is not where its trail leads.
fn misled(loaded: &Loaded, trail: (Vec<tasklane_core::Entry>, bool)) -> Option<String> {
    let (entries, cut) = trail;
    if cut {
        return None;
    }
    let Loaded { task, admitted, .. } = loaded;
    let entries = trail::whole(task, entries);
    match trail::replay(task.id, admitted.spec.clone(), admitted.admission, &entries) {
        Ok(replayed) if trail::agrees(task, &replayed) => None,
        Ok(_) => Some("its trail leads to another state".into()),
        Err(illegal) => Some(format!("its trail is broken: {illegal}")),
    }
}

/// A task whose rows are not those of its state.
fn misplaced(loaded: &Loaded, row: &Row) -> Option<String> {
    let task = &loaded.task;
    let (pend, wait, lease): (bool, bool, bool) = (row.get(4), row.get(5), row.get(6));
    let ended: Option<i16> = row.get(7);
    let name = task.state.name();
    let expected = match name {
        StateName::Pending => (true, false, false, None),
        StateName::Scheduled | StateName::Blocked | StateName::Retrying => {
            (false, true, false, None)
        }
        StateName::Assigned | StateName::Running => (false, false, true, None),
        ended => (false, false, false, Some(ended.index() as i16)),
    };
    if (pend, wait, lease, ended) != expected {
        return Some(format!("its rows are not those of a task that is {name}"));
    }
    let numbers: (Option<i16>, Option<i64>, Option<i64>) = (row.get(8), row.get(9), row.get(10));
    let priority = Some(i16::from(task.spec.priority.number()));
    let agrees = match (name, task.state.ended()) {
        (StateName::Pending, _) => {
            let (at, number) = (task.place.ready_at.as_micros(), task.place.sequence.0 as i64);
            numbers == (priority, Some(at), Some(number))
        }
        (_, Some(ended)) => {
            let (at, number) = (ended.at.as_micros(), ended.sequence.0 as i64);
            numbers == (priority, Some(at), Some(number))
        }
        _ => {
            let token = task.state.lease().map(|lease| Uuid::from_bytes(*lease.token.as_bytes()));
            let due_at = task.state.due_at().map(tasklane_core::Timestamp::as_micros);
            row.get::<_, Option<Uuid>>(11) == token && row.get::<_, Option<i64>>(12) == due_at
        }
    };
    (!agrees).then(|| format!("its row says otherwise than its record, which is {name}"))
}
