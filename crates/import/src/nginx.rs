//! nginx.conf: servers that proxy, rewrite, redirect, answer or serve files, and their certificates.
//!
//! An allow list: a place is served only if every directive that applies to it is converted, or is known to have no influence
//! on who gets what. Anything else closes it; see [`effects`] and [`chain`].
//!
//! nginx takes an exact location, else the longest prefix unless a regular expression matches and the prefix is not
//! `^~`. Our router goes by the longest path: regular expressions are entered under every prefix they beat.

mod access;
mod added;
mod again;
mod answers;
mod arrived;
pub(crate) mod at;
mod block;
mod bodies;
mod branch;
mod chain;
mod condition;
mod content;
mod context;
mod definitions;
mod effects;
mod error_pages;
mod fallback;
mod files;
mod forward_auth;
mod groups;
mod ifs;
mod include;
mod index;
mod limits;
mod listen;
mod locations;
mod made;
mod map;
mod maps;
mod names;
mod networks;
mod parse;
mod patterns;
mod places;
mod program;
mod proxy;
mod real_ip;
mod redirects;
mod referers;
mod returns;
mod rewrite;
mod routes;
mod samples;
mod server;
pub(crate) mod sites;
#[cfg(test)]
mod tests;
mod time;
mod tls;
mod variables;

use std::collections::BTreeMap;

pub use self::sites::part::Placement;
use self::{block::Server, context::Context, made::Stop, map::Map};
use crate::{Report, imported::Imported, input::Files};
use chain::{Chain, Kind};
use include::{Includes, Why};
use limits::Zones;
pub use listen::Listeners;
use parse::Directive;
use sites::Sites;
use variables::Variables;

/// What the gateway says of clients, and nginx only where `proxy_set_header` does.
const OWN_FIELDS: &str = "upstreams get X-Real-IP, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-Port, \
                          also where no `proxy_set_header` names them";

pub(crate) fn convert(
    text: &str,
    files: &dyn Files,
    placement: Placement,
    imported: &mut Imported,
) -> Result<(), String> {
    imported.report.count_parts("locations", "nginx");
    let report = &mut imported.report;
    let mut note = |directive: &Directive, why: Why| match why {
        Why::Unread(why) => report.unsupported(&directive.at, &directive.title(), why),
        Why::DeclaredEmpty => report.ignored(&directive.at, &directive.title(), "declared empty"),
    };
    let all = Includes::new(files).expand(parse::parse(text, None)?, &mut note);
    // A part of a configuration is what stands in `http`.
    let mut http: Vec<Directive> = Vec::new();
    let is_whole = all.iter().any(|directive| directive.name == "http");
    for directive in all {
        match (is_whole, directive.name.as_str()) {
            (true, "http") => http.extend(directive.block),
            // What is unread, and what is not known, may be anything: it counts for all servers.
            (true, name) if effects::of(name) != effects::Effect::Closes => outside(&directive, report),
            _ => http.push(directive),
        }
    }
    let maps: Vec<Map> =
        http.iter().filter(|one| one.name == "map" || one.name == "geo").filter_map(Map::of).collect();
    let mut variables = Variables::new(definitions::unknown(&http));
    variables.drops_claims = matches!(placement, Placement::Running | Placement::Elsewhere);
    maps.iter().for_each(|map| variables.set_map(map));
    let mut context = Context { groups: BTreeMap::new(), zones: Zones::default(), files };
    for directive in &http {
        if directive.name == "upstream" {
            context.groups.insert(directive.argument(0), directive);
        }
        context.zones.read(directive);
    }
    context.zones.count_uses(&http);
    let servers: Vec<&Directive> = http.iter().filter(|directive| directive.name == "server").collect();
    if servers.is_empty() {
        return Err("1:1: no `server` block; give the whole nginx.conf or a file with servers".to_owned());
    }
    let sites = Sites::of(&servers, placement);
    imported.listeners = Some(sites.listeners().clone());
    imported.needed = sites.needed().clone();
    if servers.iter().any(|server| server.holds("proxy_pass") || server.holds("grpc_pass")) {
        imported.report.differs_always("proxy_pass", OWN_FIELDS);
    }
    let chain = Chain::new(&[(Kind::Http, &http)]);
    for (index, directive) in servers.iter().enumerate() {
        serve(directive, index, &sites, &chain, &variables, &context, imported);
    }
    Ok(())
}

fn serve<'a>(
    directive: &'a Directive,
    index: usize,
    sites: &Sites,
    http: &Chain<'a>,
    variables: &Variables<'a>,
    context: &Context<'a>,
    imported: &mut Imported,
) {
    let name = directive.one("server_name").map(|names| names.argument(0)).filter(|name| *name != "_");
    let name = name.filter(|name| !name.is_empty()).unwrap_or("default").to_owned();
    let unsent = listen::unsent(directive).join(" ");
    if !unsent.is_empty() {
        let why = format!("in part: requests for `{unsent}` are refused, whose names have other signs");
        imported.report.closed(&directive.at, &format!("server {name}"), &why);
    }
    let locations = || directive.all("location");
    let parts = match sites.parts(index) {
        Ok(parts) => parts,
        Err(Stop::Closed(why)) => {
            imported.report.closed(
                &directive.at,
                &format!("server {name}"),
                &format!("no route leads to it: {why}"),
            );
            locations().for_each(|one| imported.report.part(&one.at, crate::Conversion::Closed));
            return;
        }
        Err(Stop::Split(_)) => return,
    };
    if parts.is_empty() {
        let why = format!("no route leads to it: {}", sites.why_unreached(index));
        imported.report.closed(&directive.at, &format!("server {name}"), &why);
        locations().for_each(|one| imported.report.part(&one.at, crate::Conversion::Closed));
        return;
    }
    if let Some(fault) = sites.fault(index) {
        imported.report.closed(&directive.at, &format!("server {name}"), &format!("in part: {fault}"));
    }
    let mut variables = variables.clone();
    // nginx leaves out a leading `.` or `~`; a server without a name has an empty one.
    let own = directive.one("server_name").map(|names| names.argument(0)).unwrap_or_default();
    variables.set("server_name", own.trim_start_matches(['.', '~']));
    variables.maps_addresses = sites.maps_addresses(index);
    variables.first_name = own.trim_start_matches(['.', '~']).to_lowercase();
    let locations = locations::Locations::of(directive, http);
    samples::of(directive, &locations, &mut imported.samples);
    routes::add(
        &Server { directive, http, locations, variables: &variables },
        &parts,
        &name,
        context,
        imported,
    );
}

/// Around `http`.
fn outside(directive: &Directive, report: &mut Report) {
    match effects::of(&directive.name) {
        effects::Effect::Answers(how) => report.unsupported(&directive.at, &directive.name, how),
        _ => report.ignored(&directive.at, &directive.name, ""),
    }
}
