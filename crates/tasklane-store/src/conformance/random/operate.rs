//! Workers come and go, queues are set, what has ended is removed, the store is opened again.

use tasklane_core::{
    Aging, DepthLimits, Names, Order, Pattern, Pinned, QueueName, QueueSettings, Retention,
    Selection, Weight, Worker, WorkerSpec,
};

use super::draft::{QUEUES, TYPES, capabilities};
use super::draw::Draw;
use super::names::WorkerPair;
use super::world::{Held, World};
use crate::conformance::Fixture;
use crate::request::{Direction, Prune, Pruned};

/// Workers that are alive at once.
const WORKERS: usize = 6;
/// So that everything due goes and both sides agree on what is left.
const ALL: usize = 1_000_000;

impl<F: Fixture> World<F> {
    pub(super) fn register(&mut self) {
        let spec = WorkerSpec {
            name: self.draw.maybe(50, |_| Box::from("worker")),
            version: None,
            host: self.draw.maybe(50, |_| Box::from("host")),
            owner: self.draw.maybe(50, |_| Box::from("key")),
            selection: selection(&mut self.draw),
            capacity: self.draw.between(1, 12) as u32,
        };
        let real = self.real(|store| store.register(spec.clone()));
        let model = self.model(|store| store.register(spec.clone()));
        let pair = WorkerPair { model, real };
        self.names.add_worker(pair);
        self.workers.push(pair);
        if self.workers.len() > WORKERS {
            self.let_leave(self.workers[0]);
        }
    }

    pub(super) fn direct(&mut self) {
        let worker = self.some_worker();
        let direction = match self.draw.below(100) {
            0..20 => Direction::Pause,
            20..60 => Direction::Resume,
            60..70 => Direction::Drain,
            70..80 => Direction::MarkUnhealthy,
            80..85 => Direction::Recover,
            85..92 => Direction::DeclareDead,
            _ => return self.let_leave(worker),
        };
        self.direct_worker(worker, direction);
    }

    /// The tasks given back go in the order of their ids, which is a store's own business where
    /// two ids are alike.
    fn let_leave(&mut self, worker: WorkerPair) {
        let alike = |held: &Held| held.worker == worker && self.alike.contains(&held.task);
        let direction =
            if self.held.iter().any(alike) { Direction::Drain } else { Direction::Leave };
        self.direct_worker(worker, direction);
    }

    pub(super) fn direct_worker(&mut self, worker: WorkerPair, direction: Direction) {
        let real = self.real(|store| store.direct(worker.real, direction));
        let model = self.model(|store| store.direct(worker.model, direction));
        self.agree(&(worker, direction), &real, &model);
        let ends = matches!(direction, Direction::Leave | Direction::DeclareDead) && real.is_ok();
        if ends {
            self.workers.retain(|known| *known != worker);
            self.gone.push(worker, &mut self.draw);
        }
        if self.workers.is_empty() {
            self.register();
        }
    }

    pub(super) fn configure(&mut self) {
        let name = self.draw.of(&QUEUES);
        self.configure_queue(name);
    }

    pub(super) fn announce_purge(&mut self) {
        let queue = QueueName::new(self.draw.of(&QUEUES)).expect("a queue");
        self.both(&("purge", &queue), |store| store.announce_purge(vec![queue.clone()]));
    }

    pub(super) fn configure_queue(&mut self, name: &str) {
        let queue = QueueName::new(name).expect("a queue");
        let settings = settings(&mut self.draw);
        self.both(&(&queue, settings), |store| store.configure(queue.clone(), settings));
    }

    pub(super) fn prune(&mut self) {
        // Both sides have told what they are about to forget.
        self.follow_the_feed();
        let prune = Prune {
            retention: retention(&mut self.draw),
            override_queues: self.draw.in_hundred(40),
            events_for: self.draw.seconds(60),
            events_max: self.draw.below(400),
            idempotency_for: self.draw.seconds(400),
            workers_for: self.draw.seconds(40),
            api_keys_for: self.draw.seconds(60),
            audit_for: self.draw.seconds(400),
            audit_max: self.draw.below(40),
            limit: ALL,
        };
        let (mut real, mut model) = (Pruned::default(), Pruned::default());
        // A slice also ends when it has taken too long.
        real.more = true;
        while real.more {
            real.add(&self.real(|store| store.prune(prune)));
        }
        model.add(&self.model(|store| store.prune(prune)));
        self.agree(&prune, &real, &model);
        self.forget_what_is_gone();
    }

    fn forget_what_is_gone(&mut self) {
        let found = self.model(|store| store.get(self.tasks.clone()));
        let there: std::collections::HashSet<_> =
            found.iter().flatten().map(|stored| stored.task.id).collect();
        self.tasks.retain(|id| there.contains(id));
        self.names.retain(|id| there.contains(&id));
    }

    pub(super) fn reopen(&mut self) {
        self.fixture.reopen();
        let differences = self.fixture.differences();
        if !differences.survives_reopen {
            return self.begin_anew();
        }
        match differences.leases_restart {
            true => self.model.restart(),
            false => self.model.forget(),
        }
        self.audit();
    }

    pub(super) fn compare_workers(&self) {
        let shown = |mut workers: Vec<Worker>| {
            workers.sort_by_key(|worker| worker.id);
            workers
        };
        let translated = self.real(|store| store.workers()).into_iter().map(|worker| {
            let id = self.names.worker(worker.id);
            Worker { id, ..worker }
        });
        let real = shown(translated.collect());
        self.agree(&"workers", &real, &shown(self.model(|store| store.workers())));
        for worker in &real {
            self.expect(worker, worker.leases <= worker.spec.capacity);
        }
    }
}

fn selection(draw: &mut Draw) -> Selection {
    let names = |draw: &mut Draw, all: &[&str], pattern: &str| match draw.below(100) {
        0..50 => Names::All,
        50..70 => Names::matching(vec![Pattern::new(pattern).expect("a pattern")]).expect("one"),
        _ => Names::only([draw.of(all), draw.of(all)]).expect("two"),
    };
    Selection {
        queues: names(draw, &QUEUES, "a*"),
        types: names(draw, &TYPES, "mail.*"),
        capabilities: capabilities(draw, 70),
    }
}

fn settings(draw: &mut Draw) -> QueueSettings {
    let normal = draw.between(2, 40);
    let high = normal + draw.below(6);
    QueueSettings {
        paused: draw.in_hundred(12),
        order: Order::Aging(aging(draw)),
        weight: Weight::new(draw.between(1, 4) as u32).expect("in range"),
        depth: DepthLimits::new(normal, high, high + draw.below(6)).expect("rising"),
        retention: draw.maybe(30, retention),
        pinned: Pinned { weight: draw.in_hundred(50), ..Pinned::default() },
    }
}

fn aging(draw: &mut Draw) -> Aging {
    if draw.in_hundred(20) {
        return Aging::OFF;
    }
    let normal = draw.seconds(10);
    let high = normal + draw.seconds(10);
    let critical = high + draw.seconds(10);
    let mut level = |after| draw.maybe(80, |_| after);
    Aging::new(level(normal), level(high), level(critical)).expect("rising")
}

fn retention(draw: &mut Draw) -> Retention {
    let mut kept_for = || draw.maybe(95, |draw| draw.seconds(20));
    Retention {
        completed: kept_for(),
        cancelled: kept_for(),
        failed: kept_for(),
        dead_letter: kept_for(),
    }
}
