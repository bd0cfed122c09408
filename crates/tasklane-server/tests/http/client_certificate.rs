//! Certificates of clients in place of keys.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use rcgen::SanType;
use serde_json::json;
use tasklane_core::{Grants, Names, Pattern, Reach, Scope, Verb};
use tasklane_server::engine::NamedCertificate;
use tasklane_server::tls::{ClientFiles, Tls, TlsFiles, TlsSettings};
use tasklane_server::{Authentication, Settings};

use crate::authority::{Authority, Issued, write};
use crate::site::{Reply, Site};

/// A server that asks clients for certificates.
struct House {
    site: Site,
    servers: Authority,
    clients: Authority,
    _folder: tempfile::TempDir,
}

/// Who may read everything, and who may work on mail.
fn named(settings: &mut Settings) {
    let reach = |queue: &str| {
        let queues = Names::matching(vec![Pattern::new(queue).unwrap()]).unwrap();
        Reach { queues, ..Reach::default() }
    };
    let grants = |scopes: Vec<(Verb, Reach)>| {
        Grants::new(scopes.into_iter().map(|(verb, reach)| Scope { verb, reach })).unwrap()
    };
    let operator = grants(vec![
        (Verb::Read, Reach::default()),
        (Verb::Submit, Reach::default()),
        (Verb::Operate, Reach::default()),
        (Verb::Admin, Reach::default()),
    ]);
    let mailer = grants(vec![(Verb::Work, reach("mail*")), (Verb::Read, reach("mail*"))]);
    for (name, grants) in [("operator", operator), ("spiffe://example.org/mailer", mailer)] {
        let named = Arc::new(NamedCertificate::new(name, grants));
        settings.client_certificates.insert(name.into(), named);
    }
    settings.authentication = Authentication::Keys;
}

impl House {
    fn new(required: bool) -> Self {
        let (servers, clients) = (Authority::new(), Authority::new());
        let folder = tempfile::tempdir().unwrap();
        let authorities = write(folder.path(), "clients.pem", &clients.pem);
        let files = TlsFiles {
            clients: Some(ClientFiles { authorities, required }),
            ..servers.issue().write(folder.path())
        };
        let tls = Tls::open(TlsSettings::new(files)).unwrap();
        let site = Site::start(|settings, _| named(settings), Some(tls));
        Self { site, servers, clients, _folder: folder }
    }

    fn send(&self, own: Option<&Issued>, method: &str, path: &str, body: &str) -> Reply {
        self.send_with(own, method, path, "", body)
    }

    fn send_with(
        &self,
        own: Option<&Issued>,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Reply {
        let mut stream = self.servers.connect(&self.site, own);
        let length = body.len();
        // A server that does not let anybody in may close before it has read everything.
        let _ = write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Reply::read(&mut stream)
    }

    fn operator(&self) -> Issued {
        self.clients.issue_for("operator", &[])
    }

    fn mailer(&self) -> Issued {
        let uri = "spiffe://example.org/mailer".try_into().unwrap();
        self.clients.issue_for("some mailer", &[SanType::URI(uri)])
    }
}

#[test]
fn a_certificate_that_is_named_is_as_good_as_a_key() {
    let house = House::new(false);
    let operator = house.operator();
    assert_eq!(house.send(None, "GET", "/livez", "").status, 200);
    house.send(None, "GET", "/api/v1/tasks", "").refused(401, "unauthenticated");
    assert_eq!(house.send(Some(&operator), "GET", "/api/v1/tasks", "").status, 200);
    let task = json!({"type": "a", "queue": "mail.eu"}).to_string();
    assert_eq!(house.send(Some(&operator), "POST", "/api/v1/tasks", &task).status, 201);
    let register = "/internal/workers/register";
    house.send(Some(&operator), "POST", register, "{}").refused(403, "insufficient-scope");
}

#[test]
fn a_certificate_reaches_as_far_as_its_entry_says() {
    let house = House::new(true);
    let (operator, mailer) = (house.operator(), house.mailer());
    for queue in ["mail.eu", "video"] {
        let task = json!({"type": "a", "queue": queue}).to_string();
        assert_eq!(house.send(Some(&operator), "POST", "/api/v1/tasks", &task).status, 201);
    }
    let listed = house.send(Some(&mailer), "GET", "/api/v1/tasks", "").json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
    let registered = house.send(Some(&mailer), "POST", "/internal/workers/register", "{}");
    let poll = format!("/internal/workers/{}/poll", registered.string("/worker_id"));
    let claimed = house.send(Some(&mailer), "POST", &poll, r#"{"available_capacity": 5}"#).json();
    assert_eq!(claimed["tasks"].as_array().unwrap().len(), 1, "{claimed}");
    assert_eq!(claimed["tasks"][0]["queue"], "mail.eu");
    let again = house.mailer();
    let other = house.send(Some(&again), "POST", &poll, r#"{"available_capacity": 5}"#);
    assert_eq!(other.status, 200, "a renewed certificate with the same name is the same caller");
    house.send(Some(&mailer), "DELETE", "/admin/queues/low", "").refused(403, "insufficient-scope");
}

#[test]
fn who_is_not_named_or_has_another_authority_gets_nothing() {
    let house = House::new(false);
    let stranger = house.clients.issue_for("stranger", &[]);
    house.send(Some(&stranger), "GET", "/api/v1/tasks", "").refused(401, "unauthenticated");
    let forged = Authority::new().issue_for("operator", &[]);
    assert_eq!(house.send(Some(&forged), "GET", "/livez", "").status, 0, "no connection at all");
    let expired = house.clients.issue_expired();
    assert_eq!(house.send(Some(&expired), "GET", "/livez", "").status, 0);
}

#[test]
fn without_a_certificate_there_is_no_connection_where_it_is_required() {
    let house = House::new(true);
    assert_eq!(house.send(None, "GET", "/livez", "").status, 0);
    assert_eq!(house.send(Some(&house.operator()), "GET", "/livez", "").status, 200);
}

#[test]
fn a_key_that_is_shown_counts_before_the_certificate() {
    let house = House::new(true);
    let operator = house.operator();
    let nonsense = "authorization: Bearer tl_nonsense\r\n";
    house
        .send_with(Some(&operator), "GET", "/api/v1/tasks", nonsense, "")
        .refused(401, "unauthenticated");
    let key = json!({"name": "reader", "scopes": [{"verb": "read"}]}).to_string();
    let made = house.send(Some(&operator), "POST", "/admin/keys", &key);
    assert_eq!(made.status, 201, "{made:?}");
    let key = format!("x-api-key: {}\r\n", made.string("/secret"));
    let task = json!({"type": "a"}).to_string();
    house
        .send_with(Some(&operator), "POST", "/api/v1/tasks", &key, &task)
        .refused(403, "insufficient-scope");
}

#[test]
fn what_an_owner_of_a_certificate_does_is_recorded_by_its_name() {
    let house = House::new(true);
    let operator = house.operator();
    house.send(Some(&operator), "POST", "/admin/queues/mail/pause", "");
    let stranger = house.clients.issue_for("stranger", &[]);
    house.send(Some(&stranger), "GET", "/api/v1/tasks", "").refused(401, "unauthenticated");
    house.site.eventually("both are recorded", || {
        let log = house.send(Some(&operator), "GET", "/admin/audit", "").text;
        log.contains(r#""who":"certificate operator""#)
            && log.contains(r#""who":"certificate stranger""#)
            && log.contains("certificate without access")
    });
}

#[test]
fn an_entry_that_is_gone_and_a_certificate_that_has_ended_open_nothing_on_open_connections() {
    let house = House::new(true);
    let operator = house.operator();
    let mut stream = house.servers.connect(&house.site, Some(&operator));
    let mut ask = || {
        write!(stream, "GET /api/v1/tasks HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        let mut head = String::new();
        while !head.contains("\r\n\r\n") || !head.ends_with('}') {
            let mut byte = [0];
            std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
            head.push(char::from(byte[0]));
        }
        head.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(ask(), "200");
    let mut settings = (*house.site.engine.settings()).clone();
    let kept = settings.clone();
    settings.client_certificates.remove("operator");
    house.site.run(house.site.engine.change_settings(settings)).unwrap();
    assert_eq!(ask(), "401");
    house.site.run(house.site.engine.change_settings(kept)).unwrap();
    assert_eq!(ask(), "200");
    // Certificates of tests end in the year 4096.
    house.site.pass(Duration::from_secs(3_000 * 366 * 24 * 60 * 60));
    assert_eq!(ask(), "401");
}
