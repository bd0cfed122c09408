//! Looking for contradictions (S18): the engine's own check, then every task against its trail,
//! its indexes and the counters.

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, params};
use tasklane_core::{Chain, Sequence, State, StateName, Task, Timestamp, trail};
use tasklane_store::{Finding, codec};

use crate::board::line_number;
use crate::ended;
use crate::fault::Fault;
use crate::lanes::Lanes;
use crate::rows::{self, COLUMNS_LEAN, JOINED, Loaded};
use crate::session::should_be_indexed;

/// Findings reported at most.
const FINDINGS_MAX: usize = 1_000;

pub(crate) fn check(connection: &Connection, lanes: &Lanes) -> Result<Vec<Finding>, Fault> {
    let mut check = Check {
        connection,
        lanes,
        findings: Vec::new(),
        counts: HashMap::new(),
        rows: HashMap::new(),
        indexed: Sequence(0),
    };
    match check.everything() {
        Ok(()) => {}
        // What was found before says where; what comes after cannot be read.
        Err(fault) if fault.is_fatal() => check.find("database", fault.to_string()),
        Err(fault) => return Err(fault),
    }
    check.findings.truncate(FINDINGS_MAX);
    Ok(check.findings)
}

struct Check<'a> {
    connection: &'a Connection,
    lanes: &'a Lanes,
    findings: Vec<Finding>,
    /// Up to which event the index of pending tasks is complete.
    indexed: Sequence,
    /// Table → rows that the tasks found should have there.
    rows: HashMap<&'static str, u64>,
    /// Lane, priority, state → tasks found.
    counts: HashMap<(u64, u8, usize), u64>,
}

impl Check<'_> {
    fn everything(&mut self) -> Result<(), Fault> {
        self.engine()?;
        let indexed = "SELECT value FROM meta WHERE name = 'indexed'";
        self.indexed = Sequence(self.connection.query_row(indexed, [], |row| row.get(0))?);
        self.tasks()?;
        self.counters()?;
        self.strays()?;
        self.audit()
    }

    fn engine(&mut self) -> Result<(), Fault> {
        let mut statement = self.connection.prepare("PRAGMA integrity_check")?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        for line in lines {
            match line? {
                line if line == "ok" => {}
                line => self.findings.push(Finding { place: "database".into(), problem: line }),
            }
        }
        Ok(())
    }

    fn tasks(&mut self) -> Result<(), Fault> {
        let sql = format!("SELECT {COLUMNS_LEAN} FROM {JOINED} ORDER BY t.task");
        let mut statement = self.connection.prepare(&sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            if self.findings.len() >= FINDINGS_MAX {
                break;
            }
            let (key, lane): (i64, u64) = (row.get(0)?, row.get(2)?);
            match rows::from_row(row, self.lanes) {
                Ok(loaded) => self.task(&loaded, lane)?,
                Err(fault) => self.find(&format!("task row {key}"), fault.to_string()),
            }
        }
        Ok(())
    }

    fn task(&mut self, loaded: &Loaded, lane: u64) -> Result<(), Fault> {
        let Loaded { key, task, admitted, .. } = loaded;
        let place = format!("task {}", task.id);
        if task.id.row_key() != *key && !self.is_alias(*key, task)? {
            self.find(&place, format!("its id does not lead to its row, {key}"));
        }
        let counter = (lane, task.spec.priority.number(), task.state.name().index());
        *self.counts.entry(counter).or_default() += 1;
        match rows::trail(self.connection, *key) {
            Ok((_, true)) => {}
            Ok((entries, false)) => {
                let entries = trail::whole(task, entries);
                let (spec, admission) = (admitted.spec.clone(), admitted.admission);
                match trail::replay(task.id, spec, admission, &entries) {
                    Ok(replayed) if trail::agrees(task, &replayed) => {}
                    Ok(_) => self.find(&place, "its trail leads to another state".into()),
                    Err(illegal) => self.find(&place, format!("its trail is broken: {illegal}")),
                }
            }
            Err(fault) => self.find(&place, format!("its trail cannot be read: {fault}")),
        }
        let indexed = should_be_indexed(task, loaded.fresh, self.indexed);
        self.expect_rows(task, indexed);
        if matches!(task.state, State::Blocked) && self.holds_its_key(*key, task)? {
            self.find(&place, "it is blocked, though no task is before it".into());
        }
        for (index, expected, there) in self.indexes(*key, task, lane, indexed)? {
            if expected != there {
                let is = if there { "is in" } else { "is missing from" };
                self.find(&place, format!("a task that is {} {is} {index}", task.state.name()));
            }
        }
        Ok(())
    }

    /// Whether a task is found by its id though its row has another key.
    fn is_alias(&self, key: i64, task: &Task) -> Result<bool, Fault> {
        let sql = "SELECT 1 FROM alias WHERE id = ? AND task = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.exists(params![task.id.as_bytes(), key])?)
    }

    fn expect_rows(&mut self, task: &Task, indexed: bool) {
        let name = task.state.name();
        let expires = task.expires_at.is_some() && name.is_waiting();
        let keyed = task.spec.ordering_key.is_some() && !name.is_terminal();
        for (table, rows) in [
            ("pending", u64::from(matches!(task.state, State::Pending { .. }) && indexed)),
            ("lease", u64::from(name.is_leased())),
            ("timer", u64::from(task.state.due_at().is_some()) + u64::from(expires)),
            ("ordered", u64::from(keyed)),
        ] {
            *self.rows.entry(table).or_default() += rows;
        }
    }

    /// Whether a task is the first of its ordering key.
    fn holds_its_key(&self, key: i64, task: &Task) -> Result<bool, Fault> {
        let Some(ordering) = &task.spec.ordering_key else { return Ok(true) };
        let sql = "SELECT task FROM ordered WHERE queue = (SELECT queue FROM queue WHERE name = ?)
                   AND key = ? ORDER BY sequence LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let names = [task.spec.lane.queue.as_str(), ordering.as_str()];
        let first: Option<i64> = statement.query_row(names, |row| row.get(0)).optional()?;
        Ok(first.is_none_or(|first| first == key))
    }

    /// For each index: whether the task should be in it, and whether it is.
    fn indexes(
        &self,
        key: i64,
        task: &Task,
        lane: u64,
        indexed: bool,
    ) -> Result<[(&'static str, bool, bool); 4], Fault> {
        let there = |sql: &str, row: &[&dyn rusqlite::ToSql]| -> Result<bool, Fault> {
            let mut statement = self.connection.prepare_cached(sql)?;
            Ok(statement.query_row(row, |_| Ok(())).optional()?.is_some())
        };
        let state = &task.state;
        let (at, sequence) = (task.place.ready_at.as_micros(), task.place.sequence.0);
        let pending = there(
            "SELECT 1 FROM pending WHERE line = ? AND ready_at = ? AND sequence = ? AND task = ?",
            params![line_number(lane as u32, task.spec.priority), at, sequence, key],
        )?;
        let leased = there("SELECT 1 FROM lease WHERE task = ?", params![key])?;
        let due = match state.due_at() {
            Some(at) => there(
                "SELECT 1 FROM timer WHERE at = ? AND task = ? AND kind = 0",
                params![at.as_micros(), key],
            )?,
            None => false,
        };
        let ended = match state.ended() {
            Some(ended) => self.is_listed(state.name(), ended.at, key)?,
            None => false,
        };
        Ok([
            ("pending", matches!(state, State::Pending { .. }) && indexed, pending),
            ("lease", state.lease().is_some(), leased),
            ("timer", state.due_at().is_some(), due),
            ("ended", state.ended().is_some(), ended),
        ])
    }

    fn is_listed(&self, state: StateName, at: Timestamp, key: i64) -> Result<bool, Fault> {
        let sql = "SELECT tasks FROM ended WHERE state = ? AND queue IN (SELECT queue FROM queue)
                   AND at = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![state.index(), at.as_micros()])?;
        while let Some(row) = found.next()? {
            let tasks = ended::unpack(rows::blob(row, 0)?)?;
            if tasks.iter().any(|ended| ended.key == key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn counters(&mut self) -> Result<(), Fault> {
        let mut statement = self.connection.prepare("SELECT lane, counts FROM tally")?;
        let mut found = statement.query([])?;
        let mut counted = std::mem::take(&mut self.counts);
        while let Some(row) = found.next()? {
            let lane: u64 = row.get(0)?;
            let Ok(stored) = codec::decode_counts(rows::blob(row, 1)?) else {
                self.find("tally", format!("the counters of lane {lane} cannot be read"));
                continue;
            };
            for (priority, counts) in (0u8..).zip(stored) {
                for (state, stored) in counts.into_iter().enumerate() {
                    let there = counted.remove(&(lane, priority, state)).unwrap_or_default();
                    if stored != there {
                        let place = format!("tally of lane {lane}, priority {priority}");
                        self.find(&place, format!("state {state}: {stored}, but {there} tasks"));
                    }
                }
            }
        }
        for ((lane, priority, state), there) in counted {
            let place = format!("tally of lane {lane}, priority {priority}");
            self.find(&place, format!("state {state} is not counted, but {there} tasks"));
        }
        Ok(())
    }

    /// Rows of tasks that are not there, or more or fewer of them than there should be.
    fn strays(&mut self) -> Result<(), Fault> {
        for (table, expected) in std::mem::take(&mut self.rows) {
            let sql = format!("SELECT count(*) FROM {table}");
            let there: u64 = self.connection.query_row(&sql, [], |row| row.get(0))?;
            if there != expected {
                self.find(table, format!("{there} rows where there should be {expected}"));
            }
        }
        for table in ["pending", "lease", "standing", "timer", "trail", "ordered", "alias"] {
            let sql =
                format!("SELECT count(*) FROM {table} WHERE task NOT IN (SELECT task FROM task)");
            let strays: u64 = self.connection.query_row(&sql, [], |row| row.get(0))?;
            if strays > 0 {
                self.find(table, format!("{strays} rows of tasks that are not there"));
            }
        }
        let mut parts = self.connection.prepare("SELECT tasks FROM ended")?;
        let mut there = self.connection.prepare("SELECT 1 FROM task WHERE task = ?")?;
        let (mut found, mut strays) = (parts.query([])?, 0);
        while let Some(row) = found.next()? {
            for ended in ended::unpack(rows::blob(row, 0)?)? {
                strays += u64::from(!there.exists([ended.key])?);
            }
        }
        if strays > 0 {
            self.find("ended", format!("{strays} tasks that are not there"));
        }
        Ok(())
    }

    /// The audit log is one chain.
    fn audit(&mut self) -> Result<(), Fault> {
        let mut statement = self.connection.prepare("SELECT record FROM audit ORDER BY number")?;
        let (mut found, mut chain) = (statement.query([])?, Chain::default());
        while let Some(row) = found.next()? {
            let record = codec::decode_audit(rows::blob(row, 0)?)?;
            if let Err(broken) = chain.follow(&record) {
                self.find("audit", broken.to_string());
                break;
            }
        }
        Ok(())
    }

    fn find(&mut self, place: &str, problem: String) {
        self.findings.push(Finding { place: place.into(), problem });
    }
}
