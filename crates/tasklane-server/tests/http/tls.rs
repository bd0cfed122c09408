//! The server over TLS: handshakes, certificates that change, and everything else as without.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Request;
use serde_json::json;
use tasklane_server::Settings;
use tasklane_server::tls::{Tls, TlsFiles, TlsSettings};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::authority::{Authority, Issued, Secured, localhost, write};
use crate::site::{PATIENCE, Reply, Site};

/// A server with a certificate in a folder of its own.
struct House {
    site: Site,
    tls: Arc<Tls>,
    authority: Authority,
    own: Issued,
    folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        Self::with(|_| {}, |_| {})
    }

    fn with(tls: impl FnOnce(&mut TlsSettings), change: impl FnOnce(&mut Settings)) -> Self {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let own = authority.issue();
        let mut settings = TlsSettings::new(own.write(folder.path()));
        tls(&mut settings);
        let tls = Tls::open(settings).unwrap();
        let site = Site::start(|settings, _| change(settings), Some(Arc::clone(&tls)));
        Self { site, tls, authority, own, folder }
    }

    fn connect(&self) -> Secured {
        self.authority.connect(&self.site, None)
    }

    fn get(&self, path: &str) -> Reply {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
        Reply::read(&mut stream)
    }

    /// The certificate that a new connection is shown.
    fn shown(&self) -> CertificateDer<'static> {
        let mut stream = self.connect();
        stream.flush().unwrap();
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

/// Reads until the text holds `word`.
fn read_until(stream: &mut impl Read, word: &str) -> String {
    let mut bytes = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    while !text(&bytes).contains(word) {
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk) {
            Ok(read) if read > 0 => bytes.extend(&chunk[..read]),
            end => panic!("{end:?} before {word}: {}", text(&bytes)),
        }
    }
    text(&bytes)
}

#[test]
fn calls_are_answered_over_tls_and_only_over_tls() {
    let house = House::new();
    assert_eq!(house.get("/readyz").status, 200);
    let mut stream = house.connect();
    let body = r#"{"type":"a"}"#;
    write!(
        stream,
        "POST /api/v1/tasks HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    assert_eq!(Reply::read(&mut stream).status, 201);
    assert_eq!(house.site.get("/livez").status, 0, "without TLS nobody is answered");
    house.site.eventually("the failure is counted", || {
        house.get("/metrics").text.contains("\ntasklane_tls_handshakes_failed_total 1\n")
    });
    let metrics = house.get("/metrics").text;
    let ends_at = "\ntasklane_tls_certificate_ends_at_seconds ";
    let ends_at = metrics.split(ends_at).nth(1).and_then(|rest| rest.split('\n').next());
    let ends_at: u64 = ends_at.unwrap().parse().unwrap();
    let known = house.tls.ends_at().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(ends_at, known.as_secs());
}

#[test]
fn a_client_chooses_between_both_protocols() {
    let house = House::new();
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&["h2"], Some("h2")),
        (&[], None),
    ] {
        let connector = TlsConnector::from(house.authority.client(offered, None));
        let address = house.site.address;
        house.site.run(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let stream = connector.connect(localhost(), stream).await.unwrap();
            let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            assert_eq!(agreed.as_deref(), chosen.map(str::as_bytes), "{offered:?}");
            if chosen != Some("h2") {
                return;
            }
            let (client, connection) = h2::client::handshake(stream).await.unwrap();
            let speaking = tokio::spawn(connection);
            let request = Request::builder().uri("https://localhost/livez").body(()).unwrap();
            let mut client = client.ready().await.unwrap();
            let (answer, _) = client.send_request(request, true).unwrap();
            assert_eq!(answer.await.unwrap().status().as_u16(), 200);
            speaking.abort();
        });
    }
}

#[test]
fn live_events_come_over_tls_and_end_with_the_server() {
    let house = House::new();
    let mut events = house.connect();
    write!(events, "GET /api/v1/events HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    read_until(&mut events, "system.hello");
    let mut socket = house.connect();
    write!(
        socket,
        "GET /ws HTTP/1.1\r\nhost: test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .unwrap();
    let head = read_until(&mut socket, "system.hello");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    house.site.run(async {
        let task = json!({"type": "a"}).to_string();
        let mut stream = house.connect();
        write!(
            stream,
            "POST /api/v1/tasks HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{task}",
            task.len()
        )
        .unwrap();
        assert_eq!(Reply::read(&mut stream).status, 201);
    });
    read_until(&mut events, "task.submitted");
    read_until(&mut socket, "task.submitted");
    let started = Instant::now();
    house.site.begin_shutdown();
    read_until(&mut events, "system.shutdown");
    drop((events, socket));
    assert!(house.site.ended().is_ok());
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn a_client_that_does_not_shake_hands_is_let_go() {
    let house = House::with(|tls| tls.handshake_within = Duration::from_secs(1), |_| {});
    for sent in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00"] {
        let mut stream = house.site.connect();
        stream.write_all(sent).unwrap();
        let started = Instant::now();
        Reply::read(&mut stream);
        assert!(started.elapsed() < PATIENCE, "{sent:?}");
    }
    assert_eq!(house.get("/livez").status, 200);
}

#[test]
fn a_handshake_does_not_hold_up_the_end() {
    let house = House::with(|tls| tls.handshake_within = Duration::from_secs(600), |_| {});
    let silent = house.site.connect();
    assert_eq!(house.get("/livez").status, 200, "the silent one was accepted before it");
    let started = Instant::now();
    assert!(house.site.ended().is_ok());
    assert!(started.elapsed() < PATIENCE);
    drop(silent);
}

#[test]
fn handshakes_beyond_their_bound_wait_for_a_turn() {
    let house = House::with(|tls| tls.handshakes_max = 1, |_| {});
    assert_eq!(house.get("/livez").status, 200);
    let _silent = house.site.connect();
    assert_eq!(house.get("/livez").status, 200, "who says nothing takes nobody's turn");
    let mut halfway = house.connect();
    halfway.conn.write_tls(&mut halfway.sock).unwrap();
    // The server has answered: it waits for the rest.
    halfway.sock.peek(&mut [0]).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| house.get("/livez").status);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!second.is_finished(), "another has the only turn");
        drop(halfway);
        assert_eq!(second.join().unwrap(), 200);
    });
}

#[test]
fn connections_are_bounded_with_tls_too() {
    let house = House::with(|_| {}, |settings| settings.connections_max = 1);
    let mut first = house.connect();
    write!(first, "GET /livez HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    read_until(&mut first, "ok\n");
    let mut second = house.connect();
    let refused = write!(second, "GET /livez HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(refused.is_err() || Reply::read(&mut second).status == 0);
}

#[test]
fn a_new_certificate_is_used_from_the_next_connection_on() {
    let house = House::with(|tls| tls.look_every = Duration::from_millis(20), |_| {});
    let mut open = house.connect();
    write!(open, "GET /livez HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    read_until(&mut open, "ok\n");
    assert_eq!(house.shown(), house.own.der());
    let renewed = house.authority.issue();
    renewed.write(house.folder.path());
    house.site.eventually("the new one is shown", || house.shown() == renewed.der());
    write!(open, "GET /livez HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    read_until(&mut open, "ok\n");
}

#[test]
fn a_bad_new_certificate_changes_nothing() {
    let house = House::with(|tls| tls.look_every = Duration::from_secs(3_600), |_| {});
    let folder = house.folder.path();
    let shown_after = |change: &dyn Fn()| {
        change();
        house.site.run(house.tls.refresh());
        house.shown()
    };
    let other = house.authority.issue();
    let kept = house.own.der();
    assert_eq!(shown_after(&|| drop(write(folder, "server.pem", "nonsense"))), kept);
    assert_eq!(shown_after(&|| drop(write(folder, "server.pem", &other.certificate))), kept);
    assert_eq!(shown_after(&|| std::fs::remove_file(folder.join("server.key")).unwrap()), kept);
    assert_eq!(shown_after(&|| drop(house.authority.issue_expired().write(folder))), kept);
    assert_eq!(shown_after(&|| drop(other.write(folder))), other.der());
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (Authority::new().issue(), Authority::new().issue());
    let good = own.write(folder.path());
    let refused = |files: TlsFiles| {
        let error = Tls::open(TlsSettings::new(files)).expect_err("it is refused");
        error.to_string()
    };
    let with = |certificate: &str, key: &str| TlsFiles {
        certificate: write(folder.path(), "other.pem", certificate),
        key: write(folder.path(), "other.key", key),
        ..TlsFiles::default()
    };
    let missing = TlsFiles { certificate: folder.path().join("nowhere.pem"), ..good.clone() };
    let text = refused(missing);
    assert!(text.contains("cannot read the certificate") && text.contains("nowhere.pem"), "{text}");
    let missing = TlsFiles { key: folder.path().join("nowhere.key"), ..good };
    assert!(refused(missing).contains("cannot read the private key"));
    let text = refused(with("", &own.key));
    assert!(text.contains("other.pem holds no certificate"), "{text}");
    let text = refused(with(&own.certificate, &own.certificate));
    assert!(text.contains("other.key holds no private key"), "{text}");
    let text = refused(with(&own.certificate, &other.key));
    assert!(text.contains("other.key is not that of the certificate in"), "{text}");
    let broken = own.certificate.replace("-----END CERTIFICATE-----", "");
    assert!(refused(with(&broken, &own.key)).contains("other.pem is not readable as PEM"));
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(refused(with(no_der, &own.key)).contains("cannot be used"));
}
