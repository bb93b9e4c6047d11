//! Query arguments that an operation does not have. The OpenAPI document is the table of those that there are.
//!
//! A write with one is refused: taken for nothing, `wiat=applied` would not wait and `dryrun=true` would write. A read is
//! refused where a known argument is meant; of others it is warned, because the APISIX dashboard passes on what is in the
//! address of its own pages.

use std::{collections::BTreeSet, sync::LazyLock};

use serde_json::Value;
use tidegate_model::nearest;

use crate::{
    message::{Head, Response, WARNING, arguments, header_text},
    openapi,
};

/// A key may come with every operation.
const KEY: &str = "api_key";
/// More are not worth their time: an answer has room for a few.
const MOST_NAMED: usize = 3;
const LONGEST_SHOWN: usize = 64;

static ADMIN: LazyLock<Table> = LazyLock::new(|| Table::of(&openapi::admin_paths(), "/apisix/admin"));
static CONTROL: LazyLock<Table> = LazyLock::new(|| Table::of(&openapi::control_paths(), ""));

struct Table(Vec<Operation>);

struct Operation {
    method: String,
    path: Vec<String>,
    arguments: Vec<Argument>,
}

#[derive(Clone)]
struct Argument {
    name: String,
    form: Form,
}

#[derive(Clone)]
enum Form {
    Any,
    Number,
    OneOf(Vec<String>),
}

/// What to warn of in the answer of the Admin API, or the answer that refuses. The path's segments are those below the prefix.
pub(crate) fn check(head: &Head, segments: &[&str]) -> Result<Vec<String>, Response> {
    if head.query.is_empty() {
        return Ok(Vec::new());
    }
    let known = ADMIN.arguments(&head.method, segments);
    match head.method.as_str() {
        "GET" | "HEAD" | "OPTIONS" => of_read(&head.query, &known),
        _ => of_write(&head.query, &known).map(|()| Vec::new()),
    }
    .map_err(|message| Response::error(400, &message))
}

/// The Control API is for probes, which may send anything: it refuses none.
pub(crate) fn warn_of(head: &Head, path: &str) -> Vec<String> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match CONTROL.find(&head.method, &segments) {
        Some(operation) if !head.query.is_empty() => {
            let names = names(&operation.arguments);
            let given = arguments(&head.query).into_iter().map(|(name, _)| name);
            in_vain(given.filter(|name| !names.contains(&name.as_str())), &names)
        }
        _ => Vec::new(),
    }
}

/// Adds to what an answer warns of.
pub(crate) fn warn(mut response: Response, warnings: &[String]) -> Response {
    if warnings.is_empty() {
        return response;
    }
    let text = header_text(&warnings.join("; "));
    match response.headers.iter_mut().find(|(name, _)| *name == WARNING) {
        Some((_, others)) => {
            *others = format!("{others}; {text}");
            response
        }
        None => response.with_header(WARNING, text),
    }
}

fn of_write(query: &str, known: &[Argument]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (name, value) in arguments(query).into_iter().filter(|(name, _)| name != KEY) {
        let Some(argument) = known.iter().find(|argument| argument.name == name) else {
            let names = names(known);
            let hint = nearest::hint(&name, names.iter().copied());
            let hint = if hint.is_empty() { there_are(&names) } else { hint };
            return Err(format!("unknown argument {}; nothing was written{hint}", shown(&name)));
        };
        if let Some(expected) = argument.form.misses(&value) {
            return Err(format!("invalid argument {name}: should be {expected}"));
        }
        if !seen.insert(name.clone()) {
            return Err(format!("argument {name} is given twice"));
        }
    }
    Ok(())
}

fn of_read(query: &str, known: &[Argument]) -> Result<Vec<String>, String> {
    let names = names(known);
    let (mut seen, mut unknown, mut warnings) = (BTreeSet::new(), Vec::new(), Vec::new());
    for (name, value) in arguments(query).into_iter().filter(|(name, _)| name != KEY) {
        let Some(argument) = known.iter().find(|argument| argument.name == name) else {
            if unknown.len() <= MOST_NAMED {
                if let Some(meant) = nearest::nearest(&name, names.iter().copied()) {
                    return Err(format!("unknown argument {}; did you mean {meant}?", shown(&name)));
                }
                unknown.push(name);
            }
            continue;
        };
        if !seen.insert(name.clone()) {
            warnings.push(format!("argument {name} is given twice; the first counts"));
        } else if value.is_empty() && !matches!(argument.form, Form::Any) {
            warnings.push(format!("argument {name} is empty and has no effect"));
        } else if let Some(expected) = argument.form.misses(&value) {
            if matches!(argument.form, Form::Number) {
                return Err(format!("invalid argument {name}: should be {expected}"));
            }
            warnings.push(format!("argument {name} has no effect: should be {expected}"));
        }
    }
    warnings.truncate(MOST_NAMED);
    warnings.extend(in_vain(unknown.into_iter(), &names));
    Ok(warnings)
}

fn in_vain(unknown: impl Iterator<Item = String>, known: &[&str]) -> Vec<String> {
    let unknown = unknown.take(MOST_NAMED);
    unknown.map(|name| format!("argument {} has no effect{}", shown(&name), there_are(known))).collect()
}

fn names(known: &[Argument]) -> Vec<&str> {
    known.iter().map(|argument| argument.name.as_str()).collect()
}

fn there_are(known: &[&str]) -> String {
    match known {
        [] => "; there are none".to_owned(),
        [only] => format!("; there is {only}"),
        [others @ .., last] => format!("; there are {} and {last}", others.join(", ")),
    }
}

fn shown(name: &str) -> String {
    name.chars().take(LONGEST_SHOWN).collect()
}

impl Form {
    fn of(schema: &Value) -> Form {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        match schema.get("enum").and_then(Value::as_array) {
            Some(values) => Form::OneOf(values.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            None if matches!(kind, "integer" | "number") => Form::Number,
            None => Form::Any,
        }
    }

    /// What a value should be that is not.
    fn misses(&self, value: &str) -> Option<String> {
        match self {
            Form::Number if value.trim().parse::<f64>().is_err() => Some("a number".to_owned()),
            Form::OneOf(values) if !values.iter().any(|one| one == value) => Some(match values.as_slice() {
                [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
                values => values.concat(),
            }),
            _ => None,
        }
    }
}

impl Table {
    /// Of the document's `paths`, those below a prefix.
    fn of(paths: &[Value], prefix: &str) -> Table {
        let items = paths.iter().filter_map(Value::as_object).flatten();
        let operations = items.flat_map(|(path, item)| {
            let segments = path.strip_prefix(prefix).unwrap_or(path).split('/').skip(1);
            let path: Vec<String> = segments.map(str::to_owned).collect();
            let methods = item.as_object().into_iter().flatten();
            let methods = methods.filter(|(method, _)| *method != "parameters" && *method != "servers");
            methods.map(move |(method, operation)| Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                arguments: in_query(operation),
            })
        });
        Table(operations.collect())
    }

    /// Those of the operation; of a path that no operation has, those of all: what answers it refuses it.
    fn arguments(&self, method: &str, segments: &[&str]) -> Vec<Argument> {
        let arguments = match self.find(method, segments) {
            Some(operation) => operation.arguments.clone(),
            None => self.0.iter().flat_map(|operation| operation.arguments.clone()).collect(),
        };
        let mut seen = BTreeSet::new();
        arguments.into_iter().filter(|argument| seen.insert(argument.name.clone())).collect()
    }

    /// A name stands before a parameter: `/plugins/list` is not a plugin.
    fn find(&self, method: &str, segments: &[&str]) -> Option<&Operation> {
        let fitting =
            self.0.iter().filter(|operation| operation.method == method && operation.fits(segments));
        fitting.max_by_key(|operation| operation.path.iter().filter(|part| !is_parameter(part)).count())
    }
}

impl Operation {
    fn fits(&self, segments: &[&str]) -> bool {
        let open = self.path.last().is_some_and(|last| last == "{part}");
        let length = if open { segments.len() >= self.path.len() } else { segments.len() == self.path.len() };
        length && self.path.iter().zip(segments).all(|(part, segment)| is_parameter(part) || part == segment)
    }
}

fn is_parameter(part: &str) -> bool {
    part.starts_with('{')
}

fn in_query(operation: &Value) -> Vec<Argument> {
    let parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
    let in_query = parameters.filter(|parameter| parameter["in"] == "query");
    let argument = |parameter: &Value| {
        let name = parameter.get("name")?.as_str()?.to_owned();
        Some(Argument { name, form: Form::of(&parameter["schema"]) })
    };
    in_query.filter_map(argument).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, target: &str) -> Result<Vec<String>, String> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let known = ADMIN.arguments(method, &segments);
        if method == "GET" { of_read(query, &known) } else { of_write(query, &known).map(|()| Vec::new()) }
    }

    /// As ADC, the ingress controller, Terraform's provider and the dashboard ask.
    #[test]
    fn what_clients_of_apisix_send_is_known() {
        for (method, target) in [
            ("GET", "/routes?page=1&page_size=10&name=a&label=b&uri=c&filter=service_id%3D1"),
            ("GET", "/services?page=1&page_size=500"),
            ("GET", "/stream_routes?page=1&page_size=10&filter=service_id%3D1"),
            ("GET", "/plugins?subsystem=stream&all=true"),
            ("GET", "/plugins/list?subsystem=stream"),
            ("GET", "/plugins/key-auth?schema_type=consumer"),
            ("GET", "/schema/plugins/key-auth?schema_type=consumer"),
            ("GET", "/secrets?page=1&page_size=10"),
            ("PUT", "/routes/1?ttl=10&api_key=k"),
            ("PATCH", "/routes/1/upstream/nodes?ttl=10"),
            ("POST", "/routes?ttl=10"),
            ("DELETE", "/upstreams/1?force=true"),
            ("PUT", "/consumers?wait=applied"),
        ] {
            assert_eq!(asked(method, target), Ok(Vec::new()), "{method} {target}");
        }
        let warned = asked("GET", "/consumers/a/credentials?username=a").expect("no refusal");
        assert_eq!(warned.len(), 1, "{warned:?}");
    }

    #[test]
    fn others_are_refused_or_warned_of() {
        for (method, target, said) in [
            (
                "PUT",
                "/routes/1?wiat=applied",
                "unknown argument wiat; nothing was written; did you mean wait?",
            ),
            ("DELETE", "/routes/1?forec=true", "did you mean force?"),
            ("DELETE", "/routes/1?force=yes", "should be true or false"),
            ("POST", "/rollback?dry_run=true", "there are wait and wait_timeout"),
            ("PUT", "/routes/1?force=true", "unknown argument force"),
            ("PATCH", "/routes/1/a/b?tll=1", "did you mean ttl?"),
            ("PUT", "/nothing?dryrun=true", "unknown argument dryrun"),
            ("GET", "/routes?nmae=x", "unknown argument nmae; did you mean name?"),
            ("GET", "/routes?page=abc&page_size=20", "invalid argument page: should be a number"),
        ] {
            let refused = asked(method, target).expect_err(target);
            assert!(refused.contains(said), "{target}: {refused}");
        }
        for target in ["/routes?sort=name", "/routes/1?verbose=1", "/services?filter=service_id%3D1"] {
            assert_eq!(asked("GET", target).expect("warned of").len(), 1, "{target}");
        }
    }
}
