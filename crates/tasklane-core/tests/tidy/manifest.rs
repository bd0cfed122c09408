//! Rules for Cargo's files.

/// Which of our own crates each crate may use. A crate that is not here may not be there.
const LAYERS: [(&str, &[&str]); 8] = [
    ("tasklane-core", &[]),
    ("tasklane-store", &["tasklane-core"]),
    ("tasklane-sqlite", &["tasklane-core", "tasklane-store"]),
    ("tasklane-postgres", &["tasklane-core", "tasklane-store"]),
    ("tasklane-redis", &["tasklane-core", "tasklane-store"]),
    ("tasklane-client", &["tasklane-core"]),
    ("tasklane-server", &["tasklane-core", "tasklane-store", "tasklane-client"]),
    (
        "tasklane",
        &[
            "tasklane-core",
            "tasklane-store",
            "tasklane-sqlite",
            "tasklane-postgres",
            "tasklane-redis",
            "tasklane-client",
            "tasklane-server",
        ],
    ),
];
/// Whom a crate's tests may use besides: a server is tested on real stores, a client against a
/// real server.
const IN_TESTS: [(&str, &[&str]); 2] = [
    ("tasklane-server", &["tasklane-sqlite", "tasklane-postgres", "tasklane-redis"]),
    ("tasklane-client", &["tasklane-server", "tasklane-sqlite"]),
];
const ENGINES: &[&str] = &["rusqlite", "tokio-postgres", "deadpool-postgres", "redis"];
const WEB: &[&str] = &["axum", "hyper", "http", "tower", "tower-http", "reqwest"];
const ASYNC_AND_CHANCE: &[&str] = &["tokio", "futures", "async-trait", "getrandom", "rand"];
/// What else a crate must not know.
const FOREIGN: [(&str, &[&[&str]]); 6] = [
    ("tasklane-core", &[ENGINES, WEB, ASYNC_AND_CHANCE]),
    ("tasklane-store", &[ENGINES, WEB]),
    ("tasklane-sqlite", &[WEB]),
    ("tasklane-postgres", &[WEB]),
    ("tasklane-redis", &[WEB]),
    ("tasklane-server", &[ENGINES]),
];
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Dependencies that point the wrong way.
pub(crate) fn misdirected(manifest: &str) -> Vec<String> {
    let name = package_name(manifest);
    let Some((_, layer)) = LAYERS.iter().find(|(known, _)| *known == name) else {
        return vec![format!("crate {name} has no layer: say in the tidy test whom it may use")];
    };
    let foreign = FOREIGN.iter().filter(|(known, _)| *known == name);
    let foreign: Vec<_> =
        foreign.flat_map(|(_, groups)| groups.iter().copied().flatten()).collect();
    let in_tests = IN_TESTS.iter().filter(|(known, _)| *known == name);
    let in_tests: Vec<_> = in_tests.flat_map(|(_, more)| more.iter()).collect();
    let wrong = |(tests, used): &(bool, String)| {
        let used = used.as_str();
        let ours = used == "tasklane" || used.starts_with("tasklane-");
        // Its own name is there when its tests want more features of it.
        let allowed = used == name
            || layer.contains(&used)
            || (*tests && in_tests.iter().any(|more| **more == used));
        (ours && !allowed) || foreign.iter().any(|f| **f == used)
    };
    let used = [false, true].into_iter();
    let used = used
        .flat_map(|tests| dependencies(manifest, tests).into_iter().map(move |used| (tests, used)));
    used.filter(wrong).map(|(_, used)| format!("{name} must not use {used}")).collect()
}

/// Entries of the root's dependencies without a reason beside them.
pub(crate) fn unexplained(manifest: &str) -> Vec<String> {
    let entries = section(manifest, |header| header == "workspace.dependencies");
    let ours = |line: &str| line.starts_with("tasklane");
    let bare = |line: &&str| {
        let reason = line.rsplit_once('#').map_or("", |(_, reason)| reason);
        !ours(line) && reason.split_whitespace().count() < 2
    };
    entries.into_iter().filter(bare).map(|line| format!("no reason: {line}")).collect()
}

/// Packages that come from elsewhere than the public registry or this workspace.
pub(crate) fn foreign_sources(lock: &str) -> Vec<String> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let foreign = sources.filter(|source| source.trim_matches('"') != CRATES_IO);
    foreign.map(|source| format!("from elsewhere: {source}")).collect()
}

fn package_name(manifest: &str) -> String {
    let package = section(manifest, |header| header == "package");
    let name = package.iter().find_map(|line| line.strip_prefix("name = "));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// Every crate named as a dependency of tests, or of all else: plain, for builds, for one platform,
/// renamed.
fn dependencies(manifest: &str, tests: bool) -> Vec<String> {
    let wanted = |header: &str| header.contains("dev-dependencies") == tests;
    let names = |line: &str| line.split(['=', '.']).next().unwrap_or_default().trim().to_owned();
    let plain = section(manifest, |header| header.ends_with("dependencies") && wanted(header));
    let renamed =
        plain.iter().filter_map(|line| line.split_once("package = \"")?.1.split_once('"'));
    let mut found: Vec<_> = renamed.map(|(name, _)| name.to_owned()).collect();
    found.extend(plain.iter().map(|line| names(line)));
    // `[dependencies.name]`
    let headers = manifest.lines().filter_map(header).filter(|header| wanted(header));
    let long =
        headers.filter_map(|header| header.split_once("dependencies.").map(|(_, name)| name));
    found.extend(long.map(str::to_owned));
    found
}

/// The lines of the sections that are wanted, without blank ones and comments.
fn section(manifest: &str, wanted: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = header(line) {
            inside = wanted(header);
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            lines.push(line);
        }
    }
    lines
}

fn header(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[')?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, dependencies: &str) -> String {
        format!("[package]\nname = \"{name}\"\n\n{dependencies}\n\n[lints]\nworkspace = true\n")
    }

    #[test]
    fn dependencies_that_point_the_wrong_way_are_found() {
        for (name, bad) in [
            ("tasklane-core", "[dependencies]\ntasklane-store.workspace = true"),
            ("tasklane-core", "[dependencies]\ntokio = \"1\""),
            ("tasklane-core", "[dev-dependencies]\nrusqlite = { version = \"0\" }"),
            ("tasklane-core", "[dependencies]\nclock = { package = \"tokio\", version = \"1\" }"),
            ("tasklane-core", "[target.'cfg(unix)'.dependencies]\ngetrandom = \"0.4\""),
            ("tasklane-store", "[dependencies.tasklane-sqlite]\nworkspace = true"),
            ("tasklane-store", "[dependencies]\nrusqlite.workspace = true"),
            ("tasklane-sqlite", "[dependencies]\naxum = \"0.8\""),
            ("tasklane-sqlite", "[dependencies]\ntasklane-server.workspace = true"),
            ("tasklane-server", "[dependencies]\nrusqlite.workspace = true"),
            ("tasklane-server", "[dependencies]\ntasklane-sqlite.workspace = true"),
            ("tasklane-server", "[dependencies]\ntasklane-postgres.workspace = true"),
            ("tasklane-server", "[dev-dependencies]\nrusqlite.workspace = true"),
            ("tasklane-client", "[dev-dependencies]\ntasklane-postgres.workspace = true"),
            ("tasklane-client", "[dependencies]\ntasklane-store.workspace = true"),
            ("tasklane-new", "[dependencies]\nbytes.workspace = true"),
        ] {
            assert_eq!(misdirected(&manifest(name, bad)).len(), 1, "{name}: {bad}");
        }
    }

    #[test]
    fn dependencies_that_point_the_right_way_are_not() {
        for (name, good) in [
            ("tasklane-core", "[dependencies]\nbytes.workspace = true"),
            ("tasklane-store", "[dependencies]\ntasklane-core.workspace = true\ntokio = \"1\""),
            ("tasklane-sqlite", "[dev-dependencies]\ntasklane-store = { workspace = true }"),
            ("tasklane-server", "[dev-dependencies]\ntasklane-sqlite.workspace = true"),
            ("tasklane-server", "[dev-dependencies]\ntasklane-postgres.workspace = true"),
        ] {
            assert_eq!(misdirected(&manifest(name, good)), Vec::<String>::new(), "{name}: {good}");
        }
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let root = "[workspace.dependencies]\ntasklane-core = { path = \"x\" }\n# a heading\n\
                    bytes = \"1\"   # payloads without copies\nuuid = \"1\"\nsha2 = \"0.11\" #\n\
                    [profile.dev]\ndebug = true\n";
        let found = unexplained(root);
        assert_eq!(found, ["no reason: uuid = \"1\"", "no reason: sha2 = \"0.11\" #"]);
    }

    #[test]
    fn a_package_from_elsewhere_is_found() {
        let lock = |source: &str| format!("[[package]]\nname = \"x\"\nsource = \"{source}\"\n");
        assert_eq!(foreign_sources(&lock(CRATES_IO)).len(), 0);
        assert_eq!(foreign_sources(&lock("git+https://example.org/x")).len(), 1);
        assert_eq!(foreign_sources(&lock("registry+https://example.org/index")).len(), 1);
    }
}
