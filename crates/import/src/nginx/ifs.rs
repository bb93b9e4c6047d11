//! The conditions of `if`.

use super::{
    condition::Condition,
    made::{Made, Stop},
    parse::Directive,
    patterns,
    variables::{Part, Variables, parts},
};

/// A test of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Test<'t> {
    /// Neither empty nor `0`.
    True,
    Is(&'t str),
    Matches(&'t str, bool),
}

pub(super) fn condition(directive: &Directive, variables: &Variables) -> Made<Condition> {
    let joined = words(&directive.arguments);
    let words: Vec<&str> = joined.iter().map(String::as_str).collect();
    let name = words.first().copied().unwrap_or_default();
    let (test, negated) = match words.get(1..).unwrap_or_default() {
        [] => (Test::True, false),
        ["=", text] => (Test::Is(text), false),
        ["!=", text] => (Test::Is(text), true),
        ["~", pattern] => (Test::Matches(pattern, false), false),
        ["~*", pattern] => (Test::Matches(pattern, true), false),
        ["!~", pattern] => (Test::Matches(pattern, false), true),
        ["!~*", pattern] => (Test::Matches(pattern, true), true),
        _ => return Err(Stop::closed(format!("`if ({})` is not converted", words.join(" ")))),
    };
    // nginx takes the whole word as the name. No variable here has a dash, so `$arg_api-key` closes.
    let held = match parts(name).as_slice() {
        [Part::Variable(variable)] if name.strip_prefix('$') == Some(variable) => {
            of(variable, test, variables)?
        }
        _ => return Err(Stop::closed(format!("`if ({})` is not converted", words.join(" ")))),
    };
    Ok(if negated { held.negated() } else { held })
}

/// Without the parentheses, which stand at words or alone.
fn words(arguments: &[String]) -> Vec<String> {
    let mut words: Vec<String> = arguments.to_vec();
    if let Some(first) = words.first_mut() {
        *first = first.strip_prefix('(').unwrap_or(first).to_owned();
    }
    if let Some(last) = words.last_mut() {
        *last = last.strip_suffix(')').unwrap_or(last).to_owned();
    }
    // A value may be empty, a parenthesis that stood alone leaves nothing.
    if words.len() > 1 && words.first().is_some_and(String::is_empty) {
        words.remove(0);
    }
    if arguments.last().is_some_and(|last| last == ")") {
        words.pop();
    }
    words
}

fn of(name: &str, test: Test, variables: &Variables) -> Made<Condition> {
    if let Some(cases) = variables.cases(name) {
        let mut held = Vec::new();
        for (condition, value) in cases? {
            if constant(&variables.literal(&value)?, test)? {
                held.push(condition);
            }
        }
        return Ok(Condition::any(held));
    }
    let text = variables.text(&format!("${{{name}}}"))?;
    if !text.contains("${") {
        return Ok(if constant(&text, test)? { Condition::Always } else { Condition::Never });
    }
    let name = match parts(&text).as_slice() {
        [Part::Variable(name)] => (*name).to_owned(),
        _ => return Err(Stop::closed(format!("`${name}` is made of more than a variable"))),
    };
    variables.require_text(&name)?;
    let fits_first_name = name == "host" && constant(&variables.first_name, test)?;
    let condition = match test {
        Test::True => {
            Condition::all([patterns::is_empty(&name).negated(), Condition::test(&name, "==", "0").negated()])
        }
        Test::Is(value) => patterns::equals(&name, &variables.literal(value)?),
        Test::Matches(pattern, caseless) => {
            patterns::matches(&name, &caseless_if(pattern, caseless)).map_err(Stop::Closed)?
        }
    };
    Ok(variables.on_host(&name, condition, fits_first_name))
}

fn constant(text: &str, test: Test) -> Made<bool> {
    Ok(match test {
        Test::True => !text.is_empty() && text != "0",
        Test::Is(value) => text == value,
        Test::Matches(pattern, caseless) => {
            let pattern = caseless_if(pattern, caseless);
            patterns::compile(&pattern)
                .ok_or_else(|| Stop::closed(format!("what `{pattern}` matches is unknown")))?
                .is_match(text)
        }
    })
}

fn caseless_if(pattern: &str, caseless: bool) -> String {
    if caseless { format!("(?i){pattern}") } else { pattern.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::nginx::{map::Map, parse::parse};

    fn vars(text: &str, variables: &Variables) -> Made<Vec<serde_json::Value>> {
        let all = parse(&format!("if {text} {{ }}"), None).expect("a directive");
        condition(&all[0], variables).map(|condition| condition.vars())
    }

    #[test]
    fn conditions_as_vars() {
        let variables = Variables::default();
        for (text, wanted) in [
            ("($host = a)", json!([["host", "==", "a"]])),
            ("( $host != \"a\" )", json!([["host", "!", "==", "a"]])),
            (
                "($request_method !~* ^(get|head)$)",
                json!([["request_method", "!", "~~", "(?i)^(get|head)$"]]),
            ),
            ("($http_x = \"\")", json!([["http_x", "!", "~~", "(?s)."]])),
            ("($arg_y)", json!([["raw_arg_y", "~~", "(?s)."], ["raw_arg_y", "!", "==", "0"]])),
        ] {
            assert_eq!(vars(text, &variables).map(serde_json::Value::Array), Ok(wanted), "{text}");
        }
        for text in [
            "(-f $request_filename)",
            "($no_such = 1)",
            "($host = $1)",
            "($http_x ~ (?=a))",
            "($arg_a-b)",
            "($http_a-b = 1)",
            "($cookie_a.b)",
        ] {
            assert!(matches!(vars(text, &variables), Err(Stop::Closed(_))), "{text}");
        }
    }

    #[test]
    fn variables_of_maps_become_their_sources() {
        let text =
            "map $http_x $bad { default 0; ~^evil 1; good 0; } geo $home { 10.0.0.0/8 1; 10.1.0.0/16 0; }";
        let all = parse(text, None).expect("maps");
        let maps: Vec<Map> = all.iter().filter_map(Map::of).collect();
        let mut variables = Variables::default();
        maps.iter().for_each(|map| variables.set_map(map));
        let found = vars("($bad)", &variables).expect("it is converted");
        assert!(json!(found).to_string().contains("evil"), "{found:?}");
        let found = vars("($home)", &variables).expect("it is converted");
        assert_eq!(
            json!(found),
            json!([
                ["remote_addr", "ipmatch", ["10.0.0.0/8"]],
                ["remote_addr", "!", "ipmatch", ["10.1.0.0/16"]]
            ])
        );
    }
}
