//! New inputs out of known ones: by bytes, by words, and by the structure of JSON.
//!
//! An input follows from the seed of a run, its number and the corpus alone, so that each can be
//! made again without those before it.

use tasklane_core::{Random, SeededRandom};

use super::Form;
use super::json::{self, Span};

/// Changes to one input.
const CHANGES_MAX: u64 = 6;

/// Numbers at and beyond the ends of what fits somewhere.
const NUMBERS: [&str; 24] = [
    "0",
    "-1",
    "1",
    "-0",
    "0.1",
    "1e999",
    "-1e999",
    "1e-999",
    "127",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "00000000000000000000000000000000000001",
];

/// Values that stand in the place of another one.
const VALUES: [&str; 22] = [
    "null",
    "true",
    "false",
    "\"\"",
    "[]",
    "{}",
    "[[]]",
    "{\"\":{}}",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\u202e\"",
    "\"a\\\\\\\"b\"",
    "\"NaN\"",
    "NaN",
    "Infinity",
    "'a'",
    "\"9999-12-31T23:59:59.999999999Z\"",
    "\"-009999-01-02T01:59:59Z\"",
    "\"00000000-0000-0000-0000-000000000000\"",
    "[null,null,null,null]",
    "\"\u{fffe}\u{10ffff}\"",
];

/// Bytes that are no UTF-8, or at its edge.
const ODD: [&[u8]; 10] = [
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\x80",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\r\n\r\n",
];

/// Depths around what is allowed, and far beyond.
const DEPTHS: [usize; 8] = [2, 62, 63, 64, 65, 127, 129, 50_000];
/// How often something is repeated: seldom very often.
const REPEATS: [usize; 7] = [2, 3, 8, 64, 129, 1_024, 20_000];

/// Makes inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    /// What inputs begin as.
    pub seeds: &'a [Vec<u8>],
    /// How they are put together.
    pub form: Form,
    /// Words that are put into them.
    pub words: &'a [&'static str],
    /// No input is longer, but for its first line.
    pub bytes_max: usize,
}

impl Mutator<'_> {
    /// The input with this number, in the run with this seed.
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        let mut random = SeededRandom::new(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let first = pick(&mut random, self.seeds).cloned().unwrap_or_default();
        let (line, mut body) = self.divide(&first);
        // Mostly few: what differs in one place gets further.
        let most = random.below(CHANGES_MAX).min(random.below(CHANGES_MAX));
        let changes = 1 + most.min(random.below(CHANGES_MAX));
        for _ in 0..changes {
            let is_json = self.form == Form::LineAndJson && random.below(3) > 0;
            body = match is_json {
                true => self.change_value(&mut random, body),
                false => self.change_bytes(&mut random, body),
            };
            body.truncate(self.bytes_max);
        }
        [line, body].concat()
    }

    /// The line that stays, with its end, and the rest.
    fn divide(&self, input: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let ends = match self.form {
            Form::Bytes => 0,
            _ => input.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        let (line, body) = input.split_at(ends);
        (line.to_vec(), body.to_vec())
    }

    fn change_bytes(&self, random: &mut SeededRandom, mut input: Vec<u8>) -> Vec<u8> {
        match random.below(11) {
            0 => flip(random, &mut input),
            1 => {
                let byte = random.below(256) as u8;
                let at = place(random, &input);
                put(&mut input, at..(at + 1), &[byte]);
            }
            2 => {
                let part = part(random, &input);
                put(&mut input, part, b"");
            }
            3 => {
                let at = place(random, &input);
                input.truncate(at);
            }
            4 => repeat(random, &mut input, self.bytes_max),
            5 => {
                let (other, at) = (self.other(random), place(random, &input));
                let from = part(random, &other);
                put(&mut input, at..at, other.get(from).unwrap_or_default());
            }
            6 => {
                // The beginning of one, the end of another.
                let (other, at) = (self.other(random), place(random, &input));
                let from = place(random, &other);
                input.truncate(at);
                input.extend_from_slice(other.get(from..).unwrap_or_default());
            }
            7 => {
                let odd = pick(random, &ODD).copied().unwrap_or_default();
                let at = place(random, &input);
                put(&mut input, at..at, odd);
            }
            8 => renumber(random, &mut input),
            9 => {
                let bytes: Vec<u8> =
                    (0..1 + random.below(16)).map(|_| random.next_u64() as u8).collect();
                let at = place(random, &input);
                put(&mut input, at..at, &bytes);
            }
            _ => {
                let word = pick(random, self.words).copied().unwrap_or_default();
                let from = place(random, &input);
                // In the place of as much, or between.
                let to = if random.below(2) == 0 { from } else { from + word.len() };
                put(&mut input, from..to, word.as_bytes());
            }
        }
        input
    }

    fn change_value(&self, random: &mut SeededRandom, mut input: Vec<u8>) -> Vec<u8> {
        let spans = json::scan(&input).spans;
        let wanted = random.below(8) == 0;
        let fitting: Vec<&Span> = spans.iter().filter(|span| span.is_name == wanted).collect();
        let Some(span) = pick(random, &fitting).map(|span| (*span).clone()) else {
            return self.change_bytes(random, input);
        };
        let old = input.get(span.at.clone()).unwrap_or_default().to_vec();
        let new = if span.is_name {
            self.new_name(random, &old)
        } else {
            self.new_value(random, old, &spans, &input)
        };
        put(&mut input, span.at, &new);
        input
    }

    /// Another name, or the same member twice.
    fn new_name(&self, random: &mut SeededRandom, old: &[u8]) -> Vec<u8> {
        match random.below(4) {
            0 => [old, b":", self.literal(random).as_slice(), b",", old].concat(),
            1 => [
                b"\"".as_slice(),
                pick(random, self.words).copied().unwrap_or_default().as_bytes(),
                b"\"",
            ]
            .concat(),
            2 => [old, b" : 0 , ", old].concat(),
            _ => {
                [b"\"".as_slice(), &vec![b'n'; pick(random, &REPEATS).copied().unwrap_or(1)], b"\""]
                    .concat()
            }
        }
    }

    fn new_value(
        &self,
        random: &mut SeededRandom,
        old: Vec<u8>,
        spans: &[Span],
        input: &[u8],
    ) -> Vec<u8> {
        match random.below(8) {
            0..3 => self.literal(random),
            3 => {
                let depth = pick(random, &DEPTHS).copied().unwrap_or(1);
                let (open, close): (&[u8], &[u8]) =
                    if random.below(2) == 0 { (b"[", b"]") } else { (b"{\"a\":", b"}") };
                [open.repeat(depth), old, close.repeat(depth)].concat()
            }
            4 => {
                let times = pick(random, &REPEATS).copied().unwrap_or(1);
                let one = old.get(..old.len().min(self.bytes_max / times)).unwrap_or_default();
                [b"[".as_slice(), &vec![one; times].join(b",".as_slice()), b"]"].concat()
            }
            5 => {
                // Another value of the same text.
                let other = pick(random, spans).map(|span| span.at.clone());
                other.and_then(|at| input.get(at)).unwrap_or_default().to_vec()
            }
            6 => {
                let times = pick(random, &REPEATS).copied().unwrap_or(1);
                [b"\"".as_slice(), &vec![b'x'; times], b"\""].concat()
            }
            _ => [b"\"".as_slice(), old.escape_ascii().to_string().as_bytes(), b"\""].concat(),
        }
    }

    fn literal(&self, random: &mut SeededRandom) -> Vec<u8> {
        let list: &[&str] = if random.below(2) == 0 { &NUMBERS } else { &VALUES };
        match random.below(4) {
            0 => format!("\"{}\"", pick(random, self.words).copied().unwrap_or_default()),
            _ => pick(random, list).copied().unwrap_or_default().to_owned(),
        }
        .into_bytes()
    }

    fn other(&self, random: &mut SeededRandom) -> Vec<u8> {
        let other = pick(random, self.seeds).cloned().unwrap_or_default();
        self.divide(&other).1
    }
}

fn flip(random: &mut SeededRandom, input: &mut [u8]) {
    let at = random.below(input.len() as u64) as usize;
    let bit = 1 << random.below(8);
    if let Some(byte) = input.get_mut(at) {
        *byte ^= bit;
    }
}

fn repeat(random: &mut SeededRandom, input: &mut Vec<u8>, bytes_max: usize) {
    let mut part = part(random, input);
    let times = pick(random, &REPEATS).copied().unwrap_or(1);
    part.end = part.end.min(part.start + bytes_max / times);
    let more = input.get(part.clone()).unwrap_or_default().repeat(times);
    put(input, part, &more);
}

/// Another number in the place of one.
fn renumber(random: &mut SeededRandom, input: &mut Vec<u8>) {
    let starts: Vec<usize> = (0..input.len())
        .filter(|at| {
            let digit = |at: usize| input.get(at).is_some_and(u8::is_ascii_digit);
            digit(*at) && !(*at > 0 && digit(at - 1))
        })
        .collect();
    let Some(&start) = pick(random, &starts) else { return flip(random, input) };
    let digits = input.get(start..).unwrap_or_default();
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = pick(random, &NUMBERS).copied().unwrap_or_default();
    put(input, start..(start + length), number.as_bytes());
}

fn pick<'t, T>(random: &mut SeededRandom, list: &'t [T]) -> Option<&'t T> {
    list.get(random.below(list.len() as u64) as usize)
}

fn place(random: &mut SeededRandom, input: &[u8]) -> usize {
    random.below(input.len() as u64 + 1) as usize
}

fn part(random: &mut SeededRandom, input: &[u8]) -> std::ops::Range<usize> {
    let (one, other) = (place(random, input), place(random, input));
    let (start, end) = (one.min(other), one.max(other));
    // Mostly a short one.
    if random.below(4) == 0 { start..end } else { start..end.min(start + 16) }
}

fn put(input: &mut Vec<u8>, at: std::ops::Range<usize>, new: &[u8]) {
    let (start, end) = (at.start.min(input.len()), at.end.min(input.len()));
    input.splice(start..end, new.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 200_000;

    fn seeds() -> Vec<Vec<u8>> {
        let body = br#"{"type":"a","payload":{"n":1},"priority":2,"metadata":{"k":"v"}}"#;
        vec![[b"POST /api/v1/tasks\n".as_slice(), body].concat()]
    }

    fn inputs(form: Form, seed: u64, count: u64) -> Vec<Vec<u8>> {
        let (seeds, words) = (seeds(), ["queue", "retry"]);
        let mutator = Mutator { seeds: &seeds, form, words: &words, bytes_max: BYTES_MAX };
        (0..count).map(|number| mutator.input(seed, number)).collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_another_makes_others() {
        let first = inputs(Form::LineAndJson, 1, 200);
        assert_eq!(first, inputs(Form::LineAndJson, 1, 200));
        assert_ne!(first, inputs(Form::LineAndJson, 2, 200));
    }

    #[test]
    fn a_line_that_stays_stays() {
        for input in inputs(Form::LineAndJson, 3, 2_000) {
            assert!(input.starts_with(b"POST /api/v1/tasks\n"));
            assert!(input.len() <= BYTES_MAX + 19);
        }
    }

    #[test]
    fn inputs_are_broken_deep_repeated_and_sound() {
        let bodies: Vec<_> =
            inputs(Form::LineAndJson, 4, 5_000).iter().map(|input| input[19..].to_vec()).collect();
        let scans: Vec<_> = bodies.iter().map(|body| json::scan(body)).collect();
        let count =
            |which: fn(&json::Scan) -> bool| scans.iter().filter(|scan| which(scan)).count();
        assert!(count(|scan| scan.is_json) > 1_000);
        assert!(count(|scan| !scan.is_json) > 1_000);
        assert!(count(|scan| scan.is_json && scan.depth > 64) > 20);
        assert!(bodies.iter().filter(|body| std::str::from_utf8(body).is_err()).count() > 50);
        let twice = |body: &Vec<u8>| {
            let names: Vec<_> =
                json::members(body).unwrap_or_default().into_iter().map(|(name, _)| name).collect();
            (1..names.len()).any(|at| names[..at].contains(&names[at]))
        };
        assert!(bodies.iter().filter(|body| twice(body)).count() > 20);
    }

    #[test]
    fn the_grammar_written_here_agrees_with_another_reader() {
        for input in inputs(Form::LineAndJson, 5, 5_000) {
            let body = &input[19..];
            let other = serde_json::from_slice::<&serde_json::value::RawValue>(body).is_ok();
            assert_eq!(json::scan(body).is_json, other, "{}", body.escape_ascii());
        }
    }
}
