//! YAML as APISIX's users write it, as a tree that remembers where each value stands.
//!
//! The syntax is YAML 1.2 with the plain words of YAML 1.1 (`on`, `off`, `yes`, `no` are booleans), because that
//! is what APISIX's parser does. Nothing may be lost: a key given twice or a second document is a fault. Not here: custom
//! tags, dates, base-60 numbers.

mod build;
pub(super) mod node;
pub(crate) mod scalar;

pub use self::node::{Content, Entry, Fault, Node};
use serde_json::Value;

/// Reads a document; an empty text is null.
pub fn parse(text: &str) -> Result<Node, Fault> {
    build::Builder::new(text).document()
}

/// Reads a document without places.
pub fn to_value(text: &str) -> Result<Value, Fault> {
    Ok(parse(text)?.into_value())
}

/// Reads a document that a client has written: an alias is a fault, for a few lines of them become any number of values.
pub fn of_a_client(text: &str) -> Result<Value, Fault> {
    Ok(build::Builder::without_aliases(text).document()?.into_value())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: Value) {
        assert_eq!(to_value(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn values() {
        check("", Value::Null);
        check("# only a comment\n", Value::Null);
        check("a: 1\nb: [x, 2.5, -3]\nc: {d: ~}\n", json!({"a": 1, "b": ["x", 2.5, -3], "c": {"d": null}}));
        check(
            "a: on\nb: off\nc: yes\nd: 'on'\ne: \"no\"\nf: y\n",
            json!({"a": true, "b": false, "c": true, "d": "on", "e": "no", "f": "y"}),
        );
        check(
            "a: 0x10\nb: 010\nc: 0o10\nd: 1:2\ne: 10s\n",
            json!({"a": 16, "b": 8, "c": 8, "d": "1:2", "e": "10s"}),
        );
        check(
            "a: 127.0.0.1\nb: .inf\nc: 1e3\nd:\n  -\n",
            json!({"a": "127.0.0.1", "b": ".inf", "c": 1000.0, "d": [null]}),
        );
        check("1: x\ntrue: y\n", json!({"1": "x", "true": "y"}));
        check("a: |\n  one\n  two\nb: >\n  one\n  two\n", json!({"a": "one\ntwo\n", "b": "one two\n"}));
        check("a: !!str 12\n", json!({"a": "12"}));
        check("---\na: 1\n", json!({"a": 1}));
        check("a: 1\n...\n", json!({"a": 1}));
        check("a: 1\n#END\n", json!({"a": 1}));
    }

    #[test]
    fn anchors_and_merges() {
        check("a: &x {k: 1}\nb: *x\n", json!({"a": {"k": 1}, "b": {"k": 1}}));
        check(
            "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\n",
            json!({"a": {"k": 1, "l": 2}, "b": {"l": 3, "k": 1}}),
        );
        check(
            "a: &x {k: 1}\nb: &y {k: 2, m: 3}\nc:\n  <<: [*x, *y]\n",
            json!({"a": {"k": 1}, "b": {"k": 2, "m": 3}, "c": {"k": 1, "m": 3}}),
        );
    }

    #[test]
    fn aliases_of_clients() {
        assert_eq!(of_a_client("a: &x {k: 1}\nb: 2\n").unwrap(), json!({"a": {"k": 1}, "b": 2}));
        let fault = of_a_client("a: &x [1, 2]\nb: [*x, *x]\n").unwrap_err();
        assert_eq!(
            (fault.line, fault.message.as_str()),
            (2, "aliases are not read here; write the value out")
        );
    }

    #[test]
    fn places() {
        let document = parse("apisix:\n  node_listen: 9080\n  ssl: {enable: true}\n").unwrap();
        let listen = document.get("apisix").and_then(|node| node.get("node_listen")).unwrap();
        assert_eq!((listen.line, listen.column), (2, 16));
    }

    #[test]
    fn faults() {
        let fault = parse("a: [1, 2\nb: 3\n").unwrap_err();
        assert!(fault.line >= 1, "{fault}");
        for (text, fault) in [
            ("a: 1\na: 3\n", "2:1: key \"a\" is given twice, first at 1:1"),
            ("a: {b: 1, b: 2}\n", "1:11: key \"b\" is given twice, first at 1:5"),
            ("a: 1\n---\nb: 2\n", "2:1: a second document begins here, the first one at 1:1"),
        ] {
            assert_eq!(to_value(text).unwrap_err().to_string(), fault);
        }
        let deep = "[".repeat(2000);
        assert!(parse(&deep).is_err());
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let previous = level - 1;
            let item = format!("*a{previous}");
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![item; 10].join(", ")));
        }
        assert!(parse(&bomb).unwrap_err().message.contains("aliases"));
    }
}
