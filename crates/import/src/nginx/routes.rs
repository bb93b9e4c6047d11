//! The blocks of a server as routes, with what the report says of them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    answers,
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
        report_block(block, &mut imported.report);
        for (number, part) in parts.iter().enumerate() {
            let suffix = if number == 0 { String::new() } else { format!("-{}", number + 1) };
            add_block(block, part, &format!("{}{suffix}", block.name), band, imported);
        }
    }
    slashes(server, &blocks, parts, imported);
}

/// What the report and the verdict say of a block.
fn report_block(block: &Block, report: &mut Report) {
    let closed: Vec<&String> = block.branches.iter().filter_map(|branch| branch.closed.as_ref()).collect();
    for why in &closed {
        let all = closed.len() == block.branches.len();
        let what = if all { "" } else { "in part; " };
        report.closed(&block.at, &block.subject, &format!("{what}{why} ({})", closed_id(block)));
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

fn closed_id(block: &Block) -> String {
    crate::closed::id(&block.name)
}

fn add_block(block: &Block, part: &Part, name: &str, band: usize, imported: &mut Imported) {
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
        let mut route = match &branch.closed {
            Some(why) => crate::closed::route(&closed_id(block), &format!("{}: {why}", block.subject)),
            None => json!({"plugins": branch.plugins}),
        };
        if let Some(upstream) = &branch.upstream {
            route["upstream"] = upstream.clone();
        }
        if branch.upgrades {
            route["enable_websocket"] = true.into();
        }
        let name = if index + 1 == count { name.to_owned() } else { format!("{name}-{}", index + 1) };
        place(&mut route, part, &block.uris, &condition, block.rank * band + count - index, imported, &name);
    }
}

fn place(
    route: &mut Value,
    part: &Part,
    uris: &[String],
    condition: &Condition,
    priority: usize,
    imported: &mut Imported,
    name: &str,
) {
    if !part.hosts.is_empty() {
        route["hosts"] = part.hosts.clone().into();
    }
    let vars = condition.vars();
    if !vars.is_empty() {
        route["vars"] = vars.into();
    }
    route["uris"] = uris.into();
    route["priority"] = priority.into();
    let id = imported.output.id("routes", name);
    imported.output.add("routes", &id, route.take());
}

fn slashes(server: &Server, blocks: &[Block], parts: &[Part], imported: &mut Imported) {
    let names: HashMap<&crate::At, &str> =
        blocks.iter().rev().map(|block| (&block.at, block.name.as_str())).collect();
    for location in &server.locations.all {
        let Some(bare) = bare(&server.locations, location) else { continue };
        let Some(block) = names.get(&location.directive.at) else { continue };
        let mut plugins = if location.chain.one("internal").is_some() {
            Branch::status(404).plugins
        } else {
            let redirect = json!({"uri": format!("{bare}/"), "ret_code": 301, "append_query_string": true});
            Map::from_iter([("redirect".to_owned(), redirect)])
        };
        // With the fields of the location; where they are not converted, the location is closed and says so.
        let _ = answers::headers(&location.chain, server.variables, &mut plugins, &mut Report::default());
        for (number, part) in parts.iter().enumerate() {
            let name = format!("{block}-slash-{}", number + 1);
            let mut route = json!({"plugins": plugins});
            place(&mut route, part, &[bare.to_owned()], &part.condition.clone(), 0, imported, &name);
        }
    }
}
