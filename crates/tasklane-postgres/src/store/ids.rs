//! Ids of tasks that this server makes.

use std::sync::PoisonError;
use std::time::Duration;

use tasklane_core::{TaskId, Timestamp};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Shared;
use crate::fault::Fault;
use crate::rows;

/// An id so far ahead was chosen by somebody else.
const OWN_IDS_AHEAD: Duration = Duration::from_secs(86_400);

impl Shared {
    /// A fresh id. Those made here rise even when the clock does not.
    pub(crate) fn new_id(&self, now: Timestamp) -> TaskId {
        let mut last = self.last_id.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = u64::try_from(now.as_millis()).unwrap_or_default();
        let (millis, counter) = *last;
        // Twenty bits of it are in an id.
        *last = match clock > millis {
            true => (clock, 0),
            false if counter + 1 >= 1 << 20 => (millis + 1, 0),
            false => (millis, counter + 1),
        };
        TaskId::generate(last.0, last.1, &mut &self.random)
    }

    /// Ids go on from the last that a server made, though this one's clock may be behind.
    pub(super) async fn find_last_id(&self) -> Result<(), Fault> {
        let transaction = self.pool.write().await?;
        let now = self.clock_of(&transaction);
        let millis = u64::try_from(now.plus(OWN_IDS_AHEAD).as_millis()).unwrap_or_default();
        let most = Uuid::from_u64_pair(millis << 16, 0);
        let sql = "SELECT id FROM ((SELECT id FROM task WHERE id < $1 ORDER BY id DESC LIMIT 1)
                   UNION ALL (SELECT id FROM history WHERE id < $1 ORDER BY id DESC LIMIT 1)) ids
                   ORDER BY id DESC LIMIT 1";
        let found = transaction.query(sql, &[(&most, Type::UUID)]).await;
        transaction.roll_back().await;
        if let Some(row) = found?.first() {
            let key = rows::task_id(row.get(0))?.row_key().unsigned_abs();
            let mut last = self.last_id.lock().unwrap_or_else(PoisonError::into_inner);
            *last = (key >> 20, key & 0xF_FFFF);
        }
        Ok(())
    }
}
