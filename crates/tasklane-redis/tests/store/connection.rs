//! The way to a server: it goes away, falls silent, asks who is there, and speaks TLS.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tasklane_core::Clock;
use tasklane_redis::test_server::{TestServer, free_port};
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::conformance::ManualClock;
use tasklane_store::{Store, StoreError};

use crate::cluster;
use crate::durable::{calls, replica_of};
use crate::work::{DURABLE, open, options, run, submit, until};

#[test]
fn a_server_that_was_away_is_found_again() {
    let server = TestServer::start(&DURABLE).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        let first = submit(&store).await.unwrap();
        server.kill().unwrap();
        // The first may still meet the old connection.
        until(async || matches!(submit(&store).await, Err(StoreError::Unavailable(_)))).await;
        assert!(store.status().trouble.is_some());
        assert!(matches!(store.get(vec![first]).await, Err(StoreError::Unavailable(_))));
        server.begin().unwrap();
        until(async || submit(&store).await.is_ok()).await;
        assert_eq!(store.status().trouble, None);
        assert!(store.get(vec![first]).await.unwrap()[0].is_some());
    });
}

#[test]
fn a_store_that_nobody_uses_is_ready_again_once_its_server_is_back() {
    let server = TestServer::start(&DURABLE).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        server.kill().unwrap();
        until(async || matches!(submit(&store).await, Err(StoreError::Unavailable(_)))).await;
        assert!(store.status().trouble.is_some());
        server.begin().unwrap();
        // What maintenance does all the time.
        until(async || store.overdue(10).await.is_ok()).await;
        assert_eq!(store.status().trouble, None);
    });
}

#[test]
fn a_server_that_falls_silent_keeps_nobody_waiting() {
    let server = TestServer::start(&DURABLE).unwrap();
    let bound = Duration::from_secs(2);
    let options =
        Options { command_time_max: bound, connect_time_max: bound, ..Options::default() };
    run(async {
        let store = RedisStore::open(&server.address(), &options).await.unwrap();
        submit(&store).await.unwrap();
        server.pause().unwrap();
        let begun = Instant::now();
        let (written, read) = tokio::join!(submit(&store), store.stats());
        // It was stopped at the look before the write, so nothing was written.
        assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
        assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
        assert!(begun.elapsed() < 10 * bound, "{:?}", begun.elapsed());
        server.resume().unwrap();
        until(async || submit(&store).await.is_ok()).await;
    });
}

/// What a user needs, as documented.
const RIGHTS: &str = "+@read +@write +@scripting +@connection +info +config|get +time";

/// Makes a user with these rights on one namespace, and gives what comes before `@` in its address.
fn user(server: &TestServer, namespace: &str, rights: &str) -> &'static str {
    let keys = format!("~{{{namespace}}}:*");
    let mut user = vec!["ACL", "SETUSER", "tasklane", "on", ">pass word", &keys];
    user.extend(rights.split(' '));
    server.command::<()>(&user).unwrap();
    "tasklane:pass%20word"
}

#[test]
fn a_user_with_the_documented_rights_is_enough_and_others_are_refused() {
    let server = TestServer::start(&DURABLE).unwrap();
    let who = user(&server, "mail", RIGHTS);
    let with = |who: &str| format!("redis://{who}@127.0.0.1:{}/?namespace=mail", server.port());
    run(async {
        let store = open(&with(who), Mode::Durable).await;
        submit(&store).await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
        let refused = RedisStore::open(&with("tasklane:guessed"), &options(Mode::Durable)).await;
        let text = refused.unwrap_err().to_string();
        assert!(!text.contains("guessed"), "{text}");
        // Another namespace is none of its business.
        let other = with(who).replace("mail", "other");
        RedisStore::open(&other, &options(Mode::Durable)).await.unwrap_err();
    });
}

/// Whether the documented rights do where answers wait.
fn are_enough_where_answers_wait(primary: &TestServer, command: &str) {
    let (who, port) = (user(primary, "mail", RIGHTS), primary.port());
    let address = format!("redis://{who}@127.0.0.1:{port}/?namespace=mail&replicas=1");
    run(async {
        let store = open(&address, Mode::Durable).await;
        let before = calls(primary, command);
        submit(&store).await.unwrap();
        assert!(calls(primary, command) > before);
        assert_eq!((store.status().trouble, store.check().await.unwrap()), (None, vec![]));
    });
}

#[test]
fn the_documented_rights_are_enough_to_wait_for_replicas() {
    let primary = TestServer::start(&DURABLE).unwrap();
    let _replica = replica_of(&primary, &[]);
    are_enough_where_answers_wait(&primary, "wait");
}

#[test]
fn the_documented_rights_are_enough_to_wait_for_files() {
    let primary = TestServer::start_valkey(&["--appendonly", "yes"]).unwrap();
    let of = format!("127.0.0.1 {}", primary.port());
    let _replica = TestServer::start_valkey(&["--replicaof", &of, "--appendonly", "yes"]).unwrap();
    are_enough_where_answers_wait(&primary, "waitaof");
}

#[test]
fn the_documented_rights_are_enough_in_a_cluster() {
    let cluster = cluster::shared();
    let rights = format!("{RIGHTS} +cluster|slots +cluster|keyslot");
    let mut address = cluster.address().replace("://", "://tasklane:pass%20word@");
    address.push_str("?namespace=rights");
    for node in cluster.nodes() {
        user(node, "rights", &rights);
    }
    run(async {
        let store = open(&address, Mode::Fast).await;
        submit(&store).await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_right_that_is_missing_refuses_a_write_before_its_first_half() {
    let server = TestServer::start(&DURABLE).unwrap();
    let who = user(&server, "mail", &RIGHTS.replace(" +time", ""));
    let address = format!("redis://{who}@127.0.0.1:{}/?namespace=mail", server.port());
    // What reads has a time already.
    let clock = Some(Arc::new(ManualClock::default()) as Arc<dyn Clock>);
    let refused = run(RedisStore::open(&address, &Options { clock, ..options(Mode::Durable) }));
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!(server.command::<u32>(&["DBSIZE"]).unwrap(), 0);
}

/// Writes certificates into a folder: of an authority, of a server, and of a client.
fn write_certificates(folder: &Path) {
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority for a test");
    let key = KeyPair::generate().unwrap();
    write("ca.pem", params.self_signed(&key).unwrap().pem());
    let authority = Issuer::new(params, key);
    for name in ["server", "client"] {
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        write(&format!("{name}.pem"), params.signed_by(&key, &authority).unwrap().pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

#[test]
fn a_server_is_spoken_to_in_tls_and_must_be_the_right_one() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_certificates(folder.path());
    write_certificates(other.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let port = free_port().unwrap();
    let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
    let mut settings = vec!["--tls-ca-cert-file", &ca, "--tls-cert-file", &certificate];
    let number = port.to_string();
    settings.extend(["--tls-key-file", &key, "--tls-port", &number]);
    let _server = TestServer::start(&settings).unwrap();
    let (own, own_key) = (file("client.pem"), file("client.key"));
    let address =
        |ca: &str| format!("rediss://localhost:{port}/?ca={ca}&certificate={own}&key={own_key}");
    run(async {
        let store = open(&address(&ca), Mode::Fast).await;
        submit(&store).await.unwrap();
        let stranger = other.path().join("ca.pem").display().to_string();
        for wrong in [address(&stranger), format!("rediss://localhost:{port}/?ca={ca}")] {
            let refused = RedisStore::open(&wrong, &options(Mode::Fast)).await;
            assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{wrong}: {refused:?}");
        }
    });
}
