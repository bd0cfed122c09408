//! `tasklane keys`.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use tasklane_client::wire;
use tasklane_core::{
    ApiKey, ApiKeyId, AuditEntry, Credential, Grants, Names, NewApiKey, Pattern, Reach, Scope,
    Verb, When, Who,
};
use tasklane_sqlite::SystemRandom;
use tasklane_store::{ApiKeyRefusal, Store};

use crate::place::{self, Place, wait};

const EXAMPLES: &str = "\
Examples:
  tasklane keys bootstrap
      makes the first key and shows it; it may do everything. The server must not be running.
  tasklane serve --listen 0.0.0.0:7170
      asks everybody for a key from now on
  export TASKLANE_SERVER=http://127.0.0.1:7170 TASKLANE_API_KEY=tl_...
  tasklane keys create --name mailer --scope submit,read --queue 'mail*' --expires 90d
  tasklane keys create --name 'mail workers' --scope work --queue 'mail*'
  tasklane keys list
  tasklane keys revoke tl_0123456789ab

Scopes: submit (bring tasks in, cancel one), read (look), work (be a worker), operate (change tasks,
queues and workers), admin (keys, audit log, clean-ups, backups). None includes another. Queues and
types bound them; what is out of a key's reach is not there for it.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the first key, which may do everything, and show it once.
    #[command(after_help = EXAMPLES)]
    Bootstrap {
        /// What it is called.
        #[arg(long, default_value = "admin")]
        name: String,
        #[command(flatten)]
        place: place::Arguments,
    },
    /// Make a key and show it once.
    #[command(after_help = EXAMPLES)]
    Create {
        /// What it is for.
        #[arg(long)]
        name: String,
        /// What it may do: submit, read, work, operate, admin; several with commas.
        #[arg(long = "scope", value_delimiter = ',', required = true, value_name = "VERB")]
        scopes: Vec<Verb>,
        /// Only in this queue, or queues that begin so with `*`; may be given again.
        #[arg(long = "queue", value_name = "PATTERN")]
        queues: Vec<String>,
        /// Only on tasks of this type, or types that begin so with `*`; may be given again.
        #[arg(long = "type", value_name = "PATTERN")]
        types: Vec<String>,
        /// How long it is good, for example 12h or 90d; for ever if absent.
        #[arg(long, value_parser = span, value_name = "TIME")]
        expires: Option<Duration>,
        #[command(flatten)]
        place: place::Arguments,
    },
    /// List keys.
    List {
        /// As JSON, one key in a line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: place::Arguments,
    },
    /// Take a key back for good.
    Revoke {
        /// Its visible beginning: tl_ and twelve digits.
        id: ApiKeyId,
        #[command(flatten)]
        place: place::Arguments,
    },
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    wait(async {
        match &arguments.command {
            Command::Bootstrap { name, place } => bootstrap(name, place).await,
            Command::Create { name, scopes, queues, types, expires, place } => {
                let reach = Reach { queues: names(queues)?, types: names(types)? };
                let scope = |verb: &Verb| Scope { verb: *verb, reach: reach.clone() };
                let grants = Grants::new(scopes.iter().map(scope))?;
                create(name, grants, *expires, &place.open()?).await
            }
            Command::List { json, place } => list(*json, &place.open()?).await,
            Command::Revoke { id, place } => revoke(*id, &place.open()?).await,
        }
    })
}

async fn bootstrap(name: &str, place: &place::Arguments) -> anyhow::Result<()> {
    let store = place.open_store()?;
    let now = store.now();
    let opens = |key: &ApiKey| key.is_good(now) && key.grants.reach(Verb::Admin).is_some();
    if let Some(key) = store.api_keys().await?.into_iter().find(opens) {
        bail!(
            "there is a key with the scope admin: {} ({}).\nMake others with it: tasklane keys \
             create. If it is lost, revoke it first: tasklane keys revoke {}",
            key.id,
            key.name,
            key.id
        );
    }
    show(&make_first(store.as_ref(), name).await?);
    eprintln!("From now on `tasklane serve` on this store asks everybody for a key.");
    Ok(())
}

/// Makes a key that may do everything.
pub(crate) async fn make_first(store: &dyn Store, name: &str) -> anyhow::Result<Credential> {
    add(store, name, Grants::everything(), None, "keys bootstrap").await
}

async fn create(
    name: &str,
    grants: Grants,
    expires: Option<Duration>,
    place: &Place,
) -> anyhow::Result<()> {
    match place {
        Place::Store(store) => {
            show(&add(store.as_ref(), name, grants, expires, "keys create").await?);
        }
        Place::Server(server) => {
            let wanted = wire::NewKey {
                name: name.into(),
                scopes: grants.scopes().map(|scope| wire::Scope::of(&scope)).collect(),
                expires_at: None,
                expires_in_seconds: expires.map(wire::Seconds),
            };
            let made: wire::MadeKey = server.call("POST", "/admin/keys", Some(&wanted)).await?;
            show(&made.secret.parse()?);
        }
    }
    Ok(())
}

async fn add(
    store: &dyn Store,
    name: &str,
    grants: Grants,
    expires: Option<Duration>,
    action: &str,
) -> anyhow::Result<Credential> {
    let credential = Credential::generate(&mut SystemRandom::default());
    let key = NewApiKey::new(&credential, name, grants, expires.map(When::After))?;
    match store.add_api_key(key).await? {
        Ok(_) => {}
        Err(ApiKeyRefusal::Exists) => bail!("two keys by the same id, by chance: try again"),
        Err(refusal) => bail!(refusal),
    }
    let entry = AuditEntry::new(&Who::Machine, action, AuditEntry::DONE);
    store.append_audit(vec![entry.on(&credential.id.to_string())]).await?;
    Ok(credential)
}

/// The key alone goes to the output, so that a script can take it.
fn show(credential: &Credential) {
    eprintln!("The key. It is shown this once; only a hash of it is kept:");
    println!("{}", credential.reveal());
}

async fn list(json: bool, place: &Place) -> anyhow::Result<()> {
    let keys = match place {
        Place::Store(store) => {
            let now = store.now();
            store.api_keys().await?.iter().map(|key| wire::Key::of(key, now)).collect()
        }
        Place::Server(server) => {
            let (mut keys, mut next) = (Vec::new(), String::new());
            loop {
                let path = format!("/admin/keys?limit=1000{next}");
                let page: wire::KeyPage = server.call("GET", &path, None::<&()>).await?;
                keys.extend(page.keys);
                match page.next_cursor {
                    Some(cursor) => next = format!("&cursor={cursor}"),
                    None => break keys,
                }
            }
        }
    };
    for key in keys {
        match json {
            true => println!("{}", serde_json::to_string(&key)?),
            false => println!("{}", line(&key)),
        }
    }
    Ok(())
}

/// One key for people.
fn line(key: &wire::Key) -> String {
    let scope = |scope: &wire::Scope| {
        let bound = |what: &str, names: &Option<Vec<Box<str>>>| match names {
            None => String::new(),
            Some(names) => format!(" {what} {}", names.join(" ")),
        };
        let (queues, types) = (bound("in", &scope.queues), bound("of", &scope.types));
        format!("{}{queues}{types}", scope.verb)
    };
    let scopes: Vec<_> = key.scopes.iter().map(scope).collect();
    let until = match (&key.expires_at, &key.revoked_at) {
        (_, Some(at)) => format!("since {at}"),
        (Some(at), None) => format!("until {at}"),
        (None, None) => "for ever".to_owned(),
    };
    format!("{}  {:8} {until}  {:?}  {}", key.id, key.state, key.name, scopes.join(", "))
}

async fn revoke(id: ApiKeyId, place: &Place) -> anyhow::Result<()> {
    let name = match place {
        Place::Store(store) => {
            let Some(key) = store.revoke_api_key(id).await? else { bail!("there is no key {id}") };
            let entry = AuditEntry::new(&Who::Machine, "keys revoke", AuditEntry::DONE);
            store.append_audit(vec![entry.on(&id.to_string())]).await?;
            key.name
        }
        Place::Server(server) => {
            let path = format!("/admin/keys/{id}");
            let key: wire::Key = server.call("DELETE", &path, None::<&()>).await?;
            key.name
        }
    };
    eprintln!("{id} ({name}) opens nothing any more.");
    Ok(())
}

fn names(patterns: &[String]) -> anyhow::Result<Names> {
    if patterns.is_empty() {
        return Ok(Names::All);
    }
    let patterns = patterns
        .iter()
        .map(|text| Pattern::new(text).with_context(|| format!("{text:?}")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Names::matching(patterns)?)
}

/// `45s`, `30m`, `12h` or `90d`.
fn span(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time: give a number with s, m, h or d, for example 90d");
    let unit = text.chars().next_back().ok_or_else(bad)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(bad()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    let seconds = number.and_then(|number| number.checked_mul(seconds)).ok_or_else(bad)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(span("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(span("12h"), Ok(Duration::from_secs(12 * 3_600)));
        for bad in ["", "90", "d", "-1d", "1.5h", "1w", "99999999999999999999d", "é"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}
