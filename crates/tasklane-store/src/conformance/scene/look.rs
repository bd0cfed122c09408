//! What cases look at.

use tasklane_core::{EventKind, Place, StateName, Task, TaskId, Timestamp};

use super::{Scene, Snapshot};
use crate::conformance::Fixture;
use crate::{
    Cursor, FeedEvent, FeedPage, Filter, Page, Query, Stats, StoredTask, Subject, TaskNotice, Trail,
};

impl<F: Fixture> Scene<'_, F> {
    pub(crate) fn stored(&self, id: TaskId) -> Option<StoredTask> {
        self.ask(|store| store.get(vec![id])).remove(0)
    }

    pub(crate) fn task(&self, id: TaskId) -> Task {
        self.stored(id).unwrap_or_else(|| panic!("task {id} is there")).task
    }

    pub(crate) fn state(&self, id: TaskId) -> StateName {
        self.task(id).state.name()
    }

    pub(crate) fn states(&self, ids: &[TaskId]) -> Vec<StateName> {
        ids.iter().map(|id| self.state(*id)).collect()
    }

    pub(crate) fn place(&self, id: TaskId) -> Place {
        self.task(id).place
    }

    pub(crate) fn trail(&self, id: TaskId) -> Trail {
        self.ask(|store| store.trail(id)).unwrap_or_else(|| panic!("task {id} has a trail"))
    }

    pub(crate) fn lease_ends(&self, id: TaskId) -> Option<Timestamp> {
        self.ask(|store| store.lease_ends(id))
    }

    pub(crate) fn stats(&self) -> Stats {
        self.ask(|store| store.stats())
    }

    pub(crate) fn count(&self, state: StateName) -> u64 {
        self.stats().total(state)
    }

    pub(crate) fn page(&self, query: Query) -> Page {
        self.ask(|store| store.list(query))
    }

    /// Every page of a list.
    pub(crate) fn list_by(&self, filter: Filter, limit: usize, bodies: bool) -> Vec<StoredTask> {
        let mut query = Query { filter, after: None, limit, bodies };
        let mut tasks = Vec::new();
        loop {
            let page = self.page(query.clone());
            assert!(page.tasks.len() <= limit, "a page is no longer than asked for");
            tasks.extend(page.tasks);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return tasks,
            }
        }
    }

    pub(crate) fn list(&self, filter: Filter) -> Vec<TaskId> {
        self.list_by(filter, 100, false).iter().map(|stored| stored.task.id).collect()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut queues = self.ask(|store| store.queues());
        queues.sort_by(|a, b| a.queue.cmp(&b.queue));
        let tasks = self.list_by(Filter::default(), 1_000, true);
        Snapshot { tasks, queues, head: self.head() }
    }

    pub(crate) fn head(&self) -> Cursor {
        self.ask(|store| store.head())
    }

    pub(crate) fn feed_page(&self, cursor: Cursor, limit: usize) -> FeedPage {
        self.ask(|store| store.events_after(cursor, limit))
    }

    /// Everything after a cursor, read in pages of about `limit`, without a gap.
    pub(crate) fn follow(&self, mut cursor: Cursor, limit: usize) -> Vec<FeedEvent> {
        let mut events = Vec::new();
        loop {
            let page = self.feed_page(cursor, limit);
            assert!(!page.gap, "no event is missing");
            if page.events.is_empty() {
                return events;
            }
            events.extend(page.events);
            assert_ne!(page.next, cursor, "a page with events moves on");
            cursor = page.next;
        }
    }

    pub(crate) fn notices(&self, cursor: Cursor) -> Vec<TaskNotice> {
        let events = self.follow(cursor, 1_000).into_iter();
        let notices = events.filter_map(|event| match event.subject {
            Subject::Task(notice) => Some(*notice),
            Subject::Worker(..) | Subject::Queue(..) => None,
        });
        notices.collect()
    }

    /// What the feed tells of a task, from its beginning.
    pub(crate) fn kinds(&self, id: TaskId) -> Vec<EventKind> {
        self.kinds_after(Cursor::OLDEST, id)
    }

    pub(crate) fn kinds_after(&self, cursor: Cursor, id: TaskId) -> Vec<EventKind> {
        let notices = self.notices(cursor).into_iter();
        notices.filter(|notice| notice.id == id).map(|notice| notice.kind).collect()
    }

    /// What the feed tells of tasks after a cursor.
    pub(crate) fn happened(&self, cursor: Cursor) -> Vec<(TaskId, EventKind)> {
        self.notices(cursor).into_iter().map(|notice| (notice.id, notice.kind)).collect()
    }
}
