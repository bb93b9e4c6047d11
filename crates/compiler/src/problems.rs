//! What cannot be used: kept for queries, logged once.

pub(crate) mod masked;

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Kind, Rejected, mask::mask_message, resources};
use tidegate_plugin_api::{MISFIT, stream_route::StreamTable};
use tidegate_telemetry::error_log::{self, Level};

use crate::{Compiler, object::Key, problems::masked::Problem, references, secrets};

/// Whether an object of `user` cannot do without one of `named`. Missing certificates, protos and secrets are noticed
/// where they are built in; metadata is never needed.
fn is_needed(user: Kind, named: Kind) -> bool {
    use Kind::{
        Consumer, ConsumerGroup, Credential, GlobalRule, PluginConfig, Route, Service, StreamRoute, Upstream,
    };
    match user {
        Route => matches!(named, Service | PluginConfig | Upstream),
        StreamRoute => matches!(named, Service | Upstream),
        Service | PluginConfig | ConsumerGroup | GlobalRule => named == Upstream,
        Consumer => matches!(named, ConsumerGroup | Upstream),
        Credential => named == Consumer,
        _ => false,
    }
}

impl Compiler {
    /// The objects that cannot be used, by kind and id.
    pub fn rejected(&self) -> Vec<Rejected> {
        let rejected = |((kind, id), problems): (&Key, &Vec<Problem>)| Rejected {
            kind: *kind,
            id: id.clone(),
            reason: problems.iter().map(|problem| problem.shown.as_str()).collect::<Vec<&str>>().join("; "),
            is_placeless: *kind == Kind::Route && self.routes.is_placeless(id),
        };
        self.problems.iter().map(rejected).collect()
    }

    /// What should be known of objects that are in use, by kind and id.
    pub fn warnings(&self) -> Vec<Rejected> {
        let warning = |kind: Kind, id: &Arc<str>, reason: &String| Rejected {
            kind,
            id: id.clone(),
            reason: reason.clone(),
            is_placeless: false,
        };
        let contested = self.servers.contested().iter().map(|(id, reason)| warning(Kind::Ssl, id, reason));
        let remarks = self
            .remarks
            .iter()
            .flat_map(|((kind, id), reasons)| reasons.iter().map(move |reason| warning(*kind, id, reason)));
        let behind = self.streams.behind().iter().map(|(id, reason)| warning(Kind::StreamRoute, id, reason));
        contested.chain(behind).chain(remarks).collect()
    }

    pub(crate) fn warn_of_contested(&mut self) {
        for id in self.servers.reindex() {
            if let Some(reason) = self.servers.contested().get(&id).filter(|_| !self.trial) {
                let place = self.places.as_ref().map(|of| of(Kind::Ssl, &id, reason)).unwrap_or_default();
                error_log::log(Level::Warn, format_args!("{place}ssls/{id}: {reason}"));
            }
        }
    }

    /// The table of stream routes; a warning for each route that no session reaches since the last one.
    pub(crate) fn stream_table(&mut self) -> Arc<StreamTable> {
        let before = self.streams.behind().clone();
        let table = self.streams.table();
        for (id, reason) in
            self.streams.behind().iter().filter(|(id, reason)| before.get(*id) != Some(*reason))
        {
            let place = self.places.as_ref().map(|of| of(Kind::StreamRoute, id, reason)).unwrap_or_default();
            error_log::log(Level::Warn, format_args!("{place}stream_routes/{id}: {reason}"));
        }
        table
    }

    pub(crate) fn problem(&mut self, key: &Key, reason: String) {
        if self.problems.get(key).is_some_and(|known| known.iter().any(|problem| problem.reason == reason)) {
            return;
        }
        let shown = self.without_secrets(key, &reason);
        let told = self.told.entry(key.clone()).or_default();
        // Of a key of a file, which no object has, the store has said all.
        let is_key = key.0 == Kind::GlobalRule && shown.contains(": unknown key [");
        if !self.trial && !is_key && !told.contains(&reason) {
            let place = self.places.as_ref().map(|of| of(key.0, &key.1, &reason)).unwrap_or_default();
            error_log::log(
                Level::Error,
                format_args!("{place}{}/{} cannot be used: {shown}", key.0.directory(), key.1),
            );
            told.push(reason.clone());
        }
        self.problems.entry(key.clone()).or_default().push(Problem { reason, shown });
    }

    /// The author of an object may see what is in it; the log and the Control API are read by others.
    fn without_secrets(&self, key: &Key, reason: &str) -> String {
        let reason = self.resolved.mask(reason);
        match self.object(key.0, &key.1).filter(|_| !self.trial) {
            Some(object) => mask_message(key.0, &key.1, &object.value(), self.catalog.as_ref(), &reason),
            None => reason,
        }
    }

    /// What an object names has to be there. An upstream that it can do without while a route has its own, a service names in
    /// vain; everything else is incomplete without it.
    pub(crate) fn check_references(&mut self, key: &Key) {
        // An object may be written before what it names: the write gets a warning.
        if self.trial {
            return;
        }
        let missing: Vec<Key> = self
            .references
            .of(key)
            .iter()
            .filter(|(kind, id)| is_needed(key.0, *kind) && self.object(*kind, id).is_none())
            .cloned()
            .collect();
        for (kind, id) in missing {
            let own_upstream = key.0 == Kind::Service && kind == Kind::Upstream && !self.splits_to(key, &id);
            if !own_upstream && key.0 != Kind::Consumer {
                self.incomplete.insert(key.clone());
            }
            self.problem(key, format!("{} {id} does not exist", kind.noun()));
        }
    }

    /// Whether the object's plugins name this upstream.
    fn splits_to(&self, key: &Key, upstream: &str) -> bool {
        let Some(object) = self.object(key.0, &key.1) else { return false };
        object.document.may_have(references::SPLIT)
            && object
                .value()
                .get("plugins")
                .and_then(|plugins| plugins.get(references::SPLIT))
                .is_some_and(|conf| references::split_upstreams(conf).any(|id| id == upstream))
    }

    /// Takes a reason back that is no longer one.
    pub(crate) fn solved(&mut self, key: &Key, reason: &str) {
        if let Some(problems) = self.problems.get_mut(key) {
            problems.retain(|problem| problem.reason != reason);
            if problems.is_empty() {
                self.problems.remove(key);
            }
        }
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
        let note = |found: &str| self.resolved.remember(found.to_owned());
        let mut unresolved = secrets::resolve(value, self.secrets.as_ref(), &note).into_iter();
        match unresolved.next() {
            Some(first) if !self.trial => Err(first.reason),
            first => Ok(first.is_some()),
        }
    }

    /// As [`Compiler::resolve`] for a plugin that refuses no request: as in APISIX a reference that leads nowhere stays as
    /// the text it is; the answer to the write and the log warn of it. Not so in `secret_fields`: a key or password
    /// that is readable in the configuration protects nothing.
    pub(crate) fn resolve_lenient(
        &mut self,
        key: &Key,
        value: &mut Value,
        secret_fields: &[&str],
    ) -> Result<bool, String> {
        let mut waits = false;
        let note = |found: &str| self.resolved.remember(found.to_owned());
        let unresolved = secrets::resolve(value, self.secrets.as_ref(), &note);
        for unresolved in unresolved {
            waits = true;
            if self.trial {
                continue;
            }
            if unresolved.is_in(secret_fields) {
                return Err(unresolved.reason);
            }
            self.stays_unresolved(key, unresolved.reason);
        }
        Ok(waits)
    }

    /// Of a `secrets` object, whose fields may be references to the environment.
    pub(crate) fn check_environment(&mut self, key: &Key) {
        let Some(object) = self.object(key.0, &key.1).filter(|_| !self.trial) else { return };
        for reason in secrets::missing_variables(&mut Value::clone(&object.value())) {
            self.stays_unresolved(key, reason);
        }
    }

    fn stays_unresolved(&mut self, key: &Key, reason: String) {
        self.remark(key, Level::Error, reason);
    }

    /// Some of them, and how many there are.
    pub(crate) fn remark_on_patterns(&mut self, key: &Key, remarks: Vec<String>) {
        const SHOWN: usize = 3;
        let more = remarks.len().saturating_sub(SHOWN);
        let more = (more > 0).then(|| format!("{more} more patterns are as large"));
        for remark in remarks.into_iter().take(SHOWN).chain(more) {
            self.remark(key, Level::Warn, remark);
        }
    }

    /// What the author of an object should know although it is used.
    pub(crate) fn remark(&mut self, key: &Key, level: Level, reason: String) {
        let known = self.remarks.entry(key.clone()).or_default();
        if self.trial || known.contains(&reason) {
            return;
        }
        let place = self.places.as_ref().map(|of| of(key.0, &key.1, &reason)).unwrap_or_default();
        error_log::log(level, format_args!("{place}{}/{}: {reason}", key.0.directory(), key.1));
        known.push(reason);
    }

    /// As [`Compiler::remark`], of what the log has already.
    pub(crate) fn keep_remark(&mut self, key: &Key, reason: String) {
        let known = self.remarks.entry(key.clone()).or_default();
        if !known.contains(&reason) {
            known.push(reason);
        }
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
