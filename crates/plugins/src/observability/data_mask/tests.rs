use serde_json::json;
use tidegate_plugin_api::{RequestBody, aside};

use super::*;
use crate::common::test_request;

fn plugin(rules: Value) -> DataMask {
    let rules = super::rules(&json!({"request": rules, "max_body_size": 1 << 20, "max_req_post_args": 3}));
    rules.unwrap_or_else(|error| panic!("{error}"))
}

fn masked(rules: Value, body: &str) -> Option<String> {
    masked_of_type(rules, body, None)
}

fn masked_of_type(rules: Value, body: &str, is_form: Option<bool>) -> Option<String> {
    let client = std::net::IpAddr::from([127, 0, 0, 1]);
    let masked = plugin(rules).body.expect("rules for bodies").mask(body.as_bytes(), false, is_form, client);
    masked.map(|text| String::from_utf8(text).expect("text"))
}

#[test]
fn targets_and_fields() {
    let plugin = plugin(json!([
        {"type": "query", "name": "password", "action": "remove"},
        {"type": "query", "name": "token", "action": "replace", "value": "**/"},
        {"type": "query", "name": "card", "action": "regex", "regex": r"(\d+)-\d+-(\d+)", "value": "$1-*-$2"},
        {"type": "header", "name": "X-Card", "action": "regex", "regex": r"\d", "value": "#"},
        {"type": "header", "name": "authorization", "action": "remove"},
    ]));
    let mut request = test_request::request(
        "GET /p?a=%20&password=x&tok%65n=y&card=12-34-56&token&pass=z HTTP/1.1\r\nHost: h\r\n\
         Authorization: secret\r\nx-card: 12\r\nX-CARD: 34\r\n\r\n",
    );
    plugin.log(&mut request);
    assert_eq!(request.head.query(), Some(&b"a=%20&tok%65n=**%2F&card=12-*-56&token=**%2F&pass=z"[..]));
    let cards: Vec<_> = request.head.headers.get_all("x-card").map(<[u8]>::to_vec).collect();
    assert_eq!(cards, [b"#2", b"#4"]);
    assert!(request.header("Authorization").is_none());
}

#[test]
fn the_question_mark_goes_with_the_last_argument() {
    let plugin = plugin(json!([{"type": "query", "name": "a", "action": "remove"}]));
    let mut request = test_request::request("GET /p?a=1 HTTP/1.1\r\nHost: h\r\n\r\n");
    request.edits.target = Some(b"/other?a=1&b=2".to_vec());
    plugin.log(&mut request);
    assert_eq!(request.head.target(), b"/p");
    assert_eq!(request.edits.target.as_deref(), Some(&b"/other?b=2"[..]));
}

#[test]
fn forms() {
    let rules = json!([
        {"type": "body", "body_format": "urlencoded", "name": "a b", "action": "replace", "value": "*"},
        {"type": "body", "body_format": "urlencoded", "name": "c", "action": "remove"},
    ]);
    assert_eq!(masked(rules.clone(), "a+b=1&c=2&d=3&e=4").as_deref(), Some("a+b=*&d=3"));
    assert_eq!(masked(rules, "").as_deref(), Some(""));
}

#[test]
fn documents() {
    let rule = |name: &str, action: Value| {
        let mut rule = json!({"type": "body", "body_format": "json", "name": name});
        rule.as_object_mut().expect("an object").extend(action.as_object().expect("an object").clone());
        json!([rule])
    };
    let remove = json!({"action": "remove"});
    let replace = json!({"action": "replace", "value": "*"});
    let regex = json!({"action": "regex", "regex": "[0-9]+", "value": "#"});
    let cases = [
        ("$.a", &remove, r#"{"a":1,"b":2}"#, Some(r#"{"b":2}"#)),
        ("u[*].t", &replace, r#"{"u":[{"t":1},{"t":"x"}]}"#, Some(r#"{"u":[{"t":"*"},{"t":"*"}]}"#)),
        ("$..t", &replace, r#"{"t":{"t":1},"u":[{"t":2}]}"#, Some(r#"{"t":"*","u":[{"t":"*"}]}"#)),
        ("$.a", &regex, r#"{"a":12}"#, Some(r#"{"a":12}"#)),
        ("$['a','b']", &regex, r#"{"a":"x1y2","b":"3"}"#, Some(r##"{"a":"x#y2","b":"#"}"##)),
        ("$.i[1]", &remove, r#"{"i":[1,2,3]}"#, Some(r#"{"i":[1,3]}"#)),
        ("$.i[0,2]", &remove, r#"{"i":[1,2,3]}"#, Some(r#"{"i":[2]}"#)),
        ("$.i[*]", &remove, r#"{"i":[1,2,3]}"#, Some(r#"{"i":[]}"#)),
        ("$.i[-1:]", &remove, r#"{"i":[1,2,3]}"#, Some(r#"{"i":[1,2]}"#)),
        ("$.i[::-2]", &remove, r#"{"i":[1,2,3]}"#, Some(r#"{"i":[2]}"#)),
        ("$.i[:2]", &remove, r#"{"i":[1,2,3]}"#, Some(r#"{"i":[3]}"#)),
        (
            "$.i[?(@.k == 'card' && !(@.n < 2))].n",
            &replace,
            r#"{"i":[{"k":"card","n":1},{"k":"card","n":2},{"k":"x","n":3}]}"#,
            Some(r#"{"i":[{"k":"card","n":1},{"k":"card","n":"*"},{"k":"x","n":3}]}"#),
        ),
        ("$.missing.x", &remove, r#"{"a":1}"#, Some(r#"{"a":1}"#)),
        ("$.a", &remove, "a=1", None),
        ("$.a", &remove, "", None),
    ];
    for (path, action, body, expected) in cases {
        assert_eq!(masked(rule(path, action.clone()), body).as_deref(), expected, "{path} {body}");
    }
}

#[test]
fn a_body_of_another_kind() {
    let rules = json!([
        {"type": "body", "body_format": "json", "name": "$.a", "action": "remove"},
        {"type": "body", "body_format": "urlencoded", "name": "a", "action": "remove"},
    ]);
    assert_eq!(masked(rules.clone(), "a=1&b=2").as_deref(), Some("b=2"));
    assert_eq!(masked(rules.clone(), r#"{"a":1}"#).as_deref(), Some("{}"));
    let client = std::net::IpAddr::from([127, 0, 0, 1]);
    let body = plugin(rules).body.expect("rules for bodies");
    assert_eq!(body.mask(b"a=1", true, None, client), None, "compressed");
    assert_eq!(body.mask(&vec![b'a'; (1 << 20) + 1], false, None, client), None, "too long");
}

/// Where the field to be masked is, is not known there.
#[test]
fn what_is_no_form_is_not_shown() {
    let rules = json!([{"type": "body", "body_format": "urlencoded", "name": "a", "action": "remove"}]);
    for body in
        [r#"{"a":1}"#, "<a>1</a>", "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--\r\n"]
    {
        assert_eq!(masked(rules.clone(), body), None, "{body}");
        assert_eq!(masked_of_type(rules.clone(), body, Some(false)), None, "{body}");
    }
    assert_eq!(masked_of_type(rules.clone(), "a=1&b=2", Some(false)), None);
    assert_eq!(masked_of_type(rules.clone(), "a=1&b={2}", Some(true)).as_deref(), Some("b={2}"));
    assert_eq!(masked(rules, "a=1&b=2\n").as_deref(), Some("b=2\n"));
    for (types, expected) in [
        ("", None),
        ("Content-Type: Application/X-WWW-form-urlencoded; charset=utf-8\r\n", Some(true)),
        ("Content-Type: text/plain\r\n", Some(false)),
        ("Content-Type: application/x-www-form-urlencoded\r\nContent-Type: text/plain\r\n", Some(false)),
    ] {
        let request = test_request::request(&format!("POST / HTTP/1.1\r\nHost: h\r\n{types}\r\n"));
        assert_eq!(is_form(&request), expected, "{types}");
    }
}

#[test]
fn what_takes_too_long_is_not_shown() {
    let depth = 100;
    let document = format!("{}{}{}", "[".repeat(depth), "1,".repeat(9_999) + "1", "]".repeat(depth));
    let rules = json!([{"type": "body", "body_format": "json", "name": "$..*..*..*", "action": "regex", "regex": "7", "value": "#"}]);
    assert_eq!(masked(rules, &document), None);
}

#[test]
fn a_long_body_waits_for_its_log() {
    let plugin = plugin(json!([
        {"type": "body", "body_format": "urlencoded", "name": "a", "action": "replace", "value": "*"},
    ]));
    let mut request = test_request::request("POST / HTTP/1.1\r\nHost: h\r\n\r\n");
    let body = format!("a={}&b=1", "x".repeat(aside::SMALL));
    request.body = RequestBody::Collected(body.into());
    plugin.log(&mut request);
    assert!(matches!(request.body, RequestBody::Empty));
    let shown = masked_body::Shown::of(&request, 5).expect("a body");
    assert!(!shown.is_short());
    assert_eq!(shown.read().as_deref(), Some(&b"a=*&b"[..]));
}

#[test]
fn what_is_refused() {
    let cases = [
        (json!({"type": "query", "name": "a", "action": "regex", "regex": "(", "value": ""}), "missing )"),
        (json!({"type": "query", "name": "a", "action": "regex", "regex": "a", "value": "$x"}), "capturing"),
        (json!({"type": "body", "body_format": "json", "name": "$", "action": "remove"}), "nothing below"),
        (
            json!({"type": "body", "body_format": "json", "name": "$.a[", "action": "remove"}),
            "not understood",
        ),
        (
            json!({"type": "body", "body_format": "json", "name": "$.a b", "action": "remove"}),
            "not understood",
        ),
    ];
    for (rule, expected) in cases {
        let conf = json!({"request": [rule], "max_body_size": 1, "max_req_post_args": 1});
        let error = check(&conf, SchemaKind::Plugin).expect_err("an error");
        assert!(error.contains(expected), "{error}");
    }
}
