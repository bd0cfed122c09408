//! `tasklane audit`.

use anyhow::bail;
use clap::{Args, Subcommand};
use tasklane_client::wire;
use tasklane_core::{AuditRecord, Chain, ChainHash};
use tasklane_store::AuditFrom;

use crate::place::{self, Place, wait};

/// Records asked for at once.
const PAGE: usize = 1_000;

const EXAMPLES: &str = "\
Examples:
  tasklane audit list --limit 20
  tasklane audit verify
      follows the chain and says the number and hash of the last record: note them elsewhere
  tasklane audit verify --noted 93:2c26b46b68ffc68f...
      also shows that nobody cut off the end, or wrote all of it anew, since they were noted";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what operators did and who was refused, the newest first.
    List {
        /// How many at most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// As JSON, one record in a line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: place::Arguments,
    },
    /// Follow the chain from the oldest record that is kept. Fails where it is broken.
    #[command(after_help = EXAMPLES)]
    Verify {
        /// A record that was noted before, as NUMBER:HASH.
        #[arg(long, value_parser = noted, value_name = "NUMBER:HASH")]
        noted: Option<(u64, ChainHash)>,
        #[command(flatten)]
        place: place::Arguments,
    },
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    wait(async {
        match &arguments.command {
            Command::List { limit, json, place } => list(*limit, *json, &place.open()?).await,
            Command::Verify { noted, place } => verify(*noted, &place.open()?).await,
        }
    })
}

async fn list(limit: usize, json: bool, place: &Place) -> anyhow::Result<()> {
    let (mut left, mut from) = (limit, AuditFrom::Newest);
    while left > 0 {
        let records = page(place, from, left.min(PAGE)).await?;
        let Some(last) = records.last() else { break };
        from = AuditFrom::Before(last.number);
        left -= records.len().min(left);
        for record in records.into_iter().map(wire::AuditRecord::of) {
            match json {
                true => println!("{}", serde_json::to_string(&record)?),
                false => println!("{}", line(&record)),
            }
        }
    }
    Ok(())
}

/// One record for people.
fn line(record: &wire::AuditRecord) -> String {
    let wire::AuditRecord { number, at, who, action, outcome, count, .. } = record;
    let target = record.target.as_deref().map(|target| format!(" {target}")).unwrap_or_default();
    let from = record.from.as_deref().map(|from| format!(" from {from}")).unwrap_or_default();
    let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
    // What callers sent stays on its line.
    let text = format!("{number}  {at}  {who}{from}: {action}{target}: {outcome}{times}");
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

async fn verify(noted: Option<(u64, ChainHash)>, place: &Place) -> anyhow::Result<()> {
    let (mut chain, mut after) = (Chain::default(), 0);
    if let Some((number, hash)) = noted {
        chain.expect(number, hash);
    }
    loop {
        let records = page(place, AuditFrom::After(after), PAGE).await?;
        let Some(last) = records.last() else { break };
        after = last.number;
        for record in &records {
            chain.follow(record)?;
        }
    }
    match chain.finish()? {
        None => println!("whole: there are no records yet"),
        Some((first, last, hash)) => {
            println!("whole: records {first} to {last}");
            println!("note elsewhere, to compare later: --noted {last}:{hash}");
        }
    }
    Ok(())
}

async fn page(place: &Place, from: AuditFrom, limit: usize) -> anyhow::Result<Vec<AuditRecord>> {
    let server = match place {
        Place::Store(store) => return Ok(store.audit(from, limit).await?),
        Place::Server(server) => server,
    };
    let path = match from {
        AuditFrom::After(after) => {
            format!("/admin/audit?oldest_first=true&limit={limit}&cursor={after}")
        }
        AuditFrom::Before(before) => format!("/admin/audit?limit={limit}&cursor={before}"),
        AuditFrom::Newest => format!("/admin/audit?limit={limit}"),
    };
    let page: wire::AuditPage = server.call("GET", &path, None::<&()>).await?;
    let read = |record: wire::AuditRecord| Ok(record.read()?);
    page.records.into_iter().map(read).collect()
}

fn noted(text: &str) -> anyhow::Result<(u64, ChainHash)> {
    match text.split_once(':').map(|(number, hash)| (number.parse(), hash.parse())) {
        Some((Ok(number), Ok(hash))) => Ok((number, hash)),
        _ => bail!("give what `tasklane audit verify` said: NUMBER:HASH"),
    }
}
