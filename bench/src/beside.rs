//! Runs a command beside a server of its own: `beside embedded|redis|postgres COMMAND ARGUMENTS…`.
//!
//! The command finds it by the environment: `STORE` is the address for Tasklane, `SOCKET` the socket
//! of Redis; `PGHOST`, `PGUSER` and `PGDATABASE` are what clients of PostgreSQL look for. Both sync
//! every write to disk. `embedded` needs no server, and leaves `STORE` out.
#![expect(clippy::expect_used, reason = "a benchmark that fails should stop")]

use std::process::{Command, ExitCode};

use tasklane_postgres::test_server::{Care, TestServer as Postgres};
use tasklane_redis::test_server::TestServer as Redis;

const USAGE: &str = "beside embedded|redis|postgres COMMAND ARGUMENTS…";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (kind, program) = (arguments.next(), arguments.next());
    let Some(program) = program else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let status = match kind.as_deref() {
        Some("embedded") => command.env_remove("STORE").status(),
        Some("redis") => {
            let server = Redis::start(&["--appendonly", "yes", "--appendfsync", "always"]);
            let server = server.expect("a server");
            let socket = server.folder().join("socket");
            command.env("STORE", server.address()).env("SOCKET", socket).status()
        }
        Some("postgres") => {
            let server = Postgres::start(Care::Durable).expect("a server");
            let store = server.new_database().expect("a database");
            let database = store.split(['/', '?']).nth(3).unwrap_or_default().to_owned();
            command.env("STORE", store).env("PGHOST", server.folder());
            command.env("PGUSER", "postgres").env("PGDATABASE", database).status()
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match status.expect("a command").code() {
        Some(0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
