//! The changes played on a copy of the configuration, then checked where they led.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tidegate_model::{Document, Kind, Object, Rejected, check::References, remedy::with_remedy};
use tidegate_store::{Operation, State, Stored};

use super::{
    super::{delete, patch, write},
    change::{Change, Fault},
    diff,
};
use crate::{
    AdminApi,
    api::configurations::MOST_FAULTS,
    at_length::at_length,
    compiled::named,
    permission::scope::Rights,
    resource::{
        answers::{for_reader, in_vain, place},
        checks::{InScope, permitted, prepare, still_sealed, stored_id, validate},
        target::Target,
    },
};

type Key = (Kind, Arc<str>);

/// An object that changes, from before the first to after the last change that is about it.
struct Touched {
    /// The change to name when the outcome is wrong: the last one.
    index: usize,
    path: String,
    target: Target,
    before: Option<Object>,
    ttl_seconds: Option<u64>,
}

/// The wanted state of an object, whatever its current one.
pub(in super::super) struct Wanted {
    pub kind: Kind,
    pub id: Arc<str>,
    /// `None`: gone.
    pub value: Option<Arc<Value>>,
    pub ttl_seconds: Option<u64>,
    /// Why its secrets cannot be decrypted.
    pub sealed: Option<String>,
}

pub(in super::super) struct Stage {
    state: State,
    touched: BTreeMap<Key, Touched>,
    /// Names of objects that stay although another value was given for them.
    kept: Vec<String>,
    /// Names of objects that stay although they were not given.
    left: Vec<String>,
}

impl Stage {
    /// Plays the changes in their order; references are looked at only when all are done.
    pub(in super::super) fn play(
        api: &AdminApi,
        rights: &Rights,
        state: State,
        changes: &[Change],
    ) -> Result<Stage, Vec<Fault>> {
        let mut stage = Stage { state, touched: BTreeMap::new(), kept: Vec::new(), left: Vec::new() };
        let mut faults = Vec::new();
        for change in changes {
            if let Err(error) = stage.apply(api, rights, change) {
                let target = parse_target(api, change).ok();
                let target =
                    target.as_ref().map(|target| (target.kind, target.id.as_deref().unwrap_or_default()));
                let error = with_remedy(target, change.value.as_ref(), error, api.plugins().as_ref());
                faults.push(Fault { index: change.index, path: change.path.clone(), error });
            }
        }
        if faults.is_empty() {
            faults = stage.check(api, rights);
        }
        if faults.is_empty() { Ok(stage) } else { Err(faults) }
    }

    /// Changes what differs from the wanted state. Values are taken unchanged: they were written before, or checked
    /// like a file's.
    pub(in super::super) fn for_state(
        api: &AdminApi,
        rights: &Rights,
        state: State,
        wanted: Vec<Wanted>,
    ) -> Result<Stage, Vec<Fault>> {
        let mut stage = Stage { state, touched: BTreeMap::new(), kept: Vec::new(), left: Vec::new() };
        let mut faults = Vec::new();
        for (index, Wanted { kind, id, value, ttl_seconds, sealed }) in wanted.into_iter().enumerate() {
            let current = stage.state.get(kind, &id).map(Object::value);
            if current == value {
                continue;
            }
            let path = format!("/{}/{id}", kind.directory());
            if let Some(error) = sealed {
                faults.push(Fault { index, path, error });
                continue;
            }
            let change = Change { index, method: String::new(), path, value: None };
            let target = Target::of(kind, &id);
            stage.touch(&change, target, &id);
            if let Some(touched) = stage.touched.get_mut(&(kind, id.clone())) {
                touched.ttl_seconds = ttl_seconds;
            }
            if let Some(value) = value {
                let document = Document::new(&value);
                stage.state.put(Object {
                    kind,
                    id,
                    document,
                    created: 0,
                    modified: 0,
                    fault: None,
                    unread: None,
                });
            }
        }
        if faults.is_empty() {
            faults = stage.check(api, rights);
        }
        if faults.is_empty() { Ok(stage) } else { Err(faults) }
    }

    fn apply(&mut self, api: &AdminApi, rights: &Rights, change: &Change) -> Result<(), String> {
        let target = parse_target(api, change)?;
        let id = target.id.clone().unwrap_or_default();
        let store_id: Arc<str> = target.store_id(&id).into();
        let before = self.state.get(target.kind, &store_id);
        let readable = before.is_none_or(crate::resource::checks::is_readable);
        let previous = before.map(Object::value);
        let others = |kind: Kind, id: &str| self.state.get(kind, id).map(Object::value);
        let missing = || "Key not found".to_owned();
        // As for a request of its own, nothing is said of what others have.
        let is_shown =
            previous.as_deref().is_none_or(|value| rights.see(target.kind, &store_id, value, &others));
        if !is_shown && change.method != "PUT" {
            return Err(missing());
        }
        rights.change((target.kind, &store_id), previous.as_deref(), None, &others)?;
        match (change.method.as_str(), change.value.clone()) {
            ("PUT", Some(mut value)) => {
                let own = prepare(api, &target, &mut value, true, false)?;
                if stored_id(&target, own, &value) != id && target.kind == Kind::Consumer {
                    return Err("username differs from the one in the path".to_owned());
                }
                if target.kind == Kind::PluginMetadata {
                    crate::resource::checks::set(&mut value, "id", json!(id));
                } else {
                    write::set_times(&mut value, previous.as_deref());
                }
                if target.kind == Kind::Service && previous.is_none() {
                    self.remove_owned(change, Kind::Service, &id);
                }
                self.put(change, target, store_id, value);
            }
            ("PATCH", Some(conf)) => {
                if target.sub_path.is_empty() && !conf.is_object() {
                    return Err("invalid configuration".to_owned());
                }
                let previous = previous.ok_or_else(missing)?;
                if !readable {
                    return Err(crate::resource::checks::UNREADABLE.to_owned());
                }
                let mut value = patch::patched(&target, &previous, conf)?;
                prepare(api, &target, &mut value, true, true)?;
                self.put(change, target, store_id, value);
            }
            _ => {
                previous.ok_or_else(missing)?;
                self.remove_owned(change, target.kind, &id);
                self.touch(change, target, &store_id);
            }
        }
        Ok(())
    }

    fn put(&mut self, change: &Change, target: Target, id: Arc<str>, value: Value) {
        let kind = target.kind;
        self.touch(change, target, &id);
        // The store gives the revisions.
        self.state.put(Object {
            kind,
            id,
            document: value.into(),
            created: 0,
            modified: 0,
            fault: None,
            unread: None,
        });
    }

    /// Takes the object out and remembers what it was.
    fn touch(&mut self, change: &Change, target: Target, id: &Arc<str>) {
        let removed = self.state.remove(target.kind, id);
        let (index, path) = (change.index, change.path.clone());
        match self.touched.get_mut(&(target.kind, id.clone())) {
            Some(touched) => (touched.index, touched.path) = (index, path),
            None => {
                let key = (target.kind, id.clone());
                self.touched.insert(key, Touched { index, path, target, before: removed, ttl_seconds: None });
            }
        }
    }

    fn remove_owned(&mut self, change: &Change, kind: Kind, id: &str) {
        for (kind, owned) in delete::owned_by(&self.state, kind, id) {
            let name = owned.rsplit('/').next().map(str::to_owned);
            let target = Target { kind, owner: Some(id.to_owned()), id: name, sub_path: String::new() };
            self.touch(change, target, &owned);
        }
    }

    /// What is wrong with the outcome.
    fn check(&self, api: &AdminApi, rights: &Rights) -> Vec<Fault> {
        let all = StateReferences(&self.state);
        let references = InScope { all: &all, rights };
        let others = |kind: Kind, id: &str| self.state.get(kind, id).map(Object::value);
        let stored = |kind: Kind, id: &str| api.store.get(kind, id).map(|object| object.value());
        let mut faults = Vec::new();
        for ((kind, id), touched) in &self.touched {
            let name = touched.target.id.as_deref().unwrap_or_default();
            let checked = match self.state.get(*kind, id) {
                Some(object) => api.with_references(&references, false, |context| {
                    let own = match kind {
                        Kind::Secret => id.as_ref(),
                        _ => name,
                    };
                    permitted(api, rights, (*kind, id), touched.before.as_ref(), &object.value(), &others)?;
                    validate(context, &touched.target, Some(own), &object.value())?;
                    still_sealed(api, *kind, id, touched.before.as_ref(), &object.value())?;
                    self.check_owner(&touched.target)
                }),
                None if touched.before.is_none() => Ok(()),
                None => {
                    let before = touched.before.as_ref().map(Object::value);
                    // An owner may go in the same step; the write is refused where the store has moved on.
                    let may = rights.change((*kind, id), before.as_deref(), None, &stored);
                    let user = || {
                        let user = delete::find_user(&self.state, *kind, name);
                        user.or_else(|| delete::held(rights, &self.state, *kind, id))
                    };
                    may.and_then(|()| user().map_or(Ok(()), Err))
                }
            };
            if let Err(error) = checked {
                let value = self.state.get(*kind, id).map(Object::value);
                let error = with_remedy(Some((*kind, id)), value.as_deref(), error, api.plugins().as_ref());
                faults.push(Fault { index: touched.index, path: touched.path.clone(), error });
            }
        }
        if faults.is_empty() {
            faults = self.try_out(api);
        }
        faults.sort_by_key(|fault| fault.index);
        faults
    }

    /// What could not be used, of the objects that change and of what is built from them.
    fn try_out(&self, api: &AdminApi) -> Vec<Fault> {
        let changed: Vec<Object> =
            self.touched.keys().filter_map(|(kind, id)| self.state.get(*kind, id).cloned()).collect();
        let (before, after) = (Stored(api.store.as_ref()), &self.state);
        let rejected = api.compiled.try_out(&changed, &before, after).into_iter();
        rejected
            .map(|rejected| match self.touched.get(&(rejected.kind, rejected.id.clone())) {
                Some(touched) => Fault {
                    index: touched.index,
                    path: touched.path.clone(),
                    error: format!("cannot be used: {}", rejected.reason),
                },
                // Built from a changed one.
                None => Fault {
                    index: 0,
                    path: format!("/{}/{}", rejected.kind.directory(), rejected.id),
                    error: format!("cannot be used after the change: {}", rejected.reason),
                },
            })
            .collect()
    }

    /// The objects of this stage that are stored and cannot be used yet, or of which something else is to be known: what a write
    /// of each would have said, as far as a list of faults goes.
    pub(super) fn warnings(&self, api: &AdminApi, rights: &Rights) -> Vec<String> {
        let (rejected, warnings) = (api.compiled.rejected(), api.compiled.warnings());
        let touched = |rejected: &&Rejected| self.touched.contains_key(&(rejected.kind, rejected.id.clone()));
        let known = rejected.iter().chain(warnings.iter()).filter(touched).map(named);
        let places = || {
            self.objects().flat_map(|object| {
                let said = place(api, rights, object).into_iter();
                said.map(|text| format!("{}/{}: {text}", object.kind.directory(), object.id))
            })
        };
        at_length(|| known.chain(places()).chain(self.idle(api)).take(MOST_FAULTS).collect())
    }

    /// What would have no effect, before it is written.
    pub(super) fn without_effect(&self, api: &AdminApi, rights: &Rights) -> Vec<String> {
        at_length(|| self.places(api, rights).into_iter().chain(self.idle(api)).take(MOST_FAULTS).collect())
    }

    /// What is to be known of the places of routes, before they are written.
    fn places(&self, api: &AdminApi, rights: &Rights) -> Vec<String> {
        let changed: Vec<Object> =
            self.objects().filter(|object| object.kind == Kind::Route).cloned().collect();
        let gone = self
            .touched
            .keys()
            .filter(|(kind, id)| *kind == Kind::Route && self.state.get(*kind, id).is_none());
        let gone: Vec<&str> = gone.map(|(_, id)| &**id).collect();
        let said = api.compiled.places(&changed, &gone, &self.state).into_iter();
        said.map(|(id, remark)| {
            format!("{}/{id}: {}", Kind::Route.directory(), for_reader(api, rights, remark))
        })
        .collect()
    }

    fn objects(&self) -> impl Iterator<Item = &Object> {
        self.touched.keys().filter_map(|(kind, id)| self.state.get(*kind, id))
    }

    fn idle<'a>(&'a self, api: &'a AdminApi) -> impl Iterator<Item = String> + 'a {
        self.objects().flat_map(|object| {
            let said = in_vain(api, object, &self.state).into_iter();
            said.map(|text| format!("{}/{}: {text}", object.kind.directory(), object.id))
        })
    }

    fn check_owner(&self, target: &Target) -> Result<(), String> {
        let owner = target.owner.as_deref().unwrap_or_default();
        if target.kind == Kind::Credential && self.state.get(Kind::Consumer, owner).is_none() {
            return Err("consumer not found".to_owned());
        }
        Ok(())
    }

    /// The names of what stays: changed by hand, and not in the file.
    pub(in super::super) fn keeps(&mut self, kept: Vec<String>, left: Vec<String>) {
        (self.kept, self.left) = (kept, left);
    }

    pub(super) fn left(&self) -> &[String] {
        &self.left
    }

    pub(super) fn kept(&self) -> &[String] {
        &self.kept
    }

    pub(super) fn operations(&self) -> Vec<Operation> {
        let operation = |((kind, id), touched): (&Key, &Touched)| match self.state.get(*kind, id) {
            Some(object) => Some(Operation::Put {
                kind: *kind,
                id: id.clone(),
                value: object.value(),
                expected: None,
                ttl_seconds: touched.ttl_seconds,
            }),
            // Created and deleted again: nothing to write.
            None => touched.before.as_ref().map(|_| Operation::Delete {
                kind: *kind,
                id: id.clone(),
                expected: None,
            }),
        };
        self.touched.iter().filter_map(operation).collect()
    }

    /// What happened to which object.
    pub(super) fn summary(&self) -> Vec<Value> {
        self.entries().map(|(entry, _, _)| entry).collect()
    }

    /// As [`Stage::summary`], with the fields that change; secrets are not shown.
    pub(super) fn differences(&self, api: &AdminApi) -> Vec<Value> {
        let catalog = api.plugins();
        let with_diff = |(mut entry, key, touched): (Value, &Key, &Touched)| {
            let before = touched.before.as_ref().map(tidegate_model::Object::value);
            let after = self.state.get(key.0, &key.1).map(tidegate_model::Object::value);
            let diff = diff::of_object(key, before.as_deref(), after.as_deref(), catalog.as_ref());
            if let Some(fields) = entry.as_object_mut() {
                fields.insert("diff".to_owned(), Value::Array(diff));
            }
            entry
        };
        self.entries().map(with_diff).collect()
    }

    fn entries(&self) -> impl Iterator<Item = (Value, &Key, &Touched)> {
        self.touched.iter().filter_map(|(key, touched)| {
            let action = match (&touched.before, self.state.get(key.0, &key.1)) {
                (None, None) => return None,
                (None, Some(_)) => "create",
                (Some(_), Some(_)) => "update",
                (Some(_), None) => "delete",
            };
            let resource = format!("{}/{}", key.0.directory(), key.1);
            Some((json!({"index": touched.index, "resource": resource, "action": action}), key, touched))
        })
    }
}

fn parse_target(api: &AdminApi, change: &Change) -> Result<Target, String> {
    let path = change.path.strip_prefix("/apisix/admin").unwrap_or(&change.path);
    if path.contains(['?', '#']) {
        return Err("a path in a transaction cannot have a query string".to_owned());
    }
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let name = segments.first().copied().unwrap_or_default();
    let target = Target::parse(&segments).ok_or_else(|| format!("Unsupported resource type: {name}"))?;
    if target.kind == Kind::StreamRoute && !api.settings.stream {
        return Err("stream mode is disabled, can not add stream routes".to_owned());
    }
    if target.kind == Kind::GraphqlCostDecoration {
        return Err(
            "graphql cost decorations cannot be part of a transaction; change them one by one".to_owned()
        );
    }
    if target.refuses(&change.method) {
        return Err(format!("not supported `{}` method for {}", change.method, target.kind.noun()));
    }
    if target.id.as_deref().unwrap_or_default().is_empty() {
        return Err(format!("missing {} id", target.kind.noun()));
    }
    if target.kind == Kind::Credential && target.owner.is_none() {
        return Err("missing consumer name".to_owned());
    }
    if !target.sub_path.is_empty() && change.method != "PATCH" {
        return Err(format!("{} applies to a whole resource; {} is too long", change.method, change.path));
    }
    Ok(target)
}

/// The other resources in their state after all changes.
struct StateReferences<'a>(&'a State);

impl References for StateReferences<'_> {
    fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>> {
        self.0.get(kind, id).map(|object| object.value())
    }

    fn each(&self, kind: Kind, visit: &mut dyn FnMut(&str, &Value)) {
        self.0.list(kind).for_each(|object| visit(&object.id, &object.value()));
    }
}
