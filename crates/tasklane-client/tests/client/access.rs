//! Keys and the audit log.

use tasklane_client::call::{ListAudit, Retries};
use tasklane_client::wire::{NewKey, Scope};
use tasklane_client::{Client, ErrorClass};
use tasklane_core::{Credential, Grants, NewApiKey, SeededRandom};
use tasklane_server::Authentication;

use crate::site::{Site, submit};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_key() {
    let site = Site::with(|settings, _| settings.authentication = Authentication::Keys).await;
    let credential = Credential::generate(&mut SeededRandom::new(7));
    let root = NewApiKey::new(&credential, "root", Grants::everything(), None).unwrap();
    site.engine().add_key(root).await.unwrap();
    let keyed = |key: &str| {
        Client::builder(site.url()).api_key(key).retries(Retries::NONE).build().unwrap()
    };
    let root = keyed(&credential.reveal());
    let refused = site.impatient().get_health().await.unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Refused);
    assert!(refused.is("unauthenticated"));

    let scope = Scope { verb: "submit".into(), queues: None, types: None };
    let new = NewKey {
        name: "mailer".into(),
        scopes: vec![scope],
        expires_at: None,
        expires_in_seconds: None,
    };
    let made = root.create_key(&new).await.unwrap();
    let mailer = keyed(&made.secret);
    submit(&mailer).await;
    assert!(mailer.get_health().await.unwrap_err().is("insufficient-scope"));
    assert_eq!(root.list_keys(Some(10), None).await.unwrap().keys.len(), 2);
    assert_eq!(root.revoke_key(&made.key.id).await.unwrap().state, "revoked");
    assert!(mailer.get_health().await.unwrap_err().is("unauthenticated"));

    let list = ListAudit { oldest_first: true, limit: Some(1_000), cursor: None };
    let records = root.list_audit(&list).await.unwrap().records;
    let mut chain = tasklane_core::Chain::default();
    for record in records.clone() {
        chain.follow(&record.read().unwrap()).unwrap();
    }
    assert!(records.iter().any(|record| record.target.as_deref() == Some(&made.key.id)));
}

#[test]
fn a_key_is_not_shown() {
    let builder = Client::builder("http://127.0.0.1:1").api_key("secret-key");
    assert!(!format!("{builder:?}").contains("secret-key"));
    assert!(!format!("{:?}", builder.build().unwrap()).contains("secret-key"));
    let broken = Client::builder("http://127.0.0.1:1").api_key("a\nb").build();
    assert_eq!(broken.unwrap_err().class(), ErrorClass::Usage);
}
