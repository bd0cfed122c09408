//! The beginning of a sorted set, as it was read and has been changed since.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashSet;

use crate::writes::Scores;

/// Members added to one that is remembered; with more it is read anew.
const ADDED_MAX: usize = 1_000;

/// Members by score and, within one score, by their bytes: the order of Redis. A copy shares what
/// was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sorted {
    read: Arc<[(i64, Bytes)]>,
    /// How many of them are gone from the front, and which ones behind it.
    gone: usize,
    removed: HashSet<(i64, Bytes)>,
    added: BTreeSet<(i64, Bytes)>,
    /// Nothing stands behind what was read.
    complete: bool,
    /// Members taken out that are still there in Redis, or that are passed over.
    taken: usize,
}

/// What is first, as far as was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum First {
    /// This.
    Is(i64, Bytes),
    /// There is none.
    None,
    /// More has to be read to know.
    Unknown,
}

impl Sorted {
    /// From what was read, in order.
    pub(crate) fn new(items: Vec<(i64, Bytes)>, complete: bool) -> Self {
        Self { read: items.into(), complete, ..Self::default() }
    }

    /// As it is with these changes: members with their new scores, or removed.
    pub(crate) fn changed(&self, changes: Option<&Scores>) -> Self {
        let mut sorted = self.clone();
        let Some(changes) = changes else { return sorted };
        let known = sorted.read.iter().skip(sorted.gone).chain(&sorted.added);
        let old = known.filter(|(_, member)| changes.contains_key(&member[..]));
        for (score, member) in old.cloned().collect::<Vec<_>>() {
            sorted.remove(score, &member);
        }
        for (member, score) in changes {
            if let Some(score) = score {
                sorted.insert(*score, member.clone().into());
            }
        }
        sorted
    }

    pub(crate) fn insert(&mut self, score: i64, member: Bytes) {
        let item = (score, member);
        if self.read_at(&item).is_some_and(|at| at >= self.gone) {
            self.removed.remove(&item);
        } else {
            self.added.insert(item);
        }
    }

    pub(crate) fn remove(&mut self, score: i64, member: &Bytes) {
        let item = (score, member.clone());
        self.taken += 1;
        if self.added.remove(&item) {
            return;
        }
        if self.read_at(&item).is_some_and(|at| at >= self.gone) {
            self.removed.insert(item);
        }
        while let Some(first) = self.read.get(self.gone)
            && self.removed.remove(first)
        {
            self.gone += 1;
        }
    }

    pub(crate) fn first(&self) -> First {
        let read = self.read.get(self.gone);
        let first = match (read, self.added.first()) {
            (Some(read), Some(added)) => Some(read.min(added)),
            (read, added) => read.or(added),
        };
        match (first, self.bound()) {
            (Some(first), Some(bound)) if first > bound => First::Unknown,
            (None, Some(_)) => First::Unknown,
            (Some((score, member)), _) => First::Is(*score, member.clone()),
            (None, None) => First::None,
        }
    }

    /// The members before the first that is not gone.
    pub(crate) fn leading(&self, gone: impl Fn(&[u8]) -> bool) -> HashSet<Bytes> {
        let there = |item: &&(i64, Bytes)| !self.removed.contains(*item);
        let mut read = self.read.iter().skip(self.gone).filter(there).peekable();
        let mut added = self.added.iter().peekable();
        let mut leading = HashSet::new();
        loop {
            let next = match (read.peek(), added.peek()) {
                (Some(one), Some(other)) if other < one => added.next(),
                (None, Some(_)) => added.next(),
                _ => read.next(),
            };
            match next {
                Some((_, member)) if gone(member) => leading.insert(member.clone()),
                _ => return leading,
            };
        }
    }

    /// Whether it is known to have this member.
    pub(crate) fn contains(&self, score: i64, member: &Bytes) -> bool {
        let item = (score, member.clone());
        let read = || self.read_at(&item).is_some_and(|at| at >= self.gone);
        self.added.contains(&item) || (read() && !self.removed.contains(&item))
    }

    /// Whether more has to be read to see so many.
    pub(crate) fn is_shorter(&self, count: usize) -> bool {
        !self.complete && self.read.len() - self.gone < count + self.removed.len()
    }

    /// Members at the front that have to be read once more to see what is behind them.
    pub(crate) const fn taken(&self) -> usize {
        self.taken
    }

    /// What was changed has been written. Says whether it is worth being remembered.
    pub(crate) fn written(&mut self) -> bool {
        self.taken = 0;
        if let Some(bound) = self.bound().cloned() {
            // What stands behind it is read with what else is there.
            self.added.retain(|item| *item <= bound);
        }
        self.added.len() <= ADDED_MAX
    }

    /// What stands behind this one was not read.
    fn bound(&self) -> Option<&(i64, Bytes)> {
        if self.complete { None } else { self.read.last() }
    }

    fn read_at(&self, item: &(i64, Bytes)) -> Option<usize> {
        self.read.binary_search(item).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(score: i64) -> (i64, Bytes) {
        (score, Bytes::from(score.to_string()))
    }

    fn take(sorted: &mut Sorted, score: i64) {
        let (score, member) = item(score);
        sorted.remove(score, &member);
    }

    fn add(sorted: &mut Sorted, score: i64) {
        let (score, member) = item(score);
        sorted.insert(score, member);
    }

    fn is(score: i64) -> First {
        First::Is(score, item(score).1)
    }

    #[test]
    fn members_come_in_order_however_they_came_in() {
        let mut sorted = Sorted::new([10, 20, 30].map(item).to_vec(), true);
        add(&mut sorted, 15);
        add(&mut sorted, 5);
        take(&mut sorted, 20);
        let mut seen = Vec::new();
        while let First::Is(score, member) = sorted.first() {
            seen.push(score);
            sorted.remove(score, &member);
        }
        assert_eq!(seen, [5, 10, 15, 30]);
        assert_eq!(sorted.first(), First::None);
    }

    #[test]
    fn what_was_taken_out_comes_back_where_it_stood() {
        let mut sorted = Sorted::new([10, 20].map(item).to_vec(), true);
        take(&mut sorted, 10);
        take(&mut sorted, 20);
        add(&mut sorted, 20);
        add(&mut sorted, 10);
        assert_eq!(sorted.first(), is(10));
        take(&mut sorted, 10);
        assert_eq!(sorted.first(), is(20));
        take(&mut sorted, 20);
        assert_eq!((sorted.first(), sorted.taken()), (First::None, 4));
    }

    #[test]
    fn nothing_is_known_behind_what_was_read() {
        let mut sorted = Sorted::new([10, 20].map(item).to_vec(), false);
        add(&mut sorted, 30);
        assert_eq!(sorted.first(), is(10));
        take(&mut sorted, 10);
        take(&mut sorted, 20);
        assert_eq!(sorted.first(), First::Unknown);
        add(&mut sorted, 15);
        assert_eq!(sorted.first(), is(15));
        assert!(sorted.written());
        assert_eq!((sorted.first(), sorted.taken()), (is(15), 0));
        assert!(!sorted.contains(30, &item(30).1), "it is read with what stands before it");
    }

    #[test]
    fn those_before_the_first_that_stays_are_leading_whether_read_or_added() {
        let mut sorted = Sorted::new([10, 20, 30, 40].map(item).to_vec(), false);
        add(&mut sorted, 15);
        take(&mut sorted, 10);
        assert!(sorted.written());
        let leading = |gone: &[i64]| {
            let gone: HashSet<Bytes> = gone.iter().map(|score| item(*score).1).collect();
            let mut leading: Vec<_> =
                sorted.leading(|member| gone.contains(member)).into_iter().collect();
            leading.sort();
            leading
        };
        let of = |scores: &[i64]| scores.iter().map(|score| item(*score).1).collect::<Vec<_>>();
        assert_eq!(leading(&[15, 20, 40]), of(&[15, 20]));
        assert_eq!(leading(&[20, 30]), of(&[]), "one that stays is before them");
        assert_eq!(leading(&[10, 15]), of(&[15]), "what is gone already does not count");
        assert_eq!(leading(&[15, 20, 30, 40]), of(&[15, 20, 30, 40]));
    }

    #[test]
    fn changes_go_by_member() {
        let sorted = Sorted::new([10, 20].map(item).to_vec(), true);
        let changes = [(b"10".to_vec(), None), (b"20".to_vec(), Some(5)), (b"7".to_vec(), Some(7))];
        let mut changed = sorted.changed(Some(&changes.into_iter().collect()));
        let member = Bytes::from_static(b"20");
        assert_eq!(changed.first(), First::Is(5, member.clone()));
        changed.remove(5, &member);
        assert_eq!(changed.first(), is(7));
        take(&mut changed, 7);
        assert_eq!((changed.first(), sorted.first()), (First::None, is(10)));
    }

    #[test]
    fn one_that_has_grown_too_much_is_not_remembered() {
        let mut sorted = Sorted::new(Vec::new(), true);
        (0..=ADDED_MAX as i64).for_each(|score| add(&mut sorted, score));
        assert!(!sorted.written());
    }
}
