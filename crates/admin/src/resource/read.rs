//! `GET` of one object or of a collection, with filters and pages.

use regex::Regex;
use serde_json::{Value, json};
use tidegate_model::{Kind, Object};

use super::{answers::not_found, envelope, target::Target};
use crate::{
    AdminApi, ApiVersion,
    message::{Request, Response, arguments},
};

pub(super) fn get(api: &AdminApi, request: &Request, target: &Target) -> Response {
    let reader = envelope::Reader::of(api, request);
    if let Some(id) = &target.id {
        return match api.store.get(target.kind, &target.store_id(id)) {
            Some(object) => Response::json(200, &envelope::one(&reader, &object)),
            None => not_found(),
        };
    }
    let objects = collect(api, target);
    // Nested collections have no directory entry that could be found empty.
    let nested = matches!(target.kind, Kind::Credential | Kind::GraphqlCostDecoration);
    if nested && objects.is_empty() {
        return not_found();
    }
    if api.settings.version == ApiVersion::V2 {
        let nodes: Vec<Value> = objects.iter().map(|object| envelope::entry(&reader, object)).collect();
        let key = format!("{}/{}", api.settings.key_prefix, target.kind.directory());
        let node = json!({"dir": true, "key": key, "nodes": nodes});
        return Response::json(200, &json!({"action": "get", "node": node}));
    }
    list(&reader, request, target, objects)
}

fn collect(api: &AdminApi, target: &Target) -> Vec<Object> {
    let prefix = match target.kind {
        Kind::Credential | Kind::GraphqlCostDecoration => target.store_id(""),
        _ => String::new(),
    };
    let mut objects = Vec::new();
    api.store.read(&mut |state| {
        objects = state.list(target.kind).filter(|object| object.id.starts_with(&prefix)).cloned().collect();
    });
    objects
}

fn list(
    reader: &envelope::Reader<'_>,
    request: &Request,
    target: &Target,
    mut objects: Vec<Object>,
) -> Response {
    let filter = Filter::read(request, target.kind);
    objects.retain(|object| filter.matches(&object.value()));
    let total = objects.len();
    let number = |name: &str| request.argument(name).and_then(|value| value.trim().parse::<f64>().ok());
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
    name: Option<Option<Regex>>,
    uri: Option<Option<Regex>>,
    label: Option<String>,
    fields: Vec<(String, String)>,
}

impl Filter {
    /// A pattern that does not compile matches nothing; fields that cannot be filtered by are ignored.
    fn read(request: &Request, kind: Kind) -> Filter {
        let pattern = |name: &str| request.argument(name).map(|pattern| Regex::new(&pattern).ok());
        let fields = request.argument("filter").map(|filter| arguments(&filter)).unwrap_or_default();
        let known = matches!(kind, Kind::Route | Kind::StreamRoute);
        let usable =
            |(name, _): &(String, String)| known && matches!(name.as_str(), "service_id" | "upstream_id");
        Filter {
            name: pattern("name"),
            uri: pattern("uri"),
            label: request.argument("label"),
            fields: fields.into_iter().filter(usable).collect(),
        }
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
