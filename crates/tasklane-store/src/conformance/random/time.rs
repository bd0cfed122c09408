//! Time passes, jumps, and does its work.

use std::time::Duration;

use tasklane_core::{Clock, Command, Intent, TaskId, limits};

use super::world::World;
use crate::conformance::Fixture;
use crate::request::{Direction, Overdue};

impl<F: Fixture> World<F> {
    pub(super) fn let_time_pass(&mut self) {
        let span = match self.draw.below(100) {
            0..70 => self.draw.seconds(1),
            70..97 => self.draw.seconds(6),
            97..99 => self.draw.seconds(60),
            _ => Duration::from_micros(self.draw.below(3)),
        };
        self.pass(span);
    }

    fn pass(&self, span: Duration) {
        self.fixture.advance(span);
        self.clock.advance(span);
        self.agree(&"the time", &self.fixture.now(), &self.clock.wall());
    }

    pub(super) fn step_the_wall_clock(&mut self) {
        let (now, far) = (self.clock.wall(), self.draw.seconds(120));
        let wall = if self.draw.in_hundred(50) { now.plus(far) } else { now.minus(far) };
        self.fixture.set_wall(wall);
        self.clock.set_wall(wall);
    }

    /// What `maintain` does, with the same order on both sides.
    pub(super) fn carry_out_what_is_overdue(&mut self) {
        let model = self.model(|store| store.overdue(usize::MAX));
        let real = self.all_overdue(limits::SLICE_TASKS, &model);
        let silent = self.compare_silent(&real, &model);
        let (real, model) = (in_order(real.commands), in_order(model.commands));
        self.agree(&"overdue", &kinds(&real), &kinds(&model));
        for worker in silent {
            self.direct_worker(worker, Direction::DeclareDead);
        }
        if !model.is_empty() {
            self.carry_out_found(model, real);
        }
    }

    /// A few at a time and none carried out: every one must come up all the same.
    pub(super) fn look_at_overdue_in_parts(&mut self) {
        let model = self.model(|store| store.overdue(usize::MAX));
        let limit = self.draw.between(1, 4) as usize;
        let real = self.all_overdue(limit, &model);
        let (real, model) = (in_order(real.commands), in_order(model.commands));
        self.agree(&("overdue in parts", limit), &kinds(&real), &kinds(&model));
        // A store may hold back for a moment what it has just proposed in vain.
        self.pass(Duration::from_secs(1));
    }

    /// What the store finds overdue, asked again until nothing new comes: each answer may go on
    /// where the last one ended, and the one before that may have been left half way.
    fn all_overdue(&self, limit: usize, model: &Overdue) -> Overdue {
        let mut all = Overdue::default();
        // Enough for a store that takes turns between kinds and meets a task once per deadline.
        let calls = 4 * model.commands.len().div_ceil(limit) + 4;
        // The first end may be that of a look which an earlier one had begun.
        let mut ends = 0;
        for _ in 0..calls {
            let part = self.real(|store| store.overdue(limit));
            self.expect(&("no more than asked for", limit, &part), part.commands.len() <= limit);
            let next_in = (part.next_in, model.next_in);
            let in_time = next_in.1.is_none_or(|due| next_in.0.is_some_and(|look| look <= due));
            self.expect(&("looks again in time", next_in), in_time || part.more);
            let before = all.commands.len();
            part.commands.into_iter().for_each(|command| add(&mut all.commands, command));
            all.silent = part.silent;
            ends += usize::from(!part.more);
            if all.commands.len() == before && ends > 1 {
                break;
            }
        }
        all
    }

    fn compare_silent(&self, real: &Overdue, model: &Overdue) -> Vec<super::names::WorkerPair> {
        let mut silent: Vec<_> = real.silent.iter().map(|id| self.names.worker(*id)).collect();
        let mut expected = model.silent.clone();
        silent.sort();
        expected.sort();
        self.agree(&"silent workers", &silent, &expected);
        self.workers.iter().filter(|pair| silent.contains(&pair.model)).copied().collect()
    }
}

/// One command per task. Where one answer says that a task is due and another that it has expired,
/// the latter counts, as it would in one answer.
fn add(commands: &mut Vec<Command>, command: Command) {
    match commands.iter_mut().find(|known| known.task == command.task) {
        Some(known) if command.intent == Intent::Expire => *known = command,
        Some(_) => {}
        None => commands.push(command),
    }
}

fn in_order(mut commands: Vec<Command>) -> Vec<Command> {
    commands.sort_by_key(|command| command.task);
    commands
}

/// Commands without their tokens.
fn kinds(commands: &[Command]) -> Vec<(TaskId, &'static str)> {
    let kind = |intent: &Intent| match intent {
        Intent::ComeDue => "come due",
        Intent::Expire => "expire",
        Intent::LoseLease(_) => "lose lease",
        Intent::TimeOut(_) => "time out",
        Intent::Unassign(_) => "unassign",
        _ => "not maintenance",
    };
    commands.iter().map(|command| (command.task, kind(&command.intent))).collect()
}
