//! `PATCH`: a merge into the object, or a new value for one place inside of it.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_model::Kind;
use tidegate_store::Operation;

use super::{
    answers::{Failed, not_found},
    checks::{UNREADABLE, check, is_readable, now, set},
    envelope,
    submit::ttl,
    target::Target,
    write,
};
use crate::{
    AdminApi,
    message::{Request, Response},
};

pub(super) async fn patch(
    api: &AdminApi,
    request: &Request,
    target: &Target,
    body: Option<Value>,
) -> Result<Response, Failed> {
    let refuse = |message: &str| Response::error(400, message);
    if target.kind == Kind::GraphqlCostDecoration {
        check_decoration(api, target, body.as_ref())?;
    }
    let Some(id) = &target.id else {
        let secret = target.kind == Kind::Secret;
        let missing = format!("missing {} id", target.kind.noun());
        return Err(refuse(if secret { "no secret id" } else { &missing }).into());
    };
    let conf = body.ok_or_else(|| refuse("missing new configuration"))?;
    if target.sub_path.is_empty() {
        check_whole(&conf).map_err(refuse)?;
    }
    let store_id: Arc<str> = target.store_id(id).into();
    let previous = api.store.get(target.kind, &store_id).ok_or_else(not_found)?;
    if !is_readable(&previous) {
        return Err(refuse(UNREADABLE).into());
    }
    let mut value = patched(target, &previous.value(), conf).map_err(|error| refuse(&error))?;
    check(api, request, target, &mut value, true, true)?;
    let operation = Operation::Put {
        kind: target.kind,
        id: store_id.clone(),
        value: Arc::new(value.clone()),
        expected: Some(previous.modified),
        ttl_seconds: ttl(request),
    };
    let written = super::submit::submit(api, request, vec![operation]).await?;
    let body =
        envelope::written(api, request, "compareAndSwap", (target.kind, &store_id), &value, written.lease);
    Ok(super::answers::warned(
        api,
        request,
        super::answers::written(200, &body, &written),
        target.kind,
        &store_id,
    ))
}

/// What is merged into the object. An empty list is an empty object to APISIX, and changes nothing.
fn check_whole(conf: &Value) -> Result<(), &'static str> {
    match conf {
        Value::Object(_) => Ok(()),
        Value::Array(items) if items.is_empty() => Ok(()),
        Value::Array(_) => Err(
            "a list cannot be merged into an object (JSON Patch, RFC 6902, is not supported): send an object \
                                with the fields that change",
        ),
        _ => Err("invalid configuration"),
    }
}

/// The object with the change in it, and the times it then has.
pub(super) fn patched(target: &Target, previous: &Value, conf: Value) -> Result<Value, String> {
    let mut value = previous.clone();
    let mut touch = true;
    if target.sub_path.is_empty() {
        touch = conf.get("update_time").is_none_or(Value::is_null);
        if let (Some(fields), Value::Object(changes)) = (value.as_object_mut(), conf) {
            merge(fields, changes);
        }
    } else {
        replace(&mut value, &target.sub_path, conf)?;
    }
    if value.get("create_time").is_none() {
        set(&mut value, "create_time", json!(now()));
    }
    if touch || value.get("update_time").is_none() {
        set(&mut value, "update_time", json!(now()));
    }
    Ok(value)
}

fn check_decoration(api: &AdminApi, target: &Target, body: Option<&Value>) -> Result<(), Response> {
    match body {
        Some(Value::Object(fields)) if fields.contains_key("service_id") => {
            Err(Response::error(400, "service_id can not be patched"))
        }
        Some(conf) if conf.is_object() || conf.is_array() => write::check_field_path(api, target, conf),
        _ => Err(Response::error(400, "invalid configuration")),
    }
}

/// As `core.table.merge` of APISIX: what is merged into an object that has fields keeps all that it does not name, so
/// that an empty object or list removes nothing. `null` removes; everything else replaces.
fn merge(fields: &mut Map<String, Value>, changes: Map<String, Value>) {
    for (name, change) in changes {
        match (fields.get_mut(&name), change) {
            (_, Value::Null) => {
                fields.shift_remove(&name);
            }
            (Some(Value::Object(inner)), Value::Object(changes)) if !inner.is_empty() => {
                merge(inner, changes);
            }
            (Some(Value::Object(inner)), Value::Array(items)) if !inner.is_empty() && items.is_empty() => {}
            (_, change) => {
                fields.insert(name, change);
            }
        }
    }
}

/// Sets the place at `path` (names between slashes), making the objects on the way.
fn replace(value: &mut Value, path: &str, conf: Value) -> Result<(), String> {
    let names: Vec<&str> = path.split('/').collect();
    let Some((last, parents)) = names.split_last() else { return Ok(()) };
    let mut place = &mut *value;
    for (position, name) in parents.iter().enumerate() {
        let walked = names.get(..=position).unwrap_or_default().join("/");
        let fields = table(place).ok_or_else(|| format!("invalid sub-path: /{walked}"))?;
        place = fields.entry(*name).or_insert_with(|| json!({}));
        if !place.is_object() && !place.is_array() {
            return Err(format!("invalid sub-path: /{walked}"));
        }
    }
    let fields = table(place).ok_or_else(|| format!("invalid sub-path: /{path}"))?;
    if last.is_empty() {
        *value = conf;
    } else if conf.is_null() {
        fields.shift_remove(*last);
    } else {
        fields.insert((*last).to_owned(), conf);
    }
    Ok(())
}

/// The fields of an object; an empty list is one, too.
fn table(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.as_array().is_some_and(Vec::is_empty) {
        *value = json!({});
    }
    value.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_replace_lists_and_take_nothing_away() {
        for (before, change, after) in [
            (json!({"a": {"b": 1}}), json!({"a": {"c": 2}}), json!({"a": {"b": 1, "c": 2}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": {"b": 1}}), json!({"a": {}}), json!({"a": {"b": 1}})),
            (json!({"a": {"b": 1}}), json!({"a": []}), json!({"a": {"b": 1}})),
            (json!({"a": {"b": {"c": 1}}}), json!({"a": {"b": {}}}), json!({"a": {"b": {"c": 1}}})),
            (json!({"a": {}}), json!({"a": []}), json!({"a": []})),
            (json!({"a": [1]}), json!({"a": {}}), json!({"a": {}})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}})),
        ] {
            let (Value::Object(mut fields), Value::Object(changes)) = (before, change) else {
                panic!("objects")
            };
            merge(&mut fields, changes);
            assert_eq!(Value::Object(fields), after);
        }
    }

    #[test]
    fn places_are_replaced_by_path() {
        let check = |path: &str, expected: Result<Value, &str>| {
            let mut value = json!({"a": {"b": 1}, "l": [1]});
            let result = replace(&mut value, path, json!(5)).map(|()| value);
            assert_eq!(result, expected.map_err(str::to_owned), "{path}");
        };
        check("a/b", Ok(json!({"a": {"b": 5}, "l": [1]})));
        check("n/m", Ok(json!({"a": {"b": 1}, "l": [1], "n": {"m": 5}})));
        check("a/b/c", Err("invalid sub-path: /a/b"));
        check("l/x", Err("invalid sub-path: /l/x"));
    }
}
