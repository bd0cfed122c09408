//! Servers by name.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use super::{Site, first_key, printed, said, tasklane};
use crate::server::Server;

/// Writes the file of profiles of a user.
fn write(home: &Path, text: &str, mode: u32) {
    let file = home.join("tasklane").join("profiles.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn queues(output: &Output) -> String {
    printed(output, 0).lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect()
}

#[test]
fn servers_have_names_and_flags_win() {
    let (first, second) = (Site::new(), Site::new());
    first.submit(&["a", "--queue", "first"]);
    second.submit(&["a", "--queue", "second"]);
    let home = tempfile::tempdir().unwrap();
    let url = |site: &Site| format!("http://{}", site.address());
    let text = format!(
        "default = \"one\"\n[profiles.one]\nserver = {:?}\n[profiles.two]\nserver = {:?}\n",
        url(&first),
        url(&second)
    );
    write(home.path(), &text, 0o600);
    let ask = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = tasklane(home.path(), &[&["queues"], arguments].concat());
        queues(&command.envs(variables.iter().copied()).output().unwrap())
    };
    let (one, two) = (url(&first), url(&second));
    assert_eq!(ask(&[], &[]), "first");
    assert_eq!(ask(&["--profile", "two"], &[]), "second");
    assert_eq!(ask(&[], &[("TASKLANE_PROFILE", "two")]), "second");
    assert_eq!(ask(&["--profile", "one"], &[("TASKLANE_SERVER", &two)]), "first");
    assert_eq!(ask(&["--server", &one], &[("TASKLANE_PROFILE", "two")]), "first");
    assert_eq!(ask(&[], &[("TASKLANE_SERVER", &one), ("TASKLANE_PROFILE", "two")]), "first");
    let both = tasklane(home.path(), &["queues", "--server", &one, "--profile", "two"]).output();
    assert!(said(&both.unwrap(), 2).contains("cannot be used with"));
    let unknown = tasklane(home.path(), &["queues", "--profile", "three"]).output().unwrap();
    assert!(said(&unknown, 2).contains("it has one, two"), "{unknown:?}");
}

#[test]
fn a_profile_has_its_key_and_shows_it_to_nobody_else() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    let key = first_key(&store);
    let server = Server::start(&store, &[]);
    let profile = |members: &str| {
        format!("[profiles.closed]\nserver = \"http://{}\"\n{members}\n", server.address)
    };
    let list = || tasklane(home.path(), &["list", "--profile", "closed"]);
    write(home.path(), &profile(&format!("api_key = {key:?}")), 0o600);
    // The key of another server in the environment does not count.
    let output = list().env("TASKLANE_API_KEY", "tl_nonsense").output().unwrap();
    assert!(!said(&output, 0).contains("warning"), "{output:?}");
    let url = format!("http://{}", server.address);
    let elsewhere = tasklane(home.path(), &["list", "--server", &url]).output().unwrap();
    said(&elsewhere, 1);
    write(home.path(), &profile(&format!("api_key = {key:?}")), 0o644);
    assert!(said(&list().output().unwrap(), 0).contains("chmod 600"));
    std::fs::write(home.path().join("tasklane/closed.key"), format!("{key}\n")).unwrap();
    write(home.path(), &profile("api_key_file = \"closed.key\""), 0o644);
    assert!(!said(&list().output().unwrap(), 0).contains("warning"));
    // What is wrong with the file is told without what is in it.
    write(home.path(), &profile(&format!("api_kex = {key:?}")), 0o600);
    let text = said(&list().output().unwrap(), 2);
    assert!(text.contains("profiles.toml:3: unknown field `api_kex`"), "{text}");
    assert!(!text.contains(&key), "{text}");
}
