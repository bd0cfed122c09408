//! Settings of TLS.

use super::{milliseconds, whole};
use crate::config::field::named;
use crate::config::kind::Kind;
use crate::config::setting::Setting;

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        "tls.certificate",
        Kind::Optional("FILE"),
        "The server's certificate in PEM, with those between it and one that clients know. With it the server speaks TLS alone. A file that changes is read anew within tls.look_every_ms, and by SIGHUP.",
        |v, _| &mut v.tls.certificate,
    )
    .at_start()
    .flag()
    .example("/etc/tasklane/server.pem"),
    Setting::new(
        "tls.key",
        Kind::Optional("FILE"),
        "The certificate's private key in PEM.",
        |v, _| &mut v.tls.key,
    )
    .at_start()
    .flag()
    .example("/etc/tasklane/server.key"),
    Setting::new(
        "tls.client_ca",
        Kind::Optional("FILE"),
        "Ask clients for certificates too, and accept those of the authorities in this file. What a certificate allows is said in [[client_certificates]].",
        |v, _| &mut v.tls.client_ca,
    )
    .at_start()
    .flag()
    .example("/etc/tasklane/clients.pem"),
    Setting::new(
        "tls.client_certificates",
        Kind::Choice(&["optional", "required"]),
        "With tls.client_ca: whether there is a connection without a certificate. Where it is optional, a key does as well.",
        |v, _| &mut v.tls.client_certificates,
    )
    .at_start(),
    Setting::new(
        "tls.look_every_ms",
        milliseconds(1),
        "How often to look whether these files have changed. A new certificate that cannot be used is refused with a line in the log, and the one before it stays.",
        |v, _| &mut v.tls.look_every,
    )
    .at_start(),
    Setting::new(
        "tls.handshake_ms",
        milliseconds(1),
        "How long a client may take for its handshake.",
        |v, _| &mut v.tls.handshake_within,
    )
    .at_start(),
    Setting::new(
        "tls.handshakes_max",
        whole(1, 1_000_000),
        "Handshakes at once; one more waits for its turn, within the same time.",
        |v, _| &mut v.tls.handshakes_max,
    )
    .at_start(),
];

/// What certificates of clients allow.
pub(super) static CLIENT_CERTIFICATES: &[Setting] = &[
    Setting::new(
        "client_certificates.*.name",
        Kind::Text("NAME"),
        "The name that a certificate must have: the common name of its subject, or an alternative one (a host, an address of mail, a URI). The same name may stand in several entries.",
        |v, name| &mut named(&mut v.client_certificates, name).name,
    )
    .example("mailer.example.org"),
    Setting::new(
        "client_certificates.*.scopes",
        Kind::Texts("VERB"),
        "What its owner may do: submit, read, work, operate, admin. Each verb once for a name.",
        |v, name| &mut named(&mut v.client_certificates, name).scopes,
    )
    .example("submit,read"),
    Setting::new(
        "client_certificates.*.queues",
        Kind::Texts("QUEUE"),
        "Only in these queues, or in those that begin so with a * at the end; without it in all.",
        |v, name| &mut named(&mut v.client_certificates, name).queues,
    )
    .example("mail*"),
    Setting::new(
        "client_certificates.*.types",
        Kind::Texts("TYPE"),
        "Only on tasks of these types, in the same way.",
        |v, name| &mut named(&mut v.client_certificates, name).types,
    )
    .example("email.*"),
];
