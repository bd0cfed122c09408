//! Reads the configuration anew while the server runs: what can change does, the rest is named.

use std::collections::BTreeSet;

use tasklane_server::engine::{Engine, Reloaded};

use super::effective::{Effective, resolve};
use super::load::{Loaded, Wrong, load};
use super::print::arranged;
use super::setting::written;
use super::source::Sources;
use super::values::Values;
use crate::log;

/// What is in force, and where to read it anew.
pub(crate) struct Reloading {
    sources: Sources,
    running: Values,
    log: log::Handle,
}

impl Reloading {
    pub(crate) fn new(sources: Sources, loaded: Loaded, log: log::Handle) -> Self {
        Self { sources, running: loaded.values, log }
    }

    /// Once more. Nothing changes if anything is wrong.
    pub(crate) async fn run(&mut self, engine: &Engine) -> Result<Reloaded, Wrong> {
        // A file is short: reading it here holds up nobody.
        let fresh = load(&self.sources)?;
        let (next, mut reloaded) = merge(&self.running, &fresh.values);
        let contradictions = |found: Vec<super::effective::Contradiction>| {
            let line = |found: &super::effective::Contradiction| {
                format!("{}: {} until the restart", written(&found.path), found.what)
            };
            Wrong(found.iter().map(line).collect())
        };
        let Effective { mut settings, log_level, tokens, .. } =
            resolve(&next).map_err(contradictions)?;
        settings.tokens = tokens.read().map_err(|wrong| Wrong(vec![wrong]))?;
        let of_tokens = |path: &String| path.starts_with("jwt.");
        if settings.tokens != engine.settings().tokens && !reloaded.applied.iter().any(of_tokens) {
            // The same file with other keys in it.
            reloaded.applied.push("jwt.key_file".to_owned());
        }
        self.log.set_level(&log_level);
        if let Err(error) = engine.change_settings(settings).await {
            tracing::warn!(%error, "queues could not be configured; it is tried again");
        }
        self.running = next;
        Ok(reloaded)
    }
}

/// What runs from now on, and what has become of each setting that differs.
pub(super) fn merge(running: &Values, fresh: &Values) -> (Values, Reloaded) {
    let (mut next, mut running, mut fresh) = (running.clone(), running.clone(), fresh.clone());
    let mut reloaded = Reloaded::default();
    let (before, after) = (running.clone(), fresh.clone());
    let names = |group: &'static str| {
        let names = before.names(group).into_iter().chain(after.names(group));
        names.collect::<BTreeSet<_>>().into_iter().collect()
    };
    for (setting, name) in arranged(names) {
        let (old, new) = (setting.read(&mut running, &name), setting.read(&mut fresh, &name));
        if old == new {
            continue;
        }
        let path = written(&setting.path_of(&name));
        match (setting.live, new) {
            (false, _) => reloaded.needs_restart.push(path),
            (true, Some(value)) if !setting.is_named() => {
                setting.write(&mut next, "", value);
                reloaded.applied.push(path);
            }
            (true, _) => reloaded.applied.push(path),
        }
    }
    next.take_named(after);
    (next, reloaded)
}
