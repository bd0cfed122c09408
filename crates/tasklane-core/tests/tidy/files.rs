//! The files of the workspace.

use std::path::{Path, PathBuf};

/// What builds and tools leave behind; see .gitignore.
const NOT_OURS: [&str; 6] =
    [".git", "target", "tasklane-data", "tasklane-dev", "proptest-regressions", "node_modules"];
/// Endings of text that people write.
const TEXT: [&str; 9] = ["rs", "toml", "md", "yml", "yaml", "sh", "sql", "lua", "json"];

/// A file with its text.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// From the workspace's folder, with `/`.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let name = path.strip_prefix(workspace()).expect("inside the workspace");
        let name = name.to_string_lossy().replace('\\', "/");
        Self { path: path.to_owned(), name, text }
    }
}

pub(crate) fn workspace() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("crates are two folders deep").to_owned()
}

/// The file of this name in each crate's folder.
pub(crate) fn crates(name: &str) -> Vec<File> {
    let paths = entries(&workspace().join("crates")).into_iter().map(|path| path.join(name));
    paths.filter(|path| path.is_file()).map(|path| File::read(&path)).collect()
}

/// Rust files in this folder of each crate.
pub(crate) fn rust_files(folder: &str) -> Vec<File> {
    let folders = entries(&workspace().join("crates")).into_iter().map(|path| path.join(folder));
    let paths = folders.filter(|path| path.is_dir()).flat_map(|path| walk(&path));
    paths.filter(|path| has_ending(path, &["rs"])).map(|path| File::read(&path)).collect()
}

/// Every Markdown file.
pub(crate) fn markdown_files() -> Vec<File> {
    let paths = walk(&workspace()).into_iter();
    paths.filter(|path| has_ending(path, &["md"])).map(|path| File::read(&path)).collect()
}

/// Every file that people write, whatever it is.
pub(crate) fn text_files() -> Vec<File> {
    let by_name = |path: &Path| path.extension().is_none();
    let paths = walk(&workspace()).into_iter();
    paths
        .filter(|path| has_ending(path, &TEXT) || by_name(path))
        .filter(|path| std::fs::read_to_string(path).is_ok())
        .map(|path| File::read(&path))
        .collect()
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let below = |path: PathBuf| if path.is_dir() { walk(&path) } else { vec![path] };
    entries(folder).into_iter().flat_map(below).collect()
}

/// What is in a folder, in order, links and what is not ours left out.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        !path.is_symlink() && NOT_OURS.iter().all(|other| name != *other)
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(ours).collect();
    paths.sort();
    paths
}
