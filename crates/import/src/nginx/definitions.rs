//! What defines the variables of a file. nginx takes the value that was set last, by whatever line: a name with definitions of
//! several kinds, or with one that is not converted, has no value that is known here.

use std::collections::{BTreeMap, BTreeSet};

use super::{parse::Directive, variables::names::is_of_nginx};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Set,
    Map,
    Split,
    Capture,
    Question,
    /// A variable of nginx's own.
    Own,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Set => "`set`",
            Kind::Map => "`map` or `geo`",
            Kind::Split => "`split_clients`",
            Kind::Capture => "a group of an expression",
            Kind::Question => "`auth_request_set`",
            Kind::Own => "nginx itself",
        }
    }
}

/// Why a variable has no value that is known, by its name in small letters.
pub(super) fn unknown(directives: &[Directive]) -> BTreeMap<String, String> {
    let mut kinds: BTreeMap<String, BTreeSet<Kind>> = BTreeMap::new();
    collect(directives, &mut kinds);
    let mut unknown = BTreeMap::new();
    for (name, mut kinds) in kinds {
        if is_of_nginx(&name) {
            kinds.insert(Kind::Own);
        }
        let is_converted = !kinds.contains(&Kind::Split) && !kinds.contains(&Kind::Capture);
        if is_converted && kinds.len() == 1 {
            continue;
        }
        let texts: Vec<&str> = kinds.into_iter().map(Kind::text).collect();
        unknown.insert(name, format!("it is defined by {}", texts.join(" and by ")));
    }
    unknown
}

fn collect(directives: &[Directive], kinds: &mut BTreeMap<String, BTreeSet<Kind>>) {
    let mut add = |name: &str, kind: Kind| {
        let name = name.trim_start_matches('$').to_ascii_lowercase();
        kinds.entry(name).or_default().insert(kind);
    };
    for directive in directives {
        match directive.name.as_str() {
            "set" => add(directive.argument(0), Kind::Set),
            "auth_request_set" => add(directive.argument(0), Kind::Question),
            "split_clients" => add(directive.argument(1), Kind::Split),
            "map" | "geo" => {
                if let Some(name) = directive.arguments.last() {
                    add(name, Kind::Map);
                }
            }
            _ => {}
        }
        // A key of a map stands where other lines have their names.
        for text in [&directive.name].into_iter().chain(&directive.arguments) {
            groups(text).for_each(|name| add(name, Kind::Capture));
        }
    }
    for directive in directives {
        collect(&directive.block, kinds);
    }
}

/// The names of groups: `(?<name>…)`, `(?P<name>…)`, `(?'name'…)`.
fn groups(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split("(?").skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('P').unwrap_or(rest);
        let (rest, end) = match rest.strip_prefix('<') {
            Some(rest) => (rest, '>'),
            None => (rest.strip_prefix('\'')?, '\''),
        };
        let name = rest.split(end).next()?;
        let is_name = |name: &str| name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_');
        (!name.is_empty() && is_name(name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::parse::parse;

    #[test]
    fn names_with_several_definitions() {
        let text = "map $host $m { a 1; ~(?<of_map>x) 2; } split_clients $host $s { * 1; } geo $g { default 1; }
          server { server_name ~^(?P<of_name>x); set $M 1; set $plain 1; set $Plain 2;
            location ~ (?'of_place'x)(?<=y)(?<!z)(?<Http_X>w) { auth_request_set $asked $upstream_http_x; set $arg_a 1; } }";
        let all = parse(text, None).expect("directives");
        let unknown = unknown(&all);
        let names: Vec<&str> = unknown.keys().map(String::as_str).collect();
        assert_eq!(names, ["arg_a", "http_x", "m", "of_map", "of_name", "of_place", "s"]);
        assert_eq!(unknown["m"], "it is defined by `set` and by `map` or `geo`");
    }
}
