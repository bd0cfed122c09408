//! What is known and what keys do. Asks nobody and draws nothing.

mod key;
mod seen;
#[cfg(test)]
pub(super) mod tests;
mod track;

use std::collections::VecDeque;

use tasklane_client::wire::{Event, Task, Worker};
use tasklane_client::{TaskId, WorkerId};

pub(super) use key::Key;
pub(super) use seen::{Counters, QueueLine, Seen, Update};
pub(super) use track::Track;

const EVENTS_KEPT: usize = 500;
const FILTER_MAX: usize = 64;

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct State {
    pub(super) server: String,
    /// Why the server is away; absent while it answers.
    pub(super) away: Option<String>,
    /// As it was last seen.
    pub(super) seen: Option<Box<Seen>>,
    pub(super) submitted: Track,
    pub(super) completed: Track,
    pub(super) failed: Track,
    pub(super) wait: Track,
    /// The newest first.
    pub(super) events: VecDeque<Event>,
    /// Why there are none.
    pub(super) no_events: Option<String>,
    pub(super) every_event: bool,
    pub(super) focus: Panel,
    /// Which line of each panel is chosen.
    chosen: [usize; Panel::ALL.len()],
    pub(super) filter: String,
    pub(super) mode: Mode,
    /// What came of the last action.
    pub(super) said: Option<Result<String, String>>,
}

/// A list on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Panel {
    Queues,
    Workers,
    DeadLetters,
    Events,
}

impl Panel {
    pub(super) const ALL: [Self; 4] =
        [Self::Queues, Self::Workers, Self::DeadLetters, Self::Events];
}

/// What keys are for at the moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mode {
    Look,
    /// They write the filter.
    Filter,
    /// They say whether to do it.
    Confirm(Action),
    Help,
}

/// What an operator wants done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    PauseQueue(Box<str>),
    ResumeQueue(Box<str>),
    DrainWorker(WorkerId, String),
    Replay(TaskId, Box<str>),
}

/// What a key leads to, beyond the screen.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Quit,
    Act(Action),
    /// Follow every event, or only what is notable.
    Follow(bool),
}

impl Action {
    /// As a question.
    pub(super) fn question(&self) -> String {
        match self {
            Self::PauseQueue(name) => {
                format!("Pause the queue {name}? Nothing is claimed from it.")
            }
            Self::ResumeQueue(name) => format!("Resume the queue {name}?"),
            Self::DrainWorker(_, name) => {
                format!("Drain the worker {name}? It finishes what it has and gets no more.")
            }
            Self::Replay(id, task_type) => format!("Replay the dead letter {id} ({task_type})?"),
        }
    }

    /// As something that has happened.
    pub(super) fn done(&self) -> String {
        match self {
            Self::PauseQueue(name) => format!("The queue {name} is paused."),
            Self::ResumeQueue(name) => format!("The queue {name} is resumed."),
            Self::DrainWorker(_, name) => format!("The worker {name} drains."),
            Self::Replay(id, _) => format!("The task {id} waits again."),
        }
    }
}

/// How a worker is called on the screen.
pub(super) fn worker_name(worker: &Worker) -> String {
    match &worker.name {
        Some(name) => name.to_string(),
        None => worker.worker_id.0.to_string(),
    }
}

impl State {
    pub(super) fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            away: None,
            seen: None,
            submitted: Track::default(),
            completed: Track::default(),
            failed: Track::default(),
            wait: Track::default(),
            events: VecDeque::new(),
            no_events: None,
            every_event: false,
            focus: Panel::Queues,
            chosen: [0; Panel::ALL.len()],
            filter: String::new(),
            mode: Mode::Look,
            said: None,
        }
    }

    /// Takes something new.
    pub(super) fn apply(&mut self, update: Update) {
        match update {
            Update::Seen(seen) => self.see(seen),
            Update::Away(why) => self.away = Some(why),
            Update::Event(event) => {
                self.no_events = None;
                self.events.push_front(*event);
                self.events.truncate(EVENTS_KEPT);
            }
            Update::NoEvents(why) => self.no_events = Some(why),
            Update::Acted(said) => self.said = Some(said),
        }
    }

    fn see(&mut self, seen: Box<Seen>) {
        self.away = None;
        let earlier = self.seen.as_ref().and_then(|last| Some((last.at, last.counters?)));
        if let (Some((at, earlier)), Some(now)) = (earlier, seen.counters) {
            let rates = now.rates(earlier, seen.at.saturating_sub(at));
            self.submitted.push(rates.submitted);
            self.completed.push(rates.completed);
            self.failed.push(rates.failed);
        }
        let wait = seen.stats.waits.p95_seconds.unwrap_or_default();
        self.wait.push(wait.0.as_secs_f64());
        self.seen = Some(seen);
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: Key) -> Option<Command> {
        if key == Key::Interrupt {
            return Some(Command::Quit);
        }
        match std::mem::replace(&mut self.mode, Mode::Look) {
            Mode::Look => self.press_in_lists(key),
            Mode::Filter => {
                self.write_filter(key);
                None
            }
            Mode::Confirm(action) => {
                let yes = matches!(key, Key::Character('y' | 'Y'));
                yes.then_some(Command::Act(action))
            }
            Mode::Help => None,
        }
    }

    fn press_in_lists(&mut self, key: Key) -> Option<Command> {
        self.said = None;
        match key {
            Key::Character('q') => return Some(Command::Quit),
            Key::Character('?' | 'h') => self.mode = Mode::Help,
            Key::Character('/') => self.mode = Mode::Filter,
            Key::Escape => self.filter.clear(),
            Key::Next => self.turn(1),
            Key::Previous => self.turn(Panel::ALL.len() - 1),
            Key::Up | Key::Character('k') => self.choose(|at, _| at.saturating_sub(1)),
            Key::Down | Key::Character('j') => self.choose(|at, last| last.min(at + 1)),
            Key::First => self.choose(|_, _| 0),
            Key::Last => self.choose(|_, last| last),
            Key::Character('e') => {
                self.every_event = !self.every_event;
                self.no_events = None;
                return Some(Command::Follow(self.every_event));
            }
            Key::Character('p') => self.confirm(Panel::Queues, Self::pause_or_resume),
            Key::Character('d') => self.confirm(Panel::Workers, Self::drain),
            Key::Character('r') => self.confirm(Panel::DeadLetters, Self::replay),
            _ => {}
        }
        None
    }

    fn write_filter(&mut self, key: Key) {
        match key {
            Key::Enter => return,
            Key::Escape => {
                self.filter.clear();
                return;
            }
            Key::Erase => {
                self.filter.pop();
            }
            Key::Character(character) if self.filter.len() < FILTER_MAX => {
                self.filter.push(character);
            }
            _ => {}
        }
        self.chosen = [0; Panel::ALL.len()];
        self.mode = Mode::Filter;
    }

    fn turn(&mut self, by: usize) {
        let at = self.focus as usize + by;
        self.focus = Panel::ALL.get(at % Panel::ALL.len()).copied().unwrap_or(Panel::Queues);
    }

    fn choose(&mut self, to: impl Fn(usize, usize) -> usize) {
        let last = self.count(self.focus).saturating_sub(1);
        let at = self.chosen(self.focus);
        if let Some(chosen) = self.chosen.get_mut(self.focus as usize) {
            *chosen = to(at, last);
        }
    }

    /// Asks whether to do it to the line that is chosen in its panel, which comes to the fore.
    fn confirm(&mut self, panel: Panel, action: impl Fn(&Self) -> Option<Action>) {
        self.focus = panel;
        match action(self) {
            Some(action) => self.mode = Mode::Confirm(action),
            None => self.said = Some(Err("There is nothing to choose.".to_owned())),
        }
    }

    fn pause_or_resume(&self) -> Option<Action> {
        let queues = self.queues();
        let queue = queues.get(self.chosen(Panel::Queues))?;
        let name = queue.name.clone();
        Some(if queue.paused { Action::ResumeQueue(name) } else { Action::PauseQueue(name) })
    }

    fn drain(&self) -> Option<Action> {
        let workers = self.workers();
        let worker = workers.get(self.chosen(Panel::Workers))?;
        Some(Action::DrainWorker(worker.worker_id.0, worker_name(worker)))
    }

    fn replay(&self) -> Option<Action> {
        let tasks = self.dead_letters();
        let task = tasks.get(self.chosen(Panel::DeadLetters))?;
        Some(Action::Replay(task.id.0, task.task_type.clone()))
    }

    /// Which line of a panel is chosen. Lines may have gone since.
    pub(super) fn chosen(&self, panel: Panel) -> usize {
        let chosen = self.chosen.get(panel as usize).copied().unwrap_or_default();
        chosen.min(self.count(panel).saturating_sub(1))
    }

    fn count(&self, panel: Panel) -> usize {
        match panel {
            Panel::Queues => self.queues().len(),
            Panel::Workers => self.workers().len(),
            Panel::DeadLetters => self.dead_letters().len(),
            Panel::Events => self.shown_events().count(),
        }
    }

    /// The queues that the filter lets through.
    pub(super) fn queues(&self) -> Vec<&QueueLine> {
        let queues = self.seen.iter().flat_map(|seen| seen.queues.iter().flatten());
        queues.filter(|queue| self.lets(&[&queue.name])).collect()
    }

    pub(super) fn workers(&self) -> Vec<&Worker> {
        let workers = self.seen.iter().flat_map(|seen| seen.workers.iter().flatten());
        workers.filter(|worker| self.lets(&[&worker_name(worker), &worker.state])).collect()
    }

    pub(super) fn dead_letters(&self) -> Vec<&Task> {
        let tasks = self.seen.iter().flat_map(|seen| seen.dead_letters.iter().flatten());
        let lets = |task: &&Task| {
            let error = task.error.as_ref().map(|error| &*error.message).unwrap_or_default();
            self.lets(&[&task.task_type, &task.queue, &task.id.0.to_string(), error])
        };
        tasks.filter(lets).collect()
    }

    pub(super) fn shown_events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| {
            let data = &event.data;
            let task_type = data.task_type.as_deref().unwrap_or_default();
            self.lets(&[&event.event_type, task_type, data.queue.as_deref().unwrap_or_default()])
        })
    }

    fn lets(&self, texts: &[&str]) -> bool {
        let filter = self.filter.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&filter))
    }
}
