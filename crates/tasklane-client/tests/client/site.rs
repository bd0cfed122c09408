//! A server for one test, on a store in a folder of its own. It can be stopped and started again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_client::call::Retries;
use tasklane_client::wire::{
    ClaimedTask, Failure, KindWord, Poll, Register, Report, ReportStatus, ReportVerdict, Reports,
};
use tasklane_client::{Client, ErrorKind, NewTask, StateName, TaskId, WorkerId};
use tasklane_core::lifecycle::Rules;
use tasklane_server::engine::Engine;
use tasklane_server::{Server, ServerError, Settings};
use tasklane_sqlite::{Options, SqliteStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    folder: TempDir,
    settings: Settings,
    options: Options,
    running: Option<Running>,
}

struct Running {
    engine: Arc<Engine>,
    store: Arc<SqliteStore>,
    shutdown: CancellationToken,
    server: JoinHandle<Result<(), ServerError>>,
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::with(|_, _| {}).await
    }

    /// A server whose settings and rules a test has changed.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings, &mut Rules)) -> Self {
        let mut settings = Settings {
            maintain_every: Duration::from_millis(20),
            shutdown_within: Duration::from_millis(200),
            ..Settings::default()
        };
        let mut options = Options::default();
        change(&mut settings, &mut options.rules);
        settings.lease = options.rules.lease;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut site = Self { address, folder, settings, options, running: None };
        site.run(listener);
        site
    }

    fn run(&mut self, listener: TcpListener) {
        let store = Arc::new(SqliteStore::open(self.folder.path(), &self.options).unwrap());
        let shutdown = CancellationToken::new();
        let server = Server::new(store.clone(), self.settings.clone());
        let engine = Arc::clone(server.engine());
        let server = tokio::spawn(server.run(listener, shutdown.clone()));
        self.running = Some(Running { engine, store, shutdown, server });
    }

    /// Ends the server; its store stays.
    pub(crate) async fn stop(&mut self) {
        let Running { engine, store, shutdown, server } = self.running.take().unwrap();
        shutdown.cancel();
        // Calls that wait longer than the server does are cut off, which is what tests want.
        let _ = server.await.unwrap();
        drop(engine);
        // The folder is free when the last hold on the store is gone.
        let started = Instant::now();
        while Arc::strong_count(&store) > 1 {
            assert!(started.elapsed() < PATIENCE, "the store is still in use");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts it again at the same address.
    pub(crate) async fn start(&mut self) {
        let started = Instant::now();
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        self.run(listener);
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.running.as_ref().unwrap().engine
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect_to(self.url()).unwrap()
    }

    /// A client that tries once.
    pub(crate) fn impatient(&self) -> Client {
        Client::builder(self.url()).retries(Retries::NONE).build().unwrap()
    }

    /// Every route by its method and path, as the server documents them.
    pub(crate) async fn routes(&self) -> BTreeSet<String> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = "GET /openapi.json HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let document: Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        let mut routes = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in ["get", "post", "patch", "delete", "put"] {
                if item.get(method).is_some() {
                    routes.insert(format!("{} {path}", method.to_uppercase()));
                }
            }
        }
        routes
    }

    /// A path for a file that is not there yet.
    pub(crate) fn new_file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

/// Submits a task of type `a`.
pub(crate) async fn submit(client: &Client) -> TaskId {
    let task = NewTask::new("a").payload(&json!({"n": 1}));
    let submitted = client.submit(task).await.unwrap();
    assert_eq!(submitted.state, StateName::Pending);
    submitted.id
}

/// A worker of a test that does everything by hand.
pub(crate) struct Hand {
    pub(crate) client: Client,
    pub(crate) id: WorkerId,
}

impl Hand {
    pub(crate) async fn register(client: &Client) -> Self {
        let register = Register { capacity: Some(100), ..Register::default() };
        let id = client.register(&register).await.unwrap().worker_id.0;
        Self { client: client.clone(), id }
    }

    pub(crate) async fn claim(&self) -> ClaimedTask {
        let mut tasks = self.client.poll(self.id, &poll(1)).await.unwrap().tasks;
        assert_eq!(tasks.len(), 1, "one task was there to claim");
        tasks.remove(0)
    }

    pub(crate) async fn report(&self, report: Report<'_>) -> ReportVerdict {
        let reports = Reports { results: vec![report], poll: None };
        let mut answer = self.client.report(self.id, &reports).await.unwrap();
        answer.results.remove(0)
    }

    /// Claims a task and makes it a dead letter.
    pub(crate) async fn kill(&self) -> TaskId {
        let task = self.claim().await;
        let error = Failure {
            message: "no such address".into(),
            kind: Some(KindWord(ErrorKind::Permanent)),
            code: None,
            retryable: None,
            details: None,
            stack: None,
        };
        let failed = Report { error: Some(error), ..ended(&task, ReportStatus::Failed) };
        let verdict = self.report(failed).await;
        assert_eq!(verdict.state.unwrap().0, StateName::DeadLetter, "{verdict:?}");
        task.id.0
    }
}

pub(crate) fn poll(count: u32) -> Poll {
    Poll { available_capacity: count, wait_ms: 0, auto_start: true, capabilities: None }
}

pub(crate) fn ended(task: &ClaimedTask, status: ReportStatus) -> Report<'static> {
    Report {
        task_id: task.id,
        lease_token: task.lease_token,
        status,
        result: None,
        error: None,
        retry_after_seconds: None,
        delay_seconds: None,
        execution_seconds: None,
    }
}
