//! Just enough of Rust's grammar to tell code from comments and text.

/// The code alone: comments and the contents of strings and characters are blank, lines are kept.
pub(crate) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = match token(rest, code.chars().next_back()) {
            Some(length) => {
                let (blank, _) = rest.split_at(length);
                code.extend(blank.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                length
            }
            None => {
                code.push(first);
                first.len_utf8()
            }
        };
        rest = rest.split_at(length).1;
    }
    code
}

/// How long the comment, string or character is that `rest` begins with, if it does.
fn token(rest: &str, before: Option<char>) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    let in_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if let (Some(raw), false) = (rest.strip_prefix('r'), in_name) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if let Some(text) = raw.trim_start_matches('#').strip_prefix('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let begins = rest.len() - text.len();
            return Some(text.find(&close).map_or(rest.len(), |end| begins + end + close.len()));
        }
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    if rest.starts_with('\'') {
        let mut after = rest.chars().skip(1);
        let (one, two) = (after.next(), after.next());
        // Otherwise it is a lifetime.
        return (one == Some('\\') || two == Some('\'')).then(|| quoted(rest, '\''));
    }
    None
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_text_are_blank() {
        let source = "let a = \"x \\\" y\"; // z\nlet b = r#\"v \" w\"#; /* u\n */ let c = 't';";
        let code = code_only(source);
        for letter in ["x", "y", "z", "v", "w", "u"] {
            assert!(!code.contains(letter), "{letter} in {code}");
        }
        assert!(!code.contains("'t'"));
        assert!(code.contains("let a") && code.contains("let b") && code.contains("let c"));
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn lifetimes_and_names_are_code() {
        let source = "fn f<'a>(x: &'a str, var: u8) -> &'a str { g('\\'', '\"'); h(x) }";
        let code = code_only(source);
        assert!(code.contains("<'a>") && code.contains("var: u8") && code.contains("h(x)"));
    }
}
