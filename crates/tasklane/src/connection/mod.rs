//! Which server a command asks, with which key.
//!
//! - [`profile`] servers by name, from a file of the user's

mod profile;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tasklane_client::Client;
use tasklane_client::call::{ClientBuilder, Retries};

use profile::Profiles;

const SERVER: &str = "TASKLANE_SERVER";
const PROFILE: &str = "TASKLANE_PROFILE";
const CA: &str = "TASKLANE_CA";
const CERTIFICATE: &str = "TASKLANE_CLIENT_CERTIFICATE";
const CERTIFICATE_KEY: &str = "TASKLANE_CLIENT_KEY";
const KEY: &str = "TASKLANE_API_KEY";
const KEY_FILE: &str = "TASKLANE_API_KEY_FILE";
/// Where a server is when nobody says otherwise.
const DEFAULT: &str = "http://127.0.0.1:7170";
/// Somebody waits for the answer: a server that is away is told soon.
const RETRIES: Retries = Retries {
    retries_max: 2,
    first_delay: Duration::from_millis(100),
    delay_max: Duration::from_secs(1),
};

#[derive(Debug, Clone, Args)]
pub(crate) struct Connection {
    /// The server, for example https://queue.example.org [default: the profile's, or
    /// http://127.0.0.1:7170] [env: TASKLANE_SERVER]. Its key is taken from TASKLANE_API_KEY, or
    /// from the file that TASKLANE_API_KEY_FILE names.
    #[arg(long, value_name = "URL", help_heading = "Server")]
    server: Option<String>,
    /// A server by its name in the file of profiles [env: TASKLANE_PROFILE]
    #[arg(long, value_name = "NAME", conflicts_with = "server", help_heading = "Server")]
    profile: Option<String>,
    /// Certificates of the authorities that a server with https is trusted by, in PEM; without it,
    /// those of the system [env: TASKLANE_CA]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,
    /// A certificate to show to a server that asks for one, in PEM [env:
    /// TASKLANE_CLIENT_CERTIFICATE]
    #[arg(long, value_name = "FILE", requires = "client_key", help_heading = "Server")]
    client_certificate: Option<PathBuf>,
    /// Its private key [env: TASKLANE_CLIENT_KEY]
    #[arg(long, value_name = "FILE", requires = "client_certificate", help_heading = "Server")]
    client_key: Option<PathBuf>,
}

/// A server, and what is needed to speak with it.
pub(crate) struct Target {
    pub(crate) server: String,
    pub(crate) key: Option<String>,
    ca: Option<PathBuf>,
    own: Option<(PathBuf, PathBuf)>,
}

impl Connection {
    /// A client of the server that is meant.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.target()?.client()
    }

    /// The server that is meant: the one that is named, or the one on this machine.
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        self.named()?.map_or_else(|| self.at(DEFAULT.to_owned()), Ok)
    }

    /// Whether a flag names a server.
    pub(crate) const fn is_given(&self) -> bool {
        self.server.is_some() || self.profile.is_some()
    }

    /// The server that is named: by flag, in the environment, or as the default of the profiles.
    pub(crate) fn named(&self) -> anyhow::Result<Option<Target>> {
        if let Some(name) = &self.profile {
            return self.profiled(name).map(Some);
        }
        if let Some(server) = self.server.clone().or_else(|| variable(SERVER)) {
            return self.at(server).map(Some);
        }
        match variable(PROFILE) {
            Some(name) => self.profiled(&name).map(Some),
            None => match Profiles::read()?.default {
                Some(name) => self.profiled(&name).map(Some),
                None => Ok(None),
            },
        }
    }

    /// What a profile says counts before the environment: another server's key is not shown to it.
    fn profiled(&self, name: &str) -> anyhow::Result<Target> {
        let profile = Profiles::read()?.take(name)?;
        let key = match profile.key()? {
            Some(key) => Some(key),
            None => key()?,
        };
        let own = self.own().or(profile.client_certificate.zip(profile.client_key));
        Ok(Target {
            server: profile.server,
            key,
            ca: self.ca.clone().or(profile.ca).or_else(|| file(CA)),
            own: own.or_else(|| file(CERTIFICATE).zip(file(CERTIFICATE_KEY))),
        })
    }

    /// A server without a profile.
    fn at(&self, server: String) -> anyhow::Result<Target> {
        let ca = self.ca.clone().or_else(|| file(CA));
        let own = self.own().or_else(|| file(CERTIFICATE).zip(file(CERTIFICATE_KEY)));
        Ok(Target { server, key: key()?, ca, own })
    }

    fn own(&self) -> Option<(PathBuf, PathBuf)> {
        self.client_certificate.clone().zip(self.client_key.clone())
    }
}

impl Target {
    /// A client of it.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Ok(self.builder().build()?)
    }

    /// The same, for who has wishes of their own.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let mut builder = Client::builder(&self.server).retries(RETRIES);
        if let Some(key) = &self.key {
            builder = builder.api_key(key);
        }
        if let Some(ca) = &self.ca {
            builder = builder.authorities(ca);
        }
        if let Some((certificate, key)) = &self.own {
            builder = builder.certificate(certificate, key);
        }
        builder
    }
}

/// The key for a server without a profile.
fn key() -> anyhow::Result<Option<String>> {
    match (variable(KEY), variable(KEY_FILE)) {
        (Some(key), _) => Ok(Some(key)),
        (None, Some(file)) => {
            let key = std::fs::read_to_string(&file);
            let key = key.with_context(|| format!("cannot read {file}, which {KEY_FILE} names"))?;
            Ok(Some(key.trim().to_owned()))
        }
        (None, None) => Ok(None),
    }
}

fn file(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// A variable that is empty counts as not set.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
