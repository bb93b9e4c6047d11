//! `proxy_pass` and `grpc_pass`, upstream groups, and what else stands beside them.

use serde_json::{Map, Value, json};

use super::{
    added, answers, bodies,
    branch::{Branch, Sent},
    chain::Chain,
    context::Context,
    groups, limits,
    made::{Made, Stop},
    parse::Directive,
    places::LocationMatch,
    time::time,
    variables::{Variables, in_templates},
};
use crate::Report;

/// Where a `proxy_pass` leads.
pub(super) struct Target {
    pub scheme: String,
    pub authority: String,
    /// Replaces what the location matched.
    pub path: Option<String>,
}

pub(super) fn target(directive: &Directive, variables: &Variables) -> Made<Target> {
    let given = directive.argument(0);
    let url = variables.literal(given)?;
    let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
    let scheme = match (directive.name.as_str(), scheme) {
        ("grpc_pass", "" | "grpc") => "grpc",
        ("grpc_pass", "grpcs") => "grpcs",
        ("proxy_pass", "http") => "http",
        ("proxy_pass", "https") => "https",
        _ => return Err(Stop::closed(format!("`{}` is not converted", directive.title()))),
    };
    if rest.starts_with("unix:") {
        return Err(Stop::closed("unix sockets cannot be upstreams here"));
    }
    let (authority, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
    // nginx replaces nothing where variables are: the path is the whole one.
    if path.is_some() && given.contains('$') {
        return Err(Stop::closed(format!(
            "`{}`: a path behind variables is not converted",
            directive.title()
        )));
    }
    Ok(Target { scheme: scheme.to_owned(), authority: authority.to_owned(), path: path.map(str::to_owned) })
}

/// The upstream of a `proxy_pass`, with the plugins for its path.
pub(crate) fn pass(
    directive: &Directive,
    place: &LocationMatch,
    chain: &Chain,
    variables: &Variables,
    context: &Context,
    report: &mut Report,
) -> Made<Branch> {
    let Target { scheme, authority, path } = target(directive, variables)?;
    let group = context.groups.get(authority.as_str()).copied();
    let mut upstream = match group {
        Some(group) => groups::group(group, &scheme, report)?,
        None => json!({"type": "roundrobin", "nodes": [groups::node(&authority, &scheme, 1)?]}),
    };
    upstream["scheme"] = scheme.as_str().into();
    host(chain, variables, &authority, group.is_some(), &mut upstream)?;
    let seconds = |names: &'static [&'static str]| {
        let found = chain.any_of(names);
        found.first().and_then(|found| time(found.argument(0))).unwrap_or(60.0)
    };
    upstream["timeout"] = json!({
        "connect": seconds(&["proxy_connect_timeout", "grpc_connect_timeout"]),
        "send": seconds(&["proxy_send_timeout", "grpc_send_timeout"]),
        "read": seconds(&["proxy_read_timeout", "grpc_read_timeout"]),
    });
    let mut plugins = Map::new();
    let sent = match (path, place) {
        (None, _) => Sent::Whole,
        (Some(base), LocationMatch::Exact(path)) => {
            plugins.insert("proxy-rewrite".to_owned(), json!({"uri": base}));
            Sent::Behind { location: path.clone(), base }
        }
        // With a path nginx sends its own form of it, even where it is the location's.
        (Some(base), LocationMatch::Prefix { path, .. }) => {
            let pattern = format!("(?s)^{}(.*)$", regex::escape(path));
            plugins.insert("proxy-rewrite".to_owned(), json!({"regex_uri": [pattern, format!("{base}$1")]}));
            Sent::Behind { location: path.clone(), base }
        }
        (Some(_), LocationMatch::Regex(_) | LocationMatch::Named(_)) => {
            return Err(Stop::closed("nginx refuses a `proxy_pass` with a path here too"));
        }
    };
    request_headers(chain, variables, sent == Sent::Whole, &mut plugins)?;
    Ok(Branch { sent, upgrades: upgrades(chain), ..Branch::new(plugins, Some(upstream)) })
}

/// Without a word on it nginx sends the name that `proxy_pass` has.
fn host(
    chain: &Chain,
    variables: &Variables,
    authority: &str,
    is_group: bool,
    upstream: &mut Value,
) -> Made<()> {
    let headers = chain.any_of(&["proxy_set_header", "grpc_set_header"]);
    let given = headers.iter().find(|header| header.argument(0).eq_ignore_ascii_case("host"));
    let text = match given.map(|header| header.argument(1)) {
        Some("$host" | "$http_host" | "$host:$server_port") => {
            upstream["pass_host"] = "pass".into();
            return Ok(());
        }
        Some("$proxy_host") | None if is_group => authority.to_owned(),
        Some("$proxy_host") | None => {
            upstream["pass_host"] = "node".into();
            return Ok(());
        }
        Some(text) => variables.literal(text)?,
    };
    upstream["pass_host"] = "rewrite".into();
    upstream["upstream_host"] = text.into();
    Ok(())
}

/// The field of proxy-rewrite with which the path is passed on as the client wrote it.
pub(crate) const REAL_PATH: &str = "use_real_request_uri_unsafe";

/// The fields of `proxy_set_header`.
fn request_headers(
    chain: &Chain,
    variables: &Variables,
    keeps_path: bool,
    plugins: &mut Map<String, Value>,
) -> Made<()> {
    let (mut set, mut remove) = (Map::new(), Vec::new());
    for header in chain.any_of(&["proxy_set_header", "grpc_set_header"]) {
        let (name, value) = (header.argument(0), header.argument(1));
        // The gateway writes these itself, as this line would.
        let is_normal_host = ["$host", "$host:$server_port"].contains(&value);
        let own = match name.to_lowercase().as_str() {
            // In lower case, without the client's port and the dot at the end.
            "host" => !is_normal_host,
            name => name == "connection" || name == "upgrade",
        };
        let is_forwarded = name.eq_ignore_ascii_case("X-Forwarded-For");
        if is_forwarded && value == "$remote_addr" {
            // The client's address is added behind what is there.
            remove.push(name.to_owned());
            continue;
        }
        let forwarded = is_forwarded && value == "$proxy_add_x_forwarded_for";
        // The guard passes it on.
        let answered =
            chain.all("auth_request_set").iter().any(|set| set.argument(0).eq_ignore_ascii_case(value));
        if own || forwarded || answered {
            continue;
        }
        let text = match variables.text(value) {
            Err(Stop::Closed(why)) => {
                return Err(Stop::closed(format!("`{}` of line {}: {why}", header.title(), header.at.line)));
            }
            other => other?,
        };
        match text.as_str() {
            "" => remove.push(name.to_owned()),
            _ => {
                let same = set.keys().find(|other| other.eq_ignore_ascii_case(name)).cloned();
                let lines = set.entry(same.unwrap_or_else(|| name.to_owned())).or_insert_with(|| json!([]));
                lines.as_array_mut().into_iter().for_each(|lines| lines.push(in_templates(&text).into()));
            }
        }
    }
    // An empty line is not sent beside others.
    remove.retain(|name| !set.keys().any(|other| other.eq_ignore_ascii_case(name)));
    for lines in set.values_mut() {
        if let Some([only]) = lines.as_array().map(Vec::as_slice) {
            *lines = only.clone();
        }
    }
    if !set.is_empty() || !remove.is_empty() {
        let rewrite = plugins.entry("proxy-rewrite").or_insert_with(|| json!({}));
        let mut headers = Map::new();
        if !set.is_empty() {
            headers.insert("set".to_owned(), set.into());
        }
        if !remove.is_empty() {
            headers.insert("remove".to_owned(), remove.into());
        }
        rewrite["headers"] = headers.into();
        if keeps_path {
            rewrite[REAL_PATH] = true.into();
        }
    }
    Ok(())
}

/// Whether a client may leave HTTP.
fn upgrades(chain: &Chain) -> bool {
    chain.all("proxy_set_header").iter().any(|header| {
        header.argument(0).eq_ignore_ascii_case("upgrade") && header.argument(1) == "$http_upgrade"
    })
}

/// What applies to files and to proxies.
pub(crate) fn extras(
    chain: &Chain,
    variables: &Variables,
    context: &Context,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) -> Made<()> {
    added::headers(chain, variables, None, plugins, report)?;
    answers::gzip(chain, plugins, report);
    bodies::limits(chain, plugins)?;
    limits::requests(chain, &context.zones, variables, plugins, report)?;
    limits::connections(chain, &context.zones, variables, plugins, report)
}
