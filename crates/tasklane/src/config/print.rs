//! Values as a file, with where each comes from.

use super::load::Loaded;
use super::setting::{Setting, written};
use super::source::Origin;
use super::table::{LISTS, settings};

/// Lines of a file, by sections.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    section: String,
}

impl Page {
    /// A page that begins with this.
    pub(crate) fn after(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Begins a section unless it is the one that is open; `mark` stands before it.
    pub(crate) fn open(&mut self, path: &[String], mark: &str) {
        let above = path.split_last().map_or(&[][..], |(_, above)| above);
        let section = match above {
            [list, number] if LISTS.contains(&list.as_str()) => {
                format!("[[{list}]]{}", hidden(number))
            }
            [] => String::new(),
            above => format!("[{}]", written(above)),
        };
        if section != self.section {
            let shown = section.split('\0').next().unwrap_or_default();
            self.text.push_str(&format!("\n{mark}{shown}\n"));
            self.section = section;
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

/// Tells members of a list of sections apart, without being shown.
fn hidden(number: &str) -> String {
    format!("\0{number}")
}

/// The last part of a path.
pub(crate) fn last(path: &[String]) -> String {
    path.last().map_or(String::new(), |name| written(std::slice::from_ref(name)))
}

/// The settings in the order in which files have them, with the names that stand for `*`.
pub(crate) fn arranged(
    names: impl Fn(&'static str) -> Vec<String>,
) -> Vec<(&'static Setting, String)> {
    let mut arranged = Vec::new();
    let mut groups = Vec::new();
    for setting in settings() {
        if !setting.is_named() {
            arranged.push((setting, String::new()));
        } else if !groups.contains(&setting.group()) {
            let group = setting.group();
            groups.push(group);
            for name in names(group) {
                let of_group = settings().filter(|setting| setting.group() == group);
                arranged.extend(of_group.map(|setting| (setting, name.clone())));
            }
        }
    }
    arranged
}

/// Every value in force, as a file that can be read again, with its origin.
pub(crate) fn print(loaded: &Loaded) -> String {
    let mut values = loaded.values.clone();
    let mut page = Page::default();
    for (setting, name) in arranged(|group| loaded.values.names(group)) {
        let Some(value) = setting.read(&mut values, &name) else { continue };
        let path = setting.path_of(&name);
        let origin = loaded.origins.get(&written(&path)).unwrap_or(&Origin::Default);
        page.open(&path, "");
        let line = format!("{} = {}", last(&path), setting.shown(&value));
        page.line(&format!("{line:<40} # {origin}"));
    }
    page.text.trim_start().to_owned()
}
