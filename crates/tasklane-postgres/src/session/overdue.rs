//! What time has done: index ranges, from where the last look ended.

use std::time::Duration;

use tasklane_core::{Command, Intent, LeaseToken, TaskId};
use tasklane_store::Overdue;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use crate::fault::Fault;
use crate::rows::{self, time, worker_id};

/// A look at one kind of deadline: when it was, and of which task.
type After = Option<(i64, Uuid)>;

/// Where the last look at each kind ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looked {
    after: [After; KINDS.len()],
    /// Which kind goes first next time.
    turn: usize,
}

/// Each gives deadline, id, lease token, and whether the lease, the attempt, or neither is over;
/// for what waits, whether it has expired. In the order of deadline and id.
const KINDS: [&str; 4] = [
    // A clock that went back lets what was renewed end before what was not.
    "SELECT * FROM (
        SELECT CASE WHEN a.renewals > l.since THEN a.renewed_until ELSE l.ends_at END AS at, l.id,
               l.token, true, l.running, false
        FROM lease l LEFT JOIN alive a ON a.worker = l.worker
        WHERE least(l.ends_at, l.limit_at) <= $1 AND l.ends_at <= $1
        UNION ALL
        SELECT a.renewed_until, l.id, l.token, true, l.running, false
        FROM alive a JOIN lease l ON l.worker = a.worker
        WHERE a.renewed_until <= $1 AND a.renewals > l.since AND l.ends_at > $1
     ) ended WHERE at <= $1 AND (at, id) > ($2, $3) ORDER BY at, id LIMIT $4",
    "SELECT l.limit_at, l.id, l.token,
            CASE WHEN a.renewals > l.since THEN a.renewed_until ELSE l.ends_at END <= $1,
            l.running, false
     FROM lease l LEFT JOIN alive a ON a.worker = l.worker
     WHERE least(l.ends_at, l.limit_at) <= $1 AND l.limit_at <= $1
     AND (l.limit_at, l.id) > ($2, $3) ORDER BY l.limit_at, l.id LIMIT $4",
    "SELECT due_at, id, NULL::uuid, false, false, coalesce(expires_at <= $1, false) FROM wait
     WHERE due_at <= $1 AND (due_at, id) > ($2, $3) ORDER BY due_at, id LIMIT $4",
    "SELECT * FROM (
        (SELECT expires_at AS at, id, NULL::uuid, false, false, true FROM wait
         WHERE expires_at <= $1 AND (expires_at, id) > ($2, $3) ORDER BY expires_at, id LIMIT $4)
        UNION ALL
        (SELECT expires_at, id, NULL::uuid, false, false, true FROM pend
         WHERE expires_at <= $1 AND (expires_at, id) > ($2, $3) ORDER BY expires_at, id LIMIT $4)
     ) late ORDER BY at, id LIMIT $4",
];

impl Session<'_> {
    pub(crate) async fn overdue(&mut self, limit: usize) -> Result<Overdue, Fault> {
        let mut looked = self.shared.looked();
        let mut overdue = Overdue::default();
        // Kinds take turns, so that none waits for another's end.
        let first = looked.turn;
        looked.turn = (first + 1) % KINDS.len();
        for step in 0..KINDS.len() {
            let kind = (first + step) % KINDS.len();
            self.look(kind, limit, &mut looked, &mut overdue).await?;
        }
        let note = || self.shared.set_looked(looked);
        self.shared.timeline.remember(self.transaction.timeline, note);
        self.silent(&mut overdue).await?;
        overdue.next_in = self.next_deadline().await?;
        Ok(overdue)
    }

    async fn look(
        &self,
        kind: usize,
        limit: usize,
        looked: &mut Looked,
        overdue: &mut Overdue,
    ) -> Result<(), Fault> {
        let (Some(sql), Some(after)) = (KINDS.get(kind), looked.after.get_mut(kind)) else {
            return Ok(());
        };
        let room = limit.saturating_sub(overdue.commands.len());
        let now = self.now.as_micros();
        let (at, id) = after.unwrap_or((i64::MIN, Uuid::nil()));
        let most = room as i64 + 1;
        let parameters = [
            (&now as _, Type::INT8),
            (&at as _, Type::INT8),
            (&id as _, Type::UUID),
            (&most as _, Type::INT8),
        ];
        let found = self.transaction.query(sql, &parameters).await?;
        for row in found.iter().take(room) {
            *after = Some((row.get(0), row.get(1)));
            propose(command(row)?, overdue);
        }
        if found.len() > room {
            overdue.more = true;
        } else {
            // The next look begins anew; what this one left out before is still to be looked at.
            *after = None;
        }
        Ok(())
    }

    async fn silent(&self, overdue: &mut Overdue) -> Result<(), Fault> {
        let since = self.now.minus(self.shared.rules.silence).as_micros();
        let sql = "SELECT a.worker FROM alive a JOIN worker w ON w.worker = a.worker
                   WHERE a.seen_at <= $1 AND w.state <> 4 ORDER BY a.worker LIMIT 1000";
        let found = self.transaction.query(sql, &[(&since, Type::INT8)]).await?;
        overdue.silent = found.iter().map(|row| worker_id(row.get(0))).collect();
        Ok(())
    }

    async fn next_deadline(&self) -> Result<Option<Duration>, Fault> {
        let sql = "SELECT least(
                (SELECT min(due_at) FROM wait WHERE due_at > $1),
                (SELECT min(expires_at) FROM wait WHERE expires_at > $1),
                (SELECT min(expires_at) FROM pend WHERE expires_at > $1),
                (SELECT min(least(ends_at, limit_at)) FROM lease
                 WHERE least(ends_at, limit_at) > $1),
                (SELECT min(limit_at) FROM lease
                 WHERE least(ends_at, limit_at) <= $1 AND limit_at > $1),
                (SELECT min(renewed_until) FROM alive WHERE renewed_until > $1),
                (SELECT min(a.seen_at) + $2 FROM alive a JOIN worker w ON w.worker = a.worker
                 WHERE w.state <> 4 AND a.seen_at + $2 > $1))";
        let now = self.now.as_micros();
        let silence = i64::try_from(self.shared.rules.silence.as_micros()).unwrap_or(i64::MAX / 2);
        let parameters = [(&now as _, Type::INT8), (&silence as _, Type::INT8)];
        let next: Option<i64> = self.transaction.one(sql, &parameters).await?.get(0);
        Ok(next.map(|at| time(at).since(self.now)))
    }
}

fn command(row: &Row) -> Result<Command, Fault> {
    let task: TaskId = rows::task_id(row.get(1))?;
    let token: Option<Uuid> = row.get(2);
    let (lease_over, is_running, has_expired): (bool, bool, bool) =
        (row.get(3), row.get(4), row.get(5));
    let intent = match token.map(|token| LeaseToken::from_bytes(token.into_bytes())) {
        Some(token) if lease_over => Intent::LoseLease(token),
        Some(token) if is_running => Intent::TimeOut(token),
        Some(token) => Intent::Unassign(token),
        None if has_expired => Intent::Expire,
        None => Intent::ComeDue,
    };
    Ok(Command { task, intent })
}

/// One command at most per task: a task that met several deadlines is proposed for the first.
fn propose(command: Command, overdue: &mut Overdue) {
    if !overdue.commands.iter().any(|known| known.task == command.task) {
        overdue.commands.push(command);
    }
}
