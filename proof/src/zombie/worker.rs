//! The worker process that is stopped and goes on as if nothing had happened.
//!
//! It takes a task when it is told to, renews its lease, tells progress and writes to the sink
//! until its rounds are over, and settles. It believes no answer: what is refused, it tries again,
//! also under a new worker id.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::sink::Writer;
use super::told::{Kind, Told, now};
use crate::Failure;
use crate::http::caller::{Answer, Caller};

/// Rounds that it still makes after it was refused for the first time.
const STALE_ROUNDS: u32 = 2;
/// How long it waits for a task.
const TASK_WITHIN: Duration = Duration::from_secs(20);

/// The task in its hands.
struct Held {
    task: String,
    token: String,
    fence: u64,
}

struct Worker {
    caller: Caller,
    sink: Writer,
    queue: String,
    id: String,
    /// Calls that were refused since the last claim.
    refused: u32,
}

/// The process: `ADDRESS SINK QUEUE PAUSE_MS`, then a line `take ROUNDS STATUS` for each task.
pub fn serve(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut next = || arguments.next().ok_or("a worker takes ADDRESS SINK QUEUE PAUSE_MS");
    let (address, sink): (SocketAddr, SocketAddr) = (next()?.parse()?, next()?.parse()?);
    let (queue, pause) = (next()?, Duration::from_millis(next()?.parse()?));
    let (caller, sink) = (Caller::new(address)?, Writer::new(sink)?);
    let mut worker = Worker { caller, sink, queue, id: String::new(), refused: 0 };
    worker.register()?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let mut words = line.split(' ').skip(1);
        let rounds = words.next().ok_or("take ROUNDS STATUS")?.parse()?;
        worker.take(rounds, words.next().ok_or("take ROUNDS STATUS")?, pause)?;
    }
    Ok(())
}

impl Worker {
    fn register(&mut self) -> Result<(), Failure> {
        let spec = json!({"name": self.queue, "queues": [self.queue], "capacity": 1});
        self.id = self.caller.register(&spec)?;
        Ok(())
    }

    fn take(&mut self, rounds: u32, status: &str, pause: Duration) -> Result<(), Failure> {
        let Some(held) = self.claim()? else {
            tell(&Told::Nothing);
            return Ok(());
        };
        let (task, fence) = (held.task.clone(), held.fence);
        tell(&Told::Claimed { task, fence, worker: self.id.clone() });
        self.refused = 0;
        let mut stale = 0;
        for _ in 0..rounds {
            self.write(&held)?;
            self.renew(&held, Kind::Renew)?;
            self.progress(&held, Kind::Progress)?;
            stale += u32::from(self.refused > 0);
            if stale >= STALE_ROUNDS {
                break;
            }
            thread::sleep(pause);
        }
        self.write(&held)?;
        self.settle(&held, status, Kind::Settle)?;
        if self.refused > 0 {
            self.settle_many(&held, status, Kind::SettleMany)?;
            self.register()?;
            self.start(&held)?;
            self.renew(&held, Kind::RenewAgain)?;
            self.progress(&held, Kind::ProgressAgain)?;
            self.settle(&held, status, Kind::SettleAgain)?;
            self.settle_many(&held, status, Kind::SettleManyAgain)?;
            self.write(&held)?;
        }
        tell(&Told::Done);
        Ok(())
    }

    fn claim(&mut self) -> Result<Option<Held>, Failure> {
        let began = Instant::now();
        while began.elapsed() < TASK_WITHIN {
            let poll = json!({"available_capacity": 1, "wait_ms": 500});
            let answer = self.post("poll", &poll)?;
            if answer.status == 410 {
                self.register()?;
            }
            if let Some(task) = answer.body.pointer("/tasks/0") {
                let fence = task.get("fence").and_then(Value::as_u64).ok_or("no fence")?;
                let (task, token) = (text(task, "id")?, text(task, "lease_token")?);
                return Ok(Some(Held { task, token, fence }));
            }
        }
        Ok(None)
    }

    fn write(&mut self, held: &Held) -> Result<(), Failure> {
        let began = now();
        let taken = self.sink.write(&held.task, held.fence)?;
        tell(&Told::Wrote { began, taken });
        Ok(())
    }

    fn renew(&mut self, held: &Held, kind: Kind) -> Result<(), Failure> {
        let lease = json!({"task_id": held.task, "lease_token": held.token});
        self.call(kind, "heartbeat", &json!({"leases": [lease]}))
    }

    fn progress(&mut self, held: &Held, kind: Kind) -> Result<(), Failure> {
        let body = json!({"task_id": held.task, "lease_token": held.token, "percent": 50,
            "message": self.id});
        self.call(kind, "progress", &body)
    }

    fn start(&mut self, held: &Held) -> Result<(), Failure> {
        let body = json!({"task_id": held.task, "lease_token": held.token});
        self.call(Kind::StartAgain, "start", &body)
    }

    fn settle(&mut self, held: &Held, status: &str, kind: Kind) -> Result<(), Failure> {
        let report = self.report(held, status);
        self.call(kind, "result", &report)
    }

    fn settle_many(&mut self, held: &Held, status: &str, kind: Kind) -> Result<(), Failure> {
        let report = self.report(held, status);
        self.call(kind, "result", &json!({"results": [report]}))
    }

    fn report(&self, held: &Held, status: &str) -> Value {
        let mut report = json!({"task_id": held.task, "lease_token": held.token, "status": status});
        let more = match status {
            "completed" => Some(("result", json!({"by": self.id}))),
            "failed" => Some(("error", json!({"message": "a zombie", "kind": "permanent"}))),
            _ => None,
        };
        if let (Some((name, value)), Some(report)) = (more, report.as_object_mut()) {
            report.insert(name.to_owned(), value);
        }
        report
    }

    fn call(&mut self, kind: Kind, path: &str, body: &Value) -> Result<(), Failure> {
        let began = now();
        let answer = self.post(path, body)?;
        let word = word(&answer);
        self.refused += u32::from(word != "ok");
        tell(&Told::Called { kind, began, status: answer.status, word });
        Ok(())
    }

    fn post(&mut self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.caller.post(&format!("/internal/workers/{}/{path}", self.id), body)
    }
}

/// What an answer amounts to: `ok`, or why it was refused.
fn word(answer: &Answer) -> String {
    let body = &answer.body;
    if answer.status != 200 {
        let problem = body.get("type").and_then(Value::as_str).unwrap_or("no-problem");
        return problem.rsplit('/').next().unwrap_or(problem).to_owned();
    }
    let lost = body.pointer("/lost/0").map(|_| "lost");
    let refused = body.pointer("/results/0/error").and_then(Value::as_str);
    lost.or(refused).unwrap_or("ok").to_owned()
}

fn text(value: &Value, name: &str) -> Result<String, Failure> {
    let text = value.get(name).and_then(Value::as_str);
    Ok(text.ok_or_else(|| format!("no {name} in {value}"))?.to_owned())
}

fn tell(told: &Told) {
    println!("{told}");
}
