//! Paths for which `client.skip_mtls_uri_regex` asks for no certificate, and that are more than they seem.

use serde_json::Value;

use crate::{Kind, Object};

pub(super) fn of(object: &Object) -> Vec<String> {
    if object.kind != Kind::Ssl || !object.document.may_have("skip_mtls_uri_regex") {
        return Vec::new();
    }
    let value = object.value();
    let patterns = value.pointer("/client/skip_mtls_uri_regex").and_then(Value::as_array);
    let patterns = patterns.into_iter().flatten().filter_map(Value::as_str);
    let loose = patterns.filter(|pattern| !pattern.starts_with('^'));
    loose
        .map(|pattern| {
            format!(
                "client.skip_mtls_uri_regex: {pattern} matches anywhere in a path, so that every path with it \
                 needs no certificate; begin it with ^"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Document;

    #[test]
    fn patterns_without_a_beginning() {
        let of = |kind: Kind, patterns: Value| {
            let document = Document::new(&json!({"client": {"skip_mtls_uri_regex": patterns}}));
            super::of(&Object {
                kind,
                id: "1".into(),
                document,
                created: 1,
                modified: 1,
                fault: None,
                unread: None,
            })
            .len()
        };
        assert_eq!(of(Kind::Ssl, json!(["/free", "^/free", ".*"])), 2);
        assert_eq!(of(Kind::Ssl, json!([])), 0);
        assert_eq!(of(Kind::Route, json!(["/free"])), 0);
    }
}
