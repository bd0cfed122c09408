//! What this program is on the machines of the test: it is started there again, told the rest by
//! its arguments, and ends when its input does.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tasklane_core::{Random as _, SeededRandom};

use super::record::{Record, Records};
use super::space::server_address;
use super::{Engine, SERVERS, follower, machine, producer, worker};
use crate::Failure;
use crate::child::end_with_the_first_panic;

/// What a role shares among its threads.
#[derive(Debug)]
pub struct Role {
    /// The key of callers.
    pub key: String,
    /// Which machine of its kind it is on.
    pub at: usize,
    /// What its choices follow from.
    pub seed: u64,
    /// What it notes.
    pub records: Records,
    orders: Arc<Orders>,
}

#[derive(Debug, Default)]
struct Orders {
    finishes: AtomicBool,
    last: Mutex<Option<String>>,
}

impl Role {
    /// Whether it is to bring to an end what it has begun.
    pub fn finishes(&self) -> bool {
        self.orders.finishes.load(Ordering::Relaxed)
    }

    /// The last thing that it was told to wait for.
    pub fn last(&self) -> Option<String> {
        self.orders.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Randomness of one of its threads.
    pub fn random(&self, thread: u64) -> SeededRandom {
        SeededRandom::new(SeededRandom::new(self.seed ^ (thread << 32)).next_u64())
    }

    /// Notes an answer that there should not be.
    pub fn wrong(&self, what: String) -> Result<(), Failure> {
        self.records.add(&Record::Wrong(what))
    }
}

/// Any of the servers.
pub fn any_server(random: &mut SeededRandom) -> SocketAddr {
    server_address(random.below(SERVERS as u64) as usize)
}

/// A moment's rest, so that a failure is not met again at once.
pub fn rest() {
    std::thread::sleep(Duration::from_millis(50));
}

/// Whether these arguments are those of a role; then it is played to its end.
pub fn play(arguments: &[String]) -> Option<ExitCode> {
    let (word, rest) = arguments.split_first()?;
    let outcome = match word.as_str() {
        "store" => store(rest),
        "producer" => role(rest).and_then(|role| producer::run(&role)),
        "worker" => role(rest).and_then(|role| worker::run(&role)),
        "follower" => role(rest).and_then(|role| follower::run(&role)),
        _ => return None,
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("net {word}: {failure}");
            ExitCode::from(2)
        }
    })
}

fn store(arguments: &[String]) -> Result<(), Failure> {
    let [engine] = arguments else { return Err("store ENGINE".into()) };
    machine::serve_store(Engine::parse(engine)?)
}

/// `KEY AT SEED FILE`.
fn role(arguments: &[String]) -> Result<Role, Failure> {
    let [key, at, seed, file] = arguments else { return Err("KEY AT SEED FILE".into()) };
    end_with_the_first_panic();
    let orders = Arc::<Orders>::default();
    let heard = Arc::clone(&orders);
    // Ends with the process.
    std::thread::spawn(move || listen(&heard));
    Ok(Role {
        key: key.clone(),
        at: at.parse()?,
        seed: seed.parse()?,
        records: Records::create(&PathBuf::from(file))?,
        orders,
    })
}

/// `finish` or `finish ID`; the end of the input is the end of everything.
fn listen(orders: &Orders) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if let Some(last) = line.strip_prefix("finish") {
            let last = Some(last.trim().to_owned()).filter(|last| !last.is_empty());
            *orders.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
            orders.finishes.store(true, Ordering::Relaxed);
        }
    }
    std::process::exit(0);
}
