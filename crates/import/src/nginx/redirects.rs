//! `proxy_redirect`, `proxy_cookie_path` and `proxy_cookie_domain`: plugin proxy-redirect. Without a word on it nginx
//! translates the address of `proxy_pass` to that of the location.

use serde_json::{Map, Value, json};

use super::{
    chain::Chain,
    made::{Made, Stop},
    parse::Directive,
    places::LocationMatch,
    variables::{Part, Variables, parts},
};
use crate::Report;

/// What is translated of the answers to this `proxy_pass`.
pub(super) fn convert(
    pass: &Directive,
    place: &LocationMatch,
    chain: &Chain,
    variables: &Variables,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) {
    let mut conf = Map::new();
    let given = chain.all("proxy_redirect");
    let made = match given.as_slice() {
        [] => Ok(default(pass, place).into_iter().collect()),
        all => rules(all, |rule| redirect(rule, pass, place, variables)),
    };
    add("locations", &given, made, &mut conf, report);
    for (field, name) in [("cookie_paths", "proxy_cookie_path"), ("cookie_domains", "proxy_cookie_domain")] {
        let given = chain.all(name);
        add(field, &given, rules(&given, |rule| cookie(rule, variables)), &mut conf, report);
    }
    if let Some(flags) = chain.one("proxy_cookie_flags").filter(|flags| flags.argument(0) != "off") {
        report.unsupported(&flags.at, "proxy_cookie_flags", "Set-Cookie is passed on without them");
    }
    if !conf.is_empty() {
        plugins.insert("proxy-redirect".to_owned(), conf.into());
    }
}

fn add(
    field: &str,
    given: &[&Directive],
    rules: Result<Vec<Value>, String>,
    conf: &mut Map<String, Value>,
    report: &mut Report,
) {
    match rules {
        Ok(rules) if rules.is_empty() => {}
        Ok(rules) => _ = conf.insert(field.to_owned(), rules.into()),
        Err(why) => {
            for rule in given {
                report.unsupported(&rule.at, &rule.name, &why);
            }
        }
    }
}

/// All of them or none: the first that fits counts, so that one cannot be left out.
fn rules(
    given: &[&Directive],
    one: impl Fn(&Directive) -> Result<Option<Value>, String>,
) -> Result<Vec<Value>, String> {
    match given {
        [single] if single.argument(0) == "off" && single.arguments.len() == 1 => Ok(Vec::new()),
        all => all.iter().filter_map(|rule| one(rule).transpose()).collect(),
    }
}

/// nginx has none where the address depends on variables.
fn default(pass: &Directive, place: &LocationMatch) -> Option<Value> {
    let url = pass.argument(0);
    if pass.name != "proxy_pass" || url.contains('$') {
        return None;
    }
    let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    match place {
        LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. } if has_path => {
            Some(json!({"from": url, "to": path}))
        }
        _ => Some(json!({"from": format!("{url}/"), "to": "/"})),
    }
}

const AS_IT_IS: &str =
    "Location and Refresh are passed on as they are: only `default`, `off` and plain texts are converted";

fn redirect(
    rule: &Directive,
    pass: &Directive,
    place: &LocationMatch,
    variables: &Variables,
) -> Result<Option<Value>, String> {
    match rule.arguments.as_slice() {
        [word] if word == "default" => Ok(default(pass, place)),
        [from, to] if !from.starts_with('~') => {
            let from = plain(variables.literal(from).and_then(some), AS_IT_IS)?;
            let to = plain(variables.text(to).and_then(own_names), AS_IT_IS)?;
            Ok(Some(json!({"from": from, "to": to})))
        }
        _ => Err(AS_IT_IS.to_owned()),
    }
}

const COOKIES: &str = "Set-Cookie is passed on as it is: only `off` and plain texts are converted";

fn cookie(rule: &Directive, variables: &Variables) -> Result<Option<Value>, String> {
    match rule.arguments.as_slice() {
        [from, to] if !from.starts_with('~') => {
            let from = plain(variables.literal(from).and_then(some), COOKIES)?;
            Ok(Some(json!({"from": from, "to": plain(variables.literal(to), COOKIES)?})))
        }
        _ => Err(COOKIES.to_owned()),
    }
}

/// Of the request, what a Location may name here: no host that another field has.
fn own_names(text: String) -> Made<String> {
    let allowed = ["scheme", "host", "http_host", "server_port"];
    let is_allowed = |part: &Part| match part {
        Part::Variable(name) => allowed.contains(name),
        _ => true,
    };
    match parts(&text).iter().all(is_allowed) {
        true => Ok(text),
        false => Err(Stop::closed("a variable that is not converted in a Location")),
    }
}

/// The plugin takes no empty one, which fits everything.
fn some(text: String) -> Made<String> {
    if text.is_empty() { Err(Stop::closed("an empty text")) } else { Ok(text) }
}

fn plain(text: Made<String>, why: &str) -> Result<String, String> {
    text.map_err(|_| why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::{chain::Kind, parse::parse};

    /// What becomes of a location `/a/` with these lines, and the report.
    fn made(text: &str) -> (Value, String) {
        let block = parse(text, None).expect("directives");
        let chain = Chain::new(&[(Kind::Location, &block)]);
        let place = LocationMatch::Prefix { path: "/a/".to_owned(), ends: false };
        let (mut plugins, mut report) = (Map::new(), Report::default());
        let pass = chain.own_one("proxy_pass").expect("a proxy");
        convert(pass, &place, &chain, &Variables::default(), &mut plugins, &mut report);
        (plugins.remove("proxy-redirect").unwrap_or_default(), report.text("f"))
    }

    #[test]
    fn rules_of_redirects() {
        for (text, wanted) in [
            ("proxy_pass http://b;", json!({"locations": [{"from": "http://b/", "to": "/"}]})),
            ("proxy_pass http://b/c/;", json!({"locations": [{"from": "http://b/c/", "to": "/a/"}]})),
            ("proxy_pass http://$host;", Value::Null),
            ("proxy_pass http://b; proxy_redirect off;", Value::Null),
            (
                "proxy_pass http://b; proxy_redirect http://c/ $scheme://$host/; proxy_redirect default;",
                json!({"locations": [
                    {"from": "http://c/", "to": "${scheme}://${host}/"},
                    {"from": "http://b/", "to": "/"}
                ]}),
            ),
            (
                "proxy_pass http://b; proxy_redirect off; proxy_cookie_path /x/ /; proxy_cookie_domain b c;",
                json!({
                    "cookie_paths": [{"from": "/x/", "to": "/"}],
                    "cookie_domains": [{"from": "b", "to": "c"}]
                }),
            ),
        ] {
            let (found, report) = made(text);
            assert_eq!(found, wanted, "{text}");
            assert!(!report.contains("not supported: "), "{text}: {report}");
        }
        for text in [
            "proxy_redirect ~^http://[^/]+/(.*)$ /$1;",
            "proxy_redirect http://c/ http://$http_x/;",
            "proxy_redirect http://c/ /; proxy_redirect ~* x y;",
            "proxy_cookie_path ~^/(.*)$ /x/$1;",
            "proxy_cookie_domain b $host;",
            "proxy_cookie_flags one secure;",
        ] {
            let (_, report) = made(&format!("proxy_pass http://b; {text}"));
            assert!(report.contains("f:1: not supported: proxy_"), "{text}: {report}");
        }
    }
}
