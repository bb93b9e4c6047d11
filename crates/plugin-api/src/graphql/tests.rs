use super::*;

/// A document in a short form: what was read, without blanks and directives.
fn shown(text: &str) -> String {
    let document = Document::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let mut out = String::new();
    for operation in &document.operations {
        let variables: Vec<String> =
            operation.variables.iter().map(|(name, default)| format!("${name}={default:?}")).collect();
        out += &format!("{} {}({})", operation.kind.as_str(), operation.name, variables.join(","));
        selections(&operation.selections, &mut out);
    }
    let mut fragments: Vec<_> = document.fragments.iter().collect();
    fragments.sort_by_key(|(name, _)| **name);
    for (name, fragment) in fragments {
        out += &format!("{name} on {}", fragment.on);
        selections(&fragment.selections, &mut out);
    }
    out
}

fn selections(list: &[Selection], out: &mut String) {
    out.push('{');
    for selection in list {
        match selection {
            Selection::Field(field) => {
                out.push_str(field.name);
                for (name, value) in &field.arguments {
                    *out += &format!("({name}:{value:?})");
                }
                if !field.selections.is_empty() {
                    selections(&field.selections, out);
                }
            }
            Selection::Spread(name) => *out += &format!("...{name}"),
            Selection::Inline { on, selections: inner } => {
                *out += &format!("...on {}", on.unwrap_or_default());
                selections(inner, out);
            }
        }
        out.push(' ');
    }
    out.push('}');
}

#[test]
fn documents() {
    let cases = [
        ("{a}", "query (){a }"),
        ("\u{feff}# c\r\nquery Q @d(x: 1) { b: a, c }", "query Q(){a c }"),
        (
            "mutation M($a: [Int!]! = [1, -2.5e+3] @d, $b: T = {x: $a}) { f(a: $a, b: E) { g } }",
            "mutation M($a=Some(List([Number(\"1\"), Number(\"-2.5e+3\")])),$b=Some(Object([(\"x\", Variable(\"a\"))]))\
             ){f(a:Variable(\"a\"))(b:Name(\"E\")){g } }",
        ),
        (
            r##"{ f(a: "}\"#", b: """x"y\"""z""", c: "") }"##,
            r##"query (){f(a:Text("}\\\"#"))(b:Text("x\"y\\\"\"\"z"))(c:Text("")) }"##,
        ),
        (
            "{ ...F ... on T { a } ... @skip(if: true) { b } } fragment F on T { on fragment query }",
            "query (){...F ...on T{a } ...on {b } }F on T{on fragment query }",
        ),
        ("\"described\" query Q { a } subscription { s }", "query Q(){a }subscription (){s }"),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_document() {
    let cases = [
        ("uery {}", 1),
        ("query {}", 1),
        ("{ a\n\n }}", 3),
        ("{ a", 1),
        ("{ a(", 1),
        ("{ a() }", 1),
        ("{ a(b: 01) }", 1),
        ("{ a(b: 1x) }", 1),
        ("{ a(b: \"x\n\") }", 1),
        ("{ a .. F }", 1),
        ("{ ä }", 1),
        ("query ($a) { a }", 1),
        ("{ a }\ntype T { a: Int }", 2),
        ("fragment on on T { a } { b }", 1),
    ];
    for (text, line) in cases {
        assert_eq!(Document::parse(text).map(|_| ()), Err(Fault::Syntax { line }), "{text}");
    }
    for text in ["", " # nothing", "fragment F on T { a }"] {
        assert_eq!(Document::parse(text).map(|_| ()), Err(Fault::NoOperation), "{text}");
    }
}

#[test]
fn bounds() {
    let nested = |depth: usize| format!("{}a{}", "{a".repeat(depth - 1) + "{", "}".repeat(depth));
    assert!(Document::parse(&nested(MOST_DEPTH)).is_ok());
    assert_eq!(Document::parse(&nested(MOST_DEPTH + 1)).map(|_| ()), Err(Fault::TooDeep));
    let list = format!("{{ a(b: {}1{}) }}", "[".repeat(MOST_DEPTH), "]".repeat(MOST_DEPTH));
    assert_eq!(Document::parse(&list).map(|_| ()), Err(Fault::TooDeep));
    let kind = format!("query ($a: {}I{}) {{ a }}", "[".repeat(MOST_DEPTH + 1), "]".repeat(MOST_DEPTH + 1));
    assert_eq!(Document::parse(&kind).map(|_| ()), Err(Fault::TooDeep));
    let wide = format!("{{ {} }}", "a ".repeat(MOST_NODES + 1));
    assert_eq!(Document::parse(&wide).map(|_| ()), Err(Fault::TooLarge));
}

#[test]
fn the_operation_that_runs() {
    let document =
        Document::parse("query A { a } mutation B { b } query C { c } query C { d }").expect("parses");
    for (wanted, expected) in [(Some("A"), true), (Some("B"), true), (Some("C"), false), (None, false)] {
        let found = document.operation(wanted);
        assert_eq!(found.map(|operation| Some(operation.name)), expected.then_some(wanted), "{wanted:?}");
    }
}
