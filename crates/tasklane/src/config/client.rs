//! What certificates of clients allow, as keys have it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tasklane_core::{Grants, Invalid, Names, Pattern, Reach, Scope, Verb};
use tasklane_server::engine::NamedCertificate;

use super::effective::Resolving;
use super::values::{ClientValues, Values};

const LIST: &str = "client_certificates";

/// What is configured, by name.
pub(super) fn certificates(
    resolving: &mut Resolving,
    values: &Values,
) -> HashMap<Box<str>, Arc<NamedCertificate>> {
    let mut scopes = BTreeMap::<&str, (String, Vec<Scope>)>::new();
    for number in values.names(LIST) {
        let Some(own) = values.client_certificates.get(&number) else { continue };
        let Some(name) = own.name.as_deref() else {
            resolving.wrong(&[LIST, &number], "an entry has a name and scopes");
            continue;
        };
        match granted(own) {
            Ok(more) => {
                let (last, scopes) = scopes.entry(name).or_default();
                last.clone_from(&number);
                scopes.extend(more);
            }
            Err(invalid) => resolving.wrong(&[LIST, &number], invalid),
        }
    }
    if !scopes.is_empty() && values.tls.client_ca.is_empty() {
        resolving.wrong(&[LIST], "needs tls.client_ca: nobody else is asked for a certificate");
    }
    let mut certificates = HashMap::new();
    for (name, (number, scopes)) in scopes {
        match Grants::new(scopes) {
            Ok(grants) => {
                let named = Arc::new(NamedCertificate::new(name, grants));
                certificates.insert(name.into(), named);
            }
            Err(invalid) => resolving.wrong(&[LIST, &number], invalid),
        }
    }
    certificates
}

fn granted(values: &ClientValues) -> Result<Vec<Scope>, Invalid> {
    let reach = Reach { queues: names(&values.queues)?, types: names(&values.types)? };
    let scope = |word: &str| {
        let verb: Verb = word.parse()?;
        Ok(Scope { verb, reach: reach.clone() })
    };
    values.scopes.iter().flatten().map(|word| scope(word)).collect()
}

fn names(patterns: &Option<Vec<Box<str>>>) -> Result<Names, Invalid> {
    let Some(patterns) = patterns else { return Ok(Names::All) };
    let patterns: Result<Vec<_>, _> = patterns.iter().map(|text| Pattern::new(text)).collect();
    Names::matching(patterns?)
}
