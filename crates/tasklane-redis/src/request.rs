//! A call of a script: its keys and its arguments.

use bytes::Bytes;
use hashbrown::HashMap;

use crate::keys::{Key, Namespace};

/// Keys, each named once, and arguments that mention them by their place.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    namespace: &'a Namespace,
    places: HashMap<Key, usize>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) arguments: Vec<Bytes>,
}

impl<'a> Request<'a> {
    /// A request whose first keys are these.
    pub(crate) fn new(namespace: &'a Namespace, first: impl IntoIterator<Item = Key>) -> Self {
        let (keys, arguments) = (Vec::new(), Vec::new());
        let mut request = Self { namespace, places: HashMap::new(), keys, arguments };
        for key in first {
            request.place(&key);
        }
        request
    }

    pub(crate) fn bytes(&mut self, bytes: impl Into<Bytes>) {
        self.arguments.push(bytes.into());
    }

    pub(crate) fn text(&mut self, text: &'static str) {
        self.arguments.push(Bytes::from_static(text.as_bytes()));
    }

    pub(crate) fn number(&mut self, number: impl std::fmt::Display) {
        self.arguments.push(number.to_string().into());
    }

    /// Mentions a key.
    pub(crate) fn key(&mut self, key: &Key) {
        let place = self.place(key);
        self.number(place);
    }

    /// A plain command.
    pub(crate) fn command(
        &mut self,
        command: &'static str,
        key: &Key,
        with: impl ExactSizeIterator<Item = Bytes>,
    ) {
        self.text("C");
        self.text(command);
        self.key(key);
        self.number(with.len());
        self.arguments.extend(with);
    }

    fn place(&mut self, key: &Key) -> usize {
        if let Some(place) = self.places.get(key) {
            return *place;
        }
        self.keys.push(self.namespace.name(key));
        let place = self.keys.len();
        self.places.insert(key.clone(), place);
        place
    }
}
