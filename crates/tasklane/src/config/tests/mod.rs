//! The table as a whole: every setting by every way, and what is wrong with a file.

mod every;
mod exercised;
mod reload;
mod wrong;

use std::collections::BTreeMap;

use super::load::{Loaded, Wrong, load};
use super::source::Sources;

/// What a file with this text gives.
fn of_file(text: &str) -> Result<Loaded, Wrong> {
    with(text, &[])
}

/// What a file with this text and these variables give. The file is called `tasklane.toml`.
fn with(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Wrong> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasklane.toml");
    std::fs::write(&file, text).unwrap();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let environment = environment.iter().map(owned).collect();
    load(&Sources { file: Some(file), environment, flags: BTreeMap::new() })
}

/// What is said to be wrong, the folders of files left out.
fn complaints(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let short = |line: &String| match line.find("tasklane.toml") {
        Some(at) => line.split_at(at).1.to_owned(),
        None => line.clone(),
    };
    with(text, environment).expect_err("something is wrong").0.iter().map(short).collect()
}
