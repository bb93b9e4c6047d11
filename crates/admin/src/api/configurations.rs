//! Whole configurations: `POST /configs/validate`, and the checks of standalone mode.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Value, json};
use tidegate_model::{
    Kind, Object, Rejected,
    check::{self, Context, References, check_resource},
    schema::lua,
};
use tidegate_store::State;

use super::{body::too_large, json as body_json};
use crate::{
    admin_api::AdminApi,
    at_length::at_length,
    compiled::proposed,
    message::{Request, RequestBody, Response},
    permission::scope::Rights,
};

/// The collections of a configuration document. `plugins` is a list of names and has nothing to check.
pub(crate) const COLLECTIONS: [(&str, Option<Kind>); 13] = [
    ("routes", Some(Kind::Route)),
    ("services", Some(Kind::Service)),
    ("upstreams", Some(Kind::Upstream)),
    ("consumers", Some(Kind::Consumer)),
    ("ssls", Some(Kind::Ssl)),
    ("protos", Some(Kind::Proto)),
    ("global_rules", Some(Kind::GlobalRule)),
    ("stream_routes", Some(Kind::StreamRoute)),
    ("plugin_metadata", Some(Kind::PluginMetadata)),
    ("plugin_configs", Some(Kind::PluginConfig)),
    ("consumer_groups", Some(Kind::ConsumerGroup)),
    ("secrets", Some(Kind::Secret)),
    ("plugins", None),
];

/// Faults that an answer names; a configuration may have as many as objects.
pub(crate) const MOST_FAULTS: usize = 100;

/// What is wrong with a configuration: the first faults, and how many more there are.
#[derive(Default)]
pub(super) struct Faults {
    named: Vec<Fault>,
    more: usize,
}

/// One thing wrong with a configuration.
pub(super) struct Fault {
    collection: &'static str,
    /// Position (from 0) and id of the item; absent when the collection as such is wrong.
    item: Option<(usize, Value)>,
    error: String,
    /// The wording when only the first fault is reported.
    short: String,
}

impl AdminApi {
    pub(super) fn validate_configuration(&self, request: &Request) -> Response {
        let document = match read_document(request, Some(super::body::BODY_LIMIT)) {
            Ok(document) => document,
            Err(refused) => return refused,
        };
        match self.faults(&document, &document).or_else(|| self.try_out(&document)) {
            None => Response::json(200, &json!({})),
            Some(faults) => faults.refuse("Configuration validation failed"),
        }
    }

    /// The first fault of every object. `outcome` is the configuration that the document leads to.
    pub(super) fn faults(&self, document: &Value, outcome: &Value) -> Option<Faults> {
        let mut faults = Faults::default();
        let outcome: Vec<(Kind, String, Value)> =
            items(outcome).filter_map(|(_, kind, index, item)| stored(kind?, index, item)).collect();
        let references = ObjectsAfter(&outcome);
        let mut clashes: HashMap<(Kind, String), Vec<String>> = HashMap::new();
        for (kind, id, error) in check::clashes(references.objects()) {
            clashes.entry((kind, id)).or_default().push(error);
        }
        self.with_references(&references, true, |context| {
            for (collection, kind) in COLLECTIONS {
                check_version(document, collection, &mut faults);
                check_list(document, collection, &mut faults);
                let items = document.get(collection).and_then(Value::as_array);
                let mut ids = HashSet::new();
                for (index, item) in items.into_iter().flatten().enumerate() {
                    let checked = match kind {
                        // As `PUT /stream_routes`: nothing would listen for them.
                        Some(Kind::StreamRoute) if !self.settings.stream => {
                            Err("stream mode is disabled, can not add stream routes".to_owned())
                        }
                        Some(kind) => check_item(context, kind, item),
                        None => Ok(()),
                    };
                    let duplicate = check_duplicate(collection, item, &mut ids);
                    let stored = kind.and_then(|kind| stored(kind, index, item));
                    let clash = stored.and_then(|(kind, id, _)| clashes.remove(&(kind, id)));
                    for error in checked.err().into_iter().chain(duplicate).chain(clash.into_iter().flatten())
                    {
                        let id = item.get("id").or_else(|| item.get("username")).cloned();
                        let item = Some((index, id.unwrap_or_else(|| json!(""))));
                        faults.push(Fault { collection, item, short: error.clone(), error });
                    }
                }
            }
        });
        (!faults.named.is_empty()).then_some(faults)
    }
}

impl Faults {
    fn push(&mut self, fault: Fault) {
        if self.named.len() < MOST_FAULTS {
            self.named.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// The message begins with the first fault, the only one that APISIX reports.
    pub(super) fn message(&self) -> String {
        let first = self.named.first().map(|fault| fault.short.as_str()).unwrap_or_default();
        match self.named.len() + self.more {
            0 | 1 => first.to_owned(),
            count => format!("{first} (and {} more, see errors)", count - 1),
        }
    }

    pub(super) fn refuse(&self, message: &str) -> Response {
        let errors: Vec<Value> = self.named.iter().map(Fault::to_json).collect();
        let mut body = json!({"error_msg": message, "errors": errors});
        if self.more > 0
            && let Some(fields) = body.as_object_mut()
        {
            fields.insert("more".to_owned(), json!(self.more));
        }
        Response::json(400, &body)
    }
}

impl AdminApi {
    /// What could not be used of a configuration that is everything there is.
    pub(super) fn try_out(&self, document: &Value) -> Option<Faults> {
        let mut places = BTreeMap::new();
        let mut state = State::default();
        for (collection, kind, index, item) in items(document) {
            let Some((kind, id, value)) = kind.and_then(|kind| stored(kind, index, item)) else { continue };
            state.put(proposed(kind, &id, &value));
            places.insert((kind, Arc::<str>::from(id)), (collection, index, item));
        }
        let changed: Vec<Object> = state.all().cloned().collect();
        let rejected = at_length(|| self.compiled.try_out(&changed, &State::default(), &state));
        let mut faults = Faults::default();
        let fault = |rejected: Rejected| {
            let (collection, index, item) = places.get(&(rejected.kind, rejected.id.clone()))?;
            let id = item.get("id").or_else(|| item.get("username")).cloned();
            let error = format!("cannot be used: {}", rejected.reason);
            let short = format!("{}/{} {error}", rejected.kind.directory(), rejected.id);
            Some(Fault { collection, item: Some((*index, id.unwrap_or_else(|| json!("")))), error, short })
        };
        rejected.into_iter().filter_map(fault).for_each(|fault| faults.push(fault));
        (!faults.named.is_empty()).then_some(faults)
    }
}

impl AdminApi {
    /// The parts of objects of a configuration that have no effect, each with its object.
    pub(super) fn in_vain(&self, document: &Value) -> Vec<String> {
        let mut all = State::default();
        for (_, kind, index, item) in items(document) {
            let known = kind.and_then(|kind| stored(kind, index, item));
            known.into_iter().for_each(|(kind, id, value)| drop(all.put(proposed(kind, &id, &value))));
        }
        all.all()
            .flat_map(|object| {
                let place = crate::resource::answers::place(self, &Rights::of_admin(), object).into_iter();
                let said = place.chain(crate::resource::answers::in_vain(self, object, &all));
                said.map(|text| format!("{}/{}: {text}", object.kind.directory(), object.id))
            })
            .collect()
    }
}

/// Collection, kind, position and value of every item.
fn items(document: &Value) -> impl Iterator<Item = (&'static str, Option<Kind>, usize, &Value)> {
    COLLECTIONS.into_iter().flat_map(move |(collection, kind)| {
        let items = document.get(collection).and_then(Value::as_array).into_iter().flatten();
        items.enumerate().map(move |(index, item)| (collection, kind, index, item))
    })
}

/// The other objects in their state afterwards. What must not be twice is looked for in one pass instead.
struct ObjectsAfter<'a>(&'a [(Kind, String, Value)]);

impl ObjectsAfter<'_> {
    fn objects(&self) -> impl Iterator<Item = (Kind, &str, &Value)> + Clone {
        self.0.iter().map(|(kind, id, value)| (*kind, id.as_str(), value))
    }
}

impl References for ObjectsAfter<'_> {
    fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>> {
        let mut objects = self.objects();
        objects.find(|object| (object.0, object.1) == (kind, id)).map(|(_, _, value)| Arc::new(value.clone()))
    }

    fn each(&self, _: Kind, _: &mut dyn FnMut(&str, &Value)) {}
}

/// As the store names and keeps an item.
fn stored(kind: Kind, index: usize, item: &Value) -> Option<(Kind, String, Value)> {
    let mut fields = item.as_object()?.clone();
    fields.remove("modifiedIndex");
    let given = fields.get("id").filter(|id| !id.is_null()).or_else(|| fields.get("username"));
    let id = given.map_or_else(|| format!("arr_{}", index + 1), lua::text);
    let kind = if kind == Kind::Consumer && id.contains("/credentials/") { Kind::Credential } else { kind };
    fields.insert("id".to_owned(), json!(id));
    Some((kind, id, Value::Object(fields)))
}

impl Fault {
    fn to_json(&self) -> Value {
        match &self.item {
            Some((index, id)) => json!({
                "resource_type": self.collection, "resource_id": id, "index": index, "error": self.error,
            }),
            None => json!({"resource_type": self.collection, "error": self.error}),
        }
    }
}

/// An empty object is an empty list to Lua, and `null` is nothing; here both are taken for a mistake, since what is not in
/// the body is deleted.
fn check_list(document: &Value, collection: &'static str, faults: &mut Faults) {
    let Some(found) = document.get(collection) else { return };
    if !found.is_array() {
        let error = format!("invalid data of [{collection}], it should be a list");
        faults.push(Fault { collection, item: None, short: error.clone(), error });
    }
}

fn check_version(document: &Value, collection: &'static str, faults: &mut Faults) {
    let field = format!("{collection}_conf_version");
    let Some(version) = document.get(&field).filter(|version| !version.is_number()) else { return };
    let short = format!("{field} must be a number");
    let error = format!("{short}, got {}", lua::type_name(version));
    faults.push(Fault { collection, item: None, error, short });
}

fn check_item(context: &Context<'_>, kind: Kind, item: &Value) -> Result<(), String> {
    let mut item = item.clone();
    // Items of API-driven configurations may carry the revision that their author gave them.
    if let Some(fields) = item.as_object_mut()
        && fields.get("modifiedIndex").is_some_and(Value::is_number)
    {
        fields.remove("modifiedIndex");
    }
    let id = item.get("id").map(lua::text);
    match (kind, id.as_deref()) {
        (Kind::Consumer, Some(path)) if path.contains("/credentials/") => {
            check_resource(context, Kind::Credential, Some(path), None, &mut item)
        }
        (Kind::Secret, id) if !id.is_some_and(|id| id.contains('/')) => {
            Err(format!("invalid secret id: {}", id.unwrap_or("nil")))
        }
        (_, id) => check_resource(context, kind, id, None, &mut item),
    }
}

fn check_duplicate(collection: &str, item: &Value, ids: &mut HashSet<String>) -> Option<String> {
    let id = item.get("id");
    let consumers = collection == "consumers";
    let identifier = lua::text(id.or_else(|| item.get("username").filter(|_| consumers))?);
    if ids.insert(identifier.clone()) {
        return None;
    }
    let noun = match (consumers, id) {
        (true, Some(_)) => "credential id",
        (true, None) => "username",
        (false, _) => "id",
    };
    Some(format!("found duplicate {noun} {identifier} in {collection}"))
}

/// The configuration in a request's body, JSON or YAML.
pub(super) fn read_document(request: &Request, limit: Option<u64>) -> Result<Value, Response> {
    let refuse = |why: &str| Err(Response::error(400, &format!("invalid request body: {why}")));
    let bytes = match &request.body {
        RequestBody::TooLarge(size) => return Err(too_large(*size)),
        RequestBody::Bytes(bytes) => bytes,
    };
    if limit.is_some_and(|limit| bytes.len() as u64 > limit) {
        return Err(too_large(bytes.len() as u64));
    }
    if bytes.is_empty() {
        return refuse("empty request body");
    }
    let document = if request.header("content-type").is_some_and(|kind| kind.starts_with("application/yaml"))
    {
        let text = String::from_utf8_lossy(bytes);
        match tidegate_config::yaml::to_value(&text) {
            Ok(mut document) if document.is_object() => {
                lua::whole_numbers(&mut document);
                document
            }
            _ => return refuse("invalid yaml request body"),
        }
    } else {
        body_json::parse(bytes).or_else(|error| refuse(&error))?
    };
    // A body of unknown keys alone would delete everything, too.
    let Some(keys) = document.as_object() else { return refuse(NO_CONFIGURATION) };
    let known = |key: &String| {
        let name = key.strip_suffix("_conf_version").unwrap_or(key);
        COLLECTIONS.iter().any(|(known, _)| *known == name)
    };
    if !keys.is_empty() && !keys.keys().any(known) {
        return refuse(NO_CONFIGURATION);
    }
    Ok(document)
}

const NO_CONFIGURATION: &str =
    "expected an object with lists such as routes and upstreams; {} is the empty configuration";
