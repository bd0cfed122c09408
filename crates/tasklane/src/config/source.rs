//! Where values come from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A file, and the line in it.
    File(PathBuf, usize),
    /// A variable of the environment.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File(file, line) => write!(f, "{}:{line}", file.display()),
            Self::Environment(name) => write!(f, "{name}"),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// Everything that values can come from; a file is read anew each time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The file, if one was named.
    pub(crate) file: Option<PathBuf>,
    /// Variables of the environment whose names begin with `TASKLANE_`.
    pub(crate) environment: BTreeMap<String, String>,
    /// Flags by the paths of their settings.
    pub(crate) flags: BTreeMap<String, String>,
}

/// The variable that names the file.
const CONFIG: &str = "TASKLANE_CONFIG";
/// Variables of commands that call a server.
const CALLERS: [&str; 5] = [
    "TASKLANE_SERVER",
    "TASKLANE_API_KEY",
    "TASKLANE_CA",
    "TASKLANE_CLIENT_CERTIFICATE",
    "TASKLANE_CLIENT_KEY",
];
/// What the names of all variables begin with.
pub(crate) const PREFIX: &str = "TASKLANE_";

impl Sources {
    /// This process' environment, with what was given on the command line.
    pub(crate) fn new(file: Option<&Path>, flags: BTreeMap<String, String>) -> Self {
        let ours = |name: &str| name.starts_with(PREFIX);
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| ours(name))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
            .collect();
        let named = environment.get(CONFIG).filter(|name| !name.is_empty()).map(PathBuf::from);
        Self { file: file.map(Path::to_owned).or(named), environment, flags }
    }

    /// Whether a variable is known for something else than a setting.
    pub(crate) fn is_other(name: &str) -> bool {
        name == CONFIG || CALLERS.contains(&name)
    }
}
