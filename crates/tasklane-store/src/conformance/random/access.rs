//! Keys are made and revoked, and the audit log grows.

use std::time::Duration;

use tasklane_core::{
    AuditEntry, Clock, Credential, Grants, NewApiKey, Reach, Scope, SeededRandom, Verb, When, Who,
};

use super::draft::QUEUES;
use super::look::only;
use super::seen::{KEY_ENDED, KEY_EXISTS, RECORDS_CUT};
use super::world::World;
use crate::conformance::Fixture;
use crate::error::ApiKeyRefusal;
use crate::query::AuditFrom;

/// So few that ids meet again.
const KEYS: u64 = 12;

impl<F: Fixture> World<F> {
    pub(super) fn keep_keys_and_records(&mut self) {
        match self.draw.below(5) {
            0 => self.add_key(),
            1 => {
                let id = self.credential().id;
                self.both(&("revoke", id), |store| store.revoke_api_key(id));
            }
            2 | 3 => self.append_records(),
            _ => self.compare_records(),
        }
    }

    fn credential(&mut self) -> Credential {
        Credential::generate(&mut SeededRandom::new(self.draw.below(KEYS)))
    }

    fn add_key(&mut self) {
        let credential = self.credential();
        let reach = Reach { queues: only(self.draw.of(&QUEUES)), ..Reach::default() };
        let verb = self.draw.of(&[Verb::Submit, Verb::Read, Verb::Work]);
        let grants = Grants::new([Scope { verb, reach }]).expect("grants");
        let past = self.clock.wall().minus(Duration::from_secs(20));
        let expires = self.draw.maybe(50, |draw| When::At(past.plus(draw.seconds(60))));
        let key = NewApiKey::new(&credential, "key", grants, expires).expect("a key");
        match self.both(&key, |store| store.add_api_key(key.clone())) {
            Err(ApiKeyRefusal::Exists) => self.seen.fact(KEY_EXISTS),
            Err(ApiKeyRefusal::Invalid(_)) => self.seen.fact(KEY_ENDED),
            Ok(_) | Err(ApiKeyRefusal::TooMany) => {}
        }
    }

    fn append_records(&mut self) {
        let count = self.draw.below(4);
        let entry =
            |n: u64| AuditEntry::new(&Who::Machine, "test", AuditEntry::DONE).on(&n.to_string());
        let entries: Vec<_> = (0..count).map(entry).collect();
        self.both(&entries, |store| store.append_audit(entries.clone()));
    }

    /// Everything that can be seen of keys and records.
    pub(super) fn compare_records(&mut self) {
        self.both(&"keys", |store| store.api_keys());
        let newest = self.both(&"audit", |store| store.audit(AuditFrom::Newest, 10));
        let last = newest.first().map_or(0, |record| record.number);
        let number = self.draw.below(last + 3);
        for from in [AuditFrom::After(number), AuditFrom::Before(number), AuditFrom::After(0)] {
            let records = self.both(&from, |store| store.audit(from, 10));
            let cut = from == AuditFrom::After(0) && records.first().is_some_and(|r| r.number > 1);
            if cut {
                self.seen.fact(RECORDS_CUT);
            }
        }
    }
}
