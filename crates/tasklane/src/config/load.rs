//! Puts together what file, environment and flags say, and finds all that is wrong with it.

use std::collections::BTreeMap;
use std::path::Path;

use super::document::{self, Entry, Raw};
use super::effective::{Contradiction, Effective, resolve};
use super::setting::{Setting, written};
use super::source::{Origin, PREFIX, Sources};
use super::suggest::nearest;
use super::table::settings;
use super::values::Values;

/// What was loaded.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) values: Values,
    pub(crate) effective: Effective,
    /// Of what is not a default, by its path as files have it.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// What is odd and may be meant.
    pub(crate) warnings: Vec<String>,
}

/// Everything that is wrong, a line each: where, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong(pub(crate) Vec<String>);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.join("\n"))
    }
}

impl std::error::Error for Wrong {}

/// Flags win over the environment, that over the file, that over the defaults.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, Wrong> {
    let mut loading = Loading::default();
    if let Some(file) = &sources.file {
        loading.file(file);
    }
    // An empty variable is how many tools say that one is not set.
    for (name, value) in sources.environment.iter().filter(|(_, value)| !value.is_empty()) {
        loading.variable(name, value);
    }
    for (path, value) in &sources.flags {
        loading.flag(path, value);
    }
    loading.finish()
}

#[derive(Default)]
struct Loading {
    values: Values,
    origins: BTreeMap<String, Origin>,
    wrong: Vec<String>,
    warnings: Vec<String>,
}

impl Loading {
    fn file(&mut self, file: &Path) {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => return self.wrong.push(format!("{}: {error}", file.display())),
        };
        match document::read(&text) {
            Ok(entries) => entries.into_iter().for_each(|entry| self.entry(file, &entry)),
            Err(broken) => {
                self.wrong.push(format!("{}:{}: {}", file.display(), broken.line, broken.what));
            }
        }
    }

    fn entry(&mut self, file: &Path, entry: &Entry) {
        let origin = Origin::File(file.to_owned(), entry.line);
        let found = settings().find_map(|setting| Some((setting, setting.matches(&entry.path)?)));
        let Some((setting, name)) = found else {
            if let Some(what) = unknown(entry) {
                self.wrong.push(format!("{origin}: {what}"));
            }
            return;
        };
        match setting.kind.read(&entry.raw) {
            Some(value) => {
                setting.write(&mut self.values, name, value);
                self.origins.insert(written(&entry.path), origin);
            }
            None => self.unfit(setting, name, &origin),
        }
    }

    fn variable(&mut self, name: &str, value: &str) {
        let named = |setting: &&Setting| setting.environment().as_deref() == Some(name);
        if let Some(setting) = settings().find(named) {
            return self.text(setting, value, Origin::Environment(name.to_owned()));
        }
        let secret = |setting: &&Setting| {
            let own = setting.environment().filter(|_| setting.hide.is_some());
            own.is_some_and(|own| format!("{own}_FILE") == name)
        };
        if let Some(setting) = settings().find(secret) {
            let origin = Origin::Environment(name.to_owned());
            return match std::fs::read_to_string(value) {
                // A variable itself wins over one that names a file.
                _ if matches!(self.origins.get(setting.path), Some(Origin::Environment(_))) => {
                    let both = setting.environment().unwrap_or_default();
                    self.wrong.push(format!("{name} and {both} are both set: keep one of them"));
                }
                Ok(text) => self.text(setting, text.trim_end_matches(['\r', '\n']), origin),
                Err(error) => self.wrong.push(format!("{name}={value}: {error}")),
            };
        }
        if Sources::is_other(name) {
            return;
        }
        // Not an error: platforms put variables of their own beside ours.
        let names = settings().filter_map(Setting::environment);
        if let Some(guess) = nearest_variable(name, names) {
            self.warnings.push(format!("{name} is no setting; did you mean {guess}?"));
        }
    }

    fn flag(&mut self, path: &str, value: &str) {
        let Some(setting) = settings().find(|setting| setting.path == path) else { return };
        let name = setting.flag_name().unwrap_or_default();
        self.text(setting, value, Origin::Flag(name));
    }

    fn text(&mut self, setting: &Setting, text: &str, origin: Origin) {
        match setting.kind.read_text(text) {
            Some(value) => {
                setting.write(&mut self.values, "", value);
                self.origins.insert(setting.path.to_owned(), origin);
            }
            None => self.unfit(setting, "", &origin),
        }
    }

    /// Says what was expected; not what was found, which may be a secret.
    fn unfit(&mut self, setting: &Setting, name: &str, origin: &Origin) {
        let path = written(&setting.path_of(name));
        let expected = setting.kind.expected();
        self.wrong.push(format!("{origin}: {path} should be {expected}"));
    }

    fn finish(mut self) -> Result<Loaded, Wrong> {
        // What was not read would only be complained of twice.
        if !self.wrong.is_empty() {
            return Err(Wrong(self.wrong));
        }
        match resolve(&self.values) {
            Ok(effective) => {
                let Self { values, origins, warnings, .. } = self;
                Ok(Loaded { values, effective, origins, warnings })
            }
            Err(found) => {
                let lines = found.iter().map(|found| self.placed(found)).collect();
                self.wrong = lines;
                Err(Wrong(self.wrong))
            }
        }
    }

    /// A contradiction with the place of the last value that is part of it.
    fn placed(&self, found: &Contradiction) -> String {
        let path = written(&found.path);
        let part = |own: &str| own == path || own.starts_with(&format!("{path}."));
        let mut origins = self.origins.iter().filter(|(own, _)| part(own));
        let line = |origin: &Origin| match origin {
            Origin::File(_, line) => *line,
            _ => usize::MAX,
        };
        let last = origins.next_back().into_iter().chain(origins);
        let origin = last.map(|(_, origin)| origin).max_by_key(|origin| line(origin));
        match origin {
            Some(origin) => format!("{origin}: {path}: {}", found.what),
            None => format!("{path}: {}", found.what),
        }
    }
}

/// What is wrong with an entry that is no setting; nothing with a section that is empty.
fn unknown(entry: &Entry) -> Option<String> {
    let path = written(&entry.path);
    let holds = settings().any(|setting| setting.is_under(&entry.path));
    match (&entry.raw, holds) {
        (Raw::Empty, true) => return None,
        (Raw::Texts(texts), true) if texts.is_empty() => return None,
        (_, true) => return Some(format!("{path} is a section: write [{path}] and what is in it")),
        _ => {}
    }
    let alike = settings().map(|setting| {
        let parts = setting.path.split('.');
        let filled = parts.enumerate().map(|(at, part)| match part {
            "*" => entry.path.get(at).map_or("NAME", String::as_str).to_owned(),
            part => part.to_owned(),
        });
        written(&filled.collect::<Vec<_>>())
    });
    Some(match nearest(&path, alike) {
        Some(guess) => format!("unknown setting {path}; did you mean {guess}?"),
        None => format!("unknown setting {path}; `tasklane config default` lists all"),
    })
}

/// A variable is far more likely to be somebody else's than a key in our own file.
fn nearest_variable(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let own = name.strip_prefix(PREFIX)?;
    let names = names.filter_map(|name| name.strip_prefix(PREFIX).map(str::to_owned));
    nearest(own, names).map(|guess| format!("{PREFIX}{guess}"))
}
