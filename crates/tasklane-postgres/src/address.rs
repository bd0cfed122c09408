//! What an address means: where the database is, and whether the way to it is encrypted.

use std::time::Duration;

use tasklane_store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::tls::Tls;

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// A peer that has been silent for so long is asked whether it is there, so often, at most so many
/// times: a machine that went away without a word is noticed within five seconds, and so is one that
/// does not confirm what was sent to it. After a longer time the system would send again so rarely
/// that a connection stays silent for as long as the network was cut.
const SILENT_AFTER: Duration = Duration::from_secs(2);
const ASKED_EVERY: Duration = Duration::from_secs(1);
const ASKED_TIMES: u32 = 3;
/// How long that takes in all.
const GONE_AFTER: Duration =
    Duration::from_secs(SILENT_AFTER.as_secs() + ASKED_EVERY.as_secs() * ASKED_TIMES as u64);

/// How connections are made.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
}

impl Address {
    /// Reads `postgres://user:password@host:port/database?…`. Nothing of it is repeated in an
    /// error: there may be a password in it.
    pub(crate) fn read(address: &str) -> Result<Self, StoreError> {
        let (place, more) = address.split_once('?').unwrap_or((address, ""));
        let (mut mode, mut authorities) = (None, None);
        let mut others = Vec::new();
        for part in more.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", file)) => authorities = Some(file),
                _ => others.push(part),
            }
        }
        let address = format!("{place}?{}", others.join("&"));
        let mut config: Config = address.parse().map_err(|_| {
            let text = "not an address like postgres://user:password@host:5432/database";
            StoreError::Unavailable(text.into())
        })?;
        let tls = match mode {
            Some("require" | "verify-full") => {
                config.ssl_mode(SslMode::Require);
                Tls::trusting(authorities.filter(|file| *file != "system"))?
            }
            None | Some("disable") => {
                config.ssl_mode(SslMode::Disable);
                if mode.is_none() && !is_near(&config) {
                    tracing::warn!(
                        "the connection to the database is not encrypted: say sslmode=require"
                    );
                }
                Tls::none()
            }
            Some(_) => {
                let text = "sslmode: give disable, or require, which checks the certificate";
                return Err(StoreError::Unavailable(text.into()));
            }
        };
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_application_name().is_none() {
            config.application_name("tasklane");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME_MAX);
        }
        config.keepalives_idle(SILENT_AFTER);
        config.keepalives_interval(ASKED_EVERY);
        config.keepalives_retries(ASKED_TIMES);
        config.tcp_user_timeout(GONE_AFTER);
        Ok(Self { config, tls })
    }
}

/// Has the database notice in the same way that this side of a connection has gone: of itself it
/// keeps such a session for hours, and has room for a hundred. Nothing depends on it, and through a
/// pooler it says no more than that of the pooler's connection.
pub(crate) fn notice_who_goes() -> String {
    format!(
        "SET tcp_keepalives_idle TO {}; SET tcp_keepalives_interval TO {}; \
         SET tcp_keepalives_count TO {ASKED_TIMES}; SET tcp_user_timeout TO {}",
        SILENT_AFTER.as_secs(),
        ASKED_EVERY.as_secs(),
        GONE_AFTER.as_millis(),
    )
}

/// On this machine.
fn is_near(config: &Config) -> bool {
    let is_near = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(is_loopback),
    };
    config.get_hosts().iter().all(is_near)
}

fn is_loopback(address: std::net::IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whether_to_encrypt() {
        let mode = |more: &str| {
            let address = format!("postgres://me:secret@127.0.0.1/tasks{more}");
            Address::read(&address).map(|address| address.config.get_ssl_mode())
        };
        assert_eq!(mode("").unwrap(), SslMode::Disable);
        assert_eq!(mode("?sslmode=disable&connect_timeout=2").unwrap(), SslMode::Disable);
        for unknown in
            ["?sslmode=prefer", "?sslmode=allow", "?sslmode=require&sslrootcert=/not/there"]
        {
            let refused = mode(unknown).unwrap_err().to_string();
            assert!(refused.contains("sslmode") || refused.contains("/not/there"), "{refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn what_is_no_address_is_not_repeated() {
        let refused = Address::read("postgres://me:secret@[/tasks").err().unwrap();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
