//! A file with every setting, its meaning and its default, all of it commented out.

use super::print::{Page, arranged, last};
use super::setting::Setting;
use super::table::GROUPS;
use super::values::Values;

const HEAD: &str = "\
# Settings of a Tasklane server, with their defaults. Remove the # before what you set.
#
# A flag wins over the environment, that over this file, that over the defaults.
# `tasklane config check --config FILE` tells what is wrong with a file; `tasklane config print`
# shows what is in force and where each value comes from. Settings marked \"live\" change while the
# server runs, by SIGHUP or POST /admin/reload.
";

/// The file. Sections with names of their own show examples.
pub(crate) fn template() -> String {
    let mut values = Values::default();
    let mut page = Page::after(HEAD);
    page.line("");
    let defaults = values.clone();
    let names = |group: &'static str| match defaults.names(group) {
        names if names.is_empty() => example_names(group),
        names => names,
    };
    let mut explained = "";
    for (setting, name) in arranged(names) {
        let value = setting.read(&mut values, &name);
        let is_first = !setting.is_named() || names(setting.group()).first() == Some(&name);
        if !is_first && value.is_none() {
            continue;
        }
        let path = setting.path_of(&name);
        page.open(&path, "#");
        if setting.is_named() && setting.group() != explained {
            explained = setting.group();
            page.line(&format!("# {}", introduction(explained)));
        }
        if is_first {
            page.line(&format!("# {}{}", setting.described(), marks(setting)));
        }
        let shown = value.map_or_else(|| example(setting), |value| setting.kind.write(&value));
        page.line(&format!("#{} = {shown}", last(&path)));
    }
    page.text
}

fn example_names(group: &str) -> Vec<String> {
    let example = GROUPS.iter().find(|(known, _)| *known == group);
    example.map(|(_, name)| (*name).to_owned()).into_iter().collect()
}

/// What a section with names of its own is for.
pub(crate) fn introduction(group: &str) -> &'static str {
    match group {
        "priorities" => {
            "What tasks of a priority get where neither they nor their type or queue say."
        }
        "queues" => {
            "A queue by its name. What an operator sets over HTTP wins over this; \"reset\" gives it back."
        }
        "types" => "What tasks of a type get where they do not say themselves.",
        "classify" => "A rule for failures whose worker did not say what kind they are.",
        "client_certificates" => {
            "What certificates of clients allow, by a name in them; needs tls.client_ca. Taking an entry away closes the door at the next reload."
        }
        _ => "",
    }
}

/// An example of a setting that has no default.
pub(crate) fn example(setting: &Setting) -> String {
    let value = setting.kind.read_text(setting.example);
    value.map_or(String::new(), |value| setting.kind.write(&value))
}

fn marks(setting: &Setting) -> String {
    let live = setting.live.then_some("live");
    let environment = setting.environment();
    let marks: Vec<&str> = live.into_iter().chain(environment.as_deref()).collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}
