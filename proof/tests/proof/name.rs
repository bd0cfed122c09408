//! Which proof is meant.

use std::process::Command;

use tasklane_proof::Failure;

const NAMES: [&str; 8] = ["bite", "churn", "crash", "faults", "fuzz", "net", "overload", "soak"];

#[test]
fn without_a_name_that_is_known_there_is_a_list_and_2() -> Result<(), Failure> {
    let wrong: [&[&str]; 3] = [&[], &["crush"], &["--restarts", "1"]];
    for arguments in wrong {
        let output = Command::new(env!("CARGO_BIN_EXE_proof")).args(arguments).output()?;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr)?;
        let listed = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        assert_eq!(listed.collect::<Vec<_>>(), NAMES);
    }
    Ok(())
}
