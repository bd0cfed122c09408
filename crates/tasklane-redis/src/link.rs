//! The way to Redis: two connections, two scripts, and what their failures mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, Pipeline, RedisError, Value};
use tasklane_core::{Clock, Timestamp};
use tasklane_store::StoreError;

use crate::fault::Fault;
use crate::keys::{Key, Namespace};
use crate::options::Options;
use crate::read::{self, Read};
use crate::request::Request;
use crate::snapshot::{Loaded, Snapshot};
use crate::value;
use crate::writes::Writes;

/// How long a server that lost too often has the store to itself, at most.
const TURN_MS: u64 = 100;
/// Attempts to connect again before a command is given up.
const RECONNECTS: usize = 2;

/// Connections to a Redis server.
pub(crate) struct Link {
    /// For writes, and for reads that belong to them.
    writing: ConnectionManager,
    /// For reads that nobody waits for in line.
    reading: ConnectionManager,
    load: Script,
    commit: Script,
    namespace: Namespace,
    clock: Option<Arc<dyn Clock>>,
    /// Who this is among the servers.
    server: String,
    /// Microseconds by which the store's clock is ahead of this machine's.
    ahead: AtomicI64,
    /// What the answer to a write waits for.
    pub(crate) wait: Wait,
    /// How long it waits at most.
    wait_time_max: Duration,
    /// For connections of other kinds.
    client: Client,
    config: ConnectionManagerConfig,
}

/// What the answer to a write waits for, once it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Wait {
    /// Nothing more.
    #[default]
    Nothing,
    /// That so many replicas have it.
    Replicas(u32),
    /// That it is in the server's own file, synced, and in those of so many replicas.
    File {
        /// How many.
        replicas: u32,
    },
}

impl Wait {
    /// The command that waits, to be sent right behind the write on the same connection.
    fn command(self, time_max: Duration) -> Option<Cmd> {
        let millis = u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX);
        match self {
            Self::Nothing => None,
            Self::Replicas(count) => {
                let mut command = redis::cmd("WAIT");
                command.arg(count).arg(millis);
                Some(command)
            }
            Self::File { replicas } => {
                let mut command = redis::cmd("WAITAOF");
                command.arg(1).arg(replicas).arg(millis);
                Some(command)
            }
        }
    }

    /// Whether the answer to that command is enough.
    fn is_met(self, answer: Value) -> Result<bool, Fault> {
        Ok(match self {
            Self::Nothing => true,
            Self::Replicas(count) => value::integer(answer)? >= i64::from(count),
            Self::File { replicas } => {
                let mut counts = value::array(answer)?.into_iter().map(value::integer);
                let mut next = || counts.next().unwrap_or(Ok(0));
                next()? >= 1 && next()? >= i64::from(replicas)
            }
        })
    }
}

/// A script, and the name by which Redis knows it once it has seen it.
struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }
}

/// Which connection to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Writing,
    Reading,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    /// It is there.
    Done,
    /// Something else was written since it was read; nothing happened.
    Conflict,
}

impl Link {
    pub(crate) async fn open(
        client: Client,
        options: &Options,
        server: u64,
    ) -> Result<Self, Fault> {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(options.command_time_max))
            .set_connection_timeout(Some(options.connect_time_max))
            .set_number_of_retries(RECONNECTS)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_secs(1));
        let connect = async || {
            let connection =
                ConnectionManager::new_with_config(client.clone(), config.clone()).await;
            connection.map_err(|error| Fault::Store(refused(&error)))
        };
        Ok(Self {
            writing: connect().await?,
            reading: connect().await?,
            load: Script::new(include_str!("script/load.lua")),
            commit: Script::new(include_str!("script/commit.lua")),
            namespace: Namespace::new(&options.namespace).map_err(StoreError::from)?,
            clock: options.clock.clone(),
            server: format!("{server:016x}"),
            ahead: AtomicI64::new(0),
            wait: Wait::default(),
            wait_time_max: options.command_time_max / 2,
            client: client.clone(),
            config: config.clone(),
        })
    }

    /// Another connection, for commands that keep it busy for as long as `time_max`.
    pub(crate) async fn connect(&self, time_max: Duration) -> Result<ConnectionManager, Fault> {
        let config = self.config.clone().set_response_timeout(Some(time_max));
        let connection = ConnectionManager::new_with_config(self.client.clone(), config).await;
        connection.map_err(|error| Fault::Store(refused(&error)))
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
            0 => request.text(""),
            _ => request.number(snapshot.meta.version),
        }
        read::ask(&asked, &mut request);
        let answer = self.call(way, &self.load, &request, None).await;
        let (answer, _) = answer.map_err(|error| Fault::Store(refused(&error)))?;
        let loaded = snapshot.add(asked, answer)?;
        let ahead = snapshot.now.as_micros().saturating_sub(machine_time());
        self.ahead.store(ahead, Ordering::Relaxed);
        Ok(loaded)
    }

    /// Writes, if the store is at `version`.
    pub(crate) async fn commit(&self, version: i64, writes: Writes) -> Result<Committed, Fault> {
        let first = [Key::Meta, Key::Turn, Key::Index, Key::Block];
        let mut request = Request::new(&self.namespace, first);
        request.number(version);
        request.text(&self.server);
        writes.ask(&mut request);
        let wait = self.wait.command(self.wait_time_max);
        let answer = self.call(Way::Writing, &self.commit, &request, wait).await;
        let (answer, waited) = answer.map_err(|error| Fault::Store(unwritten(&error)))?;
        let outcome = value::array(answer)?.into_iter().next().map(value::integer).transpose()?;
        if outcome != Some(1) {
            return Ok(Committed::Conflict);
        }
        if !self.wait.is_met(waited.unwrap_or_default())? {
            let text = "Redis has written it, but not as many replicas as configured, or its file \
                        was not synced in time";
            return Err(StoreError::OutcomeUnknown(text.into()).into());
        }
        Ok(Committed::Done)
    }

    /// Asks the other servers to hold back for a moment. Only a courtesy: guards decide.
    pub(crate) async fn take_turn(&self) -> Result<(), Fault> {
        let key = self.namespace.name(&Key::Turn);
        let mut command = redis::cmd("SET");
        command.arg(key).arg(&self.server).arg("NX").arg("PX").arg(TURN_MS);
        self.send(Way::Writing, &command).await.map(drop)
    }

    /// Any command that does not concern one store.
    pub(crate) async fn send(&self, way: Way, command: &Cmd) -> Result<Value, Fault> {
        let answer = command.query_async::<Value>(&mut self.connection(way)).await;
        answer.map_err(|error| Fault::Store(refused(&error)))
    }

    /// Runs a script, with its text if Redis does not know it (any more), and what waits behind it.
    async fn call(
        &self,
        way: Way,
        script: &Script,
        request: &Request<'_>,
        wait: Option<Cmd>,
    ) -> Result<(Value, Option<Value>), RedisError> {
        let mut connection = self.connection(way);
        let by_hash = pipeline("EVALSHA", &script.hash, request, wait.as_ref());
        match send(&mut connection, &by_hash).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                let with_text = pipeline("EVAL", script.text, request, wait.as_ref());
                send(&mut connection, &with_text).await
            }
            answer => answer,
        }
    }

    fn connection(&self, way: Way) -> ConnectionManager {
        match way {
            Way::Writing => self.writing.clone(),
            Way::Reading => self.reading.clone(),
        }
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

fn pipeline(name: &str, script: &str, request: &Request<'_>, wait: Option<&Cmd>) -> Pipeline {
    let mut command = redis::cmd(name);
    command.arg(script).arg(request.keys.len());
    for part in request.keys.iter().chain(&request.arguments) {
        command.arg(part.as_slice());
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
    connection: &mut ConnectionManager,
    pipeline: &Pipeline,
) -> Result<(Value, Option<Value>), RedisError> {
    let answers = connection.send_packed_commands(pipeline, 0, pipeline.len()).await?;
    let mut answers = answers.into_iter();
    let first = answers.next().unwrap_or_default().extract_error()?;
    Ok((first, answers.next().and_then(|waited| waited.extract_error().ok())))
}

fn machine_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A command that changes nothing failed.
pub(crate) fn refused(error: &RedisError) -> StoreError {
    StoreError::Unavailable(format!("Redis: {error}"))
}

/// A write failed. Where Redis refused it before it began, nothing was written; where no answer
/// came, nobody knows; where it stopped half way, the store contradicts itself.
fn unwritten(error: &RedisError) -> StoreError {
    let text = format!("Redis: {error}");
    match error.code() {
        Some("OOM") => StoreError::Full(text),
        Some(
            "READONLY" | "MISCONF" | "NOREPLICAS" | "LOADING" | "BUSY" | "CLUSTERDOWN" | "TRYAGAIN"
            | "MASTERDOWN" | "NOPERM" | "NOAUTH" | "WRONGPASS" | "MOVED" | "ASK" | "NOSCRIPT",
        ) => StoreError::Unavailable(text),
        Some(_) => StoreError::Corrupt(format!("a write stopped half way: {text}")),
        None if error.is_connection_refusal() => StoreError::Unavailable(text),
        None => StoreError::OutcomeUnknown(text),
    }
}
