//! A server and its locations as routes.
//!
//! Each block has a band of priorities: its own route at the bottom, its rewrites above, the first one highest. Bands of
//! regular expressions lie above those of prefixes, that of the server's own rewrites on top.

use serde_json::{Map, Value, json};

use super::{
    Context, Place, Ports, answers, files, guard, is_inherited, left_out, not_converted,
    parse::Directive,
    place,
    places::uri,
    proxy,
    rewrite::{self, Located},
    tls,
};
use crate::Imported;

/// What all routes of a server share.
struct Site<'a> {
    name: String,
    hosts: Vec<String>,
    /// A condition that all of its routes have.
    ports: Option<Value>,
    /// Priorities in a band.
    band: usize,
    http: &'a [Directive],
    server: &'a Directive,
}

impl Site<'_> {
    fn add(
        &self,
        name: &str,
        uris: &[String],
        priority: usize,
        conditions: &[Value],
        mut route: Value,
        imported: &mut Imported,
    ) {
        if !self.hosts.is_empty() {
            route["hosts"] = self.hosts.clone().into();
        }
        let conditions: Vec<Value> = self.ports.iter().chain(conditions).cloned().collect();
        if !conditions.is_empty() {
            route["vars"] = conditions.into();
        }
        route["uris"] = uris.into();
        route["priority"] = priority.into();
        let id = imported.output.id("routes", name);
        imported.output.add("routes", &id, route);
    }

    /// The routes of a block's rewrites, above `floor`.
    fn add_rewrites(
        &self,
        (name, uris): (&str, &[String]),
        floor: usize,
        condition: Option<&Value>,
        rewrites: Vec<rewrite::Rewritten>,
        imported: &mut Imported,
    ) {
        let count = rewrites.len();
        for (index, rewrite) in rewrites.into_iter().enumerate() {
            let mut conditions: Vec<Value> = condition.into_iter().cloned().collect();
            conditions.push(json!(["uri", "~~", rewrite.pattern]));
            let name = format!("{name}-rewrite-{}", index + 1);
            self.add(&name, uris, floor + count - index, &conditions, rewrite.route, imported);
        }
    }
}

pub fn serve(
    server: &Directive,
    http: &[Directive],
    is_default: bool,
    context: &Context,
    imported: &mut Imported,
) {
    let hosts = hosts(server, imported);
    tls::convert(server, http, &hosts, context, imported);
    let name = hosts.first().cloned().unwrap_or_else(|| "default".to_owned());
    let hosts = if is_default { Vec::new() } else { hosts };
    if !is_default && hosts.is_empty() {
        let why = "it is not the default server and has no usable `server_name`";
        return imported.report.unsupported(server.line, &format!("server {name}"), why);
    }
    for directive in &server.block {
        let name = directive.name.as_str();
        if !OF_SERVERS.contains(&name) && !is_inherited(name) {
            left_out(directive, &mut imported.report);
        }
    }
    let blocks = || server.all("location").map(|location| &location.block).chain([&server.block]);
    let band = 1 + blocks().map(|block| rewrite::of(block).len()).max().unwrap_or(0);
    let site = Site { name, hosts, ports: Ports::of(server).condition(context), band, http, server };
    let locations = locations(&site, context, imported);
    server_rewrites(&site, &locations, imported);
    if let Some(answer) = server.one("return") {
        // It answers before any location is looked for.
        let block = server.block.as_slice();
        if let Some(mut plugins) = answers::answered(answer, &mut imported.report) {
            answers::headers(&[block, block, http], &mut plugins, &mut imported.report);
            site.add(&site.name, &["/*".to_owned()], 0, &[], json!({"plugins": plugins}), imported);
        }
        return;
    }
    for (index, location) in locations.iter().enumerate() {
        add_location(&site, &locations, index, location, imported);
    }
    add_rest(&site, &locations, is_default, context, imported);
}

/// What a server's block may hold besides what inner blocks inherit.
const OF_SERVERS: [&str; 8] =
    ["location", "server_name", "return", "listen", "try_files", "rewrite", "ssl", "ssl_certificate"];

fn locations<'a>(site: &Site<'a>, context: &Context, imported: &mut Imported) -> Vec<Located<'a>> {
    let mut located = Vec::new();
    if site.server.one("return").is_some() {
        return located;
    }
    for location in site.server.block.iter().filter(|directive| directive.name == "location") {
        let Some(place) = place(location) else {
            imported.report.unsupported(
                location.line,
                "location",
                "named and relative locations are left out",
            );
            continue;
        };
        let scopes = [location.block.as_slice(), site.server.block.as_slice(), site.http];
        let route = locate(location, &place, &scopes, context, imported);
        located.push(Located { directive: location, place, route });
    }
    located
}

fn server_rewrites(site: &Site, locations: &[Located], imported: &mut Imported) {
    let block = &site.server.block;
    let scopes = [block.as_slice(), block.as_slice(), site.http];
    let rewrites = rewrite::convert(block, None, locations, guard(&scopes).is_some(), &mut imported.report);
    let mut uris: Vec<String> = locations.iter().map(|location| uri(&location.place)).collect();
    uris.push("/*".to_owned());
    uris.sort();
    uris.dedup();
    let floor = (locations.len() + 2) * site.band;
    site.add_rewrites((&site.name, &uris), floor, None, rewrites, imported);
}

fn add_location(site: &Site, all: &[Located], index: usize, location: &Located, imported: &mut Imported) {
    let mut uris = vec![uri(&location.place)];
    let mut condition = None;
    let mut floor = 0;
    if let Place::Regex(pattern) = &location.place {
        uris.extend(all.iter().filter_map(|other| match &other.place {
            Place::Prefix { ends: false, path } if path != "/" => Some(uri(&other.place)),
            _ => None,
        }));
        condition = Some(json!(["uri", "~~", pattern]));
        floor = (1 + all.len() - index) * site.band;
    }
    let line = location.directive.line;
    let name = format!("{}-{line}", site.name);
    let block = &location.directive.block;
    let scopes = [block.as_slice(), site.server.block.as_slice(), site.http];
    let rewrites = rewrite::convert(block, Some(index), all, guard(&scopes).is_some(), &mut imported.report);
    site.add_rewrites((&name, &uris), floor, condition.as_ref(), rewrites, imported);
    if location.route.is_some() {
        let subject = format!("location {}", location.directive.arguments.join(" "));
        imported.report.converted(line, &subject);
    }
    // Left out, its requests would go to the next shorter location, past whatever guarded this one.
    let route = location.route.clone().unwrap_or_else(|| json!({"plugins": not_converted()}));
    let conditions: Vec<Value> = condition.into_iter().collect();
    let proxies = route.get("upstream").is_some();
    site.add(&name, &uris, floor, &conditions, route, imported);
    if let Some(bare) = without_slash(&location.place, all).filter(|_| proxies) {
        let redirect =
            json!({"redirect": {"uri": format!("{bare}/"), "ret_code": 301, "append_query_string": true}});
        site.add(&format!("{name}-slash"), &[bare], floor, &[], json!({"plugins": redirect}), imported);
    }
}

/// The path of a prefix location without its slash, which nginx sends on to the one with it, if no location has it.
fn without_slash(place: &Place, all: &[Located]) -> Option<String> {
    let Place::Prefix { path, .. } = place else { return None };
    let bare = path.strip_suffix('/').filter(|bare| !bare.is_empty())?;
    let taken = all.iter().any(|other| match &other.place {
        Place::Exact(other) | Place::Prefix { path: other, .. } => other == bare,
        Place::Regex(_) => false,
    });
    (!taken).then(|| bare.to_owned())
}

/// What no location takes.
fn add_rest(
    site: &Site,
    locations: &[Located],
    is_default: bool,
    context: &Context,
    imported: &mut Imported,
) {
    if locations.iter().any(|location| matches!(&location.place, Place::Prefix { path, .. } if path == "/")) {
        return;
    }
    let everything = ["/*".to_owned()];
    let block = site.server.block.as_slice();
    let own_files = [block, block, site.http];
    if files::serves(&own_files) {
        // From the server's own directory.
        let rest = Place::Prefix { path: "/".to_owned(), ends: false };
        let closed = guard(&own_files).is_some_and(|guard| {
            let why =
                format!("`{}` of line {} is not converted: its files answer 501", guard.name, guard.line);
            imported.report.unsupported(site.server.line, &format!("server {}", site.name), &why);
            true
        });
        let converted = match closed {
            true => None,
            false => files::convert(site.server.line, &rest, &own_files, context, &mut imported.report),
        };
        let route = converted.unwrap_or_else(|| json!({"plugins": not_converted()}));
        site.add(&format!("{}-files", site.name), &everything, 0, &[], route, imported);
    } else if !is_default {
        // Its hosts must not end up at the default server.
        let abort = json!({"fault-injection": {"abort": {"http_status": 404}}});
        site.add(&format!("{}-else", site.name), &everything, 0, &[], json!({"plugins": abort}), imported);
    }
}

/// A route without its place, `None` if the location does nothing that is converted, or is guarded by what is not.
fn locate(
    location: &Directive,
    place: &Place,
    scopes: &[&[Directive]; 3],
    context: &Context,
    imported: &mut Imported,
) -> Option<Value> {
    for directive in &location.block {
        let name = directive.name.as_str();
        let known = ["proxy_pass", "return", "rewrite"].contains(&name) || files::OWN.contains(&name);
        if !known && !is_inherited(name) {
            left_out(directive, &mut imported.report);
        }
    }
    if let Some(answer) = location.one("return") {
        let mut plugins = answers::answered(answer, &mut imported.report)?;
        answers::headers(scopes, &mut plugins, &mut imported.report);
        return Some(json!({"plugins": plugins}));
    }
    let pass = location.one("proxy_pass");
    if pass.is_none() && !files::serves(scopes) {
        let why = "it has neither `proxy_pass` nor `return` nor a `root`: it answers 501";
        imported.report.unsupported(location.line, "location", why);
        return None;
    }
    if let Some(guard) = guard(scopes) {
        let why = format!("`{}` of line {} is not converted: it answers 501", guard.name, guard.line);
        imported.report.unsupported(location.line, "location", &why);
        return None;
    }
    let Some(pass) = pass else {
        return files::convert(location.line, place, scopes, context, &mut imported.report);
    };
    let mut plugins = Map::new();
    let upstream = proxy::pass(pass, place, scopes, context, &mut plugins, &mut imported.report)?;
    proxy::extras(scopes, context, &mut plugins, &mut imported.report);
    Some(json!({"upstream": upstream, "plugins": plugins}))
}

fn hosts(server: &Directive, imported: &mut Imported) -> Vec<String> {
    let mut hosts = Vec::new();
    for directive in server.all("server_name") {
        for name in &directive.arguments {
            match name.strip_prefix('.') {
                Some(domain) => hosts.extend([domain.to_owned(), format!("*.{domain}")]),
                None if name == "_" || name.is_empty() => {}
                None if name.starts_with('~') || name.ends_with('*') => {
                    let why = format!("{name}: names, and wildcards in front, are converted");
                    imported.report.unsupported(directive.line, "server_name", &why);
                }
                None => hosts.push(name.to_lowercase()),
            }
        }
    }
    hosts
}
