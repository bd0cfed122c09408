//! Who calls, and how far that reaches. With keys, they are read from the store now and then and
//! kept by id, so that a call costs one hash and one look.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tasklane_core::{ApiKey, ApiKeyId, Credential, NewApiKey, Reach, Verb, Who, WorkerId};
use tasklane_store::{ApiKeyRefusal, StoreError, WorkerRefusal};
use tokio::sync::watch;

use super::certificate::Certified;
use super::error::EngineError;
use super::token::Vouched;
use super::{Engine, orphan};
use crate::address::Source;
use crate::settings::Authentication;
use crate::token::BadToken;

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub enum Access {
    /// The server asks nobody who they are.
    Anyone,
    /// The owner of a key.
    Key(Arc<Opened>),
    /// The subject of a token.
    Token(Arc<Vouched>),
    /// The owner of a certificate that the configuration names.
    Certificate(Certified),
}

/// A key that somebody has shown.
#[derive(Debug)]
pub struct Opened {
    key: ApiKey,
    /// Its id as text: what workers are registered under.
    owner: Box<str>,
}

impl Opened {
    fn new(key: ApiKey) -> Arc<Self> {
        let owner = key.id.to_string().into();
        Arc::new(Self { key, owner })
    }
}

impl Access {
    /// Where `verb` may be used; `None` if nowhere.
    pub fn reach(&self, verb: Verb) -> Option<Reach> {
        match self {
            Self::Anyone => Some(Reach::default()),
            Self::Key(opened) => opened.key.grants.reach(verb).cloned(),
            Self::Token(vouched) => vouched.token.grants.as_ref()?.reach(verb).cloned(),
            Self::Certificate(certified) => certified.named.grants.reach(verb).cloned(),
        }
    }

    /// Who it is.
    pub fn who(&self) -> Who {
        match self {
            Self::Anyone => Who::Anyone,
            Self::Key(opened) => Who::Key { id: opened.key.id, name: opened.key.name.clone() },
            Self::Token(vouched) => Who::Subject { name: vouched.token.subject.clone() },
            Self::Certificate(certified) => Who::Certificate { name: certified.named.name.clone() },
        }
    }

    /// What its workers belong to.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Self::Anyone => None,
            Self::Key(opened) => Some(&opened.owner),
            Self::Token(vouched) => Some(vouched.owner()),
            Self::Certificate(certified) => Some(certified.named.owner()),
        }
    }
}

/// Somebody whose call was allowed.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who.
    pub access: Access,
    /// How far: what the verb of this call may be used on.
    pub reach: Reach,
    /// From where, if its calls are counted.
    pub(crate) counted_from: Option<Source>,
}

impl Caller {
    /// Somebody on a server that asks nobody.
    pub fn anyone() -> Self {
        Self { access: Access::Anyone, reach: Reach::default(), counted_from: None }
    }
}

/// Why somebody was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Nothing was shown.
    Missing,
    /// What was shown is no key.
    Malformed,
    /// There is no such key.
    Unknown(ApiKeyId),
    /// The secret is another.
    Wrong(ApiKeyId),
    /// It has expired or was revoked.
    Ended(ApiKeyId),
    /// It is a token that is not believed.
    Token(BadToken),
    /// Nothing but a certificate was shown, and the configuration names none of its names.
    Unnamed,
    /// A certificate that was good when the connection began.
    CertificateEnded,
    /// Keys could not be read from the store yet.
    NotReady,
}

impl Denied {
    /// Its word in the audit log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "no key",
            Self::Malformed => "not a key",
            Self::Unknown(_) => "unknown key",
            Self::Wrong(_) => "wrong secret",
            Self::Ended(_) => "expired or revoked key",
            Self::Token(bad) => bad.as_str(),
            Self::Unnamed => "certificate without access",
            Self::CertificateEnded => "expired certificate",
            Self::NotReady => "keys are not known yet",
        }
    }

    /// The key that was named.
    pub const fn key(self) -> Option<ApiKeyId> {
        match self {
            Self::Unknown(id) | Self::Wrong(id) | Self::Ended(id) => Some(id),
            Self::Missing | Self::Malformed | Self::Token(_) | Self::Unnamed => None,
            Self::CertificateEnded | Self::NotReady => None,
        }
    }
}

type Keys = HashMap<ApiKeyId, Arc<Opened>>;

/// The keys as this server knows them.
#[derive(Debug, Default)]
pub(super) struct Keyring {
    /// `None` until they were read for the first time.
    keys: RwLock<Option<Keys>>,
    changed: watch::Sender<()>,
    reading: tokio::sync::Mutex<()>,
}

impl Keyring {
    fn find(&self, id: ApiKeyId) -> Result<Option<Arc<Opened>>, Denied> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        Ok(keys.as_ref().ok_or(Denied::NotReady)?.get(&id).cloned())
    }

    /// Puts one key, new or changed, among those that are known.
    fn put(&self, key: &ApiKey) {
        let mut known = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &mut *known {
            known.insert(key.id, Opened::new(key.clone()));
        }
        drop(known);
        self.changed.send_replace(());
    }

    fn replace(&self, keys: Vec<ApiKey>) {
        let keys: Keys = keys.into_iter().map(|key| (key.id, Opened::new(key))).collect();
        let mut known = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let same = known.as_ref().is_some_and(|known| {
            let same = |(id, opened): (&ApiKeyId, &Arc<Opened>)| {
                keys.get(id).is_some_and(|new| new.key == opened.key)
            };
            known.len() == keys.len() && known.iter().all(same)
        });
        if !same {
            *known = Some(keys);
            drop(known);
            self.changed.send_replace(());
        }
    }
}

impl Engine {
    /// Lets somebody in who shows a key or a token, where one is asked for.
    pub fn admit(&self, shown: Option<&str>) -> Result<Access, Denied> {
        if self.authentication == Authentication::Off {
            return Ok(Access::Anyone);
        }
        let shown = shown.ok_or(Denied::Missing)?;
        if let Some(admitted) = self.admit_token(shown) {
            return admitted;
        }
        let shown: Credential = shown.parse().map_err(|_| Denied::Malformed)?;
        let hash = shown.hash();
        let opened = self.keyring.find(shown.id)?.ok_or(Denied::Unknown(shown.id))?;
        if opened.key.hash != hash {
            return Err(Denied::Wrong(shown.id));
        }
        if !opened.key.is_good(self.now()) {
            return Err(Denied::Ended(shown.id));
        }
        Ok(Access::Key(opened))
    }

    /// Whether somebody who was let in some time ago would be let in again.
    pub fn holds(&self, access: &Access) -> bool {
        match access {
            Access::Anyone => true,
            Access::Key(opened) => {
                let known = self.keyring.find(opened.key.id).ok().flatten();
                known.is_some_and(|known| known.key.is_good(self.now()))
            }
            Access::Token(vouched) => self.still_vouched(vouched),
            Access::Certificate(certified) => self.still_certified(certified, &self.settings()),
        }
    }

    /// What opened before may not open any more.
    pub(super) fn access_changed(&self) {
        self.keyring.changed.send_replace(());
    }

    /// Rises when keys were added, revoked or removed, or other tokens are believed.
    pub(crate) fn keys_changed(&self) -> watch::Receiver<()> {
        self.keyring.changed.subscribe()
    }

    /// Reads the keys anew: what another server did to them counts from then on.
    pub async fn refresh_keys(&self) -> Result<(), EngineError> {
        if self.authentication == Authentication::Keys {
            // One at a time: what was read earlier must not replace what was read later.
            let _turn = self.keyring.reading.lock().await;
            self.keyring.replace(self.store.api_keys().await?);
        }
        Ok(())
    }

    /// All keys, by id.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, EngineError> {
        Ok(self.store.api_keys().await?)
    }

    /// Makes a key; it is good at once on this server.
    pub async fn add_key(&self, key: NewApiKey) -> Result<ApiKey, EngineError> {
        let made = self.store.add_api_key(key).await?.map_err(|refusal| match refusal {
            ApiKeyRefusal::Invalid(invalid) => EngineError::Invalid(invalid),
            ApiKeyRefusal::TooMany => {
                let max = tasklane_core::limits::API_KEYS_MAX;
                let problem = tasklane_core::Problem::TooMany { max };
                EngineError::Invalid(tasklane_core::Invalid::new("keys", problem))
            }
            // Of 2^48: whoever meets it may try again.
            ApiKeyRefusal::Exists => StoreError::Unavailable(refusal.to_string()).into(),
        })?;
        self.adopt_key(&made).await;
        Ok(made)
    }

    /// Takes a key back; it opens nothing from then on, here at once.
    pub async fn revoke_key(&self, id: ApiKeyId) -> Result<ApiKey, EngineError> {
        let revoked = self.store.revoke_api_key(id).await?.ok_or(EngineError::NotFound("key"))?;
        self.adopt_key(&revoked).await;
        Ok(revoked)
    }

    /// Takes over what the store has just answered; it need not be asked again for that.
    async fn adopt_key(&self, key: &ApiKey) {
        // After those who read the keys before this change: they would undo it.
        let _turn = self.keyring.reading.lock().await;
        self.keyring.put(key);
    }

    /// Whether somebody may speak for a worker: those of other keys are not there. One that nobody
    /// knows is the store's to refuse; one without an owner, from before there were keys, has to
    /// register again.
    pub async fn check_owner(&self, access: &Access, worker: WorkerId) -> Result<(), EngineError> {
        let Some(own) = access.owner() else { return Ok(()) };
        let spec = match self.roster.spec(worker) {
            Some(spec) => spec,
            None => {
                let workers = self.store.workers().await?;
                let Some(found) = workers.into_iter().find(|known| known.id == worker) else {
                    return Ok(());
                };
                Arc::new(found.spec)
            }
        };
        // Two tokens about the same subject may allow different things.
        let reach = access.reach(Verb::Work);
        let within = reach.is_some_and(|reach| reach.holds_all_for(&spec.selection));
        match spec.owner.as_deref() {
            Some(owner) if owner == own && within => Ok(()),
            Some(_) => Err(EngineError::NotOwned),
            None => Err(WorkerRefusal::Gone.into()),
        }
    }

    /// Tasks were claimed for somebody who may not have them any more.
    pub(crate) fn give_back(&self, tasks: Vec<tasklane_store::Claimed>) {
        orphan::give_back(&self.store, &self.errands, tasks);
    }
}
