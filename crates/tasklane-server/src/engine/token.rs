//! Callers with tokens. One that was believed is remembered, so that its signature is not verified
//! with every call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tasklane_core::Timestamp;

use super::Engine;
use super::access::{Access, Denied};
use crate::limits::TOKENS_REMEMBERED;
use crate::settings::Settings;
use crate::token::{Token, TokenSettings};

/// A token that somebody has shown.
#[derive(Debug)]
pub struct Vouched {
    pub(super) token: Token,
    /// What workers are registered under. No key's id looks like it.
    owner: Box<str>,
    /// Which settings it was believed by.
    by: u64,
}

impl Vouched {
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }
}

/// Tokens as this server believes them.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    verifier: RwLock<Option<Arc<Verifier>>>,
    /// How often what is believed has changed.
    changes: AtomicU64,
}

#[derive(Debug)]
struct Verifier {
    settings: TokenSettings,
    number: u64,
    known: Mutex<HashMap<Box<str>, Arc<Vouched>>>,
}

impl Verifier {
    fn known(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Vouched>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verify(&self, text: &str, now: Timestamp) -> Result<Arc<Vouched>, Denied> {
        let known = self.known().get(text).cloned();
        if let Some(known) = known.filter(|known| now < known.token.ends_at) {
            return Ok(known);
        }
        let token = self.settings.verify(text, now).map_err(Denied::Token)?;
        let owner = format!("subject {}", token.subject).into();
        let vouched = Arc::new(Vouched { token, owner, by: self.number });
        let mut known = self.known();
        if known.len() >= TOKENS_REMEMBERED {
            known.retain(|_, other| now < other.token.ends_at);
        }
        if known.len() >= TOKENS_REMEMBERED {
            known.clear();
        }
        known.insert(text.into(), Arc::clone(&vouched));
        Ok(vouched)
    }
}

impl Tokens {
    pub(super) fn new(settings: &Settings) -> Self {
        let tokens = Self::default();
        tokens.adopt(settings);
        tokens
    }

    fn verifier(&self) -> Option<Arc<Verifier>> {
        self.verifier.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Settings have changed. Says whether tokens that were believed may not be any more.
    pub(super) fn adopt(&self, settings: &Settings) -> bool {
        let mut verifier = self.verifier.write().unwrap_or_else(PoisonError::into_inner);
        if verifier.as_ref().map(|verifier| &verifier.settings) == settings.tokens.as_ref() {
            return false;
        }
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        *verifier = settings
            .tokens
            .clone()
            .map(|settings| Arc::new(Verifier { settings, number, known: Mutex::default() }));
        true
    }
}

/// Whether what somebody shows could be a token: header, claims and signature, divided by dots.
fn may_be_token(shown: &str) -> bool {
    shown.contains('.')
}

impl Engine {
    /// Lets somebody in who shows a token, where tokens are believed; `None` if it can be none.
    pub(super) fn admit_token(&self, shown: &str) -> Option<Result<Access, Denied>> {
        let verifier = may_be_token(shown).then(|| self.tokens.verifier()).flatten()?;
        Some(verifier.verify(shown, self.now()).map(Access::Token))
    }

    /// Whether a signature would have to be verified to know what `shown` is.
    pub(crate) fn is_costly(&self, shown: &str) -> bool {
        let verifier = may_be_token(shown).then(|| self.tokens.verifier()).flatten();
        verifier.is_some_and(|verifier| !verifier.known().contains_key(shown))
    }

    /// Whether a token that was believed would be again.
    pub(super) fn still_vouched(&self, vouched: &Vouched) -> bool {
        let number = self.tokens.verifier().map(|verifier| verifier.number);
        number == Some(vouched.by) && self.now() < vouched.token.ends_at
    }
}
