//! The copy of the workspace that bugs are put into, and taken out of again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::catalogue::Bug;
use crate::Failure;

/// A copy of what git knows of a workspace. It is kept between runs, so that only what has changed is
/// compiled again.
#[derive(Debug)]
pub struct Tree {
    folder: PathBuf,
    commit: String,
}

impl Tree {
    /// Makes `folder` a copy of `workspace`. What is there already and the same is not touched.
    pub fn copy(workspace: &Path, folder: &Path) -> Result<Self, Failure> {
        let files = tracked(workspace)?;
        for name in &files {
            let (from, to) = (workspace.join(name), folder.join(name));
            let content =
                fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
            if fs::read(&to).ok().as_deref() == Some(&content[..]) {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            // Not its content alone: some of them are run.
            fs::copy(&from, &to)?;
        }
        remove_others(folder, Path::new(""), &files)?;
        Ok(Self { folder: folder.to_owned(), commit: commit(workspace)? })
    }

    /// What it is a copy of.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a bug can be put in: whether what it stands in for is there exactly once.
    pub fn check(&self, bug: &Bug) -> Result<(), Failure> {
        self.with_bug(bug).map(|_| ())
    }

    /// Puts a bug in; it is taken out when what is given is dropped.
    pub fn put(&self, bug: &Bug) -> Result<Put, Failure> {
        let (path, before, after) = self.with_bug(bug)?;
        let put = Put { path, before };
        fs::write(&put.path, after)?;
        Ok(put)
    }

    /// The file that a bug goes into, its text, and its text with the bug.
    fn with_bug(&self, bug: &Bug) -> Result<(PathBuf, String, String), Failure> {
        let path = self.folder.join(&bug.file);
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{} is stale: {}: {error}", bug.name, bug.file))?;
        let changed = replace_once(&text, &bug.find, &bug.put)
            .map_err(|why| format!("{} is stale: {}: {why}", bug.name, bug.file))?;
        Ok((path, text, changed))
    }
}

/// A bug that is in the copy.
#[derive(Debug)]
pub struct Put {
    path: PathBuf,
    before: String,
}

impl Put {
    /// Takes it out.
    pub fn take_out(self) -> Result<(), Failure> {
        Ok(fs::write(&self.path, &self.before)?)
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        // A second time after `take_out`, of which nothing is seen; should this fail, the next copy
        // puts it right.
        if fs::read_to_string(&self.path).is_ok_and(|text| text != self.before) {
            let _ = fs::write(&self.path, &self.before);
        }
    }
}

/// Puts one text in the place of another, which must be there exactly once.
pub fn replace_once(text: &str, find: &str, put: &str) -> Result<String, String> {
    match text.matches(find).count() {
        1 if find == put => Err("it changes nothing".into()),
        1 => Ok(text.replacen(find, put, 1)),
        0 => Err("what it stands in for is not there".into()),
        count => Err(format!("what it stands in for is there {count} times")),
    }
}

/// The commit of a workspace, and whether its crates differ from it. What is written about bugs is no
/// difference.
fn commit(workspace: &Path) -> Result<String, Failure> {
    let commit = git(workspace, &["rev-parse", "--short", "HEAD"])?;
    let changes = ["diff", "--name-only", "HEAD", "--", "crates", "Cargo.toml", "Cargo.lock"];
    let is_clean = git(workspace, &changes)?.is_empty();
    Ok(format!("{}{}", commit.trim(), if is_clean { "" } else { " with changes" }))
}

fn git(workspace: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let told = Command::new("git").arg("-C").arg(workspace).args(arguments).output()?;
    if !told.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&told.stderr).trim()).into());
    }
    Ok(String::from_utf8(told.stdout)?)
}

/// The files of a workspace that git knows and that are there.
fn tracked(workspace: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let text = git(workspace, &["ls-files", "-z"])?;
    let names = text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(names.filter(|name| workspace.join(name).is_file()).collect())
}

/// Removes what an earlier copy had and this one has not: a test that was deleted must not catch
/// anything.
fn remove_others(folder: &Path, below: &Path, files: &BTreeSet<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder.join(below))? {
        let name = below.join(entry?.file_name());
        let path = folder.join(&name);
        if path.is_dir() {
            remove_others(folder, &name, files)?;
        } else if !files.contains(&name) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "-c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -qm test";

    fn workspace() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/a.rs"), "one two\nthree two\n").unwrap();
        fs::write(folder.path().join("not-known"), "x").unwrap();
        for arguments in ["init -q", "add src/a.rs", COMMIT] {
            git(folder.path(), &arguments.split(' ').collect::<Vec<_>>()).unwrap();
        }
        folder
    }

    fn bug(find: &str, put: &str) -> Bug {
        Bug {
            name: "bug".into(),
            area: "area".into(),
            class: String::new(),
            why: String::new(),
            file: "src/a.rs".into(),
            find: find.into(),
            put: put.into(),
            suites: Vec::new(),
        }
    }

    #[test]
    fn what_is_replaced_must_be_there_once() {
        assert_eq!(replace_once("a b c", "b", "d").unwrap(), "a d c");
        assert_eq!(replace_once("a b c", " b", "").unwrap(), "a c");
        assert!(replace_once("a b c", "x", "d").unwrap_err().contains("not there"));
        assert!(replace_once("a b b", "b", "d").unwrap_err().contains("2 times"));
        assert!(replace_once("a b c", "b", "b").unwrap_err().contains("nothing"));
    }

    #[test]
    fn what_differs_from_a_commit_is_said_to() {
        let workspace = workspace();
        let head = git(workspace.path(), &["rev-parse", "--short", "HEAD"]).unwrap();
        assert_eq!(commit(workspace.path()).unwrap(), head.trim());
        fs::write(workspace.path().join("Cargo.toml"), "x").unwrap();
        git(workspace.path(), &["add", "Cargo.toml"]).unwrap();
        assert_eq!(commit(workspace.path()).unwrap(), format!("{} with changes", head.trim()));
    }

    #[test]
    fn a_bug_is_in_the_copy_until_it_is_taken_out() {
        let (workspace, copy) = (workspace(), tempfile::tempdir().unwrap());
        let tree = Tree::copy(workspace.path(), copy.path()).unwrap();
        let file = copy.path().join("src/a.rs");
        let text = || fs::read_to_string(&file).unwrap();
        let put = tree.put(&bug("one", "six")).unwrap();
        assert_eq!(text(), "six two\nthree two\n");
        put.take_out().unwrap();
        assert_eq!(text(), "one two\nthree two\n");
        drop(tree.put(&bug("one", "six")).unwrap());
        assert_eq!(text(), "one two\nthree two\n");
        assert!(tree.check(&bug("two", "six")).is_err(), "there twice");
        assert!(tree.check(&bug("four", "six")).is_err(), "not there");
    }

    #[test]
    fn a_copy_holds_what_git_knows_and_nothing_of_an_earlier_one() {
        let (workspace, copy) = (workspace(), tempfile::tempdir().unwrap());
        fs::create_dir(copy.path().join("src")).unwrap();
        fs::write(copy.path().join("src/old.rs"), "x").unwrap();
        Tree::copy(workspace.path(), copy.path()).unwrap();
        assert!(copy.path().join("src/a.rs").is_file());
        assert!(!copy.path().join("not-known").exists());
        assert!(!copy.path().join("src/old.rs").exists());
        let written = || fs::metadata(copy.path().join("src/a.rs")).unwrap().modified().unwrap();
        let before = written();
        Tree::copy(workspace.path(), copy.path()).unwrap();
        assert_eq!(written(), before, "what is the same is not written again");
    }
}
