//! Connections, and transactions that are never left open on one.

use deadpool_postgres::Object;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, NoTls, Row};

use crate::fault::Fault;
use crate::options::Options;

/// A value for a statement, with its type: statements are sent unnamed, so that a connection has
/// no state of ours and a pooler may stand in between.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A bounded number of connections.
pub(crate) struct Pool {
    pool: deadpool_postgres::Pool,
    write: String,
    read: String,
}

impl Pool {
    /// `config` is what `address` means, with gaps filled.
    pub(crate) fn new(address: &str, config: &Config, options: &Options) -> Result<Self, Fault> {
        let mut given = deadpool_postgres::Config::new();
        given.url = Some(address.to_owned());
        given.application_name = config.get_application_name().map(str::to_owned);
        given.connect_timeout = config.get_connect_timeout().copied();
        let builder = given.builder(NoTls);
        let pool = builder
            .map_err(|error| Fault::NoConnection(words(&error)))?
            .max_size(options.connections.max(2))
            .build()
            .map_err(|error| Fault::NoConnection(error.to_string()))?;
        // Settings of the transaction, not of the session.
        let settings = format!(
            "SET LOCAL search_path TO {schema}; SET LOCAL lock_timeout TO {lock}; \
             SET LOCAL statement_timeout TO {statement}",
            schema = quoted(&options.schema),
            lock = options.lock_time_max.as_millis(),
            statement = options.statement_time_max.as_millis(),
        );
        Ok(Self {
            pool,
            write: format!("BEGIN; {settings}"),
            read: format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}"),
        })
    }

    /// Begins a transaction that writes.
    pub(crate) async fn write(&self) -> Result<Transaction, Fault> {
        self.begin(&self.write).await
    }

    /// Begins a transaction that sees one moment and writes nothing.
    pub(crate) async fn read(&self) -> Result<Transaction, Fault> {
        self.begin(&self.read).await
    }

    async fn begin(&self, begin: &str) -> Result<Transaction, Fault> {
        // Any connection that has been idle may have died meanwhile, so as many are tried.
        let mut tries = self.pool.status().max_size;
        loop {
            let client = self.pool.get().await;
            let client = client.map_err(|error| Fault::NoConnection(words(&error)))?;
            // Before the first statement: what was begun is open whatever comes back.
            let transaction = Transaction { client: Some(client) };
            match transaction.batch(begin).await {
                Ok(()) => return Ok(transaction),
                Err(fault) if fault.is_lost_connection() && tries > 0 => tries -= 1,
                Err(fault) => return Err(fault),
            }
        }
    }
}

/// An error with what caused it: the cause alone says why a connection could not be made.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A name as SQL wants it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An open transaction. Dropped before its end, it takes its connection with it.
pub(crate) struct Transaction {
    client: Option<Object>,
}

impl Transaction {
    fn client(&self) -> Result<&Object, Fault> {
        self.client.as_ref().ok_or_else(|| Fault::NoConnection("the transaction is over".into()))
    }

    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.client()?.batch_execute(sql).await?)
    }

    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Fault> {
        Ok(self.client()?.query_typed(sql, parameters).await?)
    }

    pub(crate) async fn one(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Row, Fault> {
        let mut rows = self.query(sql, parameters).await?;
        rows.pop().ok_or_else(|| Fault::Corrupt("a row is missing that is always there".into()))
    }

    pub(crate) async fn execute(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, Fault> {
        Ok(self.client()?.execute_typed(sql, parameters).await?)
    }

    /// Makes it so. An error that is not the database's own word leaves the outcome open.
    pub(crate) async fn commit(mut self) -> Result<(), Fault> {
        self.client()?.batch_execute("COMMIT").await.map_err(Fault::Commit)?;
        self.client = None;
        Ok(())
    }

    /// Gives it up, and its connection back where that is possible.
    pub(crate) async fn roll_back(mut self) {
        if let Ok(client) = self.client()
            && client.batch_execute("ROLLBACK").await.is_ok()
        {
            self.client = None;
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}
