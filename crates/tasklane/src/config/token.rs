//! The file with the keys of tokens, read when a server begins and by each reload.

use std::path::PathBuf;

use tasklane_server::token::{TokenAlgorithm, TokenKeys, TokenSettings};

use super::values::TokenValues;

/// Which tokens are to be believed, and where their keys are.
#[derive(Debug, Clone)]
pub(crate) struct TokenFile {
    path: PathBuf,
    algorithm: TokenAlgorithm,
    values: TokenValues,
}

impl TokenFile {
    pub(super) fn new(values: &TokenValues) -> Self {
        let algorithm = match values.algorithm.as_str() {
            "HS256" => TokenAlgorithm::Hs256,
            "EdDSA" => TokenAlgorithm::EdDsa,
            _ => TokenAlgorithm::Rs256,
        };
        Self { path: values.key_file.as_str().into(), algorithm, values: values.clone() }
    }

    /// What the file says; nothing if there is none.
    pub(crate) fn read(&self) -> Result<Option<TokenSettings>, String> {
        if self.path.as_os_str().is_empty() {
            return Ok(None);
        }
        let named = |what: String| format!("jwt.key_file: {}: {what}", self.path.display());
        let file = std::fs::read(&self.path).map_err(|error| named(error.to_string()))?;
        let keys = TokenKeys::read(self.algorithm, &file).map_err(|bad| named(bad.to_string()))?;
        let TokenValues { issuer, audience, leeway, scopes_claim, .. } = &self.values;
        Ok(Some(TokenSettings {
            keys,
            issuer: issuer.as_str().into(),
            audience: audience.as_str().into(),
            leeway: *leeway,
            scopes_claim: scopes_claim.as_str().into(),
        }))
    }
}
