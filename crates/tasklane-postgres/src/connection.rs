//! Connections, and transactions that are never left open on one.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Object, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage};

use crate::address::{Address, notice_who_goes};
use crate::fault::{self, Fault};
use crate::options::Options;
use crate::server;

/// How long a call waits for a connection that others have.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a connection may take to be made, with all that belongs to it.
const CREATE_MAX: Duration = Duration::from_secs(15);
/// How long the database waits for the next statement of a transaction: the locks of one that is cut
/// off in the middle would be in everybody's way for hours. Between two statements there is nothing but
/// a decision and the way of a packet; what is given up too soon is tried again.
const BETWEEN_STATEMENTS_MAX: Duration = Duration::from_secs(2);
/// Together with others a unit waits this much less for a lock: it is soon alone if it has to be.
const LESS_TOGETHER: u32 = 4;

/// A value for a statement, with its type: statements are sent unnamed, so that a connection has
/// no state of ours and a pooler may stand in between.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A bounded number of connections.
pub(crate) struct Pool {
    pool: deadpool_postgres::Pool,
    commit_time_max: Duration,
    alone: String,
    together: String,
    plain: String,
    read: String,
}

impl Pool {
    /// Makes the first connection, and looks at what is at its other end.
    pub(crate) async fn open(address: &Address, options: &Options) -> Result<Self, Fault> {
        let (config, tls) = (address.config.clone(), address.tls.clone());
        let connect = deadpool_postgres::Manager::new(config, tls);
        let pool = deadpool_postgres::Pool::builder(connect)
            .max_size(options.connections.max(2))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(Some(CREATE_MAX))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move {
                    let noticed = client.batch_execute(&notice_who_goes()).await;
                    noticed.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| Fault::NoConnection(error.to_string()))?;
        let client = pool.get().await.map_err(|error| Fault::NoConnection(words(&error)))?;
        let commits = server::look(&client).await?;
        // Settings of the transaction, not of the session.
        let settings = |lock_time_max: Duration| {
            format!(
                "SET LOCAL search_path TO {schema}; SET LOCAL lock_timeout TO {lock}; \
                 SET LOCAL statement_timeout TO {statement}; \
                 SET LOCAL idle_in_transaction_session_timeout TO {idle}; SET LOCAL jit TO off",
                schema = quoted(&options.schema),
                lock = lock_time_max.as_millis(),
                statement = options.statement_time_max.as_millis(),
                idle = BETWEEN_STATEMENTS_MAX.as_millis(),
            )
        };
        let begin = |lock_time_max, number| {
            format!("BEGIN; {}{commits}; {}", settings(lock_time_max), asked_for(number))
        };
        let write = |lock_time_max| begin(lock_time_max, "nextval('event')");
        let plain = begin(options.lock_time_max, "NULL");
        let (read, asked) = (settings(options.lock_time_max), asked_for("NULL"));
        Ok(Self {
            pool,
            commit_time_max: options.commit_time_max,
            alone: write(options.lock_time_max),
            together: write(options.lock_time_max / LESS_TOGETHER),
            plain,
            read: format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {read}; {asked}"),
        })
    }

    /// Begins a transaction that writes, for one unit alone or for several together.
    pub(crate) async fn write_for(&self, units: usize) -> Result<Transaction, Fault> {
        self.begin(if units > 1 { &self.together } else { &self.alone }).await
    }

    /// Begins a transaction that writes no events.
    pub(crate) async fn write(&self) -> Result<Transaction, Fault> {
        self.begin(&self.plain).await
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
            let mut transaction = Transaction {
                client: Some(client),
                commit_time_max: self.commit_time_max,
                begun_at: 0,
                number: None,
                timeline: None,
            };
            match transaction.start(begin).await {
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

/// What each transaction asks first: the database's time in microseconds; a number, where it needs one;
/// and the timeline of the database's log, of which a standby says nothing. In this order: the number is
/// what a database refuses that takes no writes.
fn asked_for(number: &str) -> String {
    format!(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8, {number}, \
         CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
    )
}

/// An open transaction. Dropped before its end, it takes its connection with it.
pub(crate) struct Transaction {
    client: Option<Object>,
    commit_time_max: Duration,
    /// By the database's clock, in microseconds.
    pub(crate) begun_at: i64,
    /// The first of the numbers that were drawn for its events.
    pub(crate) number: Option<i64>,
    /// Of the database's log, if the database could say.
    pub(crate) timeline: Option<u32>,
}

impl Transaction {
    fn client(&self) -> Result<&Object, Fault> {
        self.client.as_ref().ok_or_else(|| Fault::NoConnection("the transaction is over".into()))
    }

    /// Begins it, and reads what the last statement of that tells.
    async fn start(&mut self, begin: &str) -> Result<(), Fault> {
        let told = self.client()?.simple_query(begin).await?;
        let row = told.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let told = |at: usize| row?.try_get(at).ok()?;
        let number = |at| told(at)?.parse().ok();
        self.begun_at = number(0).ok_or_else(|| Fault::Corrupt("no clock".into()))?;
        self.number = number(1);
        self.timeline = told(2).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        Ok(())
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

    /// Asks two things in one go.
    pub(crate) async fn query_both(
        &self,
        one: (&str, &[Parameter<'_>]),
        other: (&str, &[Parameter<'_>]),
    ) -> Result<(Vec<Row>, Vec<Row>), Fault> {
        let (one, other) = in_turn(self.query(one.0, one.1), self.query(other.0, other.1)).await;
        Ok((one?, other?))
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

    /// Makes it so.
    pub(crate) async fn commit(self) -> Result<(), Fault> {
        self.commit_with(None).await
    }

    /// Carries out a last statement and makes it so, in one go. An error that is not the database's
    /// own word leaves the outcome open.
    ///
    /// A commit may have to wait for a standby. If the time of a statement ended that wait, the
    /// database would say that all is well: so there is none, and who waits here gives up knowing
    /// that nothing is known.
    pub(crate) async fn commit_with(
        mut self,
        last: Option<(&str, &[Parameter<'_>])>,
    ) -> Result<(), Fault> {
        let client = self.client()?;
        let written = async {
            match last {
                Some((sql, parameters)) => client.execute_typed(sql, parameters).await.map(|_| ()),
                None => Ok(()),
            }
        };
        let commit = client.batch_execute("SET LOCAL statement_timeout TO 0; COMMIT");
        let ended = tokio::time::timeout(self.commit_time_max, in_turn(written, commit)).await;
        match ended {
            Ok((Ok(()), Ok(()))) => {}
            // Then it did not commit.
            Ok((Err(error), _)) if fault::is_own_word(&error) => {
                self.roll_back().await;
                return Err(Fault::Postgres(error));
            }
            Ok((Err(error), _) | (Ok(()), Err(error))) => return Err(Fault::Commit(error)),
            Err(_) => return Err(Fault::Unanswered),
        }
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

/// Two futures at once, the first always a step ahead: what they send goes out in this order.
async fn in_turn<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    let (mut of_one, mut of_other) = (None, None);
    poll_fn(|context| {
        if of_one.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(context)
        {
            of_one = Some(output);
        }
        if of_other.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(context)
        {
            of_other = Some(output);
        }
        match (of_one.take(), of_other.take()) {
            (Some(of_one), Some(of_other)) => Poll::Ready((of_one, of_other)),
            (one, other) => {
                (of_one, of_other) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
