//! Makes pages and charts of what runs told.
//!
//! - `results peers RECORDS FOLDER` and `results growth RECORDS FOLDER`: the run as JSON, its page and
//!   its charts;
//! - `results pages peers|growth FOLDER`: page and charts once more, from the JSON that is there;
//! - `results json NAME RECORDS FOLDER`: only the JSON, of a run whose page is made elsewhere;
//! - `results readme FOLDER README`: the table between two comments of README, from the JSON.
//!
//! Everything is made from the JSON alone, and a test sees to it that it stays what the JSON gives.

mod growth;
mod peers;
mod record;
mod svg;

use std::path::Path;
use std::process::ExitCode;

use record::Run;

/// Before and after README's table.
const BEGIN: &str = "<!-- made by bench/peers/run -->";
const END: &str = "<!-- end of what bench/peers/run made -->";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [name @ ("peers" | "growth"), records, folder] => {
            write_run(name, records, folder).and_then(|()| write_files(name, folder))
        }
        ["pages", name @ ("peers" | "growth"), folder] => write_files(name, folder),
        ["json", name, records, folder] => write_run(name, records, folder),
        ["readme", folder, readme] => write_readme(folder, readme),
        _ => Err("results peers|growth RECORDS FOLDER, pages peers|growth FOLDER, json NAME RECORDS FOLDER, or readme FOLDER README".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("results: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn write_run(name: &str, records: &str, folder: &str) -> Result<(), String> {
    let run = Run::parse(&read(Path::new(records))?)?;
    let json = serde_json::to_string_pretty(&run).map_err(|error| error.to_string())?;
    write(&Path::new(folder).join(format!("{name}.json")), &(json + "\n"))
}

fn write_files(name: &str, folder: &str) -> Result<(), String> {
    for (file, text) in files(name, &load(name, Path::new(folder))?) {
        write(&Path::new(folder).join(file), &text)?;
    }
    Ok(())
}

fn write_readme(folder: &str, readme: &str) -> Result<(), String> {
    let run = load("peers", Path::new(folder))?;
    let page = Path::new(readme);
    let text = with_table(&read(page)?, &run).ok_or(format!("{readme} has no line {BEGIN}"))?;
    write(page, &text)
}

/// What is made of a run, by the names of files.
fn files(name: &str, run: &Run) -> Vec<(String, String)> {
    if name == "growth" { growth::files(run) } else { peers::files(run) }
}

/// README with the table of this run between its comments, if it has them.
fn with_table(readme: &str, run: &Run) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", peers::readme(run)))
}

fn load(name: &str, folder: &Path) -> Result<Run, String> {
    let text = read(&folder.join(format!("{name}.json")))?;
    serde_json::from_str(&text).map_err(|error| format!("{name}.json: {error}"))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn workspace() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    #[test]
    fn pages_and_charts_are_what_the_json_gives() {
        let folder = workspace().join("bench/results");
        for name in ["peers", "growth"] {
            let json = folder.join(format!("{name}.json"));
            let page = folder.join(format!("{name}.md"));
            assert_eq!(json.exists(), page.exists(), "one of {name}.json and {name}.md is missing");
            if json.exists() {
                for (file, text) in files(name, &load(name, &folder).unwrap()) {
                    assert_eq!(read(&folder.join(&file)).unwrap(), text, "{file}: run `results`");
                }
            }
        }
    }

    #[test]
    fn the_readme_says_what_the_json_says() {
        let readme = read(&workspace().join("README.md")).unwrap();
        match load("peers", &workspace().join("bench/results")) {
            Ok(run) => {
                assert_eq!(with_table(&readme, &run).unwrap(), readme, "run `results readme`")
            }
            Err(_) => assert!(!readme.contains(BEGIN), "README has figures, but there is no JSON"),
        }
    }

    #[test]
    fn only_the_table_is_replaced() {
        let run = Run::parse("embedded tasklane submit 50000").unwrap();
        let page = format!("before\n{BEGIN}\nold 49k/s\n{END}\nafter\n");
        let made = with_table(&page, &run).unwrap();
        assert!(made.starts_with("before\n") && made.ends_with(&format!("{END}\nafter\n")));
        assert!(made.contains("50k/s") && !made.contains("old"));
        assert_eq!(with_table(&made, &run).unwrap(), made);
        assert!(with_table("no comments", &run).is_none());
    }
}
