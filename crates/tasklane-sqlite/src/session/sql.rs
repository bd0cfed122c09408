//! The statements of the hot path, prepared once.

use rusqlite::{Connection, Statement};

macro_rules! statements {
    ($($name:ident: $sql:expr;)*) => {
        pub(super) struct Statements<'c> {
            $(pub(super) $name: Statement<'c>,)*
        }

        impl<'c> Statements<'c> {
            pub(super) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Self { $($name: connection.prepare($sql)?,)* })
            }
        }
    };
}

statements! {
    begin: "BEGIN IMMEDIATE";
    commit: "COMMIT";
    rollback: "ROLLBACK";
    insert_task: "INSERT INTO task(task, id, lane, spec, payload) VALUES (?, ?, ?, ?, ?)";
    select_task: "SELECT id, lane, spec, payload FROM task WHERE task = ?";
    select_id: "SELECT id FROM task WHERE task = ?";
    insert_pending:
        "INSERT INTO pending(line, ready_at, sequence, task, fresh) VALUES (?, ?, ?, ?, ?)";
    delete_pending:
        "DELETE FROM pending WHERE line = ? AND ready_at = ? AND sequence = ?";
    delete_pending_range:
        "DELETE FROM pending WHERE line = ? AND (ready_at, sequence) <= (?, ?)";
    select_pending:
        "SELECT ready_at, sequence, task, fresh FROM pending
         WHERE line = ? AND (ready_at, sequence) > (?, ?)
         ORDER BY ready_at, sequence LIMIT ?";
    insert_lease: "INSERT INTO lease(task, record) VALUES (?, ?)";
    update_lease: "UPDATE lease SET record = ?2 WHERE task = ?1";
    delete_leases: "DELETE FROM lease WHERE task BETWEEN ? AND ?";
    select_standing: "SELECT record FROM standing WHERE task = ?";
    insert_standing: "INSERT INTO standing(task, record, result) VALUES (?, ?, ?)";
    update_standing: "UPDATE standing SET record = ?2, result = ?3 WHERE task = ?1";
    delete_standing: "DELETE FROM standing WHERE task = ?";
    insert_timer: "INSERT INTO timer(at, task, kind) VALUES (?, ?, ?)";
    delete_timer: "DELETE FROM timer WHERE at = ? AND task = ? AND kind = ?";
    insert_ended:
        "INSERT INTO ended(state, queue, at, part, tasks) VALUES (?, ?, ?, ?, ?)";
    insert_trail: "INSERT INTO trail(task, sequence, entry) VALUES (?, ?, ?)";
    insert_feed: "INSERT INTO feed(first, count, at, events) VALUES (?, ?, ?, ?)";
    update_counts: "UPDATE tally SET counts = ?2 WHERE lane = ?1";
    delete_tasks: "DELETE FROM task WHERE task BETWEEN ? AND ?";
    delete_standings: "DELETE FROM standing WHERE task BETWEEN ? AND ?";
    delete_trails: "DELETE FROM trail WHERE task BETWEEN ? AND ?";
}
