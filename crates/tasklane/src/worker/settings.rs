//! What a worker is started with: flags before a file before defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::connection::Connection;
use crate::ending::usage;
use crate::log;

/// What runs tasks of the type with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Handler {
    /// Gives back the payload.
    Echo,
    /// Waits: {"seconds": 1.5}.
    Sleep,
    /// Makes an HTTP call: {"url": "https://…", "body": …}.
    Webhook,
    /// Sends an e-mail: {"to": "…", "subject": "…", "text": "…"}.
    Email,
    /// Runs a command that was allowed: {"command": "…", …}, given to it as standard input.
    Exec,
}

impl Handler {
    /// The type of tasks it takes.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Sleep => "sleep",
            Self::Webhook => "webhook",
            Self::Email => "email",
            Self::Exec => "exec",
        }
    }
}

/// Run tasks with built-in handlers, without writing code.
#[derive(Debug, Args)]
#[command(after_help = super::EXAMPLE)]
pub(crate) struct Arguments {
    /// Which handlers to enable, several with commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    handle: Vec<Handler>,
    /// A command that `exec` may run, by its name: NAME='PROGRAM ARGUMENT…'. Enables `exec`.
    #[arg(long, value_name = "NAME=COMMAND")]
    exec: Vec<String>,
    /// Tasks at once [default: 5]
    #[arg(long, value_name = "N")]
    capacity: Option<u32>,
    /// Queues to take tasks from, several with commas; `mail-*` is all that begin so [default: all]
    #[arg(long, value_name = "QUEUE", value_delimiter = ',')]
    queue: Vec<String>,
    /// What tasks may require of it, several with commas
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    capability: Vec<String>,
    /// What people call it
    #[arg(long)]
    name: Option<String>,
    /// Where to answer /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Webhooks may call this machine and private networks
    #[arg(long)]
    allow_private: bool,
    /// How long running tasks may go on when it is stopped, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS")]
    drain_seconds: Option<u64>,
    /// Which log lines to write: error, warn, info or debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How they look: human or json [default: human]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// A file with these and more, in TOML [env: TASKLANE_WORKER_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Document {
    handlers: Vec<Handler>,
    capacity: Option<u32>,
    queues: Vec<String>,
    capabilities: Vec<String>,
    name: Option<String>,
    listen: Option<String>,
    drain_seconds: Option<u64>,
    log_level: Option<String>,
    log_format: Option<String>,
    webhook: WebhookSettings,
    email: EmailSettings,
    exec: ExecDocument,
}

/// How webhooks are called.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebhookSettings {
    /// This machine and private networks may be called.
    pub(super) allow_private: bool,
    /// Authorities to trust instead of the system's.
    pub(super) ca: Option<PathBuf>,
}

/// How e-mails are sent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct EmailSettings {
    /// The server, for example smtps://user:password@mail.example.org.
    pub(super) server: Option<String>,
    /// A file that holds it instead.
    pub(super) server_file: Option<PathBuf>,
    /// Who sends, where a task does not say.
    pub(super) from: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ExecDocument {
    commands: BTreeMap<String, Vec<String>>,
}

/// A worker's settings.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) server: String,
    pub(super) handlers: Vec<Handler>,
    pub(super) commands: BTreeMap<String, Vec<String>>,
    pub(super) capacity: u32,
    pub(super) queues: Vec<String>,
    pub(super) capabilities: Vec<String>,
    pub(super) name: Option<String>,
    pub(super) listen: Option<String>,
    pub(super) drain_within: Duration,
    pub(super) webhook: WebhookSettings,
    pub(super) email: EmailSettings,
    pub(super) log_level: String,
    pub(super) log_format: log::Format,
}

impl Settings {
    pub(super) fn load(arguments: &Arguments) -> anyhow::Result<Self> {
        let named = std::env::var_os("TASKLANE_WORKER_CONFIG").filter(|file| !file.is_empty());
        let file = arguments.config.clone().or_else(|| named.map(PathBuf::from));
        let document = file.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut commands = document.exec.commands;
        for given in &arguments.exec {
            let (name, command) = command(given)?;
            commands.insert(name, command);
        }
        if let Some((name, _)) = commands.iter().find(|(_, command)| command.is_empty()) {
            return Err(usage(format!("the command {name} is empty: give a program to run")));
        }
        let mut handlers = either(&arguments.handle, document.handlers);
        if !commands.is_empty() {
            handlers.push(Handler::Exec);
        }
        handlers.sort_unstable();
        handlers.dedup();
        if handlers.is_empty() {
            return Err(usage("name what to run, for example --handle echo,webhook"));
        }
        if handlers.contains(&Handler::Exec) && commands.is_empty() {
            return Err(usage("exec runs what is allowed: give --exec NAME='PROGRAM ARGUMENT…'"));
        }
        let mut webhook = document.webhook;
        webhook.allow_private |= arguments.allow_private;
        let drain = arguments.drain_seconds.or(document.drain_seconds).unwrap_or(30);
        let log_level = arguments.log_level.clone().or(document.log_level);
        let log_level = log_level.unwrap_or_else(|| "info".to_owned());
        log::check(&log_level).map_err(|wrong| usage(format!("the log's level: {wrong}")))?;
        let log_format = arguments.log_format.clone().or(document.log_format);
        Ok(Self {
            server: arguments.connection.target()?.server,
            handlers,
            commands,
            capacity: arguments.capacity.or(document.capacity).unwrap_or(5),
            queues: either(&arguments.queue, document.queues),
            capabilities: either(&arguments.capability, document.capabilities),
            name: arguments.name.clone().or(document.name),
            listen: arguments.listen.clone().or(document.listen),
            drain_within: Duration::from_secs(drain),
            webhook,
            email: document.email,
            log_level,
            log_format: match log_format.as_deref() {
                None | Some("human") => log::Format::Human,
                Some("json") => log::Format::Json,
                Some(_) => return Err(usage("the log's format: give human or json")),
            },
        })
    }

    /// What is enabled, for the log.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.handlers.iter().map(|handler| handler.as_str()).collect();
        names.join(", ")
    }
}

fn either<T: Clone>(flags: &[T], file: Vec<T>) -> Vec<T> {
    if flags.is_empty() { file } else { flags.to_vec() }
}

fn read(file: &Path) -> anyhow::Result<Document> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).map_err(|wrong| usage(format!("{}: {wrong}", file.display())))
}

/// NAME=PROGRAM ARGUMENT…, taken apart at blanks.
fn command(given: &str) -> anyhow::Result<(String, Vec<String>)> {
    let wrong = || usage(format!("--exec {given}: give NAME='PROGRAM ARGUMENT…'"));
    let (name, command) = given.split_once('=').ok_or_else(wrong)?;
    let command: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
    if name.is_empty() || command.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), command))
}
