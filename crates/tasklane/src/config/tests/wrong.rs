//! What is wrong is found, all of it, with its place and what was probably meant.

use super::super::kind::Value;
use super::super::table::settings;
use super::{complaints, of_file, with};

#[test]
fn unknown_keys_are_refused_with_their_line_and_the_nearest_name() {
    let text = "lease = 5\n\n[braker]\nfailures = 3\n[queue.mail]\nweight = 2\n[colours]\n";
    let expected = [
        "tasklane.toml:1: unknown setting lease; did you mean lease_ms?",
        "tasklane.toml:4: unknown setting braker.failures; did you mean breaker.failures?",
        "tasklane.toml:6: unknown setting queue.mail.weight; did you mean queues.mail.weight?",
        "tasklane.toml:7: unknown setting colours; `tasklane config default` lists all",
    ];
    assert_eq!(complaints(text, &[]), expected);
}

#[test]
fn values_that_do_not_fit_are_refused_with_what_was_expected() {
    let text = "lease_ms = \"long\"\nbreaker = 5\n[log]\nformat = \"xml\"\n[health]\nreports = 0\n\
                [retention]\nfailed_seconds = \"never\"\n";
    let expected = [
        "tasklane.toml:1: lease_ms should be whole milliseconds from 10 to 86400000",
        "tasklane.toml:2: breaker is a section: write [breaker] and what is in it",
        "tasklane.toml:4: log.format should be one of \"human\", \"json\"",
        "tasklane.toml:6: health.reports should be a whole number from 1 to 1000",
        "tasklane.toml:8: retention.failed_seconds should be seconds up to 315360000, or \"forever\"",
    ];
    assert_eq!(complaints(text, &[]), expected);
    let variable = complaints("", &[("TASKLANE_LEASE_MS", "soon")]);
    assert_eq!(
        variable,
        ["TASKLANE_LEASE_MS: lease_ms should be whole milliseconds from 10 to 86400000"]
    );
}

#[test]
fn contradictions_are_found_with_the_line_that_makes_them() {
    for (text, expected) in [
        ("lease_ms = 1000\nheartbeat_ms = 1000", ":2: heartbeat_ms: must be shorter than lease_ms"),
        (
            "[queues.mail.aging]\nnormal_seconds = 5000\n",
            ":2: queues.mail.aging: must be normal ≤ high ≤ critical",
        ),
        (
            "[queues.mail.depth_limits]\nnormal = 5\nhigh = 2\n",
            ":3: queues.mail.depth_limits: must be normal ≤ high ≤ all",
        ),
        (
            "[queues.mail]\nweights = [1, 2, 3, 4]\n",
            ":2: queues.mail.weights: has no effect unless order = \"weighted\"",
        ),
        (
            "[queues.mail]\norder = \"weighted\"\nweights = [1, 2, 3, 0]\n",
            ":3: queues.mail.weights: must be 1 to 1000000 each",
        ),
        (
            "[types.a.retry]\ninitial_seconds = 9\nmax_seconds = 8\n",
            ":3: types.a.retry: retry.max_seconds: must be initial_seconds to 604800",
        ),
        (
            "[priorities.hihg]\nmax_retries = 1\n",
            ":2: priorities.hihg: there is no such priority; did you mean high?",
        ),
        (
            "[[classify]]\nkind = \"bug\"\n",
            ":2: classify.0: a rule has a kind, and either code or message_contains",
        ),
        (
            "store = \"oracle:x\"",
            ":1: store: give sqlite:FOLDER, memory:, postgres://USER:PASSWORD@HOST/DATABASE or redis://USER:PASSWORD@HOST:PORT/ (docs/redis.md has its other forms)",
        ),
        (
            "[limits]\nbody_bytes_max = 5000000\nreading_bytes_max = 2000000\n",
            ":3: limits.reading_bytes_max: must not be less than limits.body_bytes_max",
        ),
        (
            "allowed_origins = [\"https://a.example.org\", \"https://b.example.org/\"]",
            ":1: allowed_origins: an origin is a scheme and a host, such as https://board.example.org",
        ),
        (
            "trusted_proxies = [\"10.0.0.1\", \"10.0.0.0/40\"]",
            ":1: trusted_proxies: give addresses or networks, such as 10.0.0.7 or 10.0.0.0/8",
        ),
        ("jwt.key_file = \"issuer.pem\"", ":1: jwt.key_file: needs jwt.issuer too"),
        ("tls.certificate = \"server.pem\"", ":1: tls.certificate: needs tls.key too"),
        ("tls.key = \"server.key\"", ":1: tls.key: needs tls.certificate too"),
        (
            "tls.client_ca = \"clients.pem\"",
            ":1: tls.client_ca: needs tls.certificate and tls.key too",
        ),
        (
            "[[client_certificates]]\nname = \"a\"\nscopes = [\"read\"]\n",
            ":3: client_certificates: needs tls.client_ca: nobody else is asked for a certificate",
        ),
        (
            "traces.endpoint = \"collector:4318\"",
            ":1: traces.endpoint: give an address such as http://127.0.0.1:4318/v1/traces",
        ),
        ("listen = \"here\"", ":1: listen: give an address and a port, such as 127.0.0.1:7170"),
    ] {
        assert_eq!(complaints(text, &[]), [format!("tasklane.toml{expected}")], "{text}");
    }
    for text in
        ["[queues.\"a:b\"]\nweight = 2", "[types.\"a{b}\"]\nmax_retries = 1", "log.level = \"=\""]
    {
        assert_eq!(complaints(text, &[]).len(), 1, "{text}");
    }
}

#[test]
fn what_certificates_allow_is_checked_as_for_keys() {
    let tls = "tls.certificate = \"c\"\ntls.key = \"k\"\ntls.client_ca = \"a\"\n";
    let entry = |members: &str| format!("{tls}[[client_certificates]]\n{members}\n");
    for members in [
        "name = \"a\"",
        "scopes = [\"read\"]",
        "name = \"a\"\nscopes = [\"reed\"]",
        "name = \"a\"\nscopes = [\"admin\"]\nqueues = [\"mail\"]",
        "name = \"a\"\nscopes = [\"read\", \"read\"]",
        "name = \"a\"\nscopes = [\"read\"]\nqueues = [\"a:b\"]",
    ] {
        let wrong = complaints(&entry(members), &[]);
        assert_eq!(wrong.len(), 1, "{members}: {wrong:?}");
        assert!(wrong[0].contains("client_certificates.0"), "{wrong:?}");
    }
    let first = "name = \"a\"\nscopes = [\"read\"]";
    let second = "name = \"a\"\nscopes = [\"work\"]\nqueues = [\"mail*\"]";
    let both = entry(&format!("{first}\n[[client_certificates]]\n{second}"));
    let settings = of_file(&both).unwrap().effective.settings;
    let grants = &settings.client_certificates["a"].grants;
    assert_eq!(grants.scopes().count(), 2);
    assert!(!grants.reach(tasklane_core::Verb::Work).unwrap().is_everything());
}

#[test]
fn a_file_that_is_not_there_or_no_toml_is_refused() {
    assert!(complaints("a = = b", &[])[0].starts_with("tasklane.toml:1: "));
    let missing = super::Sources { file: Some("nowhere.toml".into()), ..Default::default() };
    assert!(super::load(&missing).unwrap_err().0[0].starts_with("nowhere.toml: "));
}

#[test]
fn variables_that_look_like_settings_are_only_warned_of() {
    let loaded = with("", &[("TASKLANE_LEASE_M", "5"), ("TASKLANE_SERVICE_HOST", "x")]).unwrap();
    assert_eq!(
        loaded.warnings,
        ["TASKLANE_LEASE_M is no setting; did you mean TASKLANE_LEASE_MS?"]
    );
}

#[test]
fn an_empty_variable_is_not_set() {
    let loaded = with("lease_ms = 1000\n", &[("TASKLANE_LEASE_MS", "")]).unwrap();
    assert_eq!(loaded.effective.options.rules.lease.as_millis(), 1_000);
}

#[test]
fn secrets_are_read_from_files_and_never_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    std::fs::write(&file, "sqlite:./elsewhere\n").unwrap();
    let path = file.to_str().unwrap();
    let loaded = with("", &[("TASKLANE_STORE_FILE", path)]).unwrap();
    assert_eq!(loaded.effective.store, "sqlite:./elsewhere");
    let both = complaints("", &[("TASKLANE_STORE", "memory:"), ("TASKLANE_STORE_FILE", path)]);
    assert_eq!(both, ["TASKLANE_STORE_FILE and TASKLANE_STORE are both set: keep one of them"]);
    let none = complaints("", &[("TASKLANE_LISTEN_FILE", path), ("TASKLANE_LEASE_MS", "x")]);
    assert_eq!(none.len(), 1, "only secrets have files");
    let wrong = complaints("store = \"mysql://me:hunter2@host/x\"\n", &[]).concat();
    assert!(!wrong.contains("hunter2"), "{wrong}");
}

#[test]
fn a_secret_is_hidden_where_values_are_shown() {
    let store = settings().find(|setting| setting.path == "store").unwrap();
    let shown = store.shown(&Value::Text("postgres://me:hunter2@db.example.org/x".to_owned()));
    assert_eq!(shown, "\"postgres://me:********@db.example.org/x\"");
}

#[test]
fn an_empty_section_is_nothing() {
    of_file("[breaker]\n[queues.mail]\n[queues.mail.retry]\n").unwrap();
}
