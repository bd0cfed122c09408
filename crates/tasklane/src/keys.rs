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

use crate::consent::Consent;
use crate::ending::{DONE, Outcome, Stop};
use crate::place::{Place, StorePlace, Where};
use crate::show::{Cell, List, Paint, Shown, Table, clean, moment, print};
use crate::value::span;

/// Keys asked for at once.
const PAGE: u32 = 1_000;

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
  tasklane keys revoke tl_0123456789ab --yes

Scopes: submit (bring tasks in, cancel one), read (look), work (be a worker), operate (change tasks,
queues and workers), admin (keys, audit log, clean-ups, backups). None includes another. Queues and
types bound them; what is out of a key's reach is not there for it.";

/// Make, list and revoke API keys.
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
        store: StorePlace,
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
        place: Where,
    },
    /// List keys.
    #[command(after_help = EXAMPLES)]
    List {
        #[command(flatten)]
        place: Where,
        #[command(flatten)]
        shown: Shown,
    },
    /// Take a key back for good.
    #[command(after_help = EXAMPLES)]
    Revoke {
        /// Its visible beginning: tl_ and twelve digits.
        id: ApiKeyId,
        #[command(flatten)]
        consent: Consent,
        #[command(flatten)]
        place: Where,
    },
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Bootstrap { name, store } => bootstrap(name, store).await?,
        Command::Create { name, scopes, queues, types, expires, place } => {
            let reach = Reach { queues: names(queues)?, types: names(types)? };
            let scope = |verb: &Verb| Scope { verb: *verb, reach: reach.clone() };
            let grants = Grants::new(scopes.iter().map(scope))?;
            create(name, grants, *expires, &place.open().await?).await?;
        }
        Command::List { place, shown } => list(&place.open().await?, *shown).await?,
        Command::Revoke { id, consent, place } => {
            consent.ask(&format!("the key {id} will open nothing any more"))?;
            revoke(*id, &place.open().await?).await?;
        }
    }
    Ok(DONE)
}

async fn bootstrap(name: &str, store: &StorePlace) -> anyhow::Result<()> {
    let store = store.open().await?;
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
    show(&make_first(store.as_ref(), name).await?)?;
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
            show(&add(store.as_ref(), name, grants, expires, "keys create").await?)?;
        }
        Place::Server(server) => {
            let wanted = wire::NewKey {
                name: name.into(),
                scopes: grants.scopes().map(|scope| wire::Scope::of(&scope)).collect(),
                expires_at: None,
                expires_in_seconds: expires.map(wire::Seconds),
            };
            show(&server.create_key(&wanted).await?.secret.parse()?)?;
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
fn show(credential: &Credential) -> anyhow::Result<()> {
    eprintln!("The key. It is shown this once; only a hash of it is kept:");
    print(&format!("{}\n", credential.reveal()))
}

async fn list(place: &Place, shown: Shown) -> anyhow::Result<()> {
    let keys = match place {
        Place::Store(store) => {
            let now = store.now();
            store.api_keys().await?.iter().map(|key| wire::Key::of(key, now)).collect()
        }
        Place::Server(server) => {
            let (mut keys, mut cursor) = (Vec::new(), None);
            loop {
                let page = server.list_keys(Some(PAGE), cursor.as_deref()).await?;
                keys.extend(page.keys);
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break keys;
                }
            }
        }
    };
    shown.many(&List::whole("keys", keys), table)
}

/// Keys in rows.
fn table(keys: &[wire::Key]) -> Table {
    Table::of(&["ID", "NAME", "STATE", "GOOD", "SCOPES"], keys, |key| {
        let good = match (key.expires_at, key.revoked_at) {
            (_, Some(at)) => format!("not since {}", moment(at)),
            (Some(at), None) => format!("until {}", moment(at)),
            (None, None) => "for ever".to_owned(),
        };
        let paint = if key.state == "active" { Paint::Good } else { Paint::Faint };
        let scopes: Vec<_> = key.scopes.iter().map(scope).collect();
        vec![
            Cell::new(&key.id),
            Cell::new(&key.name),
            Cell::new(&key.state).painted(paint),
            Cell::new(good),
            Cell::new(scopes.join(", ")),
        ]
    })
}

fn scope(scope: &wire::Scope) -> String {
    let bound = |what: &str, names: &Option<Vec<Box<str>>>| match names {
        None => String::new(),
        Some(names) => format!(" {what} {}", names.join(" ")),
    };
    let (queues, types) = (bound("in", &scope.queues), bound("of", &scope.types));
    format!("{}{queues}{types}", scope.verb)
}

async fn revoke(id: ApiKeyId, place: &Place) -> anyhow::Result<()> {
    let name = match place {
        Place::Store(store) => {
            let Some(key) = store.revoke_api_key(id).await? else {
                return Err(Stop::NotFound(format!("there is no key {id}")).into());
            };
            let entry = AuditEntry::new(&Who::Machine, "keys revoke", AuditEntry::DONE);
            store.append_audit(vec![entry.on(&id.to_string())]).await?;
            key.name
        }
        Place::Server(server) => server.revoke_key(&id.to_string()).await?.name,
    };
    eprintln!("{id} ({}) opens nothing any more.", clean(&name));
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
