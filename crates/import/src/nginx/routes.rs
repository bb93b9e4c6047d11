//! The blocks of a server as routes, with what the report says of them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    added,
    block::{Block, Server},
    branch::Branch,
    condition::Condition,
    context::Context,
    locations::bare,
    sites::part::Part,
    tls,
};
use crate::{Conversion, Report, imported::Imported};

/// Adds the routes of a server for these names and sockets.
pub(super) fn add(server: &Server, parts: &[Part], name: &str, context: &Context, imported: &mut Imported) {
    let is_default = parts.iter().any(|part| part.is_default);
    tls::convert(server, parts, context, imported);
    let blocks = server.blocks(context, name, is_default, &mut imported.report);
    let band = 1 + blocks.iter().map(|block| block.branches.len()).max().unwrap_or(0);
    for block in &blocks {
        let mut closed = vec![Vec::new(); block.branches.len()];
        for (number, part) in parts.iter().enumerate() {
            let suffix = if number == 0 { String::new() } else { format!("-{}", number + 1) };
            add_block(block, part, &format!("{}{suffix}", block.name), band, &mut closed, imported);
        }
        report_block(block, &closed, &mut imported.report);
    }
    slashes(server, &blocks, parts, imported);
}

/// Of one cause as many routes are named.
const MAX_NAMED: usize = 5;

/// What the report and the verdict say of a block; `ids`: the closed routes of each branch.
fn report_block(block: &Block, ids: &[Vec<String>], report: &mut Report) {
    let mut closed: Vec<(&String, Vec<&str>)> = Vec::new();
    let mut count = 0;
    for (branch, ids) in block.branches.iter().zip(ids) {
        let Some(why) = &branch.closed else { continue };
        count += 1;
        let ids = ids.iter().map(String::as_str);
        match closed.iter_mut().find(|(known, _)| *known == why) {
            Some((_, known)) => known.extend(ids),
            None => closed.push((why, ids.collect())),
        }
    }
    for (why, ids) in &closed {
        let what = if count == block.branches.len() { "" } else { "in part; " };
        let more = if ids.len() > MAX_NAMED { ", …" } else { "" };
        let named = ids.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
        let routes = if ids.is_empty() { String::new() } else { format!(" ({named}{more})") };
        report.closed(&block.at, &block.subject, &format!("{what}{why}{routes}"));
    }
    let outcome = match closed.is_empty() {
        false => Conversion::Closed,
        true if block.differs => Conversion::Approximated,
        true => Conversion::Converted,
    };
    if closed.is_empty() {
        report.converted(&block.at, &block.subject);
    }
    if block.is_location {
        report.part(&block.at, outcome);
    }
}

/// `closed`: for each branch, the routes that answer 501.
fn add_block(
    block: &Block,
    part: &Part,
    name: &str,
    band: usize,
    closed: &mut [Vec<String>],
    imported: &mut Imported,
) {
    if block.uris.is_empty() {
        // No path comes here.
        return;
    }
    let count = block.branches.len();
    for (index, branch) in block.branches.iter().enumerate() {
        let condition =
            Condition::all([part.condition.clone(), block.condition.clone(), branch.condition.clone()]);
        if condition == Condition::Never {
            continue;
        }
        let name = if index + 1 == count { name.to_owned() } else { format!("{name}-{}", index + 1) };
        let id = imported.output.id("routes", &name);
        let mut route = match &branch.closed {
            Some(why) => {
                closed.iter_mut().skip(index).take(1).for_each(|routes| routes.push(id.clone()));
                crate::closed::route(&id, &format!("{}: {why}", block.subject))
            }
            None => json!({"plugins": branch.plugins}),
        };
        if let Some(upstream) = &branch.upstream {
            route["upstream"] = upstream.clone();
        }
        if branch.upgrades {
            route["enable_websocket"] = true.into();
        }
        place(&mut route, part, &block.uris, &condition, block.rank * band + count - index);
        imported.report.made("routes", &id, &block.at);
        imported.output.add("routes", &id, route);
    }
}

fn place(route: &mut Value, part: &Part, uris: &[String], condition: &Condition, priority: usize) {
    if !part.hosts.is_empty() {
        route["hosts"] = part.hosts.clone().into();
    }
    let vars = condition.vars();
    if !vars.is_empty() {
        route["vars"] = vars.into();
    }
    route["uris"] = uris.into();
    route["priority"] = priority.into();
}

fn slashes(server: &Server, blocks: &[Block], parts: &[Part], imported: &mut Imported) {
    let names: HashMap<&crate::At, &str> =
        blocks.iter().rev().map(|block| (&block.at, block.name.as_str())).collect();
    for location in &server.locations.all {
        let Some(bare) = bare(&server.locations, location) else { continue };
        let Some(block) = names.get(&location.directive.at) else { continue };
        let (status, mut plugins) = if location.chain.one("internal").is_some() {
            (404, Branch::status(404).plugins)
        } else {
            location.chain.redirects_to_path(&mut imported.report);
            let redirect = json!({"uri": format!("{bare}/"), "ret_code": 301, "append_query_string": true});
            (301, Map::from_iter([("redirect".to_owned(), redirect)]))
        };
        // With the fields of the location; where they are not converted, the location is closed and says so.
        let (chain, report) = (&location.chain, &mut Report::default());
        let _ = added::headers(chain, server.variables, Some(status), &mut plugins, report);
        for (number, part) in parts.iter().enumerate() {
            let name = format!("{block}-slash-{}", number + 1);
            let mut route = json!({"plugins": plugins});
            place(&mut route, part, &[bare.to_owned()], &part.condition, 0);
            let id = imported.output.id("routes", &name);
            imported.report.made("routes", &id, &location.directive.at);
            imported.output.add("routes", &id, route);
        }
    }
}
