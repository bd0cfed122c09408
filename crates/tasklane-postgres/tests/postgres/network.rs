//! What a connection leaves behind when the network between its ends is cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tasklane_postgres::PostgresStore;
use tasklane_store::Store;

use crate::fixture::{runtime, server};
use crate::servers::fresh;

/// Passes on what both ends say, until it is told to leave one in the middle of a transaction.
struct Relay {
    port: u16,
    cuts: Arc<AtomicBool>,
}

impl Relay {
    fn start(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                pass_on(client, &socket, &told);
            }
        });
        Self { port, cuts }
    }
}

/// Both directions, each on a thread that ends with the connection.
fn pass_on(client: TcpStream, socket: &Path, cuts: &Arc<AtomicBool>) {
    let database = UnixStream::connect(socket).unwrap();
    let (mut from_database, mut to_client) =
        (database.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_database, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let (mut client, mut database, cuts) = (client, database, Arc::clone(cuts));
    std::thread::spawn(move || {
        let (mut bytes, mut is_cut) = (vec![0; 65_536], false);
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            let said = bytes.get(..count).unwrap();
            if !is_cut && database.write_all(said).is_err() {
                return;
            }
            let begins = said.windows(5).any(|word| word == b"BEGIN");
            is_cut = is_cut || (begins && cuts.swap(false, Ordering::Relaxed));
        }
        if !is_cut {
            let _ = database.shutdown(Shutdown::Both);
        }
    });
}

/// Sessions that have been in the middle of a transaction for a second.
fn left_open() -> bool {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cut off'
               AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '1 s'";
    server().sql("postgres", sql).unwrap() != "0"
}

fn wait_until(is_so: impl Fn() -> bool, what: &str) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_transaction_that_is_cut_off_does_not_keep_its_locks() {
    let relay = Relay::start(server().folder().join(".s.PGSQL.5432"));
    let address =
        format!("postgres://postgres@127.0.0.1:{}/postgres?application_name=cut%20off", relay.port);
    let options = fresh();
    let store = runtime().block_on(PostgresStore::open(&address, &options)).unwrap();
    relay.cuts.store(true, Ordering::Relaxed);
    // Whoever begins a transaction next; the store looks at its feed all the time.
    wait_until(left_open, "nothing was left open");
    wait_until(|| !left_open(), "what was left open stays open");
    assert!(runtime().block_on(store.head()).is_ok(), "and the store goes on");
}
