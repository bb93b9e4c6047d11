//! What cannot be used: kept for whoever asks, told once.

use model::{Kind, Rejected, resources};
use plugin::MISFIT;
use serde_json::Value;
use telemetry::error_log::{self, Level};

use crate::{Compiler, Key, secrets};

impl Compiler {
    /// The objects that cannot be used, by kind and id.
    pub fn rejected(&self) -> Vec<Rejected> {
        let rejected = |((kind, id), reasons): (&Key, &Vec<String>)| Rejected {
            kind: *kind,
            id: id.clone(),
            reason: reasons.join("; "),
        };
        self.problems.iter().map(rejected).collect()
    }

    pub(crate) fn problem(&mut self, key: &Key, reason: String) {
        let problems = self.problems.entry(key.clone()).or_default();
        if problems.contains(&reason) {
            return;
        }
        problems.push(reason.clone());
        let told = self.told.entry(key.clone()).or_default();
        if self.trial || told.contains(&reason) {
            return;
        }
        error_log::log(
            Level::Error,
            format_args!("{}/{} cannot be used: {reason}", key.0.directory(), key.1),
        );
        told.push(reason);
    }

    /// Of a service more is used than its plugins and its upstream: what of that cannot be read makes it incomplete.
    pub(crate) fn check_service(&mut self, key: &Key) {
        let Some(object) = self.object(Kind::Service, &key.1).filter(|_| key.0 == Kind::Service) else {
            return;
        };
        if let Err(reason) = resources::Service::from_value(&object.value()) {
            self.incomplete.insert(key.clone());
            self.problem(key, reason);
        }
    }

    /// Replaces the references to secrets below `value`. Whether some of them still wait for their secret, which is an
    /// error everywhere but in a trial.
    pub(crate) fn resolve(&self, value: &mut Value) -> Result<bool, String> {
        let mut unresolved = secrets::resolve(value, self.secrets.as_ref()).into_iter();
        match unresolved.next() {
            Some(first) if !self.trial => Err(first.reason),
            first => Ok(first.is_some()),
        }
    }

    /// As [`Compiler::resolve`] for a plugin that refuses no request: as in APISIX a reference that leads nowhere stays as
    /// the text it is, and is logged. Not so in `secret_fields`: a key or password that anybody can read in the
    /// configuration protects nothing.
    pub(crate) fn resolve_lenient(&self, value: &mut Value, secret_fields: &[&str]) -> Result<bool, String> {
        let mut waits = false;
        for unresolved in secrets::resolve(value, self.secrets.as_ref()) {
            waits = true;
            if self.trial {
                continue;
            }
            if unresolved.is_in(secret_fields) {
                return Err(unresolved.reason);
            }
            error_log::log(Level::Error, format_args!("{}", unresolved.reason));
        }
        Ok(waits)
    }

    /// What becomes of a part that could not be built. In a trial, one that waits for a secret may do so, unless it does
    /// not fit whatever the secret is.
    pub(crate) fn excuse<T>(&self, built: Result<T, String>, waits: bool) -> Result<Option<T>, String> {
        match built {
            Err(reason) if self.trial && waits && !reason.starts_with(MISFIT) => Ok(None),
            built => built.map(Some),
        }
    }
}
