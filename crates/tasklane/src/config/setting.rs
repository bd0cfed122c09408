//! One thing that can be set, declared once: flags, environment, file, help and docs follow from it.

use super::field::Field;
use super::kind::{Kind, Value, quoted};
use super::values::Values;

/// What stands for the name of a queue, a type, a priority or the number of a rule in a path.
const ANY: &str = "*";

/// Where a setting's value lives; the text is the name that stands for `*` in its path.
pub(crate) type Place = for<'a> fn(&'a mut Values, &str) -> &'a mut dyn Field;

/// One thing that can be set.
pub(crate) struct Setting {
    /// Its sections and its name, as in `breaker.failures` or `queues.*.weight`.
    pub(crate) path: &'static str,
    /// How it is written.
    pub(crate) kind: Kind,
    /// What it does.
    pub(crate) doc: &'static str,
    place: Place,
    /// Whether it may change while the server runs.
    pub(crate) live: bool,
    /// Whether `tasklane serve` has a flag for it.
    pub(crate) has_flag: bool,
    /// What the flag is called if not by the path.
    flag_word: &'static str,
    /// How a secret, or a text that holds one, is shown. A secret can also be read from the file that
    /// the environment's `…_FILE` names.
    pub(crate) hide: Option<fn(&str) -> String>,
    /// What it is when nothing is set, where that follows from other settings.
    derived: Option<fn(&Values) -> Value>,
    /// A value for examples.
    pub(crate) example: &'static str,
}

impl Setting {
    /// A setting that may change while the server runs, without a flag.
    pub(crate) const fn new(
        path: &'static str,
        kind: Kind,
        doc: &'static str,
        place: Place,
    ) -> Self {
        let (live, has_flag, flag_word, hide) = (true, false, "", None);
        let (derived, example) = (None, "");
        Self { path, kind, doc, place, live, has_flag, flag_word, hide, derived, example }
    }

    /// It is read only at the start.
    pub(crate) const fn at_start(mut self) -> Self {
        self.live = false;
        self
    }

    /// It has a flag.
    pub(crate) const fn flag(mut self) -> Self {
        self.has_flag = true;
        self
    }

    /// It has a flag with a name of its own: one that stands for one of many.
    pub(crate) const fn flag_named(mut self, word: &'static str) -> Self {
        (self.has_flag, self.flag_word) = (true, word);
        self
    }

    /// It is or holds a secret.
    pub(crate) const fn secret(mut self, hide: fn(&str) -> String) -> Self {
        self.hide = Some(hide);
        self
    }

    /// What it is when nothing is set.
    pub(crate) const fn derived(mut self, from: fn(&Values) -> Value) -> Self {
        self.derived = Some(from);
        self
    }

    /// A value for examples, where the default is no good one.
    pub(crate) const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    /// What it does, and which words it can be.
    pub(crate) fn described(&self) -> String {
        match self.kind {
            Kind::Choice(words) => format!("{} One of: {}.", self.doc, words.join(", ")),
            Kind::SecondsOr { word, .. } => format!("{} Or \"{word}\".", self.doc),
            _ => self.doc.to_owned(),
        }
    }

    /// Its value, set or derived; `name` stands for `*`.
    pub(crate) fn read(&self, values: &mut Values, name: &str) -> Option<Value> {
        let set = (self.place)(values, name).read();
        set.or_else(|| self.derived.map(|derived| derived(values)))
    }

    pub(crate) fn write(&self, values: &mut Values, name: &str, value: Value) {
        (self.place)(values, name).write(value);
    }

    /// A value as people may see it.
    pub(crate) fn shown(&self, value: &Value) -> String {
        match (self.hide, value) {
            (Some(hide), Value::Text(text)) => quoted(&hide(text)),
            _ => self.kind.write(value),
        }
    }

    /// Whether it is one for each name of a section such as `queues`.
    pub(crate) fn is_named(&self) -> bool {
        self.path.split('.').any(|part| part == ANY)
    }

    /// The section in which there is one for each name.
    pub(crate) fn group(&self) -> &'static str {
        self.path.split_once(".*").map_or("", |(group, _)| group)
    }

    /// The name that stands for `*`, if `path` is this setting's.
    pub(crate) fn matches<'a>(&self, path: &'a [String]) -> Option<&'a str> {
        let parts = || self.path.split('.');
        let fits = |(part, own): (&str, &String)| part == ANY || part == own;
        if parts().count() != path.len() || !parts().zip(path).all(fits) {
            return None;
        }
        let named = parts().zip(path).find(|(part, _)| *part == ANY);
        Some(named.map_or("", |(_, name)| name))
    }

    /// Whether `path` is a section that holds it.
    pub(crate) fn is_under(&self, path: &[String]) -> bool {
        let mut parts = self.path.split('.');
        path.iter().all(|own| parts.next().is_some_and(|part| part == ANY || part == own))
            && parts.next().is_some()
    }

    /// Its path with a name in place of `*`.
    pub(crate) fn path_of(&self, name: &str) -> Vec<String> {
        let parts = self.path.split('.');
        parts.map(|part| if part == ANY { name } else { part }.to_owned()).collect()
    }

    /// Its name in the environment. What is set by name is set by files only.
    pub(crate) fn environment(&self) -> Option<String> {
        let name = || format!("TASKLANE_{}", self.path.replace('.', "_").to_uppercase());
        (!self.is_named()).then(name)
    }

    /// The name of its flag, without dashes.
    pub(crate) fn flag_name(&self) -> Option<String> {
        self.has_flag.then(|| match self.flag_word {
            "" => self.path.replace(['.', '_'], "-"),
            word => word.to_owned(),
        })
    }
}

/// A path as files have it.
pub(crate) fn written(path: &[String]) -> String {
    let is_bare = |part: &str| {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !part.is_empty() && part.chars().all(bare)
    };
    let part = |part: &String| if is_bare(part) { part.clone() } else { quoted(part) };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

/// An address with its password hidden.
pub(crate) fn without_password(address: &str) -> String {
    let hidden = || {
        let (scheme, rest) = address.split_once("://")?;
        let (user, host) = rest.rsplit_once('@')?;
        let (user, _) = user.split_once(':')?;
        Some(format!("{scheme}://{user}:********@{host}"))
    };
    let address = hidden().unwrap_or_else(|| address.to_owned());
    // It may also stand behind the question mark.
    let Some((before, more)) = address.split_once('?') else { return address };
    let parts = more.split('&').map(|part| match part.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("password") => {
            format!("{name}=********")
        }
        _ => part.to_owned(),
    });
    format!("{before}?{}", parts.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_and_the_rest_is_not() {
        let shown = without_password("postgres://app:p@ss:word@db.example.org/tasks");
        assert_eq!(shown, "postgres://app:********@db.example.org/tasks");
        let shown =
            without_password("postgres://db/tasks?user=app&password=p%40ss&sslmode=require");
        assert_eq!(shown, "postgres://db/tasks?user=app&password=********&sslmode=require");
        for open in ["sqlite:./data", "memory:", "postgres://app@db/tasks"] {
            assert_eq!(without_password(open), open);
        }
    }

    #[test]
    fn names_that_are_not_bare_are_quoted() {
        let path = ["queues", "mail.eu", "weight"].map(str::to_owned);
        assert_eq!(written(&path), "queues.\"mail.eu\".weight");
    }
}
