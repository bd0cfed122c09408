//! The faults test in small, on a disk that fails and on one that lies.

use std::path::Path;

use tasklane_proof::Failure;
use tasklane_proof::faults::{Settings, Tally, fast_folder};

#[test]
fn a_store_on_a_failing_disk_keeps_every_promise() -> Result<(), Failure> {
    let tally = fail(false)?;
    assert_eq!(tally.wrong, Vec::<String>::new());
    assert!(tally.of("stopped") > 0 && tally.of("refused, went on") > 0, "{tally:?}");
    Ok(())
}

#[test]
fn a_store_whose_power_goes_keeps_every_promise() -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    let tally = settings(folder.path(), false).lose_power(&|_| {})?;
    assert_eq!(tally.wrong, Vec::<String>::new());
    assert!(tally.points() >= 60 && tally.of("stopped") > 0, "{tally:?}");
    Ok(())
}

#[test]
fn a_disk_that_only_says_that_it_syncs_is_caught() -> Result<(), Failure> {
    let tally = fail(true)?;
    assert!(tally.wrong.iter().any(|wrong| wrong.contains("lost: ")), "{tally:?}");
    Ok(())
}

#[test]
fn damaged_files_neither_panic_nor_hang() -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    let tally = settings(folder.path(), false).damage(&|_| {})?;
    assert_eq!((tally.points(), tally.wrong), (40, Vec::new()));
    Ok(())
}

fn fail(lies: bool) -> Result<Tally, Failure> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    settings(folder.path(), lies).fail(&|_| {})
}

fn settings(folder: &Path, lies: bool) -> Settings {
    Settings {
        program: env!("CARGO_BIN_EXE_proof").into(),
        folder: folder.to_owned(),
        seed: 1,
        operations: 60,
        points: Some(60),
        power: 60,
        damage: Some(40),
        lies,
        processes: 2,
    }
}
