//! Servers by name, from a file of the user's.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use super::variable;
use crate::ending::usage;

/// Names another file than the usual one.
const FILE: &str = "TASKLANE_PROFILES";

/// The file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profiles {
    /// Which one counts when nothing else is said.
    pub(super) default: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    #[serde(skip)]
    file: PathBuf,
}

/// One server. Not shown anywhere: it may hold a key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) server: String,
    api_key: Option<String>,
    api_key_file: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
    pub(super) client_certificate: Option<PathBuf>,
    pub(super) client_key: Option<PathBuf>,
}

impl Profiles {
    /// What the user has; nothing if there is no file.
    pub(super) fn read() -> anyhow::Result<Self> {
        let Some(file) = file() else { return Ok(Self::default()) };
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { file, ..Self::default() });
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        let read = toml::from_str::<Self>(&text);
        // The message names the line, but shows none of it: there may be a key in it.
        let profiles = read.map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            usage(format!("{}:{line}: {}", file.display(), error.message()))
        })?;
        Ok(Self { file, ..profiles })
    }

    /// The profile of this name.
    pub(super) fn take(mut self, name: &str) -> anyhow::Result<Profile> {
        let Some(mut profile) = self.profiles.remove(name) else {
            let known: Vec<_> = self.profiles.into_keys().collect();
            let known = match known.as_slice() {
                [] => "it has none".to_owned(),
                known => format!("it has {}", known.join(", ")),
            };
            let file = self.file.display();
            return Err(usage(format!("no profile {name:?} in {file}: {known}")));
        };
        if profile.api_key.is_some() && is_open(&self.file) {
            let file = self.file.display();
            eprintln!("warning: {file} holds a key and others may read it: chmod 600 {file}");
        }
        // Files are meant from where the profiles are.
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let Profile { api_key_file, ca, client_certificate, client_key, .. } = &mut profile;
        for file in [api_key_file, ca, client_certificate, client_key].into_iter().flatten() {
            *file = folder.join(&file);
        }
        Ok(profile)
    }
}

impl Profile {
    pub(super) fn key(&self) -> anyhow::Result<Option<String>> {
        match (&self.api_key, &self.api_key_file) {
            (Some(key), _) => Ok(Some(key.clone())),
            (None, Some(file)) => {
                let key = std::fs::read_to_string(file);
                let key = key.with_context(|| format!("cannot read the key {}", file.display()))?;
                Ok(Some(key.trim().to_owned()))
            }
            (None, None) => Ok(None),
        }
    }
}

fn file() -> Option<PathBuf> {
    if let Some(file) = variable(FILE) {
        return Some(file.into());
    }
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
    folder.map(|folder| folder.join("tasklane").join("profiles.toml"))
}

/// Whether others than the user can read a file.
fn is_open(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
}
