//! Settings of TLS.

use super::{milliseconds, whole};
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
