//! A real terminal: tmux, whose screen is read back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a test waits for something to be on the screen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of 80 by 24 with a shell that runs a command.
pub(crate) struct Terminal {
    socket: String,
    /// Holds the command's process id.
    pub(crate) process: PathBuf,
}

impl Terminal {
    /// Runs `tasklane` with these arguments, in a folder where it also finds its profiles.
    pub(crate) fn start(folder: &Path, arguments: &str) -> Self {
        let socket = folder.join("tmux").to_str().unwrap().to_owned();
        let terminal = Self { socket, process: folder.join("process") };
        let command = format!(
            "sh -c 'echo $$ >{}; exec env XDG_CONFIG_HOME={} {} {arguments}'",
            terminal.process.display(),
            folder.display(),
            env!("CARGO_BIN_EXE_tasklane"),
        );
        // What is left of the terminal afterwards is what the shell finds.
        let script = format!("{command}; echo ended=$?; stty -a; read end");
        let begin = ["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"];
        terminal.tmux(&[&begin[..], &["sh", "-c", &script]].concat());
        terminal
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-S", &self.socket])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .env_remove("TASKLANE_API_KEY")
            .env_remove("TASKLANE_SERVER")
            .output()
            .expect("tmux is installed: make tools");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen, as soon as it shows all of this.
    pub(crate) fn shows(&self, wanted: &[&str]) -> String {
        self.until(&format!("{wanted:?}"), |screen| wanted.iter().all(|text| screen.contains(text)))
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(started.elapsed() < PATIENCE, "not on the screen: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn about(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format]).trim().to_owned()
    }

    /// It ended well, and the terminal is as it was before.
    pub(crate) fn has_ended(&self) {
        let screen = self.shows(&["ended=0", "icanon"]);
        assert!(!screen.contains("-icanon") && !screen.contains("-echo "), "{screen}");
        assert_eq!(self.about("#{alternate_on} #{cursor_flag}"), "0 1", "{screen}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}
