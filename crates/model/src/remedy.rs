//! What to do about a value that a schema refuses, where APISIX's message, which clients may compare, does not say.

mod nodes;

use serde_json::Value;

use crate::{Kind, PluginCatalog, nearest::nearest, schemas};

/// So many alternatives of a schema are listed.
const MOST_ALTERNATIVES: usize = 5;
/// So many values of an enumeration are listed.
const MOST_VALUES: usize = 12;

/// Where a message is about, and what it says of that.
struct Fault<'m> {
    /// Names of properties; `#` for an item of a list.
    path: Vec<&'m str>,
    what: &'m str,
    /// The schema of that place, where it is known.
    schema: Option<&'m Value>,
}

/// The remedy for a message about an object of this kind and id, itself where it is known; `None` where the message says enough.
pub fn remedy(
    target: Option<(Kind, &str)>,
    object: Option<&Value>,
    message: &str,
    catalog: &dyn PluginCatalog,
) -> Option<String> {
    let text = of_reference(message).or_else(|| nodes::of_nodes(message, object?));
    if text.is_some() {
        return text;
    }
    let kind = target.map(|(kind, _)| kind);
    let plugin =
        message.split_once(" plugin ").and_then(|(before, rest)| match before.ends_with(" stream") {
            true => rest.split_once(": "),
            false => rest.split_once(" err: "),
        });
    let fault = match plugin {
        Some((name, rest)) => {
            let facts = catalog.facts(name.trim_matches(['[', ']']));
            let of_consumer = matches!(kind, Some(Kind::Consumer | Kind::Credential));
            let schema = facts.map(|facts| match facts.consumer_schema.filter(|_| of_consumer) {
                Some(schema) => schema,
                None => facts.schema,
            });
            Fault::of(rest, schema)
        }
        None => {
            let rest = message.split_once("invalid configuration: ").map_or(message, |(_, rest)| rest);
            let schema = match target {
                Some((Kind::PluginMetadata, name)) => {
                    catalog.facts(name).and_then(|facts| facts.metadata_schema)
                }
                _ => kind.and_then(schemas::name_of_kind).and_then(schemas::document),
            };
            Fault::of(rest, schema)
        }
    };
    if kind == Some(Kind::Ssl) && fault.what == "then clause did not match" {
        return of_names(object, fault.schema?);
    }
    of_fault(&fault)
}

/// A certificate for servers has one list of names.
fn of_names(object: Option<&Value>, schema: &Value) -> Option<String> {
    let has = |name: &str| object.is_some_and(|object| object.get(name).is_some());
    if has("sni") && has("snis") {
        return Some("write all names in snis, and take sni out".to_owned());
    }
    alternatives(schema.pointer("/then/oneOf")?)
}

/// `message` with its remedy behind it, for logs.
pub fn with_remedy(
    target: Option<(Kind, &str)>,
    object: Option<&Value>,
    message: String,
    catalog: &dyn PluginCatalog,
) -> String {
    let remedy = remedy(target, object, &message, catalog);
    // What Lua calls it says nothing to who writes YAML or JSON.
    let message = message.replace(", got userdata", ", got null");
    match remedy {
        Some(remedy) => format!("{message}; {remedy}"),
        None => message,
    }
}

impl<'m> Fault<'m> {
    fn of(message: &'m str, schema: Option<&'m Value>) -> Fault<'m> {
        let mut fault = Fault { path: Vec::new(), what: message, schema };
        while fault.step() {}
        fault
    }

    /// Goes where the message leads.
    fn step(&mut self) -> bool {
        let (name, rest, below) = if let Some((name, rest)) =
            between(self.what, "property \"", "\" validation failed: ")
        {
            (name, rest, self.schema.and_then(|schema| property(schema, name)))
        } else if let Some((_, rest)) = between(self.what, "failed to validate item ", ": ") {
            ("#", rest, self.schema.and_then(|schema| schema.get("items")).filter(|items| items.is_object()))
        } else if let Some((name, rest)) = between(self.what, "failed to validate additional property ", ": ")
        {
            (name, rest, self.schema.and_then(|schema| schema.get("additionalProperties")))
        } else {
            return false;
        };
        self.path.push(name);
        (self.what, self.schema) = (rest, below);
        true
    }

    fn last(&self) -> &'m str {
        self.path.iter().rev().find(|name| **name != "#").copied().unwrap_or_default()
    }
}

fn property<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    if let Some(found) = schema.get("properties").and_then(|properties| properties.get(name)) {
        return Some(found);
    }
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    patterns.filter(|patterns| patterns.len() == 1).and_then(|patterns| patterns.values().next())
}

fn between<'m>(text: &'m str, start: &str, end: &str) -> Option<(&'m str, &'m str)> {
    text.strip_prefix(start)?.split_once(end)
}

/// What an object names and is not there.
fn of_reference(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("failed to fetch ")?;
    let (noun, _) = rest.split_once(" info by ").filter(|_| rest.ends_with("response code: 404"))?;
    let directory = noun.replace(' ', "_");
    Some(format!(
        "create the {noun} first, or correct the id: GET /apisix/admin/{directory}s lists those that exist"
    ))
}

fn of_fault(fault: &Fault) -> Option<String> {
    let what = fault.what;
    if what == "value should match only one schema, but matches none" {
        return alternatives(fault.schema?.get("oneOf")?);
    }
    if what.starts_with("value should match only one schema, but matches both") {
        let one = alternatives(fault.schema?.get("oneOf")?)?;
        return one.strip_prefix("it needs ").map(|one| format!("write only one of them: {one}"));
    }
    if what.starts_with("object matches none of the required") {
        if fault.last() == "id" || fault.last().ends_with("_id") {
            return Some(
                "an id has at most 64 letters, digits, \"-\", \"_\" and \".\", or is a whole number of at least 1"
                    .to_owned(),
            );
        }
        return alternatives(fault.schema?.get("anyOf")?);
    }
    if what == "matches none of the enum values" {
        let values = fault.schema?.get("enum")?.as_array()?;
        let shown: Vec<String> = values.iter().take(MOST_VALUES).map(Value::to_string).collect();
        return Some(format!("use one of {}", shown.join(", ")));
    }
    if what.starts_with("failed to match pattern ") {
        return of_pattern(fault.last()).map(str::to_owned);
    }
    if let Some(rest) = what.strip_prefix("string too short, ") {
        let is_pem =
            matches!(fault.last(), "cert" | "key" | "certs" | "keys" | "client_cert" | "client_key" | "ca");
        return if is_pem {
            Some("write the PEM text itself (-----BEGIN ...), not the name of its file".to_owned())
        } else {
            rest.ends_with(", got 0").then(|| "it is empty: write a value, or take it out".to_owned())
        };
    }
    of_type(fault)
}

fn of_type(fault: &Fault) -> Option<String> {
    let (wanted, got) = fault.what.strip_prefix("wrong type: expected ")?.split_once(", got ")?;
    let text = match (wanted, got) {
        (_, "userdata") => "it is empty (null): indent below it what belongs to it, or take it out",
        ("number" | "integer", "string") if is_time(fault) => return Some(of_time(fault.schema, wanted)),
        ("number" | "integer", "string") => "write the number without quotes and unit",
        ("integer", "number") => "write a whole number",
        ("boolean", "string") => "write true or false, without quotes",
        ("string", "number" | "boolean") => "write it in quotes",
        ("array", "string" | "number" | "boolean" | "table") => "write a list: [ ... ]",
        ("object", "string" | "number" | "boolean") => "write an object: { ... }",
        // A list: an object would fit.
        ("object", "table") if fault.last() == "plugins" => {
            "it is a list: write an object, with the configuration of each plugin by its name"
        }
        ("object", "table") => "it is a list: write an object: { ... }",
        ("string", "table") => "write a text: it is a list or an object",
        ("number" | "integer", "table") => "write a number: it is a list or an object",
        ("boolean", "table") => "write true or false: it is a list or an object",
        _ => return None,
    };
    Some(text.to_owned())
}

fn is_time(fault: &Fault) -> bool {
    fault.path.contains(&"timeout") || fault.last().ends_with("timeout") || fault.last() == "interval"
}

/// The unit of a field for a time, which its schema tells by what it is without: no default in seconds is as long as 100.
fn of_time(schema: Option<&Value>, wanted: &str) -> String {
    let number = |name: &str| schema.and_then(|schema| schema.get(name)).and_then(Value::as_f64);
    let (default, least) = (number("default"), number("minimum"));
    let is_whole = wanted == "integer";
    if let Some(example) = [default, least].into_iter().flatten().find(|number| *number >= 100.0) {
        let whole = if is_whole { "whole " } else { "" };
        return format!("write a {whole}number of milliseconds, without unit and quotes: {example}");
    }
    match (default, is_whole) {
        (Some(example), true) => {
            format!("write a whole number of seconds, without unit and quotes: {example}")
        }
        (None, true) => {
            "write a whole number, without unit and quotes; the page of the plugin has its unit".to_owned()
        }
        (_, false) => "write a number of seconds, without unit and quotes: 3 or 0.5".to_owned(),
    }
}

fn of_pattern(name: &str) -> Option<&'static str> {
    Some(match name {
        "host" | "hosts" | "domain" => {
            "a host is a name such as a.test, or *.a.test, without scheme, path and spaces"
        }
        "sni" | "snis" => "write a name such as a.test, or *.a.test, without scheme, port and path",
        "username" | "consumer_name" | "group_id" => "use letters, digits, _ and -",
        "id" | "upstream_id" | "service_id" | "plugin_config_id" => "use letters, digits, _, - and .",
        _ => return None,
    })
}

/// What each alternative asks for.
fn alternatives(schemas: &Value) -> Option<String> {
    let schemas = schemas.as_array()?;
    let is_address = |schema: &Value| schema.get("format").is_some_and(|format| format == "ipv4");
    if schemas.iter().any(is_address) {
        return Some(
            "write an address (10.0.0.1, ::1) or a network (10.0.0.0/8; the mask is 32 at most with IPv4, 128 with IPv6)".to_owned(),
        );
    }
    let mut texts: Vec<String> = Vec::new();
    for text in schemas.iter().map(alternative) {
        let text = text?;
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    (1..=MOST_ALTERNATIVES).contains(&texts.len()).then(|| format!("it needs {}", texts.join(", or ")))
}

fn alternative(schema: &Value) -> Option<String> {
    if let Some(required) = schema.get("required").and_then(Value::as_array) {
        let names: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
        return (!names.is_empty()).then(|| names.join(" and "));
    }
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let what = match schema.get("type")?.as_str()? {
        kind @ ("integer" | "number") => {
            let article = if kind == "integer" { "a whole number" } else { "a number" };
            match (number("exclusiveMinimum"), number("minimum")) {
                (Some(limit), _) => format!("{article} above {limit}"),
                (_, Some(limit)) => format!("{article} of at least {limit}"),
                _ => article.to_owned(),
            }
        }
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        _ => return None,
    };
    Some(what)
}

/// The types of upstreams, for an unknown one.
pub fn of_balancer(name: &str) -> String {
    const TYPES: [&str; 4] = ["roundrobin", "chash", "ewma", "least_conn"];
    // What other gateways call them.
    let meant = match name.to_ascii_lowercase().replace(['_', '-'], "").as_str() {
        "rr" | "wrr" | "swrr" | "robin" => Some("roundrobin"),
        "hash" | "iphash" | "consistenthashing" | "ringhash" => Some("chash"),
        "leastconn" | "leastconnections" | "leastrequest" => Some("least_conn"),
        _ => nearest(name, TYPES),
    };
    let meant = meant.map(|known| format!(", did you mean {known}?")).unwrap_or_default();
    format!("{} are available{meant}", TYPES.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::Catalog;

    #[test]
    fn messages_get_what_to_do() {
        let check = |kind: Kind, message: &str, expected: Option<&str>| {
            let found = remedy(Some((kind, "1")), None, message, &Catalog);
            let fits = match (&found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found.as_deref() == expected,
            };
            assert!(fits, "{message}: {found:?}");
        };
        let of = |rest: &str| format!("invalid configuration: {rest}");
        check(
            Kind::Route,
            &of("property \"plugins\" validation failed: wrong type: expected object, got userdata"),
            Some("null"),
        );
        check(
            Kind::Route,
            &of(
                "property \"timeout\" validation failed: property \"connect\" validation failed: wrong type: expected number, got string",
            ),
            Some("seconds"),
        );
        check(
            Kind::Route,
            &of(
                "property \"hosts\" validation failed: failed to validate item 1: failed to match pattern \"x\" with \"http://a.test\"",
            ),
            Some("without scheme"),
        );
        check(
            Kind::Consumer,
            &of("property \"username\" validation failed: failed to match pattern \"x\" with \"a b\""),
            Some("letters"),
        );
        check(
            Kind::Ssl,
            &of("property \"cert\" validation failed: string too short, expected at least 64, got 1"),
            Some("PEM"),
        );
        check(
            Kind::Ssl,
            &of("then clause did not match"),
            Some("sni and key and cert, or snis and key and cert"),
        );
        check(
            Kind::Route,
            &of("property \"remote_addr\" validation failed: object matches none of the required"),
            Some("10.0.0.0/8"),
        );
        check(
            Kind::Route,
            &of("property \"service_id\" validation failed: object matches none of the required"),
            Some("at most 64 letters"),
        );
        check(
            Kind::Upstream,
            &of("property \"scheme\" validation failed: matches none of the enum values"),
            Some("\"http\""),
        );
        check(
            Kind::Route,
            "failed to fetch upstream info by upstream id [nope], response code: 404",
            Some("admin/upstreams"),
        );
        check(Kind::Route, &of("property \"uri\" is required"), None);
        check(Kind::Route, &of("additional properties forbidden, found x"), None);
        check(Kind::Route, "missing configurations", None);
    }

    #[test]
    fn types_of_upstreams() {
        assert!(of_balancer("rr").ends_with("did you mean roundrobin?"));
        assert!(of_balancer("least-conn").ends_with("did you mean least_conn?"));
        assert!(of_balancer("my_picker").ends_with("available"));
    }
}
