//! Every setting, by every way in which it can be set.

use clap::Parser;

use super::super::flag::Flags;
use super::super::kind::{Kind, Value};
use super::super::load::{Loaded, load};
use super::super::print::print;
use super::super::setting::{Setting, written};
use super::super::source::Sources;
use super::super::table::{GROUPS, LISTS, settings};
use super::super::template::template;
use super::super::values::Values;
use super::{of_file, with};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    flags: Flags,
}

/// A value other than the default, as an environment would have it.
fn sample(setting: &Setting) -> String {
    if !setting.example.is_empty() {
        return setting.example.to_owned();
    }
    let default = setting.read(&mut Values::default(), "").expect("a default or an example");
    match (setting.kind, default) {
        (Kind::Choice(words), Value::Text(default)) => {
            words.iter().find(|word| **word != default).unwrap().to_string()
        }
        (_, Value::Whole(number)) => (number + 1).to_string(),
        (Kind::Decimal { max, .. }, Value::Decimal(number)) if number + 1.5 <= max => {
            (number + 1.5).to_string()
        }
        (_, Value::Decimal(number)) => (number - 1.5).to_string(),
        (Kind::Milliseconds { .. }, Value::Span(span)) => (span.as_millis() + 1).to_string(),
        (_, Value::Span(span)) => (span.as_secs_f64() + 1.5).to_string(),
        (_, Value::Shares(_)) => "4,3,2,1".to_owned(),
        (_, default) => panic!("{}: {default:?} needs an example", setting.path),
    }
}

/// What has to be set too for a setting to count.
fn companions(setting: &Setting) -> &'static str {
    match setting.path {
        "sync_interval_ms" => "durability = \"interval\"",
        "queue_defaults.weights" => "queue_defaults.order = \"weighted\"",
        "queues.*.weights" => "queues.mail.order = \"weighted\"",
        "jwt.key_file" => "jwt.issuer = \"x\"",
        "tls.certificate" => "tls.key = \"server.key\"",
        "tls.key" => "tls.certificate = \"server.pem\"",
        "classify.*.code" | "classify.*.message_contains" => "kind = \"bug\"",
        "classify.*.kind" => "code = \"X\"",
        path if path.starts_with("tls.") => {
            "tls.certificate = \"server.pem\"\ntls.key = \"server.key\""
        }
        "traces.endpoint" => "",
        path if path.starts_with("traces.") => "traces.endpoint = \"http://127.0.0.1:4318\"",
        "client_certificates.*.name" => "scopes = [\"work\"]",
        "client_certificates.*.scopes" => "name = \"a\"",
        "client_certificates.*.queues" | "client_certificates.*.types" => {
            "name = \"a\"\nscopes = [\"work\"]"
        }
        _ => "",
    }
}

fn name(setting: &Setting) -> &'static str {
    GROUPS.iter().find(|(group, _)| *group == setting.group()).map_or("", |(_, name)| name)
}

/// What has to be set before any section for it.
fn above(setting: &Setting) -> &'static str {
    match (setting.path, setting.group()) {
        ("tls.client_certificates", _) => "tls.client_ca = \"clients.pem\"\n",
        (_, "client_certificates") => CLIENT_CA,
        _ => "",
    }
}

const CLIENT_CA: &str = "tls.certificate = \"server.pem\"\ntls.key = \"server.key\"\n\
                         tls.client_ca = \"clients.pem\"\n";

/// A file with a setting in its last line, and one with only what has to be set too.
fn files(setting: &Setting) -> (String, String) {
    let value = setting.kind.write(&setting.kind.read_text(&sample(setting)).expect("a sample"));
    let path = setting.path_of(name(setting));
    let (list, key) = match setting.group() {
        list if LISTS.contains(&list) => (format!("[[{list}]]"), path.last().unwrap().clone()),
        _ => (String::new(), written(&path)),
    };
    let without = format!("{}{list}\n{}\n", above(setting), companions(setting));
    (format!("{without}{key} = {value}\n"), without)
}

/// What there is without a setting. What has to be set too may mean nothing by itself.
fn before(without: &str) -> Loaded {
    of_file(without).or_else(|_| of_file("")).unwrap()
}

fn seen(loaded: &Loaded) -> String {
    format!("{:?}", loaded.effective)
}

/// Checks that a value is shown with its origin.
fn assert_shown(setting: &Setting, loaded: &Loaded, origin: &str) {
    let key = setting.path.rsplit('.').next().unwrap();
    let value = setting.kind.write(&setting.kind.read_text(&sample(setting)).unwrap());
    let line = format!("{key} = {value}");
    let printed = print(loaded);
    let found = printed.lines().any(|shown| {
        let (set, from) = shown.split_once(" # ").unwrap_or((shown, ""));
        set.trim_end() == line && from.ends_with(origin)
    });
    assert!(found, "{line} # {origin} is not shown:\n{printed}");
}

#[test]
fn every_setting_can_be_set_in_a_file_is_shown_and_counts() {
    for setting in settings() {
        let (file, without) = files(setting);
        let loaded = of_file(&file).unwrap_or_else(|wrong| panic!("{file}: {wrong}"));
        assert_shown(setting, &loaded, &format!("tasklane.toml:{}", file.lines().count()));
        if !LISTS.contains(&setting.group()) {
            assert_ne!(seen(&before(&without)), seen(&loaded), "{} changes nothing", setting.path);
        }
    }
}

#[test]
fn every_setting_with_a_name_in_the_environment_can_be_set_there() {
    for setting in settings() {
        let Some(variable) = setting.environment() else { continue };
        let (_, without) = files(setting);
        let loaded = with(&without, &[(&variable, &sample(setting))]);
        let loaded = loaded.unwrap_or_else(|wrong| panic!("{variable}: {wrong}"));
        assert_shown(setting, &loaded, &variable);
        assert_ne!(seen(&before(&without)), seen(&loaded), "{variable}");
    }
}

#[test]
fn every_setting_with_a_flag_can_be_set_by_it() {
    let plain = load(&Sources::default()).unwrap();
    let flagged: Vec<_> = settings().filter(|setting| setting.has_flag).collect();
    assert!(flagged.len() >= 6);
    for setting in flagged {
        let flag = format!("--{}", setting.flag_name().unwrap());
        let command = Command::try_parse_from(["tasklane", &flag, &sample(setting)]).unwrap();
        let (folder, mut sources) = (tempfile::tempdir().unwrap(), command.flags.sources());
        let file = folder.path().join("tasklane.toml");
        std::fs::write(&file, companions(setting)).unwrap();
        sources.file = Some(file);
        let loaded = load(&sources).unwrap();
        assert_shown(setting, &loaded, &flag);
        assert_ne!(seen(&plain), seen(&loaded), "{flag}");
    }
}

#[test]
fn a_switch_needs_no_value_and_a_list_takes_many() {
    let origins = ["--allow-origin", "https://a.example.org", "--allow-origin", "http://b:80"];
    let arguments = [&["tasklane", "--guard-metrics"], &origins[..]].concat();
    let command = Command::try_parse_from(arguments).unwrap();
    let settings = load(&command.flags.sources()).unwrap().effective.settings;
    assert!(settings.guard_metrics);
    let origins = ["https://a.example.org", "http://b:80"].map(Box::<str>::from);
    assert_eq!(settings.allowed_origins, origins);
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasklane.toml");
    std::fs::write(&file, "lease_ms = 1000\n").unwrap();
    let lease =
        |sources: &Sources| load(sources).unwrap().effective.options.rules.lease.as_millis();
    let mut sources = Sources { file: Some(file), ..Sources::default() };
    assert_eq!(lease(&sources), 1_000);
    sources.environment.insert("TASKLANE_LEASE_MS".to_owned(), "2000".to_owned());
    assert_eq!(lease(&sources), 2_000);
    sources.flags.insert("lease_ms".to_owned(), "3000".to_owned());
    assert_eq!(lease(&sources), 3_000);
}

#[test]
fn what_is_printed_is_a_file_that_means_the_same() {
    let everything: String = settings()
        .filter(|setting| !LISTS.contains(&setting.group()) && !setting.path.contains("aging"))
        .map(|setting| files(setting).0)
        .filter(|file| !file.contains("durability = \"interval\""))
        .map(|file| file.lines().last().unwrap().to_owned() + "\n")
        .collect();
    for text in [
        "",
        "[[classify]]\ncode = \"1\"\nkind = \"bug\"\n[[classify]]\ncode = \"2\"\nkind = \"bug\"\n",
        &everything,
    ] {
        let loaded = of_file(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        let again = of_file(&print(&loaded)).unwrap();
        assert_eq!(again.effective.settings, loaded.effective.settings);
        assert_eq!(again.effective.options.rules, loaded.effective.options.rules);
    }
}

/// A commented file with what it holds switched on.
fn switched_on(template: &str) -> String {
    let on = template.lines().filter_map(|line| line.strip_prefix('#'));
    let on = on.filter(|line| !line.starts_with(' ') && !line.is_empty());
    on.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_default_file_holds_the_defaults_and_nothing_that_is_wrong() {
    let template = template();
    assert_eq!(seen(&of_file(&template).unwrap()), seen(&of_file("").unwrap()));
    let (defaults, examples) = template.split_once("#[priorities.critical]").unwrap();
    assert_eq!(seen(&of_file(&switched_on(defaults)).unwrap()), seen(&of_file("").unwrap()));
    // Of what excludes each other an example shows both.
    let examples = switched_on(&format!("#[priorities.critical]{examples}"));
    let examples = examples.replace("order = \"weighted\"", "").replace("weights = ", "# ");
    let examples = examples.replace("message_contains = ", "# ");
    let examples = format!("{CLIENT_CA}{examples}");
    let loaded = of_file(&examples).unwrap_or_else(|wrong| panic!("{wrong}\n{examples}"));
    assert_eq!(loaded.effective.settings.classify.len(), 1);
    assert_eq!(loaded.effective.settings.client_certificates.len(), 1);
    for setting in settings() {
        let key = setting.path.rsplit('.').next().unwrap();
        assert!(template.contains(&format!("#{key} = ")), "{} is missing", setting.path);
        assert!(template.contains(setting.doc), "{} is not explained", setting.path);
    }
}
