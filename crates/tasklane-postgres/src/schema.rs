//! Tables and migrations.

use tasklane_core::Random;
use tasklane_store::StoreError;
use tokio_postgres::types::Type;

use crate::connection::{Pool, Transaction, quoted};
use crate::fault::Fault;
use crate::session::RowTypes;
use crate::system::SharedRandom;

/// What each version adds to the one before. A program brings a store forward to the last.
/// The second and the third had functions, which the fifth and the fourth make anew, except that the `put` of
/// the fourth takes less; the one before it stays for servers that still run.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema.sql"),
    include_str!("request.sql"),
    "",
    concat!(include_str!("packed.sql"), "\n", include_str!("function.sql")),
    include_str!("submit.sql"),
];

/// Brings the tables to this program's version, and tells the types of their rows. Servers that start
/// together wait for one another.
pub(crate) async fn migrate(
    pool: &Pool,
    schema: &str,
    random: &SharedRandom,
) -> Result<RowTypes, Fault> {
    let transaction = pool.write().await?;
    let outcome = async {
        migrate_in(&transaction, schema, random).await?;
        RowTypes::read(&transaction).await
    };
    match outcome.await {
        Ok(types) => transaction.commit().await.map(|()| types),
        Err(fault) => {
            transaction.roll_back().await;
            Err(fault)
        }
    }
}

async fn migrate_in(
    transaction: &Transaction,
    schema: &str,
    mut random: &SharedRandom,
) -> Result<(), Fault> {
    // Tables may be made while others wait for the lock: no time-out, this once.
    transaction.batch("SET LOCAL lock_timeout TO 0; SET LOCAL statement_timeout TO 0").await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtext('tasklane schema'), hashtext($1))";
    transaction.query(lock, &[(&schema, Type::TEXT)]).await?;
    transaction.batch("SET LOCAL client_min_messages TO warning").await?;
    let there = "SELECT to_regclass(quote_ident($1) || '.meta') IS NOT NULL";
    let there: bool = transaction.one(there, &[(&schema, Type::TEXT)]).await?.get(0);
    let version = if there { version(transaction).await? } else { 0 };
    let known = MIGRATIONS.len() as i64;
    if version > known {
        let text = format!(
            "the store has version {version} of the tables and this program knows {known}: \
             use a newer program"
        );
        return Err(StoreError::Version(text).into());
    }
    if version == known {
        return Ok(());
    }
    if version == 0 {
        let make = format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema));
        transaction.batch(&make).await?;
    }
    for migration in MIGRATIONS.iter().skip(version as usize) {
        transaction.batch(migration).await?;
    }
    if version == 0 {
        // Not 0, which is before every life of a store.
        let epoch = (random.next_u64() >> 1).max(1) as i64;
        let begin =
            "INSERT INTO meta(name, value) VALUES ('version', 0), ('head', 0), ('epoch', $1)";
        transaction.execute(begin, &[(&epoch, Type::INT8)]).await?;
    }
    let note = "UPDATE meta SET value = $1 WHERE name = 'version'";
    transaction.execute(note, &[(&known, Type::INT8)]).await?;
    Ok(())
}

async fn version(transaction: &Transaction) -> Result<i64, Fault> {
    Ok(transaction.one("SELECT value FROM meta WHERE name = 'version'", &[]).await?.get(0))
}
