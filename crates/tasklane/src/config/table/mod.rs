//! The table of everything that can be set, in the order in which it is shown. A new setting is one
//! row here and a place for its value in [`Values`](super::values::Values).

mod access;
mod queue;
mod server;
mod task;
mod tls;
mod trace;

use super::kind::Kind;
use super::setting::Setting;

/// Ten years: no time that is set needs to be longer.
const SECONDS_MAX: f64 = 315_360_000.0;
/// The same for what is set in milliseconds: a day.
const DAY_MS: u64 = 86_400_000;

/// Every setting. Within a section, what stands in it comes before its own sections.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    [
        server::SETTINGS,
        access::SETTINGS,
        tls::SETTINGS,
        trace::SETTINGS,
        queue::DEFAULTS,
        task::PRIORITIES,
        queue::QUEUES,
        task::TYPES,
        task::CLASSIFY,
        tls::CLIENT_CERTIFICATES,
    ]
    .into_iter()
    .flatten()
}

/// The settings of each section that has names of its own, and what a name of it may be.
pub(crate) const GROUPS: [(&str, &str); 5] = [
    ("priorities", "critical"),
    ("queues", "mail"),
    ("types", "email.send"),
    ("classify", "0"),
    ("client_certificates", "0"),
];

/// Those of them that are lists of sections, by number.
pub(crate) const LISTS: [&str; 2] = ["classify", "client_certificates"];

const fn whole(min: u64, max: u64) -> Kind {
    Kind::Whole { min, max }
}

const fn milliseconds(min: u64) -> Kind {
    Kind::Milliseconds { min, max: DAY_MS }
}

const fn seconds(min: f64) -> Kind {
    Kind::Seconds { min, max: SECONDS_MAX }
}

const FOREVER: Kind = Kind::SecondsOr { word: "forever", max: SECONDS_MAX };
/// Longer than five years no task can wait.
const NEVER: Kind = Kind::SecondsOr { word: "never", max: 158_112_000.0 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_there_once_and_none_reads_like_another() {
        let (mut paths, mut names) = (HashSet::new(), HashSet::new());
        for setting in settings() {
            assert!(paths.insert(setting.path), "{} is there twice", setting.path);
            if let Some(name) = setting.environment() {
                assert!(names.insert(name.clone()), "{name} means two settings");
                assert!(names.insert(format!("{name}_FILE")), "{name}_FILE means two settings");
            }
        }
    }

    #[test]
    fn every_setting_says_what_it_does() {
        for setting in settings() {
            let doc = setting.doc;
            assert!(doc.ends_with('.') && doc.len() > 10, "{}: {doc:?}", setting.path);
            assert!(!doc.contains('\n') && !doc.contains('|'), "{}: one line", setting.path);
        }
    }

    #[test]
    fn named_settings_belong_to_a_group_that_is_listed() {
        for setting in settings().filter(|setting| setting.is_named()) {
            assert!(GROUPS.iter().any(|(group, _)| *group == setting.group()), "{}", setting.path);
            assert!(
                setting.live,
                "{}: a reload takes sections with names over whole",
                setting.path
            );
        }
    }
}
