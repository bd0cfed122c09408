//! Producers that do not wait for each other.
//!
//! A process of its own, which the system serves last: what is measured is what a server does with
//! the load, not how the two share a processor.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use super::caller::request;
use crate::Failure;

/// How low the system is asked to put a flood.
const NICE: &str = "19";
/// How long the last answers may take, all of them.
const LAST_WITHIN: Duration = Duration::from_secs(20);
/// How often calls come due.
const TICK: Duration = Duration::from_millis(1);

/// How hard to press.
#[derive(Debug, Clone, Copy)]
pub struct Pressure {
    /// Tasks of one call.
    pub tasks: u64,
    /// Connections, each with one call under way at most.
    pub connections: u64,
    /// Calls a second, whatever becomes of them; 0 is as many as the connections can.
    pub per_second: u64,
    /// For how long.
    pub seconds: u64,
}

/// What became of the calls.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Calls that were due.
    pub offered: u64,
    /// Calls that came to an end in time, however.
    pub answered: u64,
    /// Taken: their tasks are there.
    pub taken: u64,
    /// Refused with 429 or 503 and Retry-After.
    pub refused: u64,
    /// Answered in another way, or not at all.
    pub wrong: u64,
}

impl Tally {
    /// Of two floods.
    pub fn and(self, other: Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            answered: self.answered + other.answered,
            taken: self.taken + other.taken,
            refused: self.refused + other.refused,
            wrong: self.wrong + other.wrong,
        }
    }
}

/// Runs a flood in a process of its own: `program` is this one.
pub fn run(program: &Path, address: SocketAddr, pressure: Pressure) -> Result<Tally, Failure> {
    let Pressure { tasks, connections, per_second, seconds } = pressure;
    let numbers = [tasks, connections, per_second, seconds].map(|number| number.to_string());
    let output = Command::new("nice")
        .args(["-n", NICE])
        .arg(program)
        .args(["overload", "flood", &address.to_string()])
        .args(numbers)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let read: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [offered, answered, taken, refused, wrong] =
        read.try_into().map_err(|_| format!("a flood said {text:?}"))?;
    Ok(Tally { offered, answered, taken, refused, wrong })
}

/// The process of [`run`].
pub fn serve(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let address = arguments.next().ok_or("flood ADDRESS …")?.parse()?;
    let numbers: Vec<u64> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [tasks, connections, per_second, seconds] =
        numbers.try_into().map_err(|_| "a flood takes four numbers")?;
    let pressure = Pressure { tasks, connections, per_second, seconds };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tally = runtime.block_on(press(address, pressure));
    let Tally { offered, answered, taken, refused, wrong } = tally;
    println!("{offered} {answered} {taken} {refused} {wrong}");
    Ok(())
}

/// What the producers share.
struct Flood {
    address: SocketAddr,
    bytes: Vec<u8>,
    ends_at: Instant,
    /// Calls that are due and not yet begun; `None` where each producer calls when it can.
    due: Option<Semaphore>,
    taken: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
}

async fn press(address: SocketAddr, pressure: Pressure) -> Tally {
    let flood = Arc::new(Flood {
        address,
        bytes: call_of(pressure.tasks),
        ends_at: Instant::now() + Duration::from_secs(pressure.seconds),
        due: (pressure.per_second > 0).then(|| Semaphore::new(0)),
        taken: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
    });
    let producers: Vec<_> =
        (0..pressure.connections).map(|_| tokio::spawn(produce(Arc::clone(&flood)))).collect();
    let mut offered = 0;
    if let Some(due) = &flood.due {
        let began = Instant::now();
        while Instant::now() < flood.ends_at {
            let by_now = (began.elapsed().as_secs_f64() * pressure.per_second as f64) as u64;
            due.add_permits((by_now - offered) as usize);
            offered = by_now;
            tokio::time::sleep(TICK).await;
        }
        due.close();
    }
    let until = tokio::time::Instant::from_std(flood.ends_at) + LAST_WITHIN;
    let mut unanswered = 0;
    for producer in producers {
        // One that stopped otherwise has heard of no answer either.
        unanswered += u64::from(!matches!(timeout_at(until, producer).await, Ok(Ok(()))));
    }
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (taken, refused, wrong) = (read(&flood.taken), read(&flood.refused), read(&flood.wrong));
    let answered = taken + refused + wrong;
    let wrong = wrong + unanswered;
    Tally { offered: offered.max(answered), answered, taken, refused, wrong }
}

async fn produce(flood: Arc<Flood>) {
    let mut connection = None;
    while Instant::now() < flood.ends_at {
        if let Some(due) = &flood.due {
            let Ok(permit) = due.acquire().await else { return };
            permit.forget();
        }
        let answered = call(&mut connection, &flood).await;
        if Instant::now() > flood.ends_at {
            return;
        }
        let count = match answered {
            Ok((200 | 201, _)) => &flood.taken,
            Ok((429 | 503, true)) => &flood.refused,
            other => {
                connection = None;
                eprintln!("flood: {other:?}");
                &flood.wrong
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// One call: its status, and whether the answer says when to come back.
async fn call(
    connection: &mut Option<BufReader<TcpStream>>,
    flood: &Flood,
) -> Result<(u16, bool), Failure> {
    let stream = match connection {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect(flood.address).await?;
            stream.set_nodelay(true)?;
            connection.insert(BufReader::with_capacity(64 * 1024, stream))
        }
    };
    stream.write_all(&flood.bytes).await?;
    let (mut status, mut length, mut retry_after, mut close) = (0, 0, false, false);
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err("the server closed the connection".into());
        }
        let text = line.trim_end();
        if let Some(rest) = text.strip_prefix("HTTP/1.1 ") {
            status = rest.split(' ').next().unwrap_or_default().parse()?;
        } else if let Some((name, value)) = text.split_once(": ") {
            match name {
                "content-length" => length = value.parse()?,
                "retry-after" => retry_after = true,
                "connection" => close = value == "close",
                _ => {}
            }
        } else if text.is_empty() {
            break;
        }
    }
    let mut body = (&mut *stream).take(length);
    tokio::io::copy_buf(&mut body, &mut tokio::io::sink()).await?;
    if close {
        *connection = None;
    }
    Ok((status, retry_after))
}

/// A call with so many tasks, the same every time. The tasks are as small as tasks can be: so a call
/// is cheap to make and dear to carry out.
fn call_of(tasks: u64) -> Vec<u8> {
    let task = r#"{"type":"a","priority":"critical"}"#;
    if tasks == 1 {
        return request("/api/v1/tasks", task);
    }
    let tasks = vec![task; tasks as usize].join(",");
    request("/api/v1/tasks/batch", &format!(r#"{{"tasks":[{tasks}]}}"#))
}
