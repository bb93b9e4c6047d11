//! `auth_request`: plugin forward-auth asks what the location of its path asks.

use serde_json::{Map, Value, json};

use super::{
    again::{Redirected, decided},
    answers::GZIP,
    at::{At, is_step},
    chain::{Chain, Handler},
    groups,
    made::{Made, Stop},
    places::LocationMatch,
    proxy,
    variables::{Variables, in_templates, names::changes_requests},
};
use crate::Report;

/// nginx sends all of the client's fields; these identify the client.
const FIELDS: [&str; 8] =
    ["Authorization", "Cookie", "X-Api-Key", "Apikey", "User-Agent", "Origin", "Referer", "Accept"];

/// Variables that a subrequest has of its own.
const OF_THE_QUESTION: [&str; 6] = ["$arg_", "$args", "$is_args", "$query_string", "$uri", "$document_uri"];

fn has_own_variables(text: &str) -> bool {
    let text = text.replace(['{', '}'], "").to_ascii_lowercase();
    OF_THE_QUESTION.iter().any(|variable| text.contains(variable))
}

/// What forward-auth does in its own way.
const OF_OUR_OWN_ASKING: [&str; 4] =
    ["client_max_body_size", "proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout"];

/// What changes fields and bodies of answers to clients: of the question's answer nginx takes the status, and fields as the service sent
/// them.
const OF_ANSWERS: [&str; 9] = [
    "add_header",
    "expires",
    "proxy_redirect",
    "proxy_cookie_path",
    "proxy_cookie_domain",
    "proxy_cookie_flags",
    "proxy_hide_header",
    "proxy_pass_header",
    "proxy_ignore_headers",
];

/// Fields that nginx adds to the question.
fn extra_fields(
    asked: &Chain<'_>,
    variables: &Variables,
    not: &impl Fn(&str) -> Stop,
) -> Made<Map<String, Value>> {
    let mut extra = Map::new();
    for header in asked.all("proxy_set_header") {
        let (name, value) = (header.argument(0), header.argument(1));
        if value.is_empty() && FIELDS.iter().any(|field| field.eq_ignore_ascii_case(name)) {
            return Err(not(&format!("its question has no field {name}")));
        }
        // Its own path, and no arguments.
        if has_own_variables(value) {
            return Err(not(&format!("`{}` has variables of the question itself", header.title())));
        }
        let is_host_of_its_own = name.eq_ignore_ascii_case("host") && value == "$proxy_host";
        let is_framing = ["content-length", "connection"].contains(&name.to_lowercase().as_str());
        if value.is_empty() || is_framing || is_host_of_its_own {
            continue;
        }
        let text = variables.text(&value.replace("$proxy_add_x_forwarded_for", "$remote_addr"))?;
        extra.insert(name.to_owned(), in_templates(&text).into());
    }
    Ok(extra)
}

/// What decides nothing about the question.
fn take_what_is_no_matter(asked: &Chain<'_>) {
    asked.take(&OF_OUR_OWN_ASKING);
    asked.take(&OF_ANSWERS);
    asked.take(&GZIP);
    asked.take(&["limit_req_status", "limit_conn_status"]);
    for limit in ["limit_req", "limit_conn"] {
        // nginx counts a request once, before it asks: what stands around the location counts for the request.
        if asked.only_of_server(limit) {
            asked.take(&[limit]);
        }
    }
}

pub(super) fn convert<'a>(
    path: &str,
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables,
    report: &mut Report,
) -> Made<Map<String, Value>> {
    let not = |why: &str| Stop::closed(format!("`auth_request {path}`: {why}"));
    if path.contains(['$', '?']) {
        return Err(not("nginx takes it as it is written, with the sign"));
    }
    let (_, location) = at.server.locations.found(path, true)?;
    let variables = &of_the_question(path, at, variables)?;
    if location.directive.block.iter().any(|step| is_step(&step.name)) {
        return Err(not("its location rewrites"));
    }
    let asked = &location.chain;
    let Some(pass) = asked.own_one("proxy_pass") else { return Err(not("its location has no `proxy_pass`")) };
    asked.take(&["internal", "proxy_pass_request_body", "proxy_pass_request_headers"]);
    // The guards of its own location apply to nginx's question as well; `auth_request` is not asked again.
    asked.take(&["auth_request", "auth_request_set"]);
    if !asked.any_of(&["allow", "deny"]).is_empty()
        || asked.one("auth_basic").is_some_and(|basic| basic.argument(0) != "off")
    {
        return Err(not("its location has guards of its own"));
    }
    take_what_is_no_matter(asked);
    // Each question is asked, where nginx may keep what it was answered.
    asked.take(&super::effects::CACHE);
    super::error_pages::of_question(asked)?;
    if has_own_variables(pass.argument(0)) {
        return Err(not(&format!("`{}` has variables of the question itself", pass.title())));
    }
    // What the question leaves out decides it as well.
    if asked.word("proxy_pass_request_headers") == "off" {
        return Err(not("its question has no fields of the client"));
    }
    let target = proxy::target(pass, variables)?;
    let server = server_of(&target, at, &not)?;
    let rest = match (&location.place, &target.path) {
        (_, None) => path.to_owned(),
        (LocationMatch::Exact(_), Some(base)) => base.clone(),
        (LocationMatch::Prefix { path: own, .. }, Some(base)) => {
            format!("{base}{}", path.strip_prefix(own.as_str()).unwrap_or_default())
        }
        _ => return Err(not("its location is a regular expression")),
    };
    let mut extra = extra_fields(asked, variables, &not)?;
    if server != target.authority && !extra.keys().any(|name| name.eq_ignore_ascii_case("host")) {
        // nginx sends the name that `proxy_pass` has.
        extra.insert("Host".to_owned(), target.authority.clone().into());
    }
    asked.check(Handler::Proxy, report).map_err(|stop| match stop {
        Stop::Closed(why) => not(&format!("{why} in its location")),
        split => split,
    })?;
    let mut conf = json!({
        "uri": format!("{}://{server}{rest}", target.scheme),
        "ssl_verify": false,
        "request_headers": FIELDS,
        "client_headers": ["WWW-Authenticate"],
        "status_on_error": 500,
        "upstream_headers": passed_on(chain, &not)?,
    });
    if !extra.is_empty() {
        conf["extra_headers"] = extra.into();
    }
    let how = "the fields Authorization, Cookie and those of browsers and keys are sent; other fields of the client are not";
    report.approximated(&pass.at, "auth_request", how);
    Ok(Map::from_iter([("forward-auth".to_owned(), conf)]))
}

/// The address that is asked. Of a group there must be one.
fn server_of(target: &proxy::Target, at: &At<'_, '_>, not: &impl Fn(&str) -> Stop) -> Made<String> {
    if target.scheme.starts_with("grpc") {
        return Err(not("it is asked by gRPC"));
    }
    let Some(group) = at.context.groups.get(target.authority.as_str()) else {
        return Ok(target.authority.clone());
    };
    let several = "its upstream is a group of several servers; write the address of one in `proxy_pass`";
    groups::only_server(group).ok_or_else(|| not(several))
}

/// The variables of the question, which starts with the steps of the server and shares what they set with the request.
fn of_the_question<'a>(path: &str, at: &At<'_, 'a>, variables: &Variables<'a>) -> Made<Variables<'a>> {
    let server = at.server.directive;
    let made = Redirected::to(path).variables(at.server, None, variables);
    let made = made.map_err(|step| decided(step, path))?;
    let mut set = server.all("set").chain(server.all("if").flat_map(|step| step.all("set")));
    match set.find(|step| made.text(step.argument(0)) != variables.text(step.argument(0))) {
        None => Ok(made),
        Some(step) => {
            let why = format!("`{}` of line {} runs again for `{path}`", step.title(), step.at.line);
            Err(Stop::Closed(why))
        }
    }
}

/// `auth_request_set $user $upstream_http_x_user` with `proxy_set_header X-User $user`: the answer's field is
/// passed on.
fn passed_on(chain: &Chain, not: &dyn Fn(&str) -> Stop) -> Made<Vec<String>> {
    let mut fields = Vec::new();
    for set in chain.all("auth_request_set") {
        let is_plain = !changes_requests(set.argument(0).trim_start_matches('$'));
        let Some(field) = set.argument(1).strip_prefix("$upstream_http_").filter(|_| is_plain) else {
            return Err(not(&format!("`{}` is not converted", set.title())));
        };
        let field = field.replace('_', "-");
        let used = chain
            .all("proxy_set_header")
            .into_iter()
            .find(|header| header.argument(1).eq_ignore_ascii_case(set.argument(0)));
        match used {
            Some(header) if header.argument(0).eq_ignore_ascii_case(&field) => {
                fields.push(header.argument(0).to_owned());
            }
            Some(_) => return Err(not(&format!("`{}` is used under another name", set.argument(0)))),
            None => {}
        }
    }
    Ok(fields)
}
