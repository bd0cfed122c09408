//! docs/cli.md: every command, from the same definitions as its help.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::ending::{DONE, Outcome};
use crate::show::print;

const HEAD: &str = "\
# The command line

<!-- Made by `tasklane page`; a test compares it with the code. -->

One binary does everything: `tasklane serve` runs a server, the other commands ask one. `tasklane COMMAND --help` shows what stands here.

## Which server

The strongest first: `--profile NAME`, `--server URL`, the variable `TASKLANE_SERVER`, the variable `TASKLANE_PROFILE`, the default of the file of profiles, and `http://127.0.0.1:7170`.

The key is taken from `TASKLANE_API_KEY`, or from the file that `TASKLANE_API_KEY_FILE` names; never from a flag, which others on the machine could read. `--ca FILE` or `TASKLANE_CA` names the authorities that a server with https is trusted by.

Profiles are servers by name, in `~/.config/tasklane/profiles.toml` (`$XDG_CONFIG_HOME/tasklane/profiles.toml`, or the file that `TASKLANE_PROFILES` names):

```toml
default = \"local\"

[profiles.local]
server = \"http://127.0.0.1:7170\"

[profiles.production]
server = \"https://queue.example.org\"
api_key_file = \"production.key\"     # or api_key = \"tl_…\", in a file that only you can read
ca = \"company.pem\"
```

Paths are meant from the file's own folder. The key of a profile counts before the one in the environment, and is shown to no other server.

`keys`, `audit`, `backup`, `restore` and `check` can also work on a store itself, while no server has it open: with `--store` or `--config`, or when no server is named.

## Output

`-o table` (the default) is for people; its columns may change. `-o json` is the server's answer as one document, and `-o ndjson` one document in a line for each thing; both are as the [HTTP guide](http.md) has them and change only with it. Colours are used on a terminal only, and not if `NO_COLOR` is set. What is asked for goes to the output, everything else to the standard error.

What cannot be undone is asked about first. Where there is no terminal to ask at, it is refused unless `--yes` is given.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | refused by the server, or not as it should be: a task that was waited for has failed, a check has found something |
| 2 | wrong usage: nothing was asked of anybody |
| 3 | there is no such task, worker, queue, key or store |
| 4 | the server cannot be reached |

A refusal says what the server said, which member is at fault, what to do, and the id of the request, to find it in the server's log. [Errors](errors.md) lists them.
";

/// Flags that the page tells of once.
const TOLD: [&str; 2] = ["Server", "Output"];

pub(crate) fn run() -> Outcome {
    print(&page())?;
    Ok(DONE)
}

/// The whole page.
fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut program = crate::Arguments::command();
    program.build();
    for command in program.get_subcommands().filter(|command| is_shown(command)) {
        tell(&mut page, command, &format!("tasklane {}", command.get_name()), 2);
    }
    page
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn tell(page: &mut String, command: &Command, name: &str, depth: usize) {
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    // Writing into memory does not fail.
    let _ = write!(page, "\n{} {name}\n\n{}.\n", "#".repeat(depth), about.trim_end_matches('.'));
    let below: Vec<_> = command.get_subcommands().filter(|command| is_shown(command)).collect();
    if !command.is_subcommand_required_set() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = write!(page, "\n```text\n{usage}\n```\n");
        flags(page, command, name);
    }
    // Examples that several commands share stand with the first that has them.
    let examples = command.get_after_help().map(ToString::to_string);
    if let Some(examples) = examples.filter(|examples| !page.contains(examples.as_str())) {
        let _ = write!(page, "\n```text\n{examples}\n```\n");
    }
    for command in below {
        tell(page, command, &format!("{name} {}", command.get_name()), depth + 1);
    }
}

fn flags(page: &mut String, command: &Command, name: &str) {
    if name == "tasklane serve" || name.starts_with("tasklane config") {
        page.push_str("\nEvery setting has a flag: see [configuration](configuration.md).\n");
        return;
    }
    let is_own = |argument: &&Arg| {
        let told = argument.get_help_heading().is_some_and(|heading| TOLD.contains(&heading));
        !told
            && !argument.is_hide_set()
            && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let own: Vec<_> = command.get_arguments().filter(is_own).collect();
    if own.is_empty() {
        return;
    }
    page.push_str("\n| argument | meaning |\n|---|---|\n");
    for argument in own {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| {} | {} |", written(argument), help.replace('|', "\\|"));
    }
}

/// An argument as it is given.
fn written(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let value = values.first().map(ToString::to_string).unwrap_or_default();
    let may_be_alone = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
    let takes = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    match (argument.get_short(), argument.get_long()) {
        (_, None) => format!("`{value}`"),
        (Some(short), Some(long)) if takes => format!("`-{short}`, `--{long} {value}`"),
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}`"),
        (None, Some(long)) if takes && may_be_alone => format!("`--{long}[={value}]`"),
        (None, Some(long)) if takes => format!("`--{long} {value}`"),
        (None, Some(long)) => format!("`--{long}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_contradict_nothing() {
        crate::Arguments::command().debug_assert();
    }

    #[test]
    fn the_page_is_what_the_code_says() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let kept = std::fs::read_to_string(file).unwrap_or_default();
        assert!(kept == page(), "docs/cli.md is out of date: cargo run -- page > docs/cli.md");
    }

    #[test]
    fn every_command_teaches_by_example() {
        let mut program = crate::Arguments::command();
        program.build();
        let mut below: Vec<_> = program.get_subcommands().cloned().collect();
        while let Some(command) = below.pop() {
            if command.get_name() != "help" {
                below.extend(command.get_subcommands().cloned());
            }
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty(), "{}", command.get_name());
            if is_shown(&command)
                && !command.get_bin_name().is_some_and(|name| name.contains("config "))
            {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("tasklane "), "{}", command.get_name());
            }
        }
    }
}
