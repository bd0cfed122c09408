//! Whether a server is one on which tasks are safe: looked at when the store is opened, and now and
//! then afterwards.

use hashbrown::HashMap;
use redis::RedisError;

use crate::fault::{Fault, refused};
use crate::link::{Link, Way};
use crate::options::Mode;
use crate::value;
use crate::wait::Wait;

/// The first version whose scripts say that they do not write.
const VERSION_MIN: (u32, u32) = (7, 0);
/// The first version that tells when its file was synced.
const VERSION_WAITAOF: (u32, u32) = (7, 2);

/// The settings that matter.
const SETTINGS: [&str; 5] =
    ["maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "no-appendfsync-on-rewrite"];

const UNAWAITED: &str = "replicas follow this server, but answers do not wait for them: a failover may \
     lose what was answered. Write ?replicas=… behind the address, with the number of replicas";

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    /// Why nothing may be written here, and what to set.
    pub(crate) refused: Option<String>,
    /// Whether that is because another server should be written to.
    pub(crate) is_replica: bool,
    /// What should be looked at, but does not stop anything.
    pub(crate) warnings: Vec<String>,
    /// What the answer to a write waits for.
    pub(crate) wait: Wait,
}

/// Looks at the server's settings and its role.
pub(crate) async fn look(link: &Link, mode: Mode, replicas: u32) -> Result<Condition, Fault> {
    let info = information(link, ["server", "replication"]).await?;
    let mut condition = Condition::default();
    let version = version(info.get("redis_version").map_or("", String::as_str));
    if version < VERSION_MIN {
        let (major, minor) = version;
        condition.refused = Some(format!(
            "this server is Redis {major}.{minor}: Tasklane needs 7.0 or newer, or Valkey"
        ));
        return Ok(condition);
    }
    if info.get("role").is_some_and(|role| role == "slave") {
        let text =
            "this server is a replica, which takes no writes: give the address of its primary";
        (condition.refused, condition.is_replica) = (Some(text.into()), true);
        return Ok(condition);
    }
    match settings(link).await? {
        Some(settings) => judge(&settings, version, mode, &mut condition),
        None => {
            let told = information(link, ["memory", "persistence"]).await?;
            judge_untold(&told, version, mode, &mut condition);
        }
    }
    let followed = info.get("connected_slaves").is_some_and(|count| count != "0");
    if followed && replicas == 0 && mode == Mode::Durable {
        condition.warnings.push(UNAWAITED.into());
    }
    condition.wait = match (mode, condition.wait) {
        (Mode::Fast, _) => Wait::Nothing,
        (Mode::Durable, Wait::File { .. }) => Wait::File { replicas },
        (Mode::Durable, _) if replicas > 0 => Wait::Replicas(replicas),
        (Mode::Durable, _) => Wait::Nothing,
    };
    Ok(condition)
}

fn judge(
    settings: &HashMap<String, String>,
    version: (u32, u32),
    mode: Mode,
    condition: &mut Condition,
) {
    let of = |name: &str| settings.get(name).map_or("", String::as_str);
    let policy = of("maxmemory-policy");
    // The others remove only what is to expire, which nothing here is.
    if policy.starts_with("allkeys") {
        let text = format!(
            "maxmemory-policy is {policy}: when memory is short, Redis would remove tasks. Set \
             maxmemory-policy noeviction"
        );
        match of("maxmemory") {
            "0" => condition.warnings.push(text),
            _ => condition.refused = Some(text),
        }
    }
    if mode == Mode::Fast {
        return;
    }
    // Then Redis does not sync while a child of it saves or rewrites, not even with `always`.
    let pauses = of("no-appendfsync-on-rewrite") == "yes";
    match (of("appendonly"), of("appendfsync")) {
        ("yes", "always") if !pauses => {}
        // A newer server tells when its file was synced, so a slower pace is as safe.
        ("yes", "always" | "everysec") if version >= VERSION_WAITAOF => {
            condition.wait = Wait::File { replicas: 0 };
            if pauses {
                condition.warnings.push(
                    "no-appendfsync-on-rewrite is yes: while Redis rewrites its file or a replica \
                     is copied to, answers to writes wait in vain. Set no-appendfsync-on-rewrite no"
                        .into(),
                );
            }
        }
        ("yes", "always") => {
            condition.refused = Some(
                "no-appendfsync-on-rewrite is yes: while the file is rewritten, an answered write \
                 could be lost with the machine. Set no-appendfsync-on-rewrite no, or choose \
                 durability = \"none\""
                    .into(),
            );
        }
        ("yes", pace) => {
            condition.refused = Some(format!(
                "appendfsync is {pace}: an answered write could be lost with the machine. Set \
                 appendfsync always, or choose durability = \"none\""
            ));
        }
        _ => {
            condition.refused = Some(
                "appendonly is off: everything would be lost with the process. Set appendonly yes \
                 and appendfsync always, or choose durability = \"none\""
                    .into(),
            );
        }
    }
}

/// Judges a server that does not show its settings by what it tells of itself.
fn judge_untold(
    told: &HashMap<String, String>,
    version: (u32, u32),
    mode: Mode,
    condition: &mut Condition,
) {
    let of = |name: &str| told.get(name).map_or("", String::as_str);
    let appendonly = if of("aof_enabled") == "1" { "yes" } else { "no" };
    // How often the file is synced is not told. Where that can be waited for, it need not be.
    let is_awaited = version >= VERSION_WAITAOF;
    let pace = if is_awaited { "everysec" } else { "always" };
    let settings = [of("maxmemory"), of("maxmemory_policy"), appendonly, pace];
    let named = SETTINGS.into_iter().zip(settings).map(|(name, value)| (name.into(), value.into()));
    judge(&named.collect(), version, mode, condition);
    if mode == Mode::Fast || condition.refused.is_some() {
        return;
    }
    if of("aof_last_write_status") == "err" {
        condition.refused = Some("Redis cannot write its append-only file: see its log".into());
    } else if !is_awaited {
        let text = "the server does not show its settings (CONFIG GET): see to it yourself that \
                    appendfsync is always and no-appendfsync-on-rewrite no";
        condition.warnings.push(text.into());
    }
}

async fn information(
    link: &Link,
    sections: [&'static str; 2],
) -> Result<HashMap<String, String>, Fault> {
    let mut found = HashMap::new();
    for section in sections {
        let mut command = redis::cmd("INFO");
        command.arg(section);
        let text = value::bytes(link.send(Way::Writing, &command).await?)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        found.extend(lines.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    Ok(found)
}

/// The settings that matter; `None` where they are not shown to us.
async fn settings(link: &Link) -> Result<Option<HashMap<String, String>>, Fault> {
    let mut command = redis::cmd("CONFIG");
    command.arg("GET").arg(&SETTINGS);
    let answer = match link.ask(Way::Writing, &command).await? {
        Err(error) if is_withheld(&error) => return Ok(None),
        // Whatever else it is passes: it must not switch off what is looked for.
        answer => answer.map_err(|error| Fault::Store(refused(&error)))?,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pairs = value::pairs(answer)?;
    Ok(Some(pairs.iter().map(|(name, value)| (text(name), text(value))).collect()))
}

/// Whether a command is not for us, or was taken away from everybody.
fn is_withheld(error: &RedisError) -> bool {
    let is_unknown = || error.detail().is_some_and(|text| text.contains("unknown command"));
    error.code() == Some("NOPERM") || error.code() == Some("ERR") && is_unknown()
}

/// The first two numbers of a version.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|part| part.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged<const N: usize>(mode: Mode, version: (u32, u32), set: [&str; N]) -> Condition {
        let settings = SETTINGS.into_iter().zip(set).map(|(n, v)| (n.to_owned(), v.to_owned()));
        let mut condition = Condition::default();
        judge(&settings.collect(), version, mode, &mut condition);
        condition
    }

    #[test]
    fn a_server_that_syncs_every_write_is_safe() {
        let condition = judged(Mode::Durable, (7, 0), ["0", "noeviction", "yes", "always"]);
        assert!(condition.refused.is_none() && condition.warnings.is_empty());
    }

    #[test]
    fn a_server_that_removes_keys_is_refused_once_it_can_come_to_that() {
        for mode in [Mode::Durable, Mode::Fast] {
            let refused = judged(mode, (7, 0), ["100", "allkeys-lru", "yes", "always"]).refused;
            assert!(refused.is_some_and(|text| text.contains("noeviction")));
            let unlimited = judged(mode, (7, 0), ["0", "allkeys-lru", "yes", "always"]);
            assert!(unlimited.refused.is_none() && unlimited.warnings.len() == 1);
        }
    }

    #[test]
    fn a_server_without_its_file_is_refused_unless_memory_is_enough() {
        for set in [["0", "noeviction", "no", "always"], ["0", "noeviction", "yes", "everysec"]] {
            assert!(judged(Mode::Durable, (7, 0), set).refused.is_some());
            assert!(judged(Mode::Fast, (7, 0), set).refused.is_none());
        }
    }

    #[test]
    fn a_newer_server_is_asked_when_its_file_was_synced() {
        let set = ["0", "noeviction", "yes", "everysec"];
        let condition = judged(Mode::Durable, (7, 2), set);
        assert_eq!((condition.refused, condition.wait), (None, Wait::File { replicas: 0 }));
        assert!(judged(Mode::Durable, (7, 2), ["0", "noeviction", "yes", "no"]).refused.is_some());
    }

    #[test]
    fn a_server_that_does_not_sync_while_it_rewrites_is_asked_when_it_did_or_refused() {
        let set = ["0", "noeviction", "yes", "always", "yes"];
        let refused = judged(Mode::Durable, (7, 0), set).refused;
        assert!(refused.is_some_and(|text| text.contains("no-appendfsync-on-rewrite no")));
        assert!(judged(Mode::Fast, (7, 0), set).refused.is_none());
        let condition = judged(Mode::Durable, (7, 2), set);
        assert_eq!((condition.refused, condition.wait), (None, Wait::File { replicas: 0 }));
        let condition = judged(Mode::Durable, (7, 2), ["0", "noeviction", "yes", "always", "no"]);
        assert_eq!((condition.refused, condition.wait), (None, Wait::Nothing));
    }

    fn judged_untold(version: (u32, u32), policy: &str, enabled: &str, status: &str) -> Condition {
        let names = ["maxmemory", "maxmemory_policy", "aof_enabled", "aof_last_write_status"];
        let told = names.into_iter().zip(["100", policy, enabled, status]);
        let mut condition = Condition::default();
        let told = told.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        judge_untold(&told, version, Mode::Durable, &mut condition);
        condition
    }

    #[test]
    fn a_server_that_hides_its_settings_is_judged_by_what_it_tells_of_itself() {
        for (policy, enabled, status, word) in [
            ("allkeys-lfu", "1", "ok", "noeviction"),
            ("noeviction", "0", "ok", "appendonly yes"),
            ("noeviction", "1", "err", "cannot write"),
        ] {
            let refused = judged_untold((7, 0), policy, enabled, status).refused;
            assert!(refused.is_some_and(|text| text.contains(word)), "{word}");
        }
        let old = judged_untold((7, 0), "noeviction", "1", "ok");
        assert!(old.refused.is_none() && old.warnings[0].contains("appendfsync"));
        // Whatever its pace, the file is waited for.
        let new = judged_untold((7, 2), "noeviction", "1", "ok");
        assert_eq!((new.refused, new.wait), (None, Wait::File { replicas: 0 }));
        assert!(new.warnings.is_empty());
    }

    #[test]
    fn only_what_is_withheld_is_not_shown() {
        let error = |text: &str| {
            redis::parse_redis_value(text.as_bytes()).unwrap().extract_error().unwrap_err()
        };
        for text in ["-NOPERM this user has no rights\r\n", "-ERR unknown command 'CONFIG'\r\n"] {
            assert!(is_withheld(&error(text)), "{text}");
        }
        for text in ["-BUSY a script runs\r\n", "-LOADING the file\r\n", "-ERR syntax error\r\n"] {
            assert!(!is_withheld(&error(text)), "{text}");
        }
    }

    #[cfg(feature = "test-server")]
    #[tokio::test]
    async fn replicas_that_answers_do_not_wait_for_are_a_warning() {
        use crate::options::Options;
        use crate::test_server::TestServer;

        let settings = ["--appendonly", "yes", "--appendfsync", "always"];
        let primary = TestServer::start(&settings).unwrap();
        let link = Link::new(&primary.address().parse().unwrap(), &Options::default(), 1).unwrap();
        let warnings = async |mode, replicas| look(&link, mode, replicas).await.unwrap().warnings;
        assert!(warnings(Mode::Durable, 0).await.is_empty());
        let of = format!("127.0.0.1 {}", primary.port());
        let _replica = TestServer::start(&["--replicaof", &of]).unwrap();
        let info = || primary.command::<String>(&["INFO", "replication"]).unwrap();
        while !info().contains("connected_slaves:1") {
            tokio::task::yield_now().await;
        }
        assert_eq!(warnings(Mode::Durable, 0).await, [UNAWAITED]);
        assert!(warnings(Mode::Durable, 1).await.is_empty());
        assert!(warnings(Mode::Fast, 0).await.is_empty());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("7.0.15") >= VERSION_MIN && version("6.2.7") < VERSION_MIN);
        assert!(version("10.1") >= VERSION_WAITAOF);
    }
}
