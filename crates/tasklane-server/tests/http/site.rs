//! A server for one test, and a client that sends exactly what it is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_client::wire::Time;
use tasklane_core::Clock;
use tasklane_core::lifecycle::Rules;
use tasklane_server::engine::Engine;
use tasklane_server::tls::Tls;
use tasklane_server::trace::Tracer;
use tasklane_server::{Server, ServerError, Settings};
use tasklane_store::Store;
use tasklane_store::conformance::ManualClock;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::kept::Kept;
use crate::stall;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    shutdown: CancellationToken,
    running: Option<JoinHandle<Result<(), ServerError>>>,
    runtime: Runtime,
}

/// An answer, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) text: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// A server whose settings and rules a test has changed.
    pub(crate) fn with(change: impl FnOnce(&mut Settings, &mut Rules)) -> Self {
        Self::start(change, None)
    }

    /// A server that tells a collector of its calls.
    pub(crate) fn traced(tracer: Arc<Tracer>) -> Self {
        Self::build(|_, _| {}, |server| server.with_traces(tracer))
    }

    /// The same behind TLS, if there is any.
    pub(crate) fn start(
        change: impl FnOnce(&mut Settings, &mut Rules),
        tls: Option<Arc<Tls>>,
    ) -> Self {
        Self::build(change, |server| match tls {
            Some(tls) => server.with_tls(tls),
            None => server,
        })
    }

    fn build(
        change: impl FnOnce(&mut Settings, &mut Rules),
        equip: impl FnOnce(Server) -> Server,
    ) -> Self {
        stall::watch();
        let clock = Arc::new(ManualClock::default());
        let mut settings =
            Settings { maintain_every: Duration::from_millis(5), ..Settings::default() };
        let mut rules = Rules::default();
        change(&mut settings, &mut rules);
        settings.lease = rules.lease;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let store = Kept::chosen().open(rules, clock.clone());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = equip(Server::new(store.clone(), settings));
        let engine = Arc::clone(server.engine());
        let running = Some(runtime.spawn(server.run(listener, shutdown.clone())));
        Self { address, engine, store, clock, shutdown, running, runtime }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string())
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], body.as_bytes())
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        self.raw(&bytes)
    }

    /// Sends bytes and reads until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server that refuses early may close before it has read everything.
        let _ = stream.write_all(bytes);
        Reply::read(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE + Duration::from_secs(60))).unwrap();
        stream
    }

    /// Waits for a call on the engine itself.
    pub(crate) fn run<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Starts a call on the engine itself.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(call)
    }

    /// Moves the store's clock.
    pub(crate) fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// The instant that is `span` away on the store's clock, as the interface writes it.
    pub(crate) fn in_time(&self, span: Duration) -> String {
        Time(self.clock.wall().plus(span)).to_string()
    }

    /// Submits a task of type `a` with these members besides; gives its id.
    pub(crate) fn submit(&self, members: Value) -> String {
        let mut task = json!({"type": "a"});
        task.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let reply = self.post("/api/v1/tasks", &task);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.string("/id")
    }

    pub(crate) fn task(&self, id: &str) -> Value {
        let reply = self.get(&format!("/api/v1/tasks/{id}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    pub(crate) fn state(&self, id: &str) -> String {
        self.task(id)["state"].as_str().unwrap().to_owned()
    }

    /// Waits until maintenance has brought a task into a state.
    pub(crate) fn await_state(&self, id: &str, state: &str) {
        self.eventually(&format!("{id} is {state}"), || self.state(id) == state);
    }

    pub(crate) fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < PATIENCE, "did not come: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until so many polls are parked.
    pub(crate) fn await_parked(&self, polls: u64) {
        self.eventually("the polls wait", || {
            self.get("/admin/health").json()["parked_polls"] == polls
        });
    }

    pub(crate) fn worker(&self) -> Worker<'_> {
        self.register(json!({"capacity": 100}))
    }

    pub(crate) fn register(&self, spec: Value) -> Worker<'_> {
        let reply = self.post("/internal/workers/register", &spec);
        assert_eq!(reply.status, 201, "{reply:?}");
        Worker { site: self, id: reply.string("/worker_id") }
    }

    /// Asks for the end without waiting for it.
    pub(crate) fn begin_shutdown(&self) {
        self.shutdown.cancel();
    }

    pub(crate) fn ended(mut self) -> Result<(), ServerError> {
        self.shutdown.cancel();
        let running = self.running.take().unwrap();
        self.runtime.block_on(running).unwrap()
    }
}

/// A worker of a test.
pub(crate) struct Worker<'a> {
    site: &'a Site,
    pub(crate) id: String,
}

/// A task in a worker's hands.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) whole: Value,
}

impl Held {
    pub(crate) fn from(task: &Value) -> Self {
        let text = |name: &str| task[name].as_str().unwrap().to_owned();
        Self { id: text("id"), token: text("lease_token"), whole: task.clone() }
    }

    /// A report on it.
    pub(crate) fn report(&self, members: Value) -> Value {
        let mut report = json!({"task_id": self.id, "lease_token": self.token});
        report.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        report
    }
}

impl Worker<'_> {
    pub(crate) fn call(&self, verb: &str, body: &Value) -> Reply {
        self.site.post(&format!("/internal/workers/{}/{verb}", self.id), body)
    }

    pub(crate) fn poll(&self, count: u32) -> Vec<Held> {
        let reply = self.call("poll", &json!({"available_capacity": count}));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["tasks"].as_array().unwrap().iter().map(Held::from).collect()
    }

    pub(crate) fn claim_one(&self) -> Held {
        let mut held = self.poll(1);
        assert_eq!(held.len(), 1, "one task was there to claim");
        held.remove(0)
    }

    pub(crate) fn report(&self, held: &Held, members: Value) -> Reply {
        self.call("result", &held.report(members))
    }

    pub(crate) fn complete(&self, held: &Held) -> Reply {
        self.report(held, json!({"status": "completed", "result": {"ok": true}}))
    }

    pub(crate) fn fail(&self, held: &Held, error: Value) -> Reply {
        self.report(held, json!({"status": "failed", "error": error}))
    }
}

impl Reply {
    pub(crate) fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        // A reset after the answer is as good as an end.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_ascii_lowercase(), text: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let with_colon = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&with_colon))
    }

    pub(crate) fn string(&self, pointer: &str) -> String {
        let value = self.json();
        value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("{self:?}"))
            .to_owned()
    }

    /// Checks a refusal, and that it has the whole form of one.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["type"], kind, "{self:?}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["request_id"], self.header("x-request-id").unwrap());
        for member in ["title", "detail", "instance"] {
            assert!(problem[member].is_string(), "{member} is missing: {problem}");
        }
        if status == 429 || status == 503 {
            assert!(self.header("retry-after").is_some(), "no Retry-After: {self:?}");
        }
        problem
    }
}
