//! What time has done.

use std::time::Duration;

use tasklane_core::{Command, Intent, TaskId, WorkerState};

use super::memory::{Memory, Now, Record};
use crate::request::Overdue;

impl Memory {
    pub(super) fn overdue(&mut self, limit: usize, now: Now) -> Overdue {
        let all: Vec<_> =
            self.tasks.values().filter_map(|record| self.command(record, now)).collect();
        let more = all.len() > limit;
        // On from where the last answer ended, and round to the beginning.
        let after = |id: TaskId| self.overdue_after.is_none_or(|last| id > last);
        let (later, earlier): (Vec<_>, Vec<_>) = all.into_iter().partition(|c| after(c.task));
        let commands: Vec<_> = later.into_iter().chain(earlier).take(limit).collect();
        self.overdue_after = commands.last().map(|command| command.task);
        let is_silent = |heard: Duration| now.monotonic.saturating_sub(heard) >= self.rules.silence;
        let alive = || self.workers.values().filter(|k| k.worker.state != WorkerState::Dead);
        let silent = alive().filter(|k| is_silent(k.heard)).map(|k| k.worker.id).collect();
        // What has a command now is looked at again when that is carried out.
        let waiting = self.tasks.values().filter(|record| self.command(record, now).is_none());
        let of_tasks = waiting.flat_map(|record| self.waits(record, now));
        let of_workers =
            alive().map(|k| (k.heard + self.rules.silence).saturating_sub(now.monotonic));
        let ahead = of_tasks.chain(of_workers).filter(|wait| !wait.is_zero());
        let next_in = ahead.min();
        Overdue { commands, silent, more, next_in }
    }

    /// One command at most per task: the rest shows once that is carried out.
    fn command(&self, record: &Record, now: Now) -> Option<Command> {
        let task = &record.task;
        let elapsed = self.elapsed(record, now);
        let intent = match task.state.lease() {
            Some(lease) if elapsed.lease => Intent::LoseLease(lease.token),
            Some(lease) if elapsed.execution => Intent::TimeOut(lease.token),
            Some(lease) if elapsed.assignment => Intent::Unassign(lease.token),
            Some(_) => return None,
            None if task.state.name().is_terminal() => return None,
            None if task.is_expired(now.wall) => Intent::Expire,
            None if task.state.due_at().is_some_and(|due_at| due_at <= now.wall) => Intent::ComeDue,
            None => return None,
        };
        Some(Command { task: task.id, intent })
    }

    /// From now to each of a task's deadlines; zero for those that have passed.
    fn waits(&self, record: &Record, now: Now) -> impl Iterator<Item = Duration> {
        let task = &record.task;
        let waiting = task.state.name().is_waiting();
        let wall = [task.state.due_at(), task.expires_at.filter(|_| waiting)];
        let until = wall.into_iter().flatten().map(move |at| at.since(now.wall));
        let deadlines = self.deadlines(record).into_iter().flatten();
        until.chain(deadlines.map(move |at| at.saturating_sub(now.monotonic)))
    }
}
