//! beanstalkd, measured as its peers are: `beanstalk PROGRAM memory|synced SINGLES BULK SECONDS`.
//!
//! Starts the program on a socket of its own; `synced` with a log that it syncs after every write.
//! Each figure is a line "name value": puts of 64 connections, puts of four connections that each
//! send a thousand before they read the answers, a drain in which each of 64 connections deletes
//! what it holds and asks for the next in one go, and waits at 200 a second.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that fails should stop"
)]

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

/// As long as the payloads of the others.
const PAYLOAD: usize = 100;
/// What is put before the answers are read, where many go at once.
const BATCH: usize = 1_000;
/// Connections that put, and as many that take, where waits are measured.
const WAITING: usize = 16;
/// From one task to the next there.
const BETWEEN: Duration = Duration::from_millis(5);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, kind, numbers @ ..] = arguments.as_slice() else {
        eprintln!("beanstalk PROGRAM memory|synced SINGLES BULK SECONDS");
        std::process::exit(2);
    };
    let numbers: Vec<usize> = numbers.iter().map(|n| n.parse().expect("a number")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start(program, kind == "synced");
    let measured = measure(server.socket.clone(), numbers[0], numbers[1], numbers[2]);
    LocalSet::new().block_on(&runtime, measured);
}

async fn measure(socket: PathBuf, singles: usize, bulk: usize, seconds: usize) {
    rate("submit", singles, put(&socket, 64, singles, 1)).await;
    drain(&socket, 64).await;
    rate("bulk", bulk, put(&socket, 4, bulk, BATCH)).await;
    rate("drain", bulk, drain(&socket, 64)).await;
    waits(&socket, 200 * seconds).await;
}

/// Tells how many a second were done.
async fn rate(name: &str, count: usize, work: impl Future<Output = usize>) {
    let begun = Instant::now();
    assert_eq!(work.await, count, "{name}");
    println!("{name} {:.0}", count as f64 / begun.elapsed().as_secs_f64());
}

/// Puts so many tasks, `batch` of them before answers are read.
async fn put(socket: &Path, connections: usize, count: usize, batch: usize) -> usize {
    let left = Rc::new(Cell::new(count));
    let each = |mut connection: Connection| {
        let left = left.clone();
        async move {
            let mut sent = 0;
            while left.get() >= batch {
                left.set(left.get() - batch);
                connection.put(&vec![[b'x'; PAYLOAD]; batch]).await;
                sent += batch;
            }
            sent
        }
    };
    together(socket, connections, each).await
}

/// Takes and deletes until nothing is left.
async fn drain(socket: &Path, connections: usize) -> usize {
    let each = |mut connection: Connection| async move {
        let mut done = 0;
        let mut held = connection.swap(None).await;
        while let Some((id, _)) = held {
            done += 1;
            held = connection.swap(Some(id)).await;
        }
        done
    };
    together(socket, connections, each).await
}

/// What each connection did, added up.
async fn together<F: Future<Output = usize> + 'static>(
    socket: &Path,
    connections: usize,
    each: impl Fn(Connection) -> F,
) -> usize {
    let mut running = Vec::new();
    for _ in 0..connections {
        running.push(spawn_local(each(Connection::open(socket).await)));
    }
    let mut sum = 0;
    for one in running {
        sum += one.await.unwrap();
    }
    sum
}

/// Puts 200 a second by the clock from 16 connections in turn, beside 16 workers that wait.
async fn waits(socket: &Path, count: usize) {
    let begun = Instant::now();
    let times = Rc::new(RefCell::new(Vec::with_capacity(count)));
    let mut running = Vec::new();
    for _ in 0..WAITING {
        let (worker, times) = (Connection::open(socket).await, times.clone());
        running.push(spawn_local(note_waits(worker, begun, times)));
    }
    for turn in 0..WAITING {
        let mut producer = Connection::open(socket).await;
        let mine = (turn..count).step_by(WAITING).count();
        let mut clock = tokio::time::interval_at(
            (begun + BETWEEN * turn as u32).into(),
            BETWEEN * WAITING as u32,
        );
        running.push(spawn_local(async move {
            for _ in 0..mine {
                clock.tick().await;
                let mut payload = [b'x'; PAYLOAD];
                payload[..8].copy_from_slice(&(begun.elapsed().as_nanos() as u64).to_be_bytes());
                producer.put(&[payload]).await;
            }
        }));
    }
    while times.borrow().len() < count {
        tokio::time::sleep(BETWEEN).await;
    }
    running.iter().for_each(JoinHandle::abort);
    let mut times = times.take();
    times.sort_unstable();
    for at in [50, 99] {
        println!("pickup_p{at}_ms {:.3}", times[(count - 1) * at / 100].as_secs_f64() * 1e3);
    }
}

/// Takes and deletes, and notes how long each was on its way.
async fn note_waits(mut worker: Connection, begun: Instant, times: Rc<RefCell<Vec<Duration>>>) {
    loop {
        worker.send(b"reserve\r\n").await;
        let (id, payload) = worker.taken().await.expect("a task");
        let sent = u64::from_be_bytes(payload[..8].try_into().unwrap());
        times.borrow_mut().push(begun.elapsed() - Duration::from_nanos(sent));
        worker.send(format!("delete {id}\r\n").as_bytes()).await;
        assert_eq!(worker.line().await, "DELETED");
    }
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    async fn open(socket: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(socket).await.expect("a connection")))
    }

    async fn put(&mut self, payloads: &[[u8; PAYLOAD]]) {
        let mut sent = Vec::with_capacity(payloads.len() * (PAYLOAD + 24));
        for payload in payloads {
            sent.extend_from_slice(format!("put 1024 0 60 {PAYLOAD}\r\n").as_bytes());
            sent.extend_from_slice(payload);
            sent.extend_from_slice(b"\r\n");
        }
        self.send(&sent).await;
        for _ in payloads {
            let answer = self.line().await;
            assert!(answer.starts_with("INSERTED"), "{answer}");
        }
    }

    /// Deletes what is held, if anything, and takes the next, if there is one.
    async fn swap(&mut self, held: Option<u64>) -> Option<(u64, Vec<u8>)> {
        let delete = held.map_or(String::new(), |id| format!("delete {id}\r\n"));
        self.send(format!("{delete}reserve-with-timeout 0\r\n").as_bytes()).await;
        if held.is_some() {
            assert_eq!(self.line().await, "DELETED");
        }
        self.taken().await
    }

    /// The id and the payload of what the server gives.
    async fn taken(&mut self) -> Option<(u64, Vec<u8>)> {
        let answer = self.line().await;
        let mut words = answer.split(' ');
        match words.next() {
            Some("RESERVED") => {}
            Some("TIMED_OUT") => return None,
            _ => panic_with(&answer),
        }
        let mut number = || words.next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
        let (id, length) = (number(), number() as usize);
        let mut payload = vec![0; length + 2];
        self.0.read_exact(&mut payload).await.unwrap();
        Some((id, payload))
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }
}

fn panic_with(answer: &str) -> ! {
    eprintln!("beanstalkd answers {answer}");
    std::process::exit(1);
}

/// The program, on a socket in a folder of its own; ends with its owner.
struct Server {
    child: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(program: &str, synced: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let mut command = Command::new(program);
        command.arg("-l").arg(format!("unix:{}", socket.display()));
        if synced {
            command.arg("-b").arg(folder.path()).arg("-f0");
        }
        // It complains of connections that end while they wait.
        let child = command.stderr(Stdio::null()).spawn().expect("beanstalkd");
        let server = Self { child, socket, _folder: folder };
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(&server.socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10), "beanstalkd does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
