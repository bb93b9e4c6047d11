//! Every operator, every error text.

use serde_json::{Value, json};

use super::*;

struct Fixed(Vec<(&'static str, Operand<'static>)>);

impl Variables for Fixed {
    type Name = String;

    fn get<'a>(&'a self, name: &String) -> Operand<'a> {
        self.0.iter().find(|(known, _)| known == name).map_or(Operand::Nil, |(_, value)| value.clone())
    }
}

fn variables() -> Fixed {
    Fixed(vec![
        ("text", "v".into()),
        ("eleven", "11".into()),
        ("number", Operand::Number(5.0)),
        ("flag", Operand::Boolean(true)),
        ("list", Operand::List(vec!["a".into(), Operand::Number(1.0)])),
        ("address", "10.1.2.3".into()),
        ("agent", "Mozilla/5.0 (iPhone)".into()),
    ])
}

fn check(rule: Value, expected: bool) {
    let expression = Expression::compile(&rule, &mut str::to_owned).unwrap();
    assert_eq!(expression.eval(&variables()), expected, "{rule}");
}

#[test]
fn operators() {
    check(json!([]), true);
    check(json!({}), true);
    check(json!([["text", "==", "v"]]), true);
    check(json!([["text", "v"]]), true);
    check(json!([["text", "V"]]), true);
    check(json!([["text", "==", "V"]]), false);
    check(json!([["eleven", "==", 11]]), true);
    check(json!([["eleven", "==", "11.0"]]), false);
    check(json!([["text", "==", 11]]), false);
    check(json!([["text", "~=", 11]]), true);
    check(json!([["eleven", "~=", 11]]), false);
    check(json!([["number", "==", "5"]]), false);
    check(json!([["number", "==", 5]]), true);
    check(json!([["flag", "==", true]]), true);
    check(json!([["flag", "==", "true"]]), false);
    check(json!([["eleven", ">", 10]]), true);
    check(json!([["eleven", ">", "10"]]), true);
    check(json!([["eleven", ">=", 11]]), true);
    check(json!([["eleven", "<", 11]]), false);
    check(json!([["eleven", "<=", 11]]), true);
    check(json!([["text", "<", 11]]), false);
    check(json!([["agent", "~~", "iPhone|Android"]]), true);
    check(json!([["agent", "~~", "iphone"]]), false);
    check(json!([["agent", "~*", "iphone"]]), true);
    check(json!([["agent", "~~", "Mozilla(?!/4)"]]), true);
    check(json!([["number", "~~", "^5$"]]), true);
    check(json!([["text", "in", ["u", "v"]]]), true);
    check(json!([["eleven", "in", [11]]]), false);
    check(json!([["text", "IN", ["v"]]]), true);
    check(json!([["list", "has", "a"]]), true);
    check(json!([["list", "has", 1]]), true);
    check(json!([["list", "has", "1"]]), false);
    check(json!([["text", "has", "v"]]), false);
    check(json!([["address", "ipmatch", ["10.0.0.0/8", "::1"]]]), true);
    check(json!([["address", "ipmatch", "10.1.2.4"]]), false);
    check(json!([["text", "ipmatch", "10.1.2.4"]]), false);
}

#[test]
fn nil_fails_all_but_inequality() {
    for operator in ["==", ">", ">=", "<", "<=", "~~", "~*", "has"] {
        check(json!([["missing", operator, "1"]]), false);
        check(json!([["missing", "!", operator, "1"]]), true);
    }
    check(json!([["missing", "in", ["1"]]]), false);
    check(json!([["missing", "ipmatch", ["1.1.1.1"]]]), false);
    check(json!([["missing", "~=", "1"]]), true);
    check(json!([["missing", "~=", 1]]), true);
    check(json!([["missing", "==", null]]), true);
    check(json!([["text", "==", null]]), false);
    check(json!([["text", "~=", null]]), true);
}

#[test]
fn groups() {
    let yes = json!(["text", "==", "v"]);
    let no = json!(["text", "==", "w"]);
    check(json!([yes, no]), false);
    check(json!(["AND", yes, no]), false);
    check(json!(["or", yes, no]), true);
    check(json!(["!AND", yes, no]), true);
    check(json!(["!OR", yes, no]), false);
    check(json!(["!OR", no, no]), true);
    check(json!([["text", "!", "==", "v"]]), false);
    check(json!([["OR", no, ["AND", yes, ["!OR", no, no]]], yes]), true);
    check(json!([[yes, no]]), false);
}

#[test]
fn errors_as_apisix_prints_them() {
    let check = |rule: Value, expected: &str| {
        let error = Expression::compile(&rule, &mut str::to_owned).unwrap_err();
        assert_eq!(error, expected, "{rule}");
    };
    check(json!(null), "missing argument rule");
    check(json!(["k", "==", "v"]), "rule should be wrapped inside brackets");
    check(json!([["k", "=", "v"]]), "invalid operator '='");
    check(json!([["k"]]), "invalid expression");
    check(json!([[]]), "rule too short");
    check(json!([{}]), "rule too short");
    check(json!(["OR", ["k", ">", 10]]), "rule too short");
    check(json!(["OR", ["k", ">", 10], ["AND"]]), "rule too short");
    check(json!([["!", "k", "==", "1"]]), "bad 'not' expression");
    check(json!([["k", "!", "=", "1"]]), "invalid operator '='");
    check(json!([["k", "ipmatch", []]]), "invalid ip address");
    check(json!([["k", "ipmatch", ""]]), "invalid ip address");
    check(json!([["k", "ipmatch"]]), "invalid ip address");
    check(json!([["k", "ipmatch", ["1.1.1.300"]]]), "invalid ip address: 1.1.1.300");
    check(json!([["k", "==", "v"], "text"]), "invalid expression");
    check(json!([[1, "==", "v"]]), "invalid expression");
    check(json!([["k", "~~", "("]]), "invalid regular expression '('");
    check(json!([["k", "!", "~*", "["]]), "invalid regular expression '['");
    check(json!([["k", "~~", ["a"]]]), r#"operator '~~' needs a regular expression, not ["a"]"#);
    check(json!([["k", "=="]]), "operator '==' needs a value to compare with");
    check(json!([["k", "==", ["v"]]]), r#"operator '==' compares with one value, not with ["v"]"#);
    check(json!([["k", "<", "x"]]), r#"operator '<' compares with a number, not with "x""#);
    check(json!([["k", "in", "v"]]), r#"operator 'in' needs a list, not "v""#);
    let deep = (0..80).fold(json!(["k", "==", "v"]), |inner, _| json!([inner]));
    check(deep, "rule nested too deeply");
}

#[test]
fn a_pattern_that_gives_up_says_so() {
    struct Watched(std::cell::Cell<bool>);
    impl Variables for Watched {
        type Name = String;
        fn get<'a>(&'a self, _: &String) -> Operand<'a> {
            Operand::Bytes(std::borrow::Cow::Owned(vec![b'a'; 3000]))
        }
        fn gave_up(&self, pattern: &str) {
            assert_eq!(pattern, r"(a*)*b\1");
            self.0.set(true);
        }
    }
    for rule in [json!([["k", "~~", r"(a*)*b\1"]]), json!([["k", "!", "~~", r"(a*)*b\1"]])] {
        let watched = Watched(std::cell::Cell::new(false));
        assert!(!Expression::compile(&rule, &mut str::to_owned).unwrap().eval(&watched));
        assert!(watched.0.get(), "{rule}");
    }
}
