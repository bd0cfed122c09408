//! What can be read, and how it is asked for.

use bytes::Bytes;
use hashbrown::HashMap;

use crate::keys::Key;
use crate::request::Request;

/// Arguments of one command: Lua passes no more than some thousands.
pub(crate) const ARGUMENTS_MAX: usize = 4_000;

/// One thing to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Read {
    /// A field of a hash.
    Field(Key, Vec<u8>),
    /// The first of a sorted set.
    First(Key, usize),
    /// The first of a lane, with their tasks.
    Front(Key, usize),
    /// The next of a sorted set up to a score, after a position.
    Next { key: Key, max: i64, after: Option<(i64, Vec<u8>)>, limit: usize },
    /// Members of both sets.
    Common(Key, Key),
    /// Blocks of the index, from an id on back.
    Blocks { from: [u8; 16], count: usize },
    /// Whatever a command gives.
    Plain(&'static str, Key, Vec<Vec<u8>>),
}

impl Read {
    /// What a command gives.
    pub(crate) fn plain<const N: usize>(command: &'static str, key: Key, with: [&str; N]) -> Self {
        Self::Plain(command, key, with.iter().map(|text| text.as_bytes().to_vec()).collect())
    }

    /// The sorted set whose first it asks for.
    pub(crate) const fn front(&self) -> Option<&Key> {
        match self {
            Self::First(key, _) | Self::Front(key, _) => Some(key),
            _ => None,
        }
    }

    /// Whether the same will be asked at another time.
    pub(crate) fn is_timeless(&self) -> bool {
        !matches!(self, Self::Next { .. } | Self::Plain("ZRANGEBYSCORE", ..))
    }
}

/// Reads that go out as one command.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Fields of one hash.
    Fields(Key, Vec<Vec<u8>>),
    /// Anything else.
    One(Read),
}

/// Gathers fields of one hash into one command.
pub(crate) fn gather(reads: impl IntoIterator<Item = Read>) -> Vec<Asked> {
    let mut asked: Vec<Asked> = Vec::new();
    let mut open: HashMap<Key, usize> = HashMap::new();
    for read in reads {
        let Read::Field(key, field) = read else {
            asked.push(Asked::One(read));
            continue;
        };
        if let Some(Asked::Fields(_, fields)) = open.get(&key).and_then(|at| asked.get_mut(*at))
            && fields.len() < ARGUMENTS_MAX
        {
            fields.push(field);
            continue;
        }
        open.insert(key.clone(), asked.len());
        asked.push(Asked::Fields(key, vec![field]));
    }
    asked
}

/// Writes what is asked as arguments of the script that reads.
pub(crate) fn ask(asked: &[Asked], request: &mut Request<'_>) {
    for asked in asked {
        match asked {
            Asked::Fields(key, fields) => {
                let fields = fields.iter().map(|field| Bytes::copy_from_slice(field));
                request.command("HMGET", key, fields);
            }
            Asked::One(read) => ask_one(read, request),
        }
    }
}

fn ask_one(read: &Read, request: &mut Request<'_>) {
    match read {
        Read::Field(key, field) => {
            request.command("HMGET", key, std::iter::once(field.clone().into()));
        }
        Read::First(key, depth) => {
            let last = depth.saturating_sub(1).to_string().into();
            let with = [Bytes::from_static(b"0"), last, Bytes::from_static(b"WITHSCORES")];
            request.command("ZRANGE", key, with.into_iter());
        }
        Read::Front(key, depth) => {
            request.text("F");
            request.key(key);
            request.number(depth);
        }
        Read::Next { key, max, after, limit } => {
            request.text("P");
            request.key(key);
            request.number(max);
            match after {
                Some((score, member)) => {
                    request.number(score);
                    request.bytes(member.clone());
                }
                None => ["", ""].iter().for_each(|text| request.text(text)),
            }
            request.number(limit);
        }
        Read::Common(one, other) => {
            request.text("S");
            request.key(one);
            request.key(other);
        }
        Read::Blocks { from, count } => {
            request.text("L");
            request.key(&Key::Index);
            request.key(&Key::Block);
            request.bytes(from.to_vec());
            request.number(count);
        }
        Read::Plain(command, key, with) => {
            request.command(command, key, with.iter().map(|with| with.clone().into()));
        }
    }
}
