//! Rules for every file that people write.

/// Top folders that only a certain machine has.
const FOLDERS: [&str; 4] = ["work", "root", "home", "Users"];
/// Endings of host names that mean nothing elsewhere.
const PRIVATE_ENDINGS: [&str; 5] = ["internal", "local", "lan", "corp", "intranet"];

/// Paths and hosts of a machine.
pub(crate) fn machines(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        for folder in FOLDERS.iter().filter(|folder| names_folder(line, folder)) {
            found.push(format!("line {number}: a path below the folder {folder} of a machine"));
        }
        for host in hosts(line).filter(|host| is_private(host)) {
            found.push(format!("line {number}: the private host {host}"));
        }
    }
    found
}

/// An absolute path below this top folder; the same folder inside a path is none.
fn names_folder(line: &str, folder: &str) -> bool {
    let path = format!("/{folder}/");
    line.match_indices(&path).any(|(at, _)| {
        let before = line.split_at(at).0.chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.})*".contains(c))
    })
}

fn hosts(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("://").skip(1);
    after.map(|rest| {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "-.@".contains(c)));
        let host = end.map_or(rest, |end| rest.split_at(end).0);
        host.rsplit('@').next().unwrap_or(host)
    })
}

fn is_private(host: &str) -> bool {
    let ending = host.rsplit('.').next().unwrap_or(host);
    let is_address = host.contains('.') && host.split('.').all(|part| part.parse::<u8>().is_ok());
    let is_loopback = host.starts_with("127.") || host == "0.0.0.0";
    PRIVATE_ENDINGS.contains(&ending) || (is_address && !is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Samples are put together here, so that this file passes its own rule.

    #[test]
    fn paths_of_a_machine_are_found() {
        for folder in FOLDERS {
            for bad in
                [format!("/{folder}/x"), format!("see `/{folder}/x`"), format!("a=/{folder}/")]
            {
                assert_eq!(machines(&bad).len(), 1, "{bad}");
            }
            assert_eq!(machines(&format!("src/{folder}/mod.rs")).len(), 0);
            assert_eq!(machines(&format!("{folder}/mod.rs")).len(), 0);
        }
    }

    #[test]
    fn hosts_of_a_machine_are_found() {
        for bad in ["build.internal", "10.1.2.3", "user@cache.local", "192.168.0.1"] {
            assert_eq!(machines(&format!("http://{bad}:8080/x")).len(), 1, "{bad}");
        }
        for good in ["127.0.0.1", "0.0.0.0", "example.org", "docs.rs", "localhost"] {
            assert_eq!(machines(&format!("<http://{good}/x>")).len(), 0, "{good}");
        }
    }
}
