//! Connections that are encrypted.

use std::net::TcpListener;

use tasklane_postgres::PostgresStore;
use tasklane_postgres::test_server::TestServer;
use tasklane_store::StoreError;
use tokio_postgres::NoTls;

use crate::fixture::runtime;
use crate::servers::{fresh, submit};

#[test]
fn a_connection_is_encrypted_and_the_certificate_checked() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = TestServer::encrypted(port, &certificate, &key).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &certificate).unwrap();
    let authority = format!("sslrootcert={}", file.path().display());
    let address = |host: &str, more: &str| {
        format!("postgres://postgres@{host}:{port}/postgres?sslmode=require&{more}")
    };
    let options = fresh();
    runtime().block_on(async {
        let store = PostgresStore::open(&address("localhost", &authority), &options).await.unwrap();
        submit(&store, 1).await;
        let straight = format!(
            "host={} port={port} user=postgres application_name=stranger",
            server.folder().display()
        );
        let (client, connection) = tokio_postgres::connect(&straight, NoTls).await.unwrap();
        tokio::spawn(connection);
        let sessions = "SELECT count(*) FILTER (WHERE ssl), count(*) FROM pg_stat_ssl
                        JOIN pg_stat_activity USING (pid) WHERE application_name = 'tasklane'";
        let row = client.query_one(sessions, &[]).await.unwrap();
        let (encrypted, all): (i64, i64) = (row.get(0), row.get(1));
        assert!(encrypted == all && all > 0, "{encrypted} of {all}");
        // Another name than the certificate's, and an authority that nobody knows.
        for wrong in [address("127.0.0.1", &authority), address("localhost", "")] {
            let refused = PostgresStore::open(&wrong, &options).await.unwrap_err();
            assert!(matches!(&refused, StoreError::Unavailable(_)), "{refused}");
            assert!(refused.to_string().contains("ertificate"), "{refused}");
        }
    });
}
