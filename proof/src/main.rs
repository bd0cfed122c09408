//! `proof`: all proofs in one program, so that it is linked once.
//!
//! `cargo run --release -p tasklane-proof -- NAME …`, from here on written as `proof NAME …`. Several
//! of them start the program again, under their own name, as a process that is killed, stopped or cut
//! off.

mod command;

use std::env::Args;
use std::process::ExitCode;

use command::{bite, churn, crash, faults, fuzz, net, overload, soak};

/// A proof that can be asked for.
struct Proof {
    name: &'static str,
    /// What it does, in a line.
    about: &'static str,
    prove: fn(Args) -> ExitCode,
}

const PROOFS: [Proof; 8] = [
    Proof {
        name: "bite",
        about: "puts bugs into a copy of the code, which the ordinary tests must catch",
        prove: bite::prove,
    },
    Proof {
        name: "churn",
        about: "has tasks come and go on PostgreSQL beside an open snapshot",
        prove: churn::prove,
    },
    Proof {
        name: "crash",
        about: "kills what holds a store; stops workers (zombie), repeats calls (idempotency)",
        prove: crash::prove,
    },
    Proof {
        name: "faults",
        about: "has the disk fail, fill up and lie, and damages files",
        prove: faults::prove,
    },
    Proof { name: "fuzz", about: "sends inputs that nobody would send", prove: fuzz::prove },
    Proof {
        name: "net",
        about: "cuts the network between servers, store and callers",
        prove: net::prove,
    },
    Proof {
        name: "overload",
        about: "offers a server ten times what it can take",
        prove: overload::prove,
    },
    Proof {
        name: "soak",
        about: "has tasks come and go for long, and looks for anything that grows",
        prove: soak::prove,
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let name = arguments.nth(1);
    let asked = PROOFS.iter().find(|proof| name.as_deref() == Some(proof.name));
    match asked {
        Some(proof) => (proof.prove)(arguments),
        None => refuse(name.as_deref()),
    }
}

/// Tells what there is.
fn refuse(name: Option<&str>) -> ExitCode {
    match name {
        Some(name) => eprintln!("proof: {name} is none of these"),
        None => eprintln!("proof NAME …"),
    }
    for Proof { name, about, .. } in &PROOFS {
        eprintln!("  {name:<8}  {about}");
    }
    ExitCode::from(2)
}
