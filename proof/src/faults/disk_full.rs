//! Part two: a real server on a small disk that gets full, first by what it stores itself, then by
//! somebody else, to the last byte.
//!
//! Submissions are refused and say why; what runs is settled, and what waits is claimed and settled,
//! all the while; when there is room, submissions are taken again without anybody's help.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_core::{StateName, TaskId};
use tasklane_sqlite::{Options, SqliteStore};
use tasklane_store::Store as _;
use tasklane_store::conformance::block_on;

use crate::Failure;
use crate::http::caller::{Answer, Caller};
use crate::http::site::Site;

/// The disk.
const DISK_BYTES: u64 = 80 << 20;
/// Of that, taken by a file until room is made. Twice what the store keeps for settles and more: of what
/// is free then, the store takes that much again, and somebody else the rest.
const TAKEN_BYTES: usize = 40 << 20;
/// Tasks that wait to be settled, for each time the disk is full.
const TASKS: usize = 120;
/// Tasks that a worker has at a time.
const CLAIMED: usize = 20;
/// What fills the disk.
const PAYLOAD_BYTES: usize = 200_000;
const PRODUCERS: usize = 4;
/// Submissions that must be refused in a row before the disk counts as full.
const REFUSALS: u64 = 20;
/// More than fit, whatever room there is in files.
const SUBMISSIONS_MAX: u64 = 1_000;
/// How soon submissions are taken again.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
/// How soon all that waits is settled, on a busy machine.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// What has come of it.
#[derive(Debug, Clone, Default)]
pub struct Full {
    /// Tasks that were acknowledged.
    pub submitted: u64,
    /// Submissions that were refused because the disk was full.
    pub refused: u64,
    /// Results that were taken while it was.
    pub settled: u64,
    /// From room to the first submission that was taken, the longer one.
    pub room_after: Duration,
    /// What was wrong.
    pub wrong: Vec<String>,
}

/// Fills the disk of `program`, in a folder where a file system can be mounted.
pub fn run(program: &Path, folder: &Path) -> Result<Full, Failure> {
    let disk = Disk::mount(&folder.join("disk"))?;
    let (mut full, mut ids) = (Full::default(), Vec::new());
    let store = disk.0.join("store");
    {
        let taken = disk.0.join("taken");
        write_bytes(&taken, TAKEN_BYTES)?;
        let site = Site::start_on(program, &store, &[])?;
        let mut client = Client::new(&site)?;
        client.fill_by_itself(&mut full, &mut ids)?;
        client.make_room(&taken, &mut full, &mut ids)?;
        client.fill_by_another(&taken, &mut full, &mut ids)?;
        client.make_room(&taken, &mut full, &mut ids)?;
    }
    let store = SqliteStore::open(&store, &Options::default())?;
    let findings = block_on(store.check())?;
    full.wrong.extend(findings.iter().map(|f| format!("check: {}: {}", f.place, f.problem)));
    full.submitted = ids.len() as u64;
    let found = block_on(store.get(ids))?;
    let lost = found.iter().filter(|task| task.is_none()).count();
    if lost > 0 {
        full.wrong.push(format!("{lost} acknowledged tasks are not there"));
    }
    let states = found.iter().flatten().map(|stored| stored.task.state.name());
    let completed = states.filter(|state| *state == StateName::Completed).count() as u64;
    if completed < full.settled {
        full.wrong.push(format!("{} results were taken, {completed} are there", full.settled));
    }
    Ok(full)
}

/// A file system in memory, gone with this.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(at)?;
        let size = format!("size={DISK_BYTES}");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output()?;
        if !mounted.status.success() {
            let why = String::from_utf8_lossy(&mounted.stderr).into_owned();
            return Err(format!("a small disk cannot be mounted: {}", why.trim()).into());
        }
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

struct Client {
    site: std::net::SocketAddr,
    caller: Caller,
    worker: String,
}

impl Client {
    fn new(site: &Site) -> Result<Self, Failure> {
        let mut caller = Caller::new(site.address)?;
        let capacity = json!({"capacity": 1_000});
        let worker = caller.register(&capacity)?;
        Ok(Self { site: site.address, worker, caller })
    }

    /// Producers submit until they are refused, beside a worker.
    fn fill_by_itself(&mut self, full: &mut Full, ids: &mut Vec<TaskId>) -> Result<(), Failure> {
        self.submit_small(ids)?;
        let (over, refused) = (&AtomicBool::new(false), &AtomicU64::new(0));
        let address = self.site;
        std::thread::scope(|scope| {
            let producers: Vec<_> =
                (0..PRODUCERS).map(|_| scope.spawn(|| fill(address, over, refused))).collect();
            let mut worked = Ok(());
            // One of them ends before the others only if it fails: then the disk may never be full.
            let fail = || producers.iter().any(ScopedJoinHandle::is_finished);
            while refused.load(Ordering::Relaxed) < REFUSALS && worked.is_ok() && !fail() {
                worked = self.settle_some(1, full);
            }
            // All that is left of the small ones, while producers go on.
            worked = worked.and_then(|()| self.settle_some(TASKS, full));
            worked = worked.and_then(|()| self.settle_until(TASKS as u64, full));
            over.store(true, Ordering::Relaxed);
            for producer in producers {
                ids.extend(producer.join().map_err(|_| "a producer panicked")??);
            }
            full.refused += refused.load(Ordering::Relaxed);
            worked
        })
    }

    /// Somebody else takes all that there is, to the last byte.
    fn fill_by_another(
        &mut self,
        taken: &Path,
        full: &mut Full,
        ids: &mut Vec<TaskId>,
    ) -> Result<(), Failure> {
        self.submit_small(ids)?;
        write_bytes(taken, usize::MAX)?;
        // Files that are long already have some room of their own.
        let mut refused = 0;
        for _ in 0..SUBMISSIONS_MAX {
            let answer = submit(&mut self.caller, PAYLOAD_BYTES)?;
            match answer.status {
                _ if is_refused(&answer) => refused += 1,
                201 => ids.push(id_of(&answer.body)?),
                _ => full.wrong.push(format!("a submission got {}", brief(&answer))),
            }
            if refused == REFUSALS {
                full.refused += refused;
                return self.settle_until(full.settled + TASKS as u64, full);
            }
        }
        full.wrong.push("on a full disk submissions are not refused".into());
        Ok(())
    }

    fn make_room(
        &mut self,
        taken: &Path,
        full: &mut Full,
        ids: &mut Vec<TaskId>,
    ) -> Result<(), Failure> {
        let answer = submit(&mut self.caller, 10)?;
        if !is_refused(&answer) {
            full.wrong.push(format!("before there was room a submission got {}", brief(&answer)));
        }
        std::fs::remove_file(taken)?;
        let since = Instant::now();
        while since.elapsed() < ROOM_WITHIN {
            let answer = submit(&mut self.caller, 10)?;
            if answer.status == 201 {
                full.room_after = full.room_after.max(since.elapsed());
                ids.push(id_of(&answer.body)?);
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        full.wrong.push("there is room, but submissions are still refused".into());
        Ok(())
    }

    fn submit_small(&mut self, ids: &mut Vec<TaskId>) -> Result<(), Failure> {
        for _ in 0..TASKS {
            let body = json!({"type": "small", "payload": 1, "priority": "critical"});
            let answer = self.caller.post("/api/v1/tasks", &body)?;
            ids.push(id_of(&answer.body)?);
        }
        Ok(())
    }

    /// Settles until so many results were taken in all: a full disk must not keep tasks waiting.
    fn settle_until(&mut self, settled: u64, full: &mut Full) -> Result<(), Failure> {
        let since = Instant::now();
        while full.settled < settled && full.wrong.is_empty() {
            if since.elapsed() > SETTLED_WITHIN {
                full.wrong.push(format!("only {} of {settled} tasks were settled", full.settled));
            }
            self.settle_some(CLAIMED, full)?;
        }
        Ok(())
    }

    /// Claims tasks and completes them; every result must be taken at once.
    fn settle_some(&mut self, tasks: usize, full: &mut Full) -> Result<(), Failure> {
        let poll = format!("/internal/workers/{}/poll", self.worker);
        let result = format!("/internal/workers/{}/result", self.worker);
        let mut left = tasks;
        while left > 0 {
            let count = left.min(CLAIMED);
            let body = json!({"available_capacity": count, "wait_ms": 10});
            let polled = self.caller.post(&poll, &body)?;
            let Some(claimed) = polled.body.get("tasks").and_then(Value::as_array) else {
                full.wrong.push(format!("a claim got {}", brief(&polled)));
                return Ok(());
            };
            if claimed.is_empty() {
                return Ok(());
            }
            for task in claimed {
                let body = json!({"task_id": task.get("id"), "status": "completed", "result": 1,
                    "lease_token": task.get("lease_token")});
                let answer = self.caller.post(&result, &body)?;
                match answer.status {
                    200 => full.settled += 1,
                    _ => full.wrong.push(format!("a result got {}", brief(&answer))),
                }
            }
            left -= claimed.len().min(left);
        }
        Ok(())
    }
}

/// Submits until it is over; what was acknowledged.
fn fill(
    address: std::net::SocketAddr,
    over: &AtomicBool,
    refused: &AtomicU64,
) -> Result<Vec<TaskId>, Failure> {
    let (mut caller, mut ids) = (Caller::new(address)?, Vec::new());
    while !over.load(Ordering::Relaxed) {
        let answer = submit(&mut caller, PAYLOAD_BYTES)?;
        if is_refused(&answer) {
            refused.fetch_add(1, Ordering::Relaxed);
        } else if answer.status == 201 {
            ids.push(id_of(&answer.body)?);
        } else {
            return Err(format!("a submission got {}", brief(&answer)).into());
        }
    }
    Ok(ids)
}

fn submit(caller: &mut Caller, bytes: usize) -> Result<Answer, Failure> {
    let payload = "x".repeat(bytes);
    caller.post("/api/v1/tasks", &json!({"type": "large", "payload": payload, "priority": "low"}))
}

fn is_refused(answer: &Answer) -> bool {
    answer.status == 503 && kind(answer).ends_with("storage-full")
}

fn kind(answer: &Answer) -> &str {
    answer.body.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn brief(answer: &Answer) -> String {
    format!("{} {}", answer.status, kind(answer))
}

fn id_of(body: &Value) -> Result<TaskId, Failure> {
    let id = body.get("id").or_else(|| body.get("task_id")).and_then(Value::as_str);
    Ok(id.ok_or_else(|| format!("no id in {body}"))?.parse()?)
}

/// Writes so many bytes, or as many as fit.
fn write_bytes(path: &Path, bytes: usize) -> Result<(), Failure> {
    let (mut file, block) = (File::create(path)?, vec![1_u8; 4_096]);
    for _ in 0..bytes.div_ceil(block.len()) {
        match file.write_all(&block) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            written => written?,
        }
    }
    Ok(())
}
