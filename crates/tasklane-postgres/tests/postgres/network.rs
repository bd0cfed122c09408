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
    cut: Arc<Cut>,
}

/// How far the one cut is.
#[derive(Default)]
struct Cut {
    wanted: AtomicBool,
    made: AtomicBool,
    /// The database has closed the connection that was cut.
    closed: AtomicBool,
}

impl Relay {
    fn start(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(Cut::default());
        let told = Arc::clone(&cut);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                pass_on(client, &socket, &told);
            }
        });
        Self { port, cut }
    }
}

/// Both directions, each on a thread that ends with the connection.
fn pass_on(client: TcpStream, socket: &Path, cut: &Arc<Cut>) {
    let database = UnixStream::connect(socket).unwrap();
    let (mut from_database, mut to_client) =
        (database.try_clone().unwrap(), client.try_clone().unwrap());
    let is_cut = Arc::new(AtomicBool::new(false));
    let (was_cut, told) = (Arc::clone(&is_cut), Arc::clone(cut));
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_database, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
        // Where it was the client that went, the database may still be there.
        let _ = std::io::copy(&mut from_database, &mut std::io::sink());
        if was_cut.load(Ordering::SeqCst) {
            told.closed.store(true, Ordering::SeqCst);
        }
    });
    let (mut client, mut database, cut) = (client, database, Arc::clone(cut));
    std::thread::spawn(move || {
        let mut bytes = vec![0; 65_536];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            if is_cut.load(Ordering::SeqCst) {
                continue;
            }
            let said = bytes.get(..count).unwrap();
            let begins = said.windows(5).any(|word| word == b"BEGIN");
            let cuts = begins && cut.wanted.swap(false, Ordering::SeqCst);
            // Before the database hears of it, so that it cannot close it first.
            is_cut.store(cuts, Ordering::SeqCst);
            if database.write_all(said).is_err() {
                return;
            }
            cut.made.fetch_or(cuts, Ordering::SeqCst);
        }
        if !is_cut.load(Ordering::SeqCst) {
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
    relay.cut.wanted.store(true, Ordering::SeqCst);
    // Whoever begins a transaction next; the store looks at its feed all the time.
    wait_until(|| relay.cut.made.load(Ordering::SeqCst), "nobody began a transaction");
    wait_until(|| relay.cut.closed.load(Ordering::SeqCst), "what was left open stays open");
    assert!(!left_open(), "another one was left open");
    assert!(runtime().block_on(store.head()).is_ok(), "and the store goes on");
}
