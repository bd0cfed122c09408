//! What a certificate says.

use std::time::SystemTime;

use x509_cert::der::Decode;

/// A certificate, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// When it ends.
    pub(crate) ends_at: SystemTime,
}

impl Certificate {
    /// Reads what comes over the wire; `None` if it is no certificate.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let certificate = x509_cert::Certificate::from_der(bytes).ok()?;
        let ends_at = certificate.tbs_certificate().validity().not_after.to_system_time();
        Some(Self { ends_at })
    }
}
