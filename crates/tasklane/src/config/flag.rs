//! Flags for settings, made from the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::Command;
use clap::{Arg, ArgMatches, Args, FromArgMatches, value_parser};

use super::source::Sources;
use super::table::settings;
use super::values::Values;

/// What was given on the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    file: Option<PathBuf>,
    given: BTreeMap<String, String>,
}

impl Flags {
    /// Where values come from, with these flags.
    pub(crate) fn sources(&self) -> Sources {
        Sources::new(self.file.as_deref(), self.given.clone())
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>("config").cloned();
        for setting in settings() {
            if !setting.has_flag {
                continue;
            }
            if let Some(value) = matches.get_one::<String>(setting.path) {
                self.given.insert(setting.path.to_owned(), value.clone());
            }
        }
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("A TOML file with settings [env: TASKLANE_CONFIG]");
        let mut defaults = Values::default();
        let flags = settings().filter_map(|setting| {
            let name = setting.flag_name()?;
            let default = setting.read(&mut defaults, "");
            let default = default.map_or(String::new(), |value| setting.kind.write(&value));
            let environment = setting.environment().unwrap_or_default();
            let help = format!(
                "{} [env: {environment}] [default: {}]",
                setting.described(),
                default.trim_matches('"')
            );
            let flag = Arg::new(setting.path).long(name).value_name(setting.kind.placeholder());
            Some(flag.help(help))
        });
        command.arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
