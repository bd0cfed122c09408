//! The way to Redis: three connections, two scripts, and what their failures mean.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, Value};
use tasklane_core::{Clock, Timestamp};
use tasklane_store::StoreError;
use tokio::sync::Notify;

use crate::address::Address;
use crate::condition::Condition;
use crate::epoch::Past;
use crate::fault::{Fault, refused, unwritten};
use crate::keys::{Key, Namespace};
use crate::line::{Line, Open};
use crate::options::{Mode, Options};
use crate::read::{self, Read};
use crate::ready::Ready;
use crate::request::Request;
use crate::snapshot::{Loaded, Meta, Snapshot};
use crate::source::Source;
use crate::told::Told;
use crate::value;
use crate::writes::Writes;

/// How long a server that lost too often has the store to itself, at most.
const TURN_MS: u64 = 100;
/// How long a look at the feed may wait for something new.
pub(crate) const WATCH_TIME_MAX: Duration = Duration::from_secs(1);

/// Connections to a Redis server.
pub(crate) struct Link {
    /// For writes, and for reads that belong to them.
    pub(super) writing: Line,
    /// For reads that nobody waits for in line.
    pub(super) reading: Line,
    /// For following the feed, which keeps a connection busy.
    pub(super) watching: Line,
    load: Script,
    commit: Script,
    /// The same, carried out even when memory is full: for what ends tasks and removes them.
    commit_when_full: Script,
    namespace: Namespace,
    clock: Option<Arc<dyn Clock>>,
    /// Who this is among the servers.
    server: String,
    /// Microseconds by which the store's clock is ahead of this machine's.
    ahead: AtomicI64,
    /// What Redis last said of its time.
    told: Told,
    pub(crate) past: Past,
    pub(super) mode: Mode,
    /// How many replicas must have a write before it is answered.
    pub(super) replicas: u32,
    /// How long to wait for them at most.
    wait_time_max: Duration,
    /// What was found at the end of which connection for writes.
    pub(super) looked: Mutex<(u64, Condition)>,
    /// Told when replicas that should have confirmed a write did not: the server may be cut off.
    pub(super) doubt: Arc<Notify>,
}

/// A script, and the name by which Redis knows it once it has seen it.
struct Script {
    text: String,
    hash: String,
}

impl Script {
    fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { hash: redis::Script::new(&text).get_hash().to_owned(), text }
    }
}

/// Which connection to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Writing,
    Reading,
    Watching,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    /// It is there.
    Done,
    /// Something else was written since it was read; nothing happened.
    Conflict,
    /// Another server keeps the store than the one that its epoch began on, or the same was
    /// started again: a new epoch has to begin first. Nothing happened.
    Elsewhere,
}

/// What kind of write it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Adds tasks: refused when memory is full.
    Admission,
    /// Anything else.
    Other,
    /// Begins an epoch, on whatever server it is.
    Epoch,
}

impl Link {
    /// Nothing is connected before it is needed.
    pub(crate) fn new(
        address: &Address,
        options: &Options,
        server: u64,
    ) -> Result<Self, StoreError> {
        let namespace = Namespace::new(&options.namespace)?;
        let source = Arc::new(Source::new(address, namespace.name(&Key::Meta))?);
        let line = |time_max| Line::new(Arc::clone(&source), options.connect_time_max, time_max);
        let commit = include_str!("script/commit.lua");
        Ok(Self {
            writing: line(options.command_time_max),
            reading: line(options.command_time_max),
            watching: line(options.command_time_max + WATCH_TIME_MAX),
            load: Script::new(include_str!("script/load.lua")),
            commit: Script::new(commit),
            commit_when_full: Script::new(commit.replacen("#!lua", "#!lua flags=allow-oom", 1)),
            namespace,
            clock: options.clock.clone(),
            server: format!("{server:016x}"),
            ahead: AtomicI64::new(0),
            told: Told::default(),
            past: Past::default(),
            mode: options.mode,
            replicas: address.replicas,
            wait_time_max: options.command_time_max / 2,
            looked: Mutex::default(),
            doubt: Arc::default(),
        })
    }

    /// The name under which Redis knows a key.
    pub(crate) fn name(&self, key: &Key) -> Vec<u8> {
        self.namespace.name(key)
    }

    /// Adds to a snapshot what is read at one moment; at the version it has, if it has one.
    pub(crate) async fn load(
        &self,
        way: Way,
        reads: Vec<Read>,
        snapshot: &mut Snapshot,
    ) -> Result<Loaded, Fault> {
        let asked = read::gather(reads);
        let mut request = Request::new(&self.namespace, [Key::Meta, Key::Task, Key::Record]);
        match &self.clock {
            Some(clock) => request.number(clock.wall().as_micros()),
            None => request.text(""),
        }
        match snapshot.meta.epoch {
            0 => ["", "", ""].iter().for_each(|text| request.text(text)),
            _ => ask_for(&snapshot.meta, &mut request),
        }
        read::ask(&asked, &mut request);
        let mut open = self.line(way).open().await?;
        let sent = Instant::now();
        let mut answer = self.call(way, &open, &self.load, &request, None).await;
        // The connection may have broken long ago; what only reads may be sent again.
        if answer.as_ref().is_err_and(RedisError::is_connection_dropped) {
            open = self.line(way).open().await?;
            answer = self.call(way, &open, &self.load, &request, None).await;
        }
        let (answer, _) = answer.map_err(|error| Fault::Store(refused(&error)))?;
        let (loaded, now) = snapshot.add(asked, answer)?;
        if let Some(now) = now {
            self.past.note(&snapshot.meta);
            self.past.see(now);
            self.ahead.store(now.saturating_sub(machine_time()), Ordering::Relaxed);
            if way == Way::Writing {
                self.told.note(sent, now);
            }
        }
        Ok(loaded)
    }

    /// Writes under this mark, if the store is still as it was decided on.
    pub(crate) async fn commit(
        &self,
        Ready { open, wait }: Ready,
        decided_on: Meta,
        mark: u64,
        writes: Writes,
        kind: Kind,
    ) -> Result<Committed, Fault> {
        let first = [Key::Meta, Key::Turn, Key::Index, Key::Block];
        let mut request = Request::new(&self.namespace, first);
        ask_for(&decided_on, &mut request);
        request.number(mark);
        request.bytes(self.server.clone());
        request.text(if kind == Kind::Epoch { "epoch" } else { "" });
        writes.ask(&mut request);
        let script = match kind {
            Kind::Admission => &self.commit,
            Kind::Other | Kind::Epoch => &self.commit_when_full,
        };
        let waiting = wait.command(self.wait_time_max);
        let sent = Instant::now();
        let answer = self.call(Way::Writing, &open, script, &request, waiting).await;
        let (answer, waited) = answer.map_err(|error| Fault::Store(unwritten(&error)))?;
        let mut parts = value::array(answer)?.into_iter();
        match parts.next().map(value::integer).transpose()? {
            Some(1) => {}
            Some(3) => return Ok(Committed::Elsewhere),
            _ => return Ok(Committed::Conflict),
        }
        if let Some(now) = parts.next() {
            let now = value::integer(now)?;
            self.past.see(now);
            self.told.note(sent, now);
        }
        wait.judge(waited).inspect_err(|_| self.doubt.notify_one())?;
        Ok(Committed::Done)
    }

    /// Asks the other servers to hold back for a moment. Only a courtesy: guards decide.
    pub(crate) async fn take_turn(&self) -> Result<(), Fault> {
        let key = self.namespace.name(&Key::Turn);
        let mut command = redis::cmd("SET");
        command.arg(key).arg(&self.server).arg("NX").arg("PX").arg(TURN_MS);
        self.send(Way::Writing, &command).await.map(drop)
    }

    /// Any command that changes nothing, or nothing that matters.
    pub(crate) async fn send(&self, way: Way, command: &Cmd) -> Result<Value, Fault> {
        self.ask(way, command).await?.map_err(|error| Fault::Store(refused(&error)))
    }

    /// The same, where it matters why it is refused.
    pub(crate) async fn ask(
        &self,
        way: Way,
        command: &Cmd,
    ) -> Result<Result<Value, RedisError>, Fault> {
        let line = self.line(way);
        let mut open = line.open().await?;
        let answer = command.query_async::<Value>(&mut open.connection).await;
        Ok(answer.inspect_err(|error| line.note(&open, error)))
    }

    /// Runs a script, with its text if Redis does not know it (any more), and what waits behind it.
    async fn call(
        &self,
        way: Way,
        open: &Open,
        script: &Script,
        request: &Request<'_>,
        wait: Option<Cmd>,
    ) -> Result<(Value, Option<Value>), RedisError> {
        let mut connection = open.connection.clone();
        let by_hash = pipeline("EVALSHA", &script.hash, request, wait.as_ref());
        let mut answer = send(&mut connection, &by_hash).await;
        if answer.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT")) {
            let with_text = pipeline("EVAL", &script.text, request, wait.as_ref());
            answer = send(&mut connection, &with_text).await;
        }
        answer.inspect_err(|error| self.line(way).note(open, error))
    }

    fn line(&self, way: Way) -> &Line {
        match way {
            Way::Writing => &self.writing,
            Way::Reading => &self.reading,
            Way::Watching => &self.watching,
        }
    }

    /// What time it is in Redis, if it was told a moment ago.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        if let Some(clock) = &self.clock {
            return Some(clock.wall());
        }
        let now = self.told.now()?;
        self.past.see(now);
        Some(Timestamp::from_micros(now))
    }

    /// The store's time, as near as it is known.
    pub(crate) fn now(&self) -> Timestamp {
        match &self.clock {
            Some(clock) => clock.wall(),
            None => {
                let micros = machine_time().saturating_add(self.ahead.load(Ordering::Relaxed));
                Timestamp::from_micros(micros)
            }
        }
    }
}

/// What must be there.
fn ask_for(meta: &Meta, request: &mut Request<'_>) {
    request.number(meta.version);
    request.number(meta.epoch);
    request.number(meta.mark);
}

fn pipeline(name: &str, script: &str, request: &Request<'_>, wait: Option<&Cmd>) -> Pipeline {
    let mut command = redis::cmd(name);
    command.arg(script).arg(request.keys.len());
    for key in &request.keys {
        command.arg(key.as_slice());
    }
    for argument in &request.arguments {
        command.arg(&argument[..]);
    }
    let mut pipeline = redis::pipe();
    pipeline.add_command(command);
    if let Some(wait) = wait {
        pipeline.add_command(wait.clone());
    }
    pipeline
}

/// The answer to a script, and to what waited behind it. Of the latter a failure is no answer.
async fn send(
    connection: &mut impl ConnectionLike,
    pipeline: &Pipeline,
) -> Result<(Value, Option<Value>), RedisError> {
    let answers = connection.req_packed_commands(pipeline, 0, pipeline.len()).await?;
    let mut answers = answers.into_iter();
    let first = answers.next().unwrap_or_default().extract_error()?;
    Ok((first, answers.next().and_then(|waited| waited.extract_error().ok())))
}

fn machine_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
