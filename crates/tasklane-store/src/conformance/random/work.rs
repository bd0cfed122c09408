//! What workers and operators do with tasks.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    Clock, Command, ErrorKind, Failure, Health, Intent, LeaseToken, Outcome, Priority, Progress,
    Refusal, TaskId, Update,
};

use super::draft::{capabilities, metadata};
use super::draw::Draw;
use super::names::{TokenPair, WorkerPair};
use super::seen::{LOST, REPEATED, STOPPED};
use super::world::{Held, World};
use crate::conformance::Fixture;
use crate::error::WorkerRefusal;
use crate::request::{Changed, ClaimRequest, Claimed, LeaseRef, Leases, Renewal, Renewed};

/// A command in the words of both sides.
#[derive(Debug, Clone)]
struct Order {
    real: Command,
    model: Command,
    /// The lease whose token it presents, if one.
    held: Option<Held>,
}

impl<F: Fixture> World<F> {
    pub(super) fn claim(&mut self) {
        let asked: Vec<_> = (0..self.draw.between(1, 2)).map(|_| self.claim_request()).collect();
        self.step += asked.len() as u64 - 1;
        let of = |id: fn(&WorkerPair) -> tasklane_core::WorkerId| -> Vec<ClaimRequest> {
            let request = |(worker, request): &(WorkerPair, ClaimRequest)| ClaimRequest {
                worker: id(worker),
                ..request.clone()
            };
            asked.iter().map(request).collect()
        };
        let real = self.real(|store| store.claim(of(|worker| worker.real)));
        let model = self.model(|store| store.claim(of(|worker| worker.model)));
        self.compare_claims(&asked, &real, &model);
    }

    /// What workers do most: settle and ask for more.
    pub(super) fn execute_and_claim(&mut self) {
        let orders: Vec<_> = (0..self.draw.between(0, 3)).map(|_| self.order()).collect();
        let asked = self.claim_request();
        self.step += orders.len() as u64;
        let call = |of: fn(&Order) -> &Command, worker| {
            let request = ClaimRequest { worker, ..asked.1.clone() };
            (orders.iter().map(of).cloned().collect(), vec![request])
        };
        let (commands, requests) = call(|order| &order.real, asked.0.real);
        let real = self.real(|store| store.execute_and_claim(commands, requests));
        let (commands, requests) = call(|order| &order.model, asked.0.model);
        let model = self.model(|store| store.execute_and_claim(commands, requests));
        self.compare_verdicts(&orders, &real.0, &model.0);
        self.compare_claims(&[asked], &real.1, &model.1);
    }

    fn compare_claims(
        &mut self,
        asked: &[(WorkerPair, ClaimRequest)],
        real: &[Result<Vec<Claimed>, WorkerRefusal>],
        model: &[Result<Vec<Claimed>, WorkerRefusal>],
    ) {
        for ((asked, real), model) in asked.iter().zip(real).zip(model) {
            let (Ok(real), Ok(model)) = (real, model) else {
                self.agree(asked, &real.as_ref().err(), &model.as_ref().err());
                self.seen.worker_refusal(*model.as_ref().expect_err("both refused"));
                continue;
            };
            let ids = |claimed: &[Claimed]| claimed.iter().map(|c| c.task.id).collect::<Vec<_>>();
            self.agree(asked, &ids(real), &ids(model));
            for (real, model) in real.iter().zip(model) {
                self.take_note(asked.0, real, model);
            }
        }
    }

    fn take_note(&mut self, worker: WorkerPair, real: &Claimed, model: &Claimed) {
        let token = |claimed: &Claimed| claimed.task.state.lease().expect("it is held").token;
        let token = TokenPair { model: token(model), real: token(real) };
        let task = real.task.id;
        self.names.add_token(task, token);
        self.held.push(Held { task, worker, token });
        let Claimed { payload, lease, .. } = real.clone();
        let translated = Claimed { task: self.names.task(&real.task), payload, lease };
        self.agree(&"a claim", &translated, model);
    }

    fn claim_request(&mut self) -> (WorkerPair, ClaimRequest) {
        let worker = self.some_worker();
        let draw = &mut self.draw;
        let count = if draw.in_hundred(5) { 2_000 } else { draw.below(5) as usize };
        let auto_start = draw.in_hundred(60);
        let narrowed = draw.maybe(15, |draw| capabilities(draw, 50));
        (worker, ClaimRequest { worker: worker.model, count, auto_start, narrowed })
    }

    /// Mostly one that is alive.
    pub(super) fn some_worker(&mut self) -> WorkerPair {
        let gone = if self.draw.in_hundred(3) { self.gone.one(&mut self.draw) } else { None };
        gone.unwrap_or_else(|| self.draw.of(&self.workers))
    }

    pub(super) fn execute(&mut self) {
        let orders: Vec<_> = (0..self.draw.between(1, 5)).map(|_| self.order()).collect();
        self.step += orders.len() as u64 - 1;
        self.carry_out(&orders);
    }

    fn carry_out(&mut self, orders: &[Order]) {
        let commands = |of: fn(&Order) -> &Command| orders.iter().map(of).cloned().collect();
        let real = self.real(|store| store.execute(commands(|order| &order.real)));
        let model = self.model(|store| store.execute(commands(|order| &order.model)));
        self.compare_verdicts(orders, &real, &model);
    }

    fn compare_verdicts(
        &mut self,
        orders: &[Order],
        real: &[Result<Changed, Refusal>],
        model: &[Result<Changed, Refusal>],
    ) {
        self.agree(&"as many answers as commands", &real.len(), &orders.len());
        for ((order, real), model) in orders.iter().zip(real).zip(model) {
            self.agree(order, real, model);
            self.learn(order, real);
        }
    }

    /// Keeps `held` to leases that may still be current.
    fn learn(&mut self, order: &Order, verdict: &Result<Changed, Refusal>) {
        match verdict {
            Ok(changed) if changed.repeated && matches!(order.model.intent, Intent::Settle(..)) => {
                self.seen.fact(REPEATED);
            }
            Ok(_) => {}
            Err(refusal) => self.seen.refusal(refusal),
        }
        let Some(held) = order.held else { return };
        let over = match verdict {
            Ok(changed) => !changed.state.is_leased(),
            Err(refusal) => matches!(refusal, Refusal::LeaseLost | Refusal::NotFound),
        };
        if let (true, Some(at)) = (over, self.held.iter().position(|known| *known == held)) {
            self.held.swap_remove(at);
            self.given_up.push(held, &mut self.draw);
        }
        if let (Ok(_), Intent::Settle(_, outcome)) = (verdict, &order.model.intent) {
            self.settled.push((held, outcome.clone()), &mut self.draw);
        }
    }

    fn order(&mut self) -> Order {
        match self.draw.below(100) {
            0..70 => self.order_with_token(),
            70..73 => self.settle_again(),
            _ => self.order_without_token(),
        }
    }

    /// By the worker that holds the lease, held it once, or never did.
    fn order_with_token(&mut self) -> Order {
        let held = match self.draw.below(100) {
            0..5 => self.given_up.one(&mut self.draw),
            _ => self.draw.one(&self.held),
        };
        let Some(mut held) = held else { return self.order_without_token() };
        if self.draw.in_hundred(2) {
            let forged = LeaseToken::generate(self.draw.source());
            held.token = TokenPair { model: forged, real: forged };
        }
        let draw = &mut self.draw;
        let intent: fn(LeaseToken, Outcome, Progress) -> Intent = match draw.below(100) {
            0..20 => |token, _, _| Intent::Start(token),
            20..32 => |token, _, progress| Intent::Progress(token, progress),
            32..94 => |token, outcome, _| Intent::Settle(token, outcome),
            94..96 => |token, _, _| Intent::LoseLease(token),
            96..98 => |token, _, _| Intent::TimeOut(token),
            _ => |token, _, _| Intent::Unassign(token),
        };
        let (outcome, progress) = (outcome(draw), progress(draw));
        self.order_of(held, |token| intent(token, outcome.clone(), progress.clone()))
    }

    /// What was said before, or something else with the same token.
    fn settle_again(&mut self) -> Order {
        let Some((held, mut said)) = self.settled.one(&mut self.draw) else {
            return self.order_without_token();
        };
        if self.draw.in_hundred(30) {
            said = outcome(&mut self.draw);
        }
        self.order_of(held, |token| Intent::Settle(token, said.clone()))
    }

    fn order_of(&self, held: Held, intent: impl Fn(LeaseToken) -> Intent) -> Order {
        let command = |token| Command { task: held.task, intent: intent(token) };
        let (real, model) = (command(held.token.real), command(held.token.model));
        Order { real, model, held: Some(held) }
    }

    fn order_without_token(&mut self) -> Order {
        let task = match self.draw.below(100) {
            0..2 => TaskId::generate(0, 0, self.draw.source()),
            _ => self
                .draw
                .one(&self.tasks)
                .unwrap_or_else(|| TaskId::generate(1, 0, self.draw.source())),
        };
        let now = self.clock.wall();
        let draw = &mut self.draw;
        let intent = match draw.below(100) {
            0..20 => Intent::Cancel,
            20..45 => Intent::Retry {
                reset_attempts: draw.in_hundred(50),
                priority: draw.maybe(30, |draw| draw.of(&Priority::DESCENDING)),
            },
            45..55 => Intent::Requeue,
            55..70 => Intent::Update(Update {
                priority: draw.maybe(50, |draw| draw.of(&Priority::DESCENDING)),
                scheduled_at: draw
                    .maybe(40, |draw| now.minus(draw.seconds(5)).plus(draw.seconds(20))),
                metadata: draw.maybe(40, metadata),
            }),
            70..90 => Intent::Discard,
            90..95 => Intent::ComeDue,
            _ => Intent::Expire,
        };
        let command = Command { task, intent };
        Order { real: command.clone(), model: command, held: None }
    }

    /// Carries out what the model found overdue; the caller has compared the two findings.
    pub(super) fn carry_out_found(&mut self, model: Vec<Command>, real: Vec<Command>) {
        let pairs = model.into_iter().zip(real);
        let orders: Vec<_> = pairs.map(|(model, real)| Order { real, model, held: None }).collect();
        self.step += orders.len() as u64;
        self.carry_out(&orders);
    }

    pub(super) fn renew(&mut self) {
        let worker = self.some_worker();
        let held: Vec<_> = if self.draw.in_hundred(50) {
            self.held.iter().filter(|_| self.draw.in_hundred(60)).copied().collect()
        } else {
            self.held.iter().filter(|held| held.worker == worker).copied().collect()
        };
        let all = self.draw.in_hundred(50);
        let health = self.draw.maybe(50, |draw| Health {
            cpu_percent: Some(draw.below(100) as f32),
            memory_percent: None,
            load: draw.maybe(50, |draw| draw.below(9) as u32),
        });
        let renewal = |worker, token: fn(&Held) -> LeaseToken| {
            let these = held.iter().map(|h| LeaseRef { task: h.task, token: token(h) }).collect();
            let leases = if all { Leases::All } else { Leases::These(these) };
            vec![Renewal { worker, leases, health }]
        };
        let real = self.real(|s| s.renew(renewal(worker.real, |held| held.token.real)));
        let model = self.model(|s| s.renew(renewal(worker.model, |held| held.token.model)));
        for renewed in model.iter().flatten() {
            let told = [(LOST, renewed.lost.is_empty()), (STOPPED, renewed.cancel.is_empty())];
            told.iter().filter(|(_, none)| !none).for_each(|(fact, _)| self.seen.fact(fact));
        }
        let in_order = |verdicts: Vec<Result<Renewed, _>>| -> Vec<_> {
            let sorted = |mut renewed: Renewed| {
                renewed.cancel.sort();
                renewed.lost.sort();
                renewed
            };
            verdicts.into_iter().map(|verdict| verdict.map(sorted)).collect()
        };
        self.agree(&(worker, all, held), &in_order(real), &in_order(model));
    }
}

fn outcome(draw: &mut Draw) -> Outcome {
    match draw.below(100) {
        0..50 => Outcome::Completed(Bytes::from(vec![b'r'; draw.below(4) as usize])),
        50..80 => Outcome::Failed {
            failure: failure(draw),
            retry_after: draw.maybe(20, |d| d.seconds(9)),
        },
        80..85 => Outcome::Cancelled,
        85..86 => Outcome::Released { delay: Some(Duration::MAX) },
        _ => Outcome::Released { delay: draw.maybe(40, |draw| draw.seconds(9)) },
    }
}

fn failure(draw: &mut Draw) -> Failure {
    let failure = Failure::new(draw.of(&ErrorKind::ALL), draw.of(&["Out of luck", "no route"]));
    let failure = if draw.in_hundred(30) { failure.with_code("E42") } else { failure };
    let failure = if draw.in_hundred(30) { failure.with_stack("main") } else { failure };
    if draw.in_hundred(10) { failure.not_retryable() } else { failure }
}

fn progress(draw: &mut Draw) -> Progress {
    let percent = draw.maybe(50, |draw| draw.below(101) as f64);
    let step = draw.maybe(50, |draw| draw.below(9) as u32);
    Progress::new(percent, step, None, Some("on it"), None).expect("in range")
}
