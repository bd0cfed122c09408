//! Where servers keep their tasks while a proof runs.

use std::path::Path;

use tempfile::TempDir;

use crate::Failure;
use crate::parent::Engine;
use crate::parent::database::Database;
use crate::place::Place;

/// A folder, and a database where the store wants one; both are removed with this.
pub struct Home {
    folder: TempDir,
    database: Option<Database>,
    store: String,
}

impl Home {
    /// A new one, with a store that nobody has used.
    pub fn new(engine: Engine) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("proof-").tempdir()?;
        let database = Database::start(engine)?;
        let store = match &database {
            None => "sqlite:store".to_owned(),
            Some(database) => match database.place()? {
                Place::Folder(folder) => format!("sqlite:{}", folder.display()),
                Place::Postgres(address) | Place::Redis(address) => address,
            },
        };
        Ok(Self { folder, database, store })
    }

    /// The store's address, for servers that run in the folder.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// Where servers run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Whether several servers can share the store.
    pub fn is_shared(&self) -> bool {
        self.database.is_some()
    }
}
