//! `tasklane audit`.

use anyhow::bail;
use clap::{Args, Subcommand};
use tasklane_client::call::ListAudit;
use tasklane_client::wire;
use tasklane_core::{AuditRecord, Chain, ChainHash};
use tasklane_store::AuditFrom;

use crate::ending::{DONE, Outcome};
use crate::place::{Place, Where};
use crate::show::{Cell, List, Paint, Shown, Table, moment, print};

/// Records asked for at once.
const PAGE: usize = 1_000;

const EXAMPLES: &str = "\
Examples:
  tasklane audit list --limit 20
  tasklane audit verify
      follows the chain and says the number and hash of the last record: note them elsewhere
  tasklane audit verify --noted 93:2c26b46b68ffc68f...
      also shows that nobody cut off the end, or wrote all of it anew, since they were noted";

/// Look at the audit log, and verify that nobody changed it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what operators did and who was refused, the newest first.
    #[command(after_help = EXAMPLES)]
    List {
        /// How many at most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        place: Where,
        #[command(flatten)]
        shown: Shown,
    },
    /// Follow the chain from the oldest record that is kept. Fails where it is broken.
    #[command(after_help = EXAMPLES)]
    Verify {
        /// A record that was noted before, as NUMBER:HASH.
        #[arg(long, value_parser = noted, value_name = "NUMBER:HASH")]
        noted: Option<(u64, ChainHash)>,
        #[command(flatten)]
        place: Where,
    },
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::List { limit, place, shown } => list(*limit, &place.open().await?, *shown).await?,
        Command::Verify { noted, place } => verify(*noted, &place.open().await?).await?,
    }
    Ok(DONE)
}

async fn list(limit: usize, place: &Place, shown: Shown) -> anyhow::Result<()> {
    let (mut records, mut from) = (Vec::new(), AuditFrom::Newest);
    while records.len() < limit {
        let page = page(place, from, PAGE.min(limit - records.len())).await?;
        let Some(last) = page.last() else { break };
        from = AuditFrom::Before(last.number);
        records.extend(page.into_iter().map(wire::AuditRecord::of));
    }
    shown.many(&List::whole("records", records), table)
}

/// Records in rows.
fn table(records: &[wire::AuditRecord]) -> Table {
    let headings = ["NUMBER", "TIME", "WHO", "FROM", "TIMES", "OUTCOME", "ACTION"];
    Table::of(&headings, records, |record| {
        let paint = if &*record.outcome == "done" { Paint::Plain } else { Paint::Doubtful };
        vec![
            Cell::number(record.number),
            Cell::new(moment(record.at)),
            Cell::new(&record.who),
            Cell::some(record.from.as_ref()),
            Cell::number(record.count),
            Cell::new(&record.outcome).painted(paint),
            Cell::new(done(record)),
        ]
    })
}

/// A call is told by its path instead of its route; anything else with what it was done to.
fn done(record: &wire::AuditRecord) -> String {
    let (action, target) = (&record.action, record.target.as_deref().unwrap_or_default());
    match action.split_once(' ') {
        Some((method, route)) if route.starts_with('/') && target.starts_with('/') => {
            format!("{method} {target}")
        }
        _ => format!("{action} {target}").trim_end().to_owned(),
    }
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
        None => print("whole: there are no records yet\n"),
        Some((first, last, hash)) => print(&format!(
            "whole: records {first} to {last}\nnote elsewhere, to compare later: --noted \
             {last}:{hash}\n"
        )),
    }
}

async fn page(place: &Place, from: AuditFrom, limit: usize) -> anyhow::Result<Vec<AuditRecord>> {
    let server = match place {
        Place::Store(store) => return Ok(store.audit(from, limit).await?),
        Place::Server(server) => server,
    };
    let cursor = |number: u64| Some(number.to_string().into());
    let (oldest_first, cursor) = match from {
        AuditFrom::After(after) => (true, cursor(after)),
        AuditFrom::Before(before) => (false, cursor(before)),
        AuditFrom::Newest => (false, None),
    };
    let limit = u32::try_from(limit).ok();
    let page = server.list_audit(&ListAudit { oldest_first, limit, cursor }).await?;
    let read = |record: wire::AuditRecord| Ok(record.read()?);
    page.records.into_iter().map(read).collect()
}

fn noted(text: &str) -> anyhow::Result<(u64, ChainHash)> {
    match text.split_once(':').map(|(number, hash)| (number.parse(), hash.parse())) {
        Some((Ok(number), Ok(hash))) => Ok((number, hash)),
        _ => bail!("give what `tasklane audit verify` said: NUMBER:HASH"),
    }
}
