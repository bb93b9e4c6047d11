//! From a whole document (`routes: [...]`, `upstreams: [...]`) to objects, and from there to what changed.
//!
//! A document is what apisix.yaml, apisix.json and `PUT /apisix/admin/configs` hold: one list per kind.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::{Map, Value};
use tidegate_model::{
    Document, Kind, Object,
    check::{NO_ID, clashes, is_id},
    schema::lua,
    strays,
};

use crate::{Change, State};

/// Checks one object; the error is the bare message. Runs on whichever thread loads the document.
pub type Check = Box<dyn Fn(Kind, &str, &Value) -> Result<(), String> + Send + Sync>;
/// Takes messages about what cannot be used, ready to log.
pub type Report = Box<dyn Fn(&str) + Send + Sync>;

/// Where something stands in the file, as the prefix of a message: `FILE:LINE:COLUMN: `.
pub(crate) trait Places {
    fn key(&self, key: &str) -> String;
    /// An item of a list by its position from 0, or the part of it that the message of its check is about.
    fn item(&self, list: &str, index: usize, message: &str) -> String;
}

/// For documents that do not come from a file.
pub(crate) struct Nowhere;

impl Places for Nowhere {
    fn key(&self, _: &str) -> String {
        String::new()
    }

    fn item(&self, _: &str, _: usize, _: &str) -> String {
        String::new()
    }
}

/// The lists a document may have. Credentials ride among the consumers.
pub const COLLECTIONS: [(&str, Kind); 12] = [
    ("secrets", Kind::Secret),
    ("protos", Kind::Proto),
    ("ssls", Kind::Ssl),
    ("upstreams", Kind::Upstream),
    ("services", Kind::Service),
    ("plugin_configs", Kind::PluginConfig),
    ("consumer_groups", Kind::ConsumerGroup),
    ("consumers", Kind::Consumer),
    ("global_rules", Kind::GlobalRule),
    ("plugin_metadata", Kind::PluginMetadata),
    ("routes", Kind::Route),
    ("stream_routes", Kind::StreamRoute),
];

/// The plugins a document switches on, in place of config.yaml's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginList {
    pub http: Vec<String>,
    pub stream: Vec<String>,
}

/// The objects of a document, by kind and id.
pub(crate) type Objects = BTreeMap<(Kind, Arc<str>), Item>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub value: Value,
    /// The writer's own version of the object, when it gives one.
    pub declared: Option<u64>,
    /// Why it cannot be used. It counts nevertheless: a guard that is left out opens what it guarded.
    pub fault: Option<Arc<str>>,
}

/// Two items of a list that are the same object. It is ambiguous which one is meant.
pub(crate) struct Twice {
    pub list: &'static str,
    /// Positions from 0.
    pub first: usize,
    pub second: usize,
    pub id: String,
}

/// The first two items of a list that have the same id, `1` and `"1"` included.
pub(crate) fn same_twice(document: &Value) -> Option<Twice> {
    COLLECTIONS.into_iter().find_map(|(list, _)| {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let items = document.get(list)?.as_array()?.iter().enumerate();
        let mut ids = items.filter_map(|(at, item)| Some((at, item_id(item.as_object()?, at + 1))));
        ids.find_map(|(second, id)| {
            let first = seen.insert(id.clone(), second)?;
            Some(Twice { list, first, second, id })
        })
    })
}

/// Why a document cannot be used whole: one of its lists is something else. `null` and `{}` are as well: what a list no longer has is
/// deleted, and of a key whose items are commented out it is not known whether that was meant. The first, and what to write.
pub(crate) fn not_a_list(document: &Value) -> Option<(&'static str, String)> {
    let is_other = |name: &&str| document.get(*name).is_some_and(|found| !found.is_array());
    let name = COLLECTIONS.into_iter().map(|(name, _)| name).find(is_other)?;
    Some((name, format!("invalid data of [{name}], it {}", strays::not_a_list(name))))
}

/// Keys that are in no use, each with its place and the list that may have been meant.
pub(crate) fn ignored(document: &Value, places: &dyn Places) -> Vec<String> {
    let keys = document.as_object().into_iter().flatten();
    let unused = keys.filter(|(key, value)| {
        strays::fault(key, value).is_none() && !strays::is_list(key) && !strays::is_for_anchors(key)
    });
    let text = |(key, _): (&String, _)| {
        let hint = Some(strays::hint(key)).filter(|hint| !hint.is_empty());
        format!("{}unknown key [{key}] is ignored{}", places.key(key), hint.as_deref().unwrap_or(UNKNOWN))
    };
    unused.map(text).collect()
}

/// The list and the position from 0 of an object.
pub(crate) fn position(document: &Value, kind: Kind, id: &str) -> Option<(&'static str, usize)> {
    let listed = if kind == Kind::Credential { Kind::Consumer } else { kind };
    let (list, _) = COLLECTIONS.into_iter().find(|(_, of_list)| *of_list == listed)?;
    let mut items = document.get(list)?.as_array()?.iter().enumerate();
    let is_it =
        |(at, item): &(usize, &Value)| item.as_object().is_some_and(|item| item_id(item, at + 1) == id);
    items.find(is_it).map(|(at, _)| (list, at))
}

/// The start of what is reported of an item that carries its fault, after its place: the compiler names the object.
pub const FAULTS_OF_ITEMS: [&str; 2] = ["failed to check item data of ", "invalid item data of "];

/// What follows from a guard that may be in the wrong place.
const CLOSED: &str = "Until then every request is denied";

/// What is said of a key that no list resembles.
const UNKNOWN: &str = "; expected routes, upstreams, services and so on, or x-... for anchors of YAML";

/// Takes a document apart. A bad object is reported, and carries its fault.
pub(crate) fn read(document: &Value, places: &dyn Places, check: &Check, report: &Report) -> Objects {
    let mut objects = Objects::new();
    for (name, kind) in COLLECTIONS {
        match document.get(name) {
            None => {}
            Some(Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    let Read { object, fault } = read_item(name, kind, index + 1, item, check);
                    objects.extend(object);
                    if let Some(message) = fault {
                        report(&format!("{}{message}", places.item(name, index, &message)));
                    }
                    let torn = item.as_object().and_then(|item| strays::torn(name, kind, index + 1, item));
                    if let Some(message) = torn {
                        let fault = format!("{}{message}. {CLOSED}", places.item(name, index, &message));
                        report(&fault);
                        let id = format!("{name}/{}", index + 1);
                        objects.insert((Kind::GlobalRule, id.into()), unreadable(&fault));
                    }
                }
            }
            Some(_) => {
                let fault =
                    format!("{}invalid data of [{name}], it {}", places.key(name), strays::not_a_list(name));
                report(&fault);
                // It may hold guards, and is not left out.
                objects.insert((kind, name.into()), unreadable(&fault));
            }
        }
    }
    report_rules(document, &objects, places, report);
    if let Some(map) = document.as_object() {
        for (key, value) in map {
            if let Some(fault) = strays::fault(key, value) {
                // Guards that are called `global_rule`, or slipped out of their route, must not be left out.
                let stop = if fault.ends_with('?') { "" } else { "." };
                let fault = format!("{}{fault}{stop} {CLOSED}", places.key(key));
                report(&fault);
                objects.insert((Kind::GlobalRule, key.as_str().into()), unreadable(&fault));
            }
        }
    }
    ignored(document, places).iter().for_each(|text| report(text));
    objects
}

/// The `plugins` list of a document: names, or `{name, stream}`. A key without a value is an empty list,
/// a list with a bad item is not a list.
pub(crate) fn plugins(document: &Value, places: &dyn Places, report: &Report) -> Option<PluginList> {
    let items = match document.get("plugins")? {
        Value::Null => return Some(PluginList::default()),
        Value::Array(items) => items,
        other => {
            report(&format!("{}[plugins] is ignored, {other} is not a list", places.key("plugins")));
            return None;
        }
    };
    let mut list = PluginList::default();
    for item in items {
        let name = item.as_str().or_else(|| item.get("name")?.as_str());
        let stream = item.get("stream").map_or(Some(false), Value::as_bool);
        match (name, stream) {
            (Some(name), Some(true)) => list.stream.push(name.to_owned()),
            (Some(name), Some(false)) => list.http.push(name.to_owned()),
            _ => {
                report(&format!(
                    "{}[plugins] is ignored, invalid item {item}: give a name, and true or false for stream",
                    places.key("plugins")
                ));
                return None;
            }
        }
    }
    Some(list)
}

/// Two global rules with the same plugin. Both run, so nothing is open; the Admin API would take one of them only.
fn report_rules(document: &Value, objects: &Objects, places: &dyn Places, report: &Report) {
    let rules = objects.iter().filter(|((kind, _), _)| *kind == Kind::GlobalRule);
    for (_, id, message) in clashes(rules.map(|((kind, id), item)| (*kind, &**id, &item.value))) {
        let list = document.get("global_rules").and_then(Value::as_array).into_iter().flatten();
        let mut ids = list.enumerate().map(|(at, item)| Some(item_id(item.as_object()?, at + 1)));
        let index = ids.position(|other| other.as_deref() == Some(id.as_str())).unwrap_or_default();
        report(&format!("{}{message}; both run", places.item("global_rules", index, "")));
    }
}

fn read_item(name: &str, kind: Kind, number: usize, item: &Value, check: &Check) -> Read {
    let Value::Object(map) = item else {
        // Not with the value: it may be a secret in the wrong place.
        let fault = format!(
            "invalid item data of [{name}/{number}], it should be an object, not a {}",
            lua::type_name(item)
        );
        // It may be a guard, and is not left out: its place is refused as far as that is known, and it is listed.
        let key = (kind, Arc::from(format!("arr_{number}")));
        return Read { object: Some((key, unreadable(&fault))), fault: Some(fault) };
    };
    let mut map = map.clone();
    let declared = map.shift_remove("modifiedIndex").and_then(|index| index.as_u64());
    let id = item_id(&map, number);
    let kind = match kind {
        Kind::Consumer if id.contains("/credentials/") => Kind::Credential,
        kind => kind,
    };
    empty_plugins(&mut map);
    map.insert("id".to_owned(), Value::String(id.clone()));
    let value = Value::Object(map);
    let fault = match given_id(item) {
        Some(given) if !is_id(given) => Some(NO_ID.to_owned()),
        _ => check(kind, &id, &value).err(),
    };
    let item = Item { value, declared, fault: fault.as_deref().map(Arc::from) };
    // Not with the object itself: it may hold secrets, and is found by its place or its id.
    let fault = fault.map(|message| format!("failed to check item data of [{name}] err:{message} ,id: {id}"));
    Read { object: Some(((kind, id.into()), item)), fault }
}

/// What became of one item.
struct Read {
    object: Option<((Kind, Arc<str>), Item)>,
    /// What to report.
    fault: Option<String>,
}

fn unreadable(fault: &str) -> Item {
    Item { value: Value::Object(Map::new()), declared: None, fault: Some(fault.into()) }
}

fn given_id(item: &Value) -> Option<&Value> {
    item.get("id").filter(|id| !id.is_null())
}

fn item_id(map: &Map<String, Value>, number: usize) -> String {
    let given = map.get("id").filter(|id| !id.is_null()).or_else(|| map.get("username"));
    match given {
        Some(Value::String(id)) => id.clone(),
        Some(id @ Value::Number(_)) => lua::text(id),
        _ => format!("arr_{number}"),
    }
}

/// `key-auth:` with nothing behind it is how YAML users write an empty configuration.
fn empty_plugins(map: &mut Map<String, Value>) {
    if let Some(Value::Object(plugins)) = map.get_mut("plugins") {
        for conf in plugins.values_mut().filter(|conf| conf.is_null()) {
            *conf = Value::Object(Map::new());
        }
    }
}

/// What has to change for `state` to hold exactly `objects`. Objects whose value is the same keep their revisions,
/// so that counters and health states bound to them live on.
pub(crate) fn changes(
    state: &State,
    objects: Objects,
    revision: u64,
    declared: &HashMap<(Kind, Arc<str>), u64>,
) -> Vec<(u64, Change)> {
    let mut changes = Vec::new();
    for object in state.all() {
        if !objects.contains_key(&(object.kind, object.id.clone())) {
            changes.push((revision, Change { kind: object.kind, id: object.id.clone(), object: None }));
        }
    }
    for ((kind, id), item) in objects {
        let current = state.get(kind, &id);
        let same_version =
            item.declared.is_some() && declared.get(&(kind, id.clone())).copied() == item.declared;
        let document = Document::new(&item.value);
        let same = |object: &Object| {
            object.fault.as_ref().map(|fault| &fault.reason) == item.fault.as_ref()
                && (same_version || object.document == document)
        };
        if current.is_some_and(same) {
            continue;
        }
        let created = current.map_or(revision, |object| object.created);
        let fault = item.fault.as_deref().map(Box::<tidegate_model::Fault>::from);
        let object =
            Object { kind, id: id.clone(), document, created, modified: revision, fault, unread: None };
        changes.push((revision, Change { kind, id, object: Some(object) }));
    }
    changes
}

/// The versions that objects declare themselves.
pub(crate) fn declared(objects: &Objects) -> HashMap<(Kind, Arc<str>), u64> {
    objects.iter().filter_map(|(key, item)| Some((key.clone(), item.declared?))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    fn read_all(document: &Value) -> (Objects, Vec<String>) {
        let messages = Arc::new(Mutex::new(Vec::new()));
        let sink = messages.clone();
        let report: Report = Box::new(move |message| sink.lock().unwrap().push(message.to_owned()));
        let check: Check = Box::new(|_, _, value| match value.get("bad") {
            Some(_) => Err("it is bad".to_owned()),
            None => Ok(()),
        });
        let objects = read(document, &Nowhere, &check, &report);
        (objects, std::mem::take(&mut *messages.lock().unwrap()))
    }

    fn check_ids(document: Value, expected: &[(Kind, &str)], complaints: &[&str]) {
        let (objects, messages) = read_all(&document);
        let ids: Vec<(Kind, &str)> = objects.keys().map(|(kind, id)| (*kind, id.as_ref())).collect();
        assert_eq!(ids, expected, "{document}");
        assert_eq!(messages.len(), complaints.len(), "{messages:?}");
        for (message, part) in messages.iter().zip(complaints) {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }

    #[test]
    fn ids() {
        use Kind::*;
        check_ids(json!({}), &[], &[]);
        check_ids(Value::Null, &[], &[]);
        check_ids(
            json!({"routes": [{"uri": "/a"}, {"id": 7}, {"id": "x"}], "routes_conf_version": 3}),
            &[(Route, "7"), (Route, "arr_1"), (Route, "x")],
            &[],
        );
        check_ids(
            json!({"consumers": [{"username": "jack"}, {"id": "jack/credentials/1"}]}),
            &[(Consumer, "jack"), (Credential, "jack/credentials/1")],
            &[],
        );
        check_ids(
            json!({"secrets": [{"id": "vault/1"}], "plugin_metadata": [{"id": "http-logger"}]}),
            &[(Secret, "vault/1"), (PluginMetadata, "http-logger")],
            &[],
        );
    }

    #[test]
    fn bad_items_are_named_and_carry_their_fault() {
        let document =
            json!({"routes": [{"id": 1, "bad": true}, 5, {"id": 2}], "upstreams": {}, "rotes": []});
        let (objects, _) = read_all(&document);
        let fault = |id: &str| objects[&(Kind::Route, id.into())].fault.as_deref();
        assert_eq!((fault("1"), fault("2")), (Some("it is bad"), None));
        check_ids(
            document,
            &[(Kind::Upstream, "upstreams"), (Kind::Route, "1"), (Kind::Route, "2"), (Kind::Route, "arr_2")],
            &[
                "invalid data of [upstreams]",
                "failed to check item data of [routes] err:it is bad",
                "[routes/2]",
                "[rotes]",
            ],
        );
    }

    #[test]
    fn global_rules_are_never_left_out() {
        for rules in [json!({"id": 1}), json!({}), Value::Null, json!("x")] {
            check_ids(
                json!({ "global_rules": rules }),
                &[(Kind::GlobalRule, "global_rules")],
                &["it should be a list; write global_rules: [] for none"],
            );
        }
        check_ids(
            json!({"global_rules": ["x"]}),
            &[(Kind::GlobalRule, "arr_1")],
            &["it should be an object"],
        );
    }

    #[test]
    fn values() {
        let (objects, _) =
            read_all(&json!({"routes": [{"plugins": {"key-auth": null}, "modifiedIndex": 9}]}));
        let item = &objects[&(Kind::Route, "arr_1".into())];
        assert_eq!(item.value, json!({"plugins": {"key-auth": {}}, "id": "arr_1"}));
        assert_eq!(item.declared, Some(9));
    }

    #[test]
    fn plugin_lists() {
        let quiet: Report = Box::new(|_| {});
        assert_eq!(plugins(&json!({}), &Nowhere, &quiet), None);
        assert_eq!(plugins(&json!({"plugins": null}), &Nowhere, &quiet), Some(PluginList::default()));
        assert_eq!(plugins(&json!({"plugins": [{"name": "cors", "stream": "yes"}]}), &Nowhere, &quiet), None);
        let document = json!({"plugins": [{"name": "cors"}, "gzip", {"name": "mqtt-proxy", "stream": true}]});
        let expected = PluginList {
            http: vec!["cors".to_owned(), "gzip".to_owned()],
            stream: vec!["mqtt-proxy".to_owned()],
        };
        assert_eq!(plugins(&document, &Nowhere, &quiet), Some(expected));
    }
}
