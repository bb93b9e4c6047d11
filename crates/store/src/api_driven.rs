//! API-driven standalone mode: the whole configuration comes with `PUT /apisix/admin/configs` and lives in memory.
//!
//! Nothing is written to disk: the client that drives the API (ADC, the ingress controller) sends it again after
//! a start.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tidegate_model::Kind;
use tokio::sync::watch;

use crate::{
    BoxFuture, Changes, State, Store, Write, Written,
    collections::{self, COLLECTIONS, Check, Report},
    error::StoreError,
    live::Live,
};

/// The configuration of the API-driven standalone mode: one document in memory, replaced as a whole.
pub struct ApiDriven {
    live: Live,
    check: Check,
    report: Report,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// A successor has the document: what is sent now would be lost.
    released: bool,
    document: Option<Document>,
    declared: HashMap<(Kind, Arc<str>), u64>,
}

/// The configuration as it was sent, plus the versions of its lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The lists and, for every kind, `NAME_conf_version`.
    pub body: Map<String, Value>,
    /// `X-Digest` of the request.
    pub digest: String,
    /// `X-Last-Modified`: seconds since 1970.
    pub last_modified: u64,
}

/// What became of a document that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// In effect now (202).
    Accepted,
    /// The digest is the current one: nothing was done (204).
    Unchanged,
}

impl ApiDriven {
    /// `check` and `report` are for objects that slip through the Admin API's own validation.
    pub fn new(check: Check, report: Report) -> Self {
        Self { live: Live::new(State::default()), check, report, current: Mutex::default() }
    }

    /// What was sent last; `None` before the first time.
    pub fn document(&self) -> Option<Document> {
        self.current.lock().document.clone()
    }

    /// Whether one has been sent yet. Until then the gateway is not ready.
    pub fn has_document(&self) -> bool {
        self.current.lock().document.is_some()
    }

    /// The document for a successor; nothing is accepted from now on.
    pub fn release(&self) -> Option<Document> {
        let mut current = self.current.lock();
        current.released = true;
        current.document.clone()
    }

    /// Accepts changes again: no successor takes over after all.
    pub fn resume(&self) {
        self.current.lock().released = false;
    }

    /// Applies a whole configuration. A list whose version equals the current one stays unchanged; a missing
    /// version counts as the next. The error is the message of a 400 answer, and nothing has changed then.
    pub fn replace(
        &self,
        body: &Map<String, Value>,
        digest: &str,
        now_seconds: u64,
    ) -> Result<Replaced, String> {
        let mut current = self.current.lock();
        if current.released {
            return Err(StoreError::HandedOver.to_string());
        }
        if current.document.as_ref().is_some_and(|document| document.digest == digest) {
            return Ok(Replaced::Unchanged);
        }
        let old = current.document.as_ref().map(|document| &document.body);
        let body = Value::Object(next_body(old, body)?);
        let objects = collections::read(&body, &collections::Nowhere, &self.check, &self.report);
        let declared = collections::declared(&objects);
        let (revision, changes) = self.live.read(|state| {
            let revision = state.revision + 1;
            (revision, collections::changes(state, objects, revision, &current.declared))
        });
        let Value::Object(body) = body else {
            return Err("the configuration should be an object".to_owned());
        };
        current.declared = declared;
        current.document = Some(Document { body, digest: digest.to_owned(), last_modified: now_seconds });
        // Readers of `document` and of the state see the same: the lock is held until both are in place.
        self.live.publish(revision, changes);
        Ok(Replaced::Accepted)
    }
}

/// The lists with their version keys.
fn version_names() -> impl Iterator<Item = (&'static str, String)> {
    COLLECTIONS.iter().map(|(name, _)| (*name, format!("{name}_conf_version")))
}

fn next_body(
    old: Option<&Map<String, Value>>,
    sent: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let mut next = Map::new();
    for (name, version_name) in version_names() {
        let current = old.and_then(|old| old.get(&version_name)).and_then(Value::as_f64).unwrap_or(0.0);
        let version = match sent.get(&version_name) {
            None | Some(Value::Null) => current + 1.0,
            Some(version) => version.as_f64().ok_or_else(|| format!("{version_name} must be a number"))?,
        };
        if version < current {
            return Err(format!("{version_name} must be greater than or equal to ({current})"));
        }
        let list = if version == current { old.and_then(|old| old.get(name)) } else { sent.get(name) };
        if let Some(list) = list.filter(|list| list.as_array().is_none_or(|items| !items.is_empty())) {
            next.insert(name.to_owned(), list.clone());
        }
        next.insert(version_name, whole(version));
    }
    Ok(next)
}

/// Versions are counted or times; they print without a fraction.
fn whole(version: f64) -> Value {
    let fits = version.fract() == 0.0 && version.abs() < 9_007_199_254_740_992.0;
    if fits { Value::from(version as i64) } else { Value::from(version) }
}

impl Store for ApiDriven {
    fn read(&self, read: &mut dyn FnMut(&State)) {
        self.live.read(|state| read(state));
    }

    fn write(&self, _: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        Box::pin(std::future::ready(Err(StoreError::ReadOnly)))
    }

    fn changes_since(&self, revision: u64) -> Changes {
        self.live.changes_since(revision)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.live.watch()
    }

    fn is_writable(&self) -> bool {
        false
    }

    fn revisions_last(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn store() -> ApiDriven {
        ApiDriven::new(Box::new(|_, _, _| Ok(())), Box::new(|message| panic!("{message}")))
    }

    fn put(store: &ApiDriven, body: Value, digest: &str) -> Result<Replaced, String> {
        store.replace(body.as_object().unwrap(), digest, 1)
    }

    fn revisions(store: &ApiDriven) -> Vec<(String, u64)> {
        store.live.read(|state| state.all().map(|object| (object.id.to_string(), object.modified)).collect())
    }

    fn check(store: &ApiDriven, expected: &[(&str, u64)]) {
        let expected: Vec<(String, u64)> = expected.iter().map(|(id, at)| ((*id).to_owned(), *at)).collect();
        assert_eq!(revisions(store), expected);
    }

    #[test]
    fn only_what_changed_gets_a_new_revision() {
        let store = store();
        assert_eq!(store.document(), None);
        let a = json!({"id": "a", "uri": "/a"});
        put(&store, json!({"routes": [a, {"id": "b", "uri": "/b"}]}), "1").unwrap();
        check(&store, &[("a", 1), ("b", 1)]);
        put(&store, json!({"routes": [a, {"id": "b", "uri": "/new"}]}), "2").unwrap();
        check(&store, &[("a", 1), ("b", 2)]);
        put(&store, json!({"routes": [a]}), "3").unwrap();
        check(&store, &[("a", 1)]);
        assert_eq!(put(&store, json!({}), "3"), Ok(Replaced::Unchanged));
        check(&store, &[("a", 1)]);
        let document = store.document().unwrap();
        assert_eq!((document.digest.as_str(), &document.body["routes_conf_version"]), ("3", &json!(3)));
    }

    #[test]
    fn versions_of_lists() {
        let store = store();
        put(&store, json!({"routes": [{"id": "a"}], "routes_conf_version": 10}), "1").unwrap();
        let refuse = |body, message: &str| assert_eq!(put(&store, body, "x"), Err(message.to_owned()));
        refuse(
            json!({"routes_conf_version": 9}),
            "routes_conf_version must be greater than or equal to (10)",
        );
        refuse(json!({"ssls_conf_version": "1"}), "ssls_conf_version must be a number");
        put(&store, json!({"routes": [{"id": "b"}], "routes_conf_version": 10}), "2").unwrap();
        check(&store, &[("a", 1)]);
        put(&store, json!({"routes": [{"id": "b"}], "routes_conf_version": 11}), "3").unwrap();
        check(&store, &[("b", 3)]);
        assert_eq!(store.document().unwrap().body["routes_conf_version"], json!(11));
    }

    #[test]
    fn objects_with_their_own_version() {
        let store = store();
        let route =
            |uri: &str, index: u64| json!({"routes": [{"id": "a", "uri": uri, "modifiedIndex": index}]});
        put(&store, route("/1", 5), "1").unwrap();
        put(&store, route("/2", 5), "2").unwrap();
        check(&store, &[("a", 1)]);
        put(&store, route("/2", 6), "3").unwrap();
        check(&store, &[("a", 3)]);
    }
}
