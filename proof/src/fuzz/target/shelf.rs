//! A store in a file with something of everything in it: where stored records come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};
use tasklane_core::{AuditEntry, Weight};
use tasklane_core::{
    Capability, CapabilitySet, Command, Credential, ErrorKind, Failure as Reported, Grants,
    IdempotencyKey, Intent, Metadata, NewApiKey, NewTask, OrderingKey, Outcome, Policies, Priority,
    Progress, QueueName, QueueSettings, Retention, SeededRandom, Selection, TaskId, TaskType,
    TraceContext, Update, When, Who, WorkerId, WorkerSpec,
};
use tasklane_sqlite::{Durability, Options, SqliteStore};
use tasklane_store::conformance::block_on;
use tasklane_store::{ClaimRequest, Claimed, Store, Submission};

use crate::Failure;

/// The database in a store's folder.
const DATABASE: &str = "tasklane.db";

/// Where records stand in the file: a table, what names its rows, and the column.
pub const PLACES: [[&str; 3]; 15] = [
    ["lane", "lane", "name"],
    ["queue", "queue", "settings"],
    ["worker", "worker", "record"],
    ["task", "task", "spec"],
    ["lease", "task", "record"],
    ["standing", "task", "record"],
    ["trail", "task, sequence", "entry"],
    ["tally", "lane", "counts"],
    ["feed", "first", "events"],
    ["api_key", "id", "record"],
    ["audit", "number", "record"],
    ["ended", "state, queue, at, part", "tasks"],
    ["task", "task", "id"],
    ["idempotency", "queue, key", "digest"],
    ["idempotency", "queue, key", "id"],
];

/// A record as it stands in the file.
#[derive(Debug, Clone)]
pub struct Record {
    /// Which of [`PLACES`].
    pub place: u8,
    /// Which row, in the order of their names.
    pub row: u8,
    /// What stands there.
    pub bytes: Vec<u8>,
}

/// The store, closed.
pub struct Shelf {
    folder: PathBuf,
    /// Every record in it.
    pub records: Vec<Record>,
    /// Its tasks.
    pub tasks: Vec<TaskId>,
}

impl Shelf {
    /// Makes the store in a folder below this one.
    pub fn make(parent: &Path) -> Result<Self, Failure> {
        let folder = parent.join("shelf");
        let store = open(&folder)?;
        let tasks = fill(&store)?;
        drop(store);
        let records = read(&folder.join(DATABASE))?;
        Ok(Self { folder, records, tasks })
    }

    /// A copy of it with another record in one place, in a folder below `parent`.
    pub fn altered(&self, parent: &Path, record: &Record) -> Result<PathBuf, Failure> {
        let folder = parent.join("altered");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder)?;
        std::fs::copy(self.folder.join(DATABASE), folder.join(DATABASE))?;
        let [table, keys, column] =
            PLACES.get(usize::from(record.place)).copied().ok_or("no such place")?;
        let connection = Connection::open(folder.join(DATABASE))?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        let sql = format!(
            "UPDATE {table} SET {column} = ?1 WHERE ({keys}) IN \
             (SELECT {keys} FROM {table} ORDER BY {keys} LIMIT 1 OFFSET ?2)"
        );
        connection.execute(&sql, params![record.bytes, record.row])?;
        Ok(folder)
    }
}

/// Opens a store whose writes are not waited for.
pub fn open(folder: &Path) -> Result<SqliteStore, Failure> {
    let options = Options { durability: Durability::None, ..Options::default() };
    Ok(SqliteStore::open(folder, &options)?)
}

fn read(file: &Path) -> Result<Vec<Record>, Failure> {
    let connection = Connection::open(file)?;
    let mut records = Vec::new();
    for (place, [table, keys, column]) in PLACES.into_iter().enumerate() {
        let sql = format!("SELECT {column} FROM {table} ORDER BY {keys} LIMIT 40");
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
        for (row, bytes) in rows.enumerate() {
            records.push(Record { place: place as u8, row: row as u8, bytes: bytes? });
        }
    }
    Ok(records)
}

fn fill(store: &SqliteStore) -> Result<Vec<TaskId>, Failure> {
    let settings = QueueSettings {
        weight: Weight::new(7)?,
        retention: Some(Retention::default()),
        ..QueueSettings::default()
    };
    block_on(store.configure(QueueName::new("mail")?, settings))?;
    let capabilities = CapabilitySet::new([Capability::new("gpu")?])?;
    let selection = Selection { capabilities, ..Selection::default() };
    let spec = WorkerSpec::new(selection, 100)?.described(Some("w"), Some("1.0"), Some("host"))?;
    let worker = block_on(store.register(spec))?;
    block_on(store.register(WorkerSpec::new(Selection::default(), 1)?))?;
    let tasks = submit(store)?;
    work(store, worker)?;
    // A second life for some of what has ended.
    for task in tasks.iter().rev().take(6) {
        let retry = Intent::Retry { reset_attempts: true, priority: Some(Priority::High) };
        block_on(store.execute(vec![Command { task: *task, intent: retry }]))?;
    }
    let credential = Credential::generate(&mut SeededRandom::new(5));
    let key = NewApiKey::new(&credential, "a key", Grants::everything(), None)?;
    let key = block_on(store.add_api_key(key))?.map_err(|refusal| refusal.to_string())?;
    block_on(store.revoke_api_key(key.id))?;
    let entry = AuditEntry::new(&Who::Machine, "key.create", AuditEntry::DONE).on("a key");
    block_on(store.append_audit(vec![entry.clone(), entry]))?;
    Ok(tasks)
}

fn submit(store: &SqliteStore) -> Result<Vec<TaskId>, Failure> {
    let mut tasks = Vec::new();
    for number in 0..14u64 {
        let mut task = NewTask::new(TaskType::new("email.send")?, r#"{"to":"ada"}"#);
        task.queue = QueueName::new(if number.is_multiple_of(2) { "mail" } else { "print" })?;
        task.priority = Priority::from_number(number % 4).ok();
        task.metadata = Metadata::new([("user", number.to_string())])?;
        task.max_retries = Some(1);
        match number {
            1 => task.schedule = Some(When::After(Duration::from_secs(3_600))),
            2 => task.expires = Some(When::After(Duration::from_secs(60))),
            3 | 4 => task.idempotency_key = Some(IdempotencyKey::new(format!("key {number}"))?),
            5 | 7 => task.ordering_key = Some(OrderingKey::new("in order")?),
            6 => task.capabilities = CapabilitySet::new([Capability::new("gpu")?])?,
            8 => {
                let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
                task.trace = Some(TraceContext::new(parent, Some("a=b"))?);
            }
            9 => task.dead_letter = Some(false),
            _ => {}
        }
        tasks.push(task.resolve(&Policies::default())?);
    }
    let answer = block_on(store.submit(vec![Submission { tasks }]))?;
    let submitted = answer.into_iter().next().ok_or("no answer")?;
    let submitted = submitted.map_err(|refusal| refusal.to_string())?;
    Ok(submitted.iter().map(|task| task.id).collect())
}

/// Every way an attempt may end, and some that have not ended.
fn work(store: &SqliteStore, worker: WorkerId) -> Result<(), Failure> {
    let request = ClaimRequest { worker, count: 10, auto_start: false, narrowed: None };
    let claimed = block_on(store.claim(vec![request]))?;
    let claimed: Vec<Claimed> = claimed.into_iter().flatten().flatten().collect();
    for (number, claimed) in claimed.iter().enumerate() {
        let task = claimed.task.id;
        let token = claimed.task.state.lease().ok_or("no lease")?.token;
        let failure = |kind| Reported::new(kind, "it broke").with_code("E7").with_stack("at a");
        let failed = |kind| Outcome::Failed { failure: failure(kind), retry_after: None };
        let progress = Progress::new(Some(12.5), Some(1), Some(8), Some("an eighth"), None)?;
        let last = match number {
            0 => continue,
            1 => Intent::Start(token),
            2 => Intent::Progress(token, progress),
            3 => Intent::Settle(token, Outcome::Completed("{\"sent\":true}".into())),
            4 => Intent::Settle(token, failed(ErrorKind::Transient)),
            5 | 6 => Intent::Settle(token, failed(ErrorKind::Permanent)),
            7 => Intent::Settle(token, Outcome::Released { delay: None }),
            8 => Intent::Settle(token, Outcome::Cancelled),
            _ => Intent::Cancel,
        };
        let update =
            Update { metadata: Some(Metadata::new([("new", "label")])?), ..Update::default() };
        let mut intents = vec![Intent::Start(token), last];
        if number == 4 {
            intents.push(Intent::Update(update));
        }
        let commands = intents.into_iter().map(|intent| Command { task, intent });
        block_on(store.execute(commands.collect()))?;
    }
    Ok(())
}
