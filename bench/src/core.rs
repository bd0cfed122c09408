//! One hot function of the core, many times: for counting instructions (see bench/core).

use std::hint::black_box;
use std::time::Duration;

use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment, Rules};
use tasklane_core::{
    Aging, Entry, Intent, NewTask, Order, Outcome, Policies, Priority, SeededRandom, Sequence,
    Stamp, Task, TaskId, TaskType, Timestamp, WorkerId,
};
use tasklane_store::codec;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let function = arguments.next().unwrap_or_default();
    let times: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let Some(bench) = Bench::new() else {
        eprintln!("the sample task is not valid");
        std::process::exit(1);
    };
    for _ in 0..times {
        if !bench.once(&function) {
            eprintln!(
                "usage: core resolve|admit|claim|complete|fail|effective|bands|encode|decode N"
            );
            std::process::exit(2);
        }
    }
}

struct Bench {
    new_task: NewTask,
    pending: Task,
    running: Task,
    record: Vec<u8>,
    rules: Rules,
    policies: Policies,
    worker: WorkerId,
}

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const STAMP: Stamp = Stamp { at: NOW, sequence: Sequence(42) };

impl Bench {
    fn new() -> Option<Self> {
        let mut random = SeededRandom::new(1);
        let worker = WorkerId::generate(NOW, &mut random);
        let new_task = NewTask::new(TaskType::new("email.send").ok()?, vec![b'x'; 120]);
        let policies = Policies::default();
        let draft = new_task.clone().resolve(&policies).ok()?;
        let id = TaskId::generate(1_790_000_000_000, 1, &mut random);
        let (pending, _) = lifecycle::admit(draft, id, STAMP, false);
        let mut running = pending.clone();
        let order = Order::default();
        let claim = lifecycle::claim(&running, worker, true, &order, NOW, &mut random).ok()?;
        running.apply(&Entry { stamp: STAMP, event: claim.claimed }).ok()?;
        let record = codec::encode_record(Vec::new(), &running);
        let rules = Rules::default();
        Some(Self { new_task, pending, running, record, rules, policies, worker })
    }

    fn once(&self, function: &str) -> bool {
        let mut random = SeededRandom::new(7);
        match function {
            "resolve" => drop(black_box(self.new_task.clone().resolve(&self.policies))),
            "admit" => {
                let draft = self.new_task.clone().resolve(&self.policies);
                drop(black_box(draft.map(|d| lifecycle::admit(d, self.pending.id, STAMP, false))));
            }
            "claim" => {
                let mut task = self.pending.clone();
                let order = Order::default();
                let claim = lifecycle::claim(&task, self.worker, true, &order, NOW, &mut random);
                let applied =
                    claim.map(|claim| task.apply(&Entry { stamp: STAMP, event: claim.claimed }));
                drop(black_box(applied));
            }
            "complete" => self.settle(Outcome::Completed("{\"ok\":true}".into())),
            "fail" => self.settle(Outcome::Failed {
                failure: tasklane_core::Failure::new(tasklane_core::ErrorKind::Transient, "again"),
                retry_after: None,
            }),
            "effective" => {
                let order = Order::default();
                let ready_at = NOW.minus(Duration::from_secs(700));
                black_box(order.effective(Priority::Low, black_box(ready_at), NOW));
            }
            "bands" => drop(black_box(Aging::default().bands(black_box(NOW)))),
            "encode" => {
                drop(black_box(codec::encode_record(Vec::with_capacity(256), &self.running)))
            }
            "decode" => {
                drop(black_box(codec::decode_record(&self.record, self.pending.clone())));
            }
            _ => return false,
        }
        true
    }

    fn settle(&self, outcome: Outcome) {
        let mut task = self.running.clone();
        let Some(lease) = task.state.lease().copied() else { return };
        let intent = Intent::Settle(lease.token, outcome);
        let elapsed = Elapsed::default();
        let moment = Moment { now: NOW, rules: &self.rules, elapsed, key_free: true };
        let mut random = SeededRandom::new(7);
        if let Ok(Decision::Change(event)) = lifecycle::decide(&task, &intent, &moment, &mut random)
        {
            let _ = black_box(task.apply(&Entry { stamp: STAMP, event }));
        }
    }
}
