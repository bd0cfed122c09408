//! JSON by its grammar, written down once more: an oracle must not be what it judges.

use std::ops::Range;

/// A value or the name of a member, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its bytes.
    pub at: Range<usize>,
    /// How many brackets it stands in.
    pub depth: usize,
    /// The name of a member, not a value.
    pub is_name: bool,
}

/// What a text is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// Values and names in the order in which they end; as far as the text makes sense.
    pub spans: Vec<Span>,
    /// How deep brackets nest.
    pub depth: usize,
    /// It is JSON, all of it, in UTF-8.
    pub is_json: bool,
}

/// Looks at a text. Nothing here calls itself: a text may nest as deep as it likes.
pub fn scan(bytes: &[u8]) -> Scan {
    let mut scanner = Scanner { bytes, at: 0, open: Vec::new(), scan: Scan::default() };
    let whole = scanner.document().is_some();
    let mut scan = scanner.scan;
    scan.is_json = whole && std::str::from_utf8(bytes).is_ok();
    scan
}

/// The members of an object at the top, in order, as they stand there; `None` if there is none.
pub fn members(bytes: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let scan = scan(bytes);
    if !scan.is_json || bytes.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut top = scan.spans.iter().filter(|span| span.depth == 1);
    let mut members = Vec::new();
    while let (Some(name), Some(value)) = (top.next(), top.next()) {
        // A name that is no text, for a lone surrogate, is nobody's.
        let text = serde_json::from_slice(bytes.get(name.at.clone())?).unwrap_or_default();
        members.push((text, bytes.get(value.at.clone())?));
    }
    Some(members)
}

/// The member with one of these names, as it stands there.
pub fn member<'b>(bytes: &'b [u8], names: &[&str]) -> Option<&'b [u8]> {
    let found = members(bytes)?.into_iter().find(|(name, _)| names.contains(&name.as_str()))?;
    Some(found.1)
}

/// What is in a list, as it stands there.
pub fn items(bytes: &[u8]) -> Vec<&[u8]> {
    let spans = scan(bytes).spans.into_iter().filter(|span| span.depth == 1);
    spans.filter_map(|span| bytes.get(span.at)).collect()
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Brackets that are open: the closing one, and where they began.
    open: Vec<(u8, usize)>,
    scan: Scan,
}

impl Scanner<'_> {
    /// All of it; `None` where it breaks.
    fn document(&mut self) -> Option<()> {
        loop {
            // A value, or the end of brackets with nothing in them.
            self.blank();
            if !self.value()? {
                continue;
            }
            // What may follow a value: the ends of brackets, then a comma and the next one.
            loop {
                self.blank();
                let Some(&(close, began)) = self.open.last() else {
                    return (self.at == self.bytes.len()).then_some(());
                };
                if self.take(close) {
                    self.open.pop();
                    self.note(began, false);
                    continue;
                }
                self.expect(b',')?;
                if close == b'}' {
                    self.name()?;
                }
                break;
            }
        }
    }

    /// A value; `false` if it was the beginning of brackets, whose first value follows.
    fn value(&mut self) -> Option<bool> {
        let began = self.at;
        match self.peek()? {
            b'"' => self.text()?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            bracket @ (b'{' | b'[') => {
                self.at += 1;
                let close = if bracket == b'{' { b'}' } else { b']' };
                self.blank();
                self.scan.depth = self.scan.depth.max(self.open.len() + 1);
                if self.take(close) {
                    self.note(began, false);
                    return Some(true);
                }
                self.open.push((close, began));
                if bracket == b'{' {
                    self.name()?;
                }
                return Some(false);
            }
            _ => return None,
        }
        self.note(began, false);
        Some(true)
    }

    /// The name of a member and its colon.
    fn name(&mut self) -> Option<()> {
        self.blank();
        let began = self.at;
        self.text()?;
        self.note(began, true);
        self.blank();
        self.expect(b':')
    }

    fn text(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => match self.next()? {
                    b'u' => {
                        for _ in 0..4 {
                            self.next().filter(u8::is_ascii_hexdigit)?;
                        }
                    }
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    _ => return None,
                },
                0..0x20 => return None,
                _ => {}
            }
        }
    }

    fn number(&mut self) -> Option<()> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let began = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > began).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_there = self.bytes.get(self.at..)?.starts_with(word);
        self.at += word.len();
        is_there.then_some(())
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn note(&mut self, began: usize, is_name: bool) {
        self.scan.spans.push(Span { at: began..self.at, depth: self.open.len(), is_name });
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        self.take(wanted).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_from_what_only_looks_like_it() {
        for good in
            ["null", " [] ", "{}", "[1,-0.5e+7,\"a\\u00e9\"]", "{\"a\":{\"b\":[true]},\"c\":0}"]
        {
            assert!(scan(good.as_bytes()).is_json, "{good}");
        }
        for bad in
            ["", "01", "1.", "[1,]", "{\"a\"}", "{,}", "\"\n\"", "\"\\x\"", "[1 2]", "nul", "1 1"]
        {
            assert!(!scan(bad.as_bytes()).is_json, "{bad}");
        }
        assert!(!scan(b"\"\xff\"").is_json);
    }

    #[test]
    fn depth_is_counted_however_deep() {
        assert_eq!(scan(b"7").depth, 0);
        assert_eq!(scan(b"{\"a\":[[\"[[[\"]]}").depth, 3);
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        let scan = scan(&deep);
        assert!(scan.is_json && scan.depth == 100_000);
    }

    #[test]
    fn members_stand_as_they_came() {
        let text = br#" {"a" : [1, {"x":2}], "b":"\u0063", "a":1e5 } "#;
        let members = members(text).unwrap();
        let shown: Vec<_> = members
            .iter()
            .map(|(name, value)| (name.as_str(), std::str::from_utf8(value).unwrap()))
            .collect();
        assert_eq!(shown, [("a", "[1, {\"x\":2}]"), ("b", "\"\\u0063\""), ("a", "1e5")]);
        assert!(super::members(b"[1]").is_none());
    }
}
