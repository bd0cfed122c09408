//! What a certificate says.

use std::time::SystemTime;

use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Names of one certificate that count.
const NAMES_MAX: usize = 100;
/// Bytes of such a name.
const NAME_BYTES_MAX: usize = 256;

/// A certificate, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// Its alternative names (hosts, addresses of mail, URIs), then the common name of its subject.
    pub(crate) names: Vec<Box<str>>,
    /// When it ends.
    pub(crate) ends_at: SystemTime,
}

impl Certificate {
    /// Reads what comes over the wire; `None` if it is no certificate. Whether somebody has signed
    /// it is for others to tell.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let certificate = x509_cert::Certificate::from_der(bytes).ok()?;
        let says = certificate.tbs_certificate();
        let alternatives = says.get_extension::<SubjectAltName>().ok()?;
        let alternatives = alternatives.map_or(Vec::new(), |(_, names)| names.0);
        let alternatives = alternatives.iter().filter_map(|name| match name {
            GeneralName::DnsName(name)
            | GeneralName::Rfc822Name(name)
            | GeneralName::UniformResourceIdentifier(name) => Some(Box::<str>::from(name.as_str())),
            _ => None,
        });
        let common = says.subject().common_name().ok()?;
        let common = common.map(|common| Box::<str>::from(common.value()));
        let names = alternatives.chain(common).filter(|name| is_plain(name)).take(NAMES_MAX);
        let names = names.collect();
        Some(Self { names, ends_at: says.validity().not_after.to_system_time() })
    }
}

/// Whether a name can stand in a log.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

impl std::fmt::Display for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "certificate {}", self.names.first().map_or("without a name", |name| name))
    }
}
