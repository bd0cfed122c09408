//! The page of the documentation that lists every setting.

use super::print::last;
use super::setting::Setting;
use super::table::{GROUPS, LISTS, settings};
use super::template::{example, introduction};
use super::values::Values;

const HEAD: &str = "\
# Configuration

<!-- Made by `tasklane config page`; a test compares it with the code. -->

Nothing has to be configured: `tasklane serve` works as it is. What you set comes from, the strongest first:

1. a **flag** of `tasklane serve`;
2. the **environment**: `TASKLANE_` and the setting's path in capitals, with `_` for dots. Secrets can also be read from a file that `…_FILE` names. An empty variable counts as not set;
3. a **TOML file**: `--config FILE`, or `TASKLANE_CONFIG`;
4. the **defaults**.

```toml
listen = \"0.0.0.0:7170\"
lease_ms = 60000

[breaker]
failures = 10

[queues.mail]
priority = \"low\"
max_retries = 8

[queues.mail.retention]
completed_seconds = 3600

[types.\"report.build\"]
timeout_seconds = 1800

[[classify]]
code = \"ECONNRESET\"
kind = \"transient\"
```

| command | what it does |
|---|---|
| `tasklane config check` | says what is wrong, with file, line and the name that was probably meant, and ends with exit code 1; or that all is well |
| `tasklane config print` | shows every value in force and where it comes from, secrets hidden; what it prints is a file again |
| `tasklane config default` | prints a commented file with every setting, its meaning and its default |

All three take `--config` and the flags of `tasklane serve`.

## Changing it while it runs

SIGHUP or `POST /admin/reload` reads the file anew. Environment and flags stay what they were. What is *live* below changes at once, without losing a call; the answer and the log list what was `applied`, and what `needs_restart`. A file that is wrong changes nothing: the answer is 422 `invalid-configuration` and says all that is wrong.

## Queues: the file and operators

What `PATCH /admin/queues/{name}` sets is kept in the store and wins over the file, setting by setting, also after a restart or a reload. `{\"reset\": [\"order\", \"weight\", \"depth_limits\", \"retention\"]}` gives settings back to the file. `GET /admin/queues/{name}` shows under `origins` who has set what: `operator`, `configuration` or `default`. A pause is an operator's alone. Queues that the file names are there from the start; what is set for all queues reaches a new queue within a second of its first task. Priority, retries and timeouts of a queue are not kept in the store: they fill what a submission leaves out, on the server that takes it. With several servers on one store, give all of them the same file.

A policy comes from the nearest that has it: the task, its type, its queue, its priority, the default.
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut values = Values::default();
    let mut section = None;
    for setting in settings() {
        let path: Vec<String> = setting.path.split('.').map(str::to_owned).collect();
        let own = match setting.is_named() {
            true => setting.group(),
            false => setting.path.split_once('.').map_or("", |(section, _)| section),
        };
        if section != Some(own) {
            section = Some(own);
            page.push_str(&heading(own));
        }
        let name = match setting.is_named() {
            true => within(&path),
            false => last(&path),
        };
        let name = match own {
            "" => name,
            _ if setting.is_named() => name,
            own => {
                setting.path.strip_prefix(own).unwrap_or(&name).trim_start_matches('.').to_owned()
            }
        };
        page.push_str(&row(setting, &name, &mut values));
    }
    page
}

fn heading(section: &str) -> String {
    let named = GROUPS.iter().find(|(group, _)| *group == section);
    let (title, text) = match (section, named) {
        ("", _) => ("## The server".to_owned(), String::new()),
        (section, _) if LISTS.contains(&section) => {
            (format!("## `[[{section}]]`"), format!("{}\n\n", introduction(section)))
        }
        (section, Some(_)) => {
            (format!("## `[{section}.NAME]`"), format!("{}\n\n", introduction(section)))
        }
        (section, None) => (format!("## `[{section}]`"), String::new()),
    };
    match named {
        Some(_) => format!(
            "\n{title}\n\n{text}Set in files only; live.\n\n| setting | example | what it does |\n|---|---|---|\n"
        ),
        None => format!(
            "\n{title}\n\n{text}| setting | default | live | environment, flag | what it does |\n|---|---|---|---|---|\n"
        ),
    }
}

/// What comes after the name of a section.
fn within(path: &[String]) -> String {
    path.iter().skip_while(|part| *part != "*").skip(1).cloned().collect::<Vec<_>>().join(".")
}

fn row(setting: &Setting, name: &str, values: &mut Values) -> String {
    let doc = setting.described();
    if setting.is_named() {
        let known = setting.group() == "priorities";
        let default = known.then(|| defaults_by_priority(setting, values)).flatten();
        let shown = default.unwrap_or_else(|| format!("`{}`", example(setting)));
        return format!("| `{name}` | {shown} | {doc} |\n");
    }
    let default = setting.read(values, "").map(|value| setting.kind.write(&value));
    let default = default.unwrap_or_default();
    let live = if setting.live { "yes" } else { "no" };
    let environment = setting.environment().unwrap_or_default();
    let flag = setting.flag_name().map_or(String::new(), |flag| format!(", `--{flag}`"));
    format!("| `{name}` | `{default}` | {live} | `{environment}`{flag} | {doc} |\n")
}

/// The defaults of a setting that each priority has.
fn defaults_by_priority(setting: &Setting, values: &mut Values) -> Option<String> {
    let names = values.names("priorities");
    let shown = names.iter().map(|name| {
        let value = setting.read(values, name)?;
        Some(format!("{name} {}", setting.kind.write(&value)))
    });
    let shown = shown.collect::<Option<Vec<_>>>()?;
    Some(format!("default: {}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_code_says() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        let fresh = "cargo run -- config page > docs/configuration.md";
        assert!(kept == page(), "docs/configuration.md is out of date: {fresh}");
    }
}
