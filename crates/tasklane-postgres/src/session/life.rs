//! Lives of the tables. Restored from a copy they begin a new one: what readers and workers know may
//! be of a time that the copy has not seen.

use tasklane_core::{Command, Intent, Random, TaskId, limits};
use tokio_postgres::types::Type;

use super::Session;
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    /// Begins a new life if these tables are not where they were: every lease is void (S19), and
    /// readers are told of a gap. A failover is no restore: workers go on.
    pub(crate) async fn begin_life(&mut self) -> Result<(), Fault> {
        // One server does it, and others that start wait for it.
        let patient = "SET LOCAL lock_timeout TO 0; SET LOCAL statement_timeout TO 0";
        self.transaction.batch(patient).await?;
        let at_home = "SELECT value = home() FROM meta WHERE name = 'home' FOR UPDATE";
        if self.transaction.one(at_home, &[]).await?.get(0) {
            return Ok(());
        }
        self.void_leases().await?;
        let epoch = (self.random().next_u64() >> 1).max(1) as i64;
        let begin = "UPDATE meta SET value = CASE name WHEN 'home' THEN home() ELSE $1 END
                     WHERE name IN ('home', 'epoch')";
        self.transaction.execute(begin, &[(&epoch, Type::INT8)]).await?;
        tracing::warn!("these tables were restored from a copy: leases of then are void");
        Ok(())
    }

    /// Gives back all that is held, at the cost of no attempt.
    async fn void_leases(&mut self) -> Result<(), Fault> {
        let leased = self.transaction.query("SELECT id FROM lease ORDER BY id", &[]).await?;
        let ids = leased.iter().map(|row| rows::task_id(row.get(0)));
        let ids = ids.collect::<Result<Vec<TaskId>, _>>()?;
        let requeue = |task: &TaskId| Command { task: *task, intent: Intent::Requeue };
        for slice in ids.chunks(limits::SLICE_TASKS) {
            let commands: Vec<_> = slice.iter().map(requeue).collect();
            self.execute(&commands).await?;
            self.flush().await?;
        }
        Ok(())
    }
}
