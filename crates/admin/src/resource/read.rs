//! `GET` of one object or of a collection, with filters and pages. A collection may have a hundred thousand objects: it is
//! made aside, and readers of the same one share it.

use regex::Regex;
use serde_json::{Value, json};
use tidegate_model::{Kind, Object};
use tidegate_store::Store;

use super::{answers::not_found, envelope, target::Target};
use crate::{
    AdminApi, ApiVersion,
    arguments::warn,
    documents::Holds,
    message::{Request, Response, arguments},
    permission::scope::Rights,
};

pub(super) async fn get(api: &AdminApi, request: &Request, target: Target) -> Response {
    let reader = envelope::Reader::of(api, request);
    let rights = api.rights(request);
    if let Some(id) = &target.id {
        let store_id = target.store_id(id);
        let shown =
            api.store.get(target.kind, &store_id).filter(|_| api.shows(&rights, target.kind, &store_id));
        return match shown {
            Some(object) => Response::json(200, &envelope::one(&reader, &object)),
            None => not_found(),
        };
    }
    // What readers of the same list have in common; no key is in it.
    let mut given = arguments(&request.query);
    given.retain(|(name, _)| ARGUMENTS.contains(&name.as_str()));
    let owner = target.owner.as_deref().unwrap_or_default();
    let scope = rights.scope.as_ref().map(|scope| scope.labels());
    let question = format!("{} {owner:?} {given:?} {} {scope:?}", target.kind.directory(), reader.masked);
    let warnings = in_vain(&given, target.kind, api.settings.version);
    let (masked, store) = (reader.masked, api.store.clone());
    let (settings, plugins) = (api.settings.clone(), api.plugins().clone());
    let make = move || {
        let reader = envelope::Reader { settings: &settings, plugins: plugins.as_ref(), masked };
        lists(store.as_ref(), &reader, &target, &given, &rights)
    };
    let response = api.documents.get(question, Holds::AtRevision(api.stored_revision()), make).await;
    warn(response, &warnings)
}

/// What of the arguments the list does not go by.
fn in_vain(given: &[(String, String)], kind: Kind, version: ApiVersion) -> Vec<String> {
    if version == ApiVersion::V2 {
        let unused = "filters and pages have no effect with admin_api_version v2";
        return if given.is_empty() { Vec::new() } else { vec![unused.to_owned()] };
    }
    let mut found = Vec::new();
    for (name, other) in [("page", "page_size"), ("page_size", "page")] {
        if argument(given, name).is_some() && argument(given, other).is_none() {
            found.push(format!("argument {name} has no effect without {other}"));
        }
    }
    for name in ["name", "uri"] {
        if argument(given, name).is_some_and(|pattern| Regex::new(&pattern).is_err()) {
            found.push(format!("argument {name} matches nothing: it is not a regular expression"));
        }
    }
    if let Some(filter) = argument(given, "filter").filter(|_| is_filtered(kind))
        && !arguments(&filter).iter().all(|(name, _)| is_filter(name))
    {
        found.push(
            "argument filter: it knows service_id=ID and upstream_id=ID; others have no effect".to_owned(),
        );
    }
    found
}

fn is_filtered(kind: Kind) -> bool {
    matches!(kind, Kind::Route | Kind::StreamRoute)
}

fn is_filter(name: &str) -> bool {
    matches!(name, "service_id" | "upstream_id")
}

/// Those that make a list another one.
const ARGUMENTS: [&str; 7] = ["search", "name", "uri", "label", "filter", "page", "page_size"];

fn lists(
    store: &dyn Store,
    reader: &envelope::Reader<'_>,
    target: &Target,
    arguments: &[(String, String)],
    rights: &Rights,
) -> Response {
    let objects = collect(store, target, rights);
    // Nested collections have no directory entry that could be found empty.
    let nested = matches!(target.kind, Kind::Credential | Kind::GraphqlCostDecoration);
    if nested && objects.is_empty() {
        return not_found();
    }
    if reader.settings.version == ApiVersion::V2 {
        let nodes: Vec<Value> = objects.iter().map(|object| envelope::entry(reader, object)).collect();
        let key = format!("{}/{}", reader.settings.key_prefix, target.kind.directory());
        let node = json!({"dir": true, "key": key, "nodes": nodes});
        return Response::json(200, &json!({"action": "get", "node": node}));
    }
    list(reader, arguments, target, objects)
}

fn collect(store: &dyn Store, target: &Target, rights: &Rights) -> Vec<Object> {
    let prefix = match target.kind {
        Kind::Credential | Kind::GraphqlCostDecoration => target.store_id(""),
        _ => String::new(),
    };
    let mut objects = Vec::new();
    store.read(&mut |state| {
        objects = state.list(target.kind).filter(|object| object.id.starts_with(&prefix)).cloned().collect();
    });
    if rights.scope.is_some() {
        let others = |kind: Kind, id: &str| store.get(kind, id).map(|object| object.value());
        objects.retain(|object| rights.see(object.kind, &object.id, &object.value(), &others));
    }
    objects
}

/// The first argument of that name.
fn argument(arguments: &[(String, String)], name: &str) -> Option<String> {
    arguments.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
}

fn list(
    reader: &envelope::Reader<'_>,
    arguments: &[(String, String)],
    target: &Target,
    mut objects: Vec<Object>,
) -> Response {
    // Without a filter no value is looked at: a page of a long list costs the page.
    if let Some(filter) = Filter::read(arguments, target.kind) {
        objects.retain(|object| filter.finds(&object.id, &object.value()));
    }
    let total = objects.len();
    let number = |name: &str| argument(arguments, name).and_then(|value| value.trim().parse::<f64>().ok());
    if let (Some(page), Some(size)) = (number("page"), number("page_size")) {
        if !(10.0..=500.0).contains(&size) {
            return Response::text(400, "page_size must be between 10 and 500");
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both are in range")]
        let (page, size) = (page.clamp(1.0, 1e9) as usize, size as usize);
        objects.sort_by_key(|object| object.created);
        objects = objects.into_iter().skip((page - 1) * size).take(size).collect();
    }
    let list: Vec<Value> = objects.iter().map(|object| envelope::entry(reader, object)).collect();
    Response::json(200, &json!({"list": list, "total": total}))
}

/// What a listed object has to be like.
struct Filter {
    /// In lower case.
    search: Option<String>,
    name: Option<Option<Regex>>,
    uri: Option<Option<Regex>>,
    label: Option<String>,
    fields: Vec<(String, String)>,
}

impl Filter {
    /// A pattern that does not compile matches nothing; fields that cannot be filtered by are ignored. `None`: all match.
    fn read(given: &[(String, String)], kind: Kind) -> Option<Filter> {
        if !given.iter().any(|(name, _)| !matches!(name.as_str(), "page" | "page_size")) {
            return None;
        }
        let pattern = |name: &str| argument(given, name).map(|pattern| Regex::new(&pattern).ok());
        let fields = argument(given, "filter").map(|filter| arguments(&filter)).unwrap_or_default();
        let usable = |(name, _): &(String, String)| is_filtered(kind) && is_filter(name);
        Some(Filter {
            search: argument(given, "search").map(|text| text.to_lowercase()),
            name: pattern("name"),
            uri: pattern("uri"),
            label: argument(given, "label"),
            fields: fields.into_iter().filter(usable).collect(),
        })
    }

    fn finds(&self, id: &str, value: &Value) -> bool {
        let has = |wanted: &str| {
            let name = value.get("name").and_then(Value::as_str);
            [Some(id), name].into_iter().flatten().any(|text| text.to_lowercase().contains(wanted))
        };
        self.search.as_deref().is_none_or(has) && self.matches(value)
    }

    fn matches(&self, value: &Value) -> bool {
        let found = |pattern: &Option<Regex>, text: Option<&Value>| {
            text.and_then(Value::as_str)
                .is_some_and(|text| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text)))
        };
        let name = self.name.as_ref().is_none_or(|pattern| found(pattern, value.get("name")));
        let label = self
            .label
            .as_ref()
            .is_none_or(|label| value.get("labels").is_some_and(|labels| labels.get(label).is_some()));
        let uri = self.uri.as_ref().is_none_or(|pattern| {
            let uris = value.get("uris").and_then(Value::as_array);
            found(pattern, value.get("uri"))
                || uris.is_some_and(|uris| uris.iter().any(|uri| found(pattern, Some(uri))))
        });
        let fields = self.fields.iter().all(|(name, wanted)| {
            value.get(name).and_then(Value::as_str).is_some_and(|value| value == wanted)
        });
        name && label && uri && fields
    }
}
