//! Flags for settings, made from the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::Command;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};

use super::kind::Kind;
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
            if let Some(values) = matches.get_many::<String>(setting.path) {
                let values: Vec<_> = values.map(String::as_str).collect();
                self.given.insert(setting.path.to_owned(), values.join(","));
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
            let flag = match setting.kind {
                // Without a value it is switched on.
                Kind::Flag => flag.num_args(0..=1).default_missing_value("true"),
                Kind::Texts(_) => flag.action(ArgAction::Append),
                _ => flag,
            };
            Some(flag.help(help))
        });
        command.arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
