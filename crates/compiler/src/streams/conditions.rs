//! Which sessions a stream route is for, also of one that cannot be read as a whole: it closes them.
//!
//! A condition that cannot be read is left out, so that the route is for more sessions. Routes with a server name are tried
//! before all others: one whose name may be lost is, too (ADR 42).

use serde_json::Value;
use tidegate_model::{Kind, Object, check::server_name_fault, schemas};
use tidegate_plugin_api::stream_route::StreamConditions;
use tidegate_routing::AddressSet;

pub(super) fn read(object: &Object, faults: &mut Vec<String>) -> StreamConditions {
    let value = object.place();
    let ports = ports(&value, faults);
    let any_port = ports.is_none();
    let ports = ports.unwrap_or_default();
    // Any field may be meant by one that is misspelled.
    let has_unknown = || schemas::unknown_fields(Kind::StreamRoute, &value).next().is_some();
    if object.is_lost() || object.fault.is_some() && has_unknown() {
        return StreamConditions { ports, any_session: true, ..StreamConditions::default() };
    }
    let (names, any_name) = names(&value, faults);
    let mut addresses = |field: &str| {
        let text = value.get(field).filter(|value| !value.is_null())?;
        let Some(text) = text.as_str() else {
            faults.push(format!("{field} should be text"));
            return None;
        };
        AddressSet::parse([text]).map_err(|reason| faults.push(format!("{field}: {reason}"))).ok()
    };
    let (remote, local) = (addresses("remote_addr"), addresses("server_addr"));
    StreamConditions { remote, local, ports, names, any_name, any_port, any_session: false }
}

/// A port counts wherever it stands: as a number, as text, in a list. `None`: not all that is written can be read.
fn ports(value: &Value, faults: &mut Vec<String>) -> Option<Vec<u16>> {
    let Some(written) = value.get("server_port") else { return Some(Vec::new()) };
    if !written.is_number() {
        faults.push("server_port should be a number".to_owned());
    }
    let number = |item: &Value| match item {
        Value::String(text) => text.trim().parse().ok(),
        other => u16::try_from(other.as_u64()?).ok(),
    };
    let ports: Option<Vec<u16>> = items(written).iter().map(number).collect();
    let ports = ports.filter(|ports| !ports.is_empty());
    if ports.is_none() {
        faults.push("server_port cannot be read: the names of all ports are looked at".to_owned());
    }
    ports
}

/// As [`ports`]. `true`: not all that is written can be read.
fn names(value: &Value, faults: &mut Vec<String>) -> (Vec<Box<str>>, bool) {
    let Some(written) = value.get("sni") else { return (Vec::new(), false) };
    if !written.is_string() {
        faults.push("sni should be text".to_owned());
    }
    let mut is_doubtful = items(written).is_empty();
    let mut names = Vec::new();
    for item in items(written) {
        match item.as_str().map(|name| (name, name_fault(name))) {
            Some((name, None)) => names.push(normal(name)),
            Some((_, Some(fault))) => {
                is_doubtful = true;
                faults.push(format!("sni: {fault}"));
            }
            None => is_doubtful = true,
        }
    }
    (if is_doubtful { Vec::new() } else { names }, is_doubtful)
}

/// `*` also stands in front of a name without a dot, as in APISIX.
fn name_fault(name: &str) -> Option<String> {
    let rest = name.strip_prefix('*').filter(|rest| !rest.is_empty() && !rest.starts_with('.'));
    server_name_fault(rest.unwrap_or(name))
}

/// As names of handshakes are compared.
fn normal(name: &str) -> Box<str> {
    name.trim_end_matches('.').to_ascii_lowercase().into()
}

/// Of a list, or the only one.
fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_model::Fault;

    use super::*;

    fn object(value: &Value, in_text: bool) -> Object {
        Object {
            kind: Kind::StreamRoute,
            id: "1".into(),
            document: value.clone().into(),
            created: 1,
            modified: 1,
            fault: Some(Box::new(Fault { reason: "it does not fit".into(), in_text, place: None })),
            unread: None,
        }
    }

    #[test]
    fn what_cannot_be_read_widens() {
        let cases: &[(Value, &[u16], &[&str], &str)] = &[
            (json!({}), &[], &[], ""),
            (json!({"server_port": 9, "sni": "A.test."}), &[9], &["a.test"], ""),
            (json!({"sni": "*.test"}), &[], &["*.test"], ""),
            (json!({"sni": "*test"}), &[], &["*test"], ""),
            (json!({"server_port": "9", "sni": "a.test"}), &[9], &["a.test"], "broken"),
            (json!({"server_port": [9, 10]}), &[9, 10], &[], "broken"),
            (json!({"server_port": "x"}), &[], &[], "broken any_port"),
            (json!({"server_port": 70_000, "sni": "a.test"}), &[], &["a.test"], "broken any_port"),
            (json!({"server_port": 9, "sni": ["a.test", "b.test"]}), &[9], &["a.test", "b.test"], "broken"),
            (json!({"server_port": 9, "sni": "a.test "}), &[9], &[], "broken any_name"),
            (json!({"server_port": 9, "sni": "bücher.test"}), &[9], &[], "broken any_name"),
            (json!({"server_port": 9, "sni": ["a.test", 1]}), &[9], &[], "broken any_name"),
            (json!({"server_port": 9, "sni": null}), &[9], &[], "broken any_name"),
            (json!({"server_port": 9, "sni": []}), &[9], &[], "broken any_name"),
            (json!({"server_port": 9, "snis": ["a.test"], "remote_addr": "::1"}), &[9], &[], "any_session"),
        ];
        for (value, ports, names, doubts) in cases {
            let object = object(value, false);
            let mut faults = Vec::new();
            let found = read(&object, &mut faults);
            let found_names: Vec<&str> = found.names.iter().map(|name| &**name).collect();
            assert_eq!((&*found.ports, &*found_names), (*ports, *names), "{value}");
            let said = [
                ("broken", !faults.is_empty()),
                ("any_port", found.any_port),
                ("any_name", found.any_name),
                ("any_session", found.any_session),
            ];
            for (doubt, is_said) in said {
                assert_eq!(is_said, doubts.contains(doubt), "{value}: {doubt}, {faults:?}");
            }
            assert!(found.remote.is_none(), "{value}");
        }
    }

    #[test]
    fn one_of_which_nothing_can_be_read_may_be_meant_for_all() {
        let object = object(&json!({}), true);
        assert!(read(&object, &mut Vec::new()).any_session);
    }
}
