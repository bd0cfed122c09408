//! Everything that can be seen.

use std::collections::BTreeMap;

use tasklane_core::{Clock, Lane, Names, Priority, StateName, Task, TaskId, WorkerId, trail};

use super::draft::{QUEUES, TYPES};
use super::names::WorkerPair;
use super::seen::GAP;
use super::world::World;
use crate::conformance::Fixture;
use crate::feed::{Cursor, FeedEvent};
use crate::query::{Filter, Query, StoredTask, Trail};
use crate::stats::{QueueState, Stats};

impl<F: Fixture> World<F> {
    pub(super) fn compare_tasks(&mut self) {
        let ids: Vec<_> = (0..4).filter_map(|_| self.draw.one(&self.tasks)).collect();
        let model = self.model(|store| store.get(ids.clone()));
        let real: Vec<_> = self
            .real(|store| store.get(ids.clone()))
            .iter()
            .map(|found| found.as_ref().map(|stored| self.names.stored(stored)))
            .collect();
        self.agree(&("get", &ids), &real, &model);
        if let Some(id) = ids.first() {
            self.compare_trail(*id);
            self.compare_lease(*id);
        }
    }

    fn compare_trail(&self, id: TaskId) {
        let found = self.real(|store| store.trail(id));
        let real = found.as_ref().map(|trail| self.names.trail(trail));
        self.agree(&("trail", id), &real, &self.model(|store| store.trail(id)));
        if let Some(trail) = found {
            self.expect(&("the trail leads to the task", &trail), trail.cut || leads_to(&trail));
        }
    }

    fn compare_lease(&self, id: TaskId) {
        self.both(&("the end of the lease", id), |store| store.lease_ends(id));
    }

    pub(super) fn compare_lists(&mut self) {
        let filter = self.filter();
        let worker = if self.draw.in_hundred(10) { Some(self.some_worker()) } else { None };
        let limit = self.draw.between(1, 30) as usize;
        self.compare_listing(&filter, worker, limit, false);
    }

    fn compare_listing(
        &self,
        filter: &Filter,
        worker: Option<WorkerPair>,
        limit: usize,
        bodies: bool,
    ) -> Vec<StoredTask> {
        let query = |worker: Option<WorkerId>| {
            let filter = Filter { worker, ..filter.clone() };
            Query { bodies, ..Query::new(filter, limit) }
        };
        let model = query(worker.map(|pair| pair.model));
        let query = query(worker.map(|pair| pair.real));
        let found = all_pages(&query, |page| self.real(|store| store.list(page)));
        let mut real: Vec<_> = found.iter().map(|stored| self.names.stored(stored)).collect();
        let mut model = all_pages(&model, |page| self.model(|store| store.list(page)));
        let by_end =
            !filter.states.is_empty() && filter.states.iter().all(|state| state.is_terminal());
        if !by_end {
            let ids = |tasks: &[StoredTask]| -> Vec<_> {
                let ids = tasks.iter().map(|stored| stored.task.id);
                ids.filter(|id| !self.alike.contains(id)).collect()
            };
            self.agree(&query, &ids(&real), &ids(&model));
        }
        real.sort_by_key(|stored| stored.task.id);
        model.sort_by_key(|stored| stored.task.id);
        self.agree(&query, &real, &model);
        real
    }

    fn filter(&mut self) -> Filter {
        let now = self.clock.wall();
        let draw = &mut self.draw;
        let mut state = || draw.of(&StateName::ALL);
        let states = [state(), state(), state()];
        let count = draw.below(4) as usize;
        Filter {
            states: states[..count].to_vec(),
            queues: draw.maybe(30, |d| only(d.of(&QUEUES))).unwrap_or_default(),
            types: draw.maybe(30, |d| only(d.of(&TYPES))).unwrap_or_default(),
            priority: draw.maybe(20, |draw| draw.of(&Priority::DESCENDING)),
            worker: None,
            metadata: draw.maybe(10, |_| ("of".into(), "bob".into())).into_iter().collect(),
            created_after: draw.maybe(15, |draw| now.minus(draw.seconds(30))),
            created_before: draw.maybe(15, |draw| now.minus(draw.seconds(30))),
            in_state_before: draw.maybe(15, |draw| now.minus(draw.seconds(30))),
            error: draw.maybe(10, |draw| draw.of(&["LUCK", "e42", "nothing"]).into()),
        }
    }

    pub(super) fn compare_counters(&mut self) {
        self.compare_stats();
        let queues = |mut queues: Vec<QueueState>| {
            queues.sort_by(|one, other| one.queue.cmp(&other.queue));
            queues
        };
        let real = queues(self.real(|store| store.queues()));
        self.agree(&"queues", &real, &queues(self.model(|store| store.queues())));
        self.compare_workers();
    }

    fn compare_stats(&self) {
        let real = sorted(self.real(|store| store.stats()));
        self.agree(&"stats", &real, &sorted(self.model(|store| store.stats())));
    }

    pub(super) fn follow_the_feed(&mut self) {
        self.read_on();
        if self.draw.in_hundred(10) {
            self.old_cursors.push(self.followed, &mut self.draw);
        }
    }

    /// What the feed has that was not read yet.
    fn read_on(&mut self) {
        let [model, real] = self.followed;
        let model =
            self.read_feed(model, |world, from| world.model(|store| store.events_after(from, 100)));
        let real =
            self.read_feed(real, |world, from| world.real(|store| store.events_after(from, 100)));
        self.expect(&"a reader that keeps up meets no gap", !model.2 && !real.2);
        let translated: Vec<_> = real.0.iter().map(|event| self.names.event(event)).collect();
        if !self.alike(&translated, &model.0) {
            let first = translated.iter().zip(&model.0).find(|(real, model)| real != model);
            let lengths = (translated.len(), model.0.len());
            self.fail(&("the feed", lengths), &first.map(|f| f.0), &first.map(|f| f.1));
        }
        for event in &model.0 {
            self.seen.event(event);
        }
        self.followed = [model.1, real.1];
    }

    /// What a reader learns that comes back after some time.
    pub(super) fn compare_an_old_cursor(&mut self) {
        self.follow_the_feed();
        let Some([model, real]) = self.old_cursors.one(&mut self.draw) else { return };
        let model_page = self.model(|store| store.events_after(model, 1));
        let real_page = self.real(|store| store.events_after(real, 1));
        let seen =
            |gap: bool, events: &[FeedEvent]| (gap, events.first().map(|e| (e.at, e.position)));
        let (real, model) =
            (seen(real_page.gap, &real_page.events), seen(model_page.gap, &model_page.events));
        self.agree(&"an old cursor", &real, &model);
        if model.0 {
            self.seen.fact(GAP);
        }
    }

    fn read_feed(
        &self,
        mut from: Cursor,
        read: impl Fn(&Self, Cursor) -> crate::feed::FeedPage,
    ) -> (Vec<FeedEvent>, Cursor, bool) {
        let (mut events, mut gap) = (Vec::new(), false);
        loop {
            let page = read(self, from);
            from = page.next;
            gap |= page.gap;
            if page.events.is_empty() {
                return (events, from, gap);
            }
            events.extend(page.events);
        }
    }

    /// Looks at what a step may have changed: the events it wrote and the counters. Draws nothing, so
    /// that a run goes the same way however often it looks.
    pub(super) fn look(&mut self) {
        self.read_on();
        self.compare_stats();
    }

    /// Looks at everything at once.
    pub(super) fn audit(&mut self) {
        self.follow_the_feed();
        self.compare_counters();
        let everything = self.compare_listing(&Filter::default(), None, 1_000, true);
        let counted = count(everything.iter().map(|stored| &stored.task));
        let stats = self.real(|store| store.stats());
        let shown = stats.lanes.into_iter().map(|lane| ((lane.lane, lane.priority), lane.counts));
        self.agree(&"stats and list", &shown.collect(), &counted);
        for stored in &everything {
            self.compare_trail(stored.task.id);
            self.compare_lease(stored.task.id);
        }
        self.compare_records();
        self.agree(&"check", &self.real(|store| store.check()), &Vec::new());
    }
}

type Counted = BTreeMap<(Lane, Priority), [u64; StateName::COUNT]>;

fn count<'a>(tasks: impl Iterator<Item = &'a Task>) -> Counted {
    let mut counted = Counted::new();
    for task in tasks {
        let key = (task.spec.lane.clone(), task.spec.priority);
        counted.entry(key).or_default()[task.state.name().index()] += 1;
    }
    counted
}

fn all_pages(query: &Query, read: impl Fn(Query) -> crate::query::Page) -> Vec<StoredTask> {
    let (mut tasks, mut query) = (Vec::new(), query.clone());
    loop {
        let page = read(query.clone());
        tasks.extend(page.tasks);
        query.after = page.next;
        if query.after.is_none() {
            return tasks;
        }
    }
}

fn sorted(mut stats: Stats) -> Stats {
    stats.lanes.sort_by(|one, other| (&one.lane, one.priority).cmp(&(&other.lane, other.priority)));
    stats
}

pub(super) fn only(name: &str) -> Names {
    Names::only([name]).expect("a name")
}

fn leads_to(trail: &Trail) -> bool {
    let Trail { task, admitted, entries, .. } = trail;
    let replayed = trail::replay(task.id, admitted.spec.clone(), admitted.admission, entries);
    replayed.is_ok_and(|replayed| trail::agrees(task, &replayed))
}
