//! Callers that are known by the certificate that they show in place of a key.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use tasklane_core::{Grants, Timestamp};

use super::Engine;
use super::access::{Access, Denied};
use crate::settings::Settings;
use crate::tls::Certificate;

/// What the configuration lets the owners of certificates with a name do.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The name that a certificate must have.
    pub name: Box<str>,
    /// What it allows.
    pub grants: Grants,
    /// What workers are registered under. No key's id looks like it.
    owner: Box<str>,
}

impl NamedCertificate {
    /// Certificates with `name` allow what `grants` say.
    pub fn new(name: &str, grants: Grants) -> Self {
        Self { name: name.into(), grants, owner: format!("certificate {name}").into() }
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }
}

/// A certificate that somebody has shown, and what it allows.
#[derive(Debug, Clone)]
pub struct Certified {
    pub(super) named: Arc<NamedCertificate>,
    ends_at: Timestamp,
}

impl Engine {
    /// Lets somebody in who has proved that a certificate is theirs, where the configuration names
    /// it. Of its names the first that is configured counts.
    pub(crate) fn admit_certificate(&self, shown: &Certificate) -> Result<Access, Denied> {
        let settings = self.settings();
        let named = shown.names.iter().find_map(|name| settings.client_certificates.get(name));
        let named = named.ok_or(Denied::Unnamed)?;
        let ends_at = shown.ends_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ends_at = Timestamp::EPOCH.plus(ends_at);
        let certified = Certified { named: Arc::clone(named), ends_at };
        match self.still_certified(&certified, &settings) {
            true => Ok(Access::Certificate(certified)),
            false => Err(Denied::CertificateEnded),
        }
    }

    /// Whether a certificate still allows what it did. A connection may be older than both the
    /// configuration and the end of the certificate.
    pub(super) fn still_certified(&self, certified: &Certified, settings: &Settings) -> bool {
        let named = settings.client_certificates.get(&certified.named.name);
        named.is_some_and(|named| *named == certified.named) && self.now() < certified.ends_at
    }
}
