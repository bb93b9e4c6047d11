//! Routes, in the order in which Kong would try them.
//!
//! Kong asks routes with more kinds of conditions first, then exact hosts, more headers, regular expressions by
//! their priority, longer paths, and higher ids (see [`super::ties`]). Our router goes by the longest path and among equal paths
//! by priority. So each of Kong's routes becomes one of ours per path, with its rank as priority, and a route that
//! comes before one with a longer path is entered under that path too.

mod expand;

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use tidegate_config::yaml::Node;

use super::{
    conditions::{conditions, rewrite},
    entities::Entities,
    entry::Entry,
    grpc_gateway, merge,
    node::{key_text, label, name},
    order::Order,
    plugins, ties, upstreams,
};
use crate::{
    Conversion, closed,
    imported::Imported,
    names::{folded, words_of_path},
};
use expand::expand;

/// Priorities of a route: its own, and above it those of the rules of grpc-gateway.
const BAND: usize = 1000;

pub(super) fn convert(
    entities: &Entities,
    files: &dyn Fn(&str) -> Result<String, String>,
    imported: &mut Imported,
) {
    let mut entries = Vec::new();
    for (created, (node, service)) in entities.routes.iter().enumerate() {
        let expand = |imported: &mut Imported| expand(entities, node, *service, created, imported);
        let (made, differs) = crate::imported::aside(imported, expand);
        entries.extend(made.into_iter().map(|entry| Entry { differs, ..entry }));
    }
    entries.sort_by_key(|entry| entry.rank);
    ties::resolve_ties(entities, &mut entries, imported);
    let order = Order::of(entries.iter().map(|entry| &entry.path));
    let native = !order.is_flat && hosts_are_native(&entries);
    let count = entries.len();
    let names = Names::of(&entries);
    let mut upstreams = HashMap::new();
    let mut verdicts = Verdicts::default();
    for (index, entry) in entries.iter().enumerate() {
        let uris = order.uris(&entry.path, index);
        let mut route = json!({"name": name(entry.node), "uris": uris, "priority": (count - index) * BAND});
        let id = imported.output.id("routes", &names.of_entry(entry));
        let (served, differs) = crate::imported::aside(imported, |imported| {
            conditions(entry, native, order.is_flat, &mut route);
            serve(entities, entry, &names, &mut route, &mut upstreams, files, imported)
        });
        let outcome = match served {
            Ok(Same(same)) if same && !differs && !entry.differs => Conversion::Converted,
            Ok(_) => Conversion::Approximated,
            Err(why) => {
                let subject = label("route", entry.node);
                imported.report.closed(entry.node.line, &subject, &format!("{why} ({})", closed::id(&id)));
                close(&mut route, &closed::id(&id), &format!("{subject}: {why}"));
                Conversion::Closed
            }
        };
        imported.report.made("routes", &id, entry.node.line);
        verdicts.add(entry.node, outcome, objects(&id, &route));
        imported.output.add("routes", &id, route);
        if outcome != Conversion::Closed {
            imported.report.converted(entry.node.line, &label("route", entry.node));
        }
    }
    verdicts.report(entities, imported);
}

/// What a route is served with.
fn objects(id: &str, route: &Value) -> Vec<String> {
    let mut all = vec![format!("routes/{id}")];
    all.extend(route.get("upstream_id").and_then(Value::as_str).map(|id| format!("upstreams/{id}")));
    if route.get("plugins").and_then(Value::as_object).is_some_and(plugins::know_consumers) {
        all.extend(["consumers", "consumer_groups"].map(str::to_owned));
    }
    all
}

fn preserves_host(route: &Node) -> bool {
    key_text(route, "preserve_host").as_deref() == Some("true")
}

/// Of the start of a name, where more follows.
const LONGEST_START: usize = 30;

/// The ids of what one entity of the file becomes several objects of: by what each is for, not by its number.
struct Names {
    paths: HashMap<*const Node, usize>,
    /// Services that some route asks by their own name.
    renaming: HashSet<*const Node>,
}

impl Names {
    fn of(entries: &[Entry]) -> Names {
        let mut names = Names { paths: HashMap::new(), renaming: HashSet::new() };
        for entry in entries {
            *names.paths.entry(std::ptr::from_ref(entry.node)).or_default() += 1;
            let service = entry.service.filter(|_| !preserves_host(entry.node));
            names.renaming.extend(service.map(std::ptr::from_ref));
        }
        names
    }

    /// `orders`, and of a route with several paths `orders-v1-orders-1f3a`.
    fn of_entry(&self, entry: &Entry) -> String {
        let name = name(entry.node);
        if self.paths.get(&std::ptr::from_ref(entry.node)).is_none_or(|count| *count == 1) {
            return name;
        }
        let path = entry.path.text();
        let identity = entry.conditions.iter().fold(path.to_owned(), |all, one| format!("{all}\n{one}"));
        let start: String = name.chars().take(LONGEST_START).collect();
        format!("{start}-{}-{:04x}", words_of_path(path), folded(&identity))
    }

    fn of_upstream(&self, service: &Node, preserves_host: bool) -> String {
        let is_second = preserves_host && self.renaming.contains(&std::ptr::from_ref(service));
        if is_second { format!("{}-pass-host", name(service)) } else { name(service) }
    }
}

/// What became of each route: of its paths the one that is farthest from Kong counts.
#[derive(Default)]
struct Verdicts(HashMap<*const Node, (Conversion, Vec<String>)>);

impl Verdicts {
    /// `objects`: of one of its paths.
    fn add(&mut self, route: &Node, outcome: Conversion, objects: Vec<String>) {
        let (of_route, all) =
            self.0.entry(std::ptr::from_ref(route)).or_insert_with(|| (outcome, Vec::new()));
        if outcome == Conversion::Closed || *of_route == Conversion::Converted {
            *of_route = outcome;
        }
        all.extend(objects);
    }

    /// In the order of the file.
    fn report(mut self, entities: &Entities, imported: &mut Imported) {
        for (route, _) in &entities.routes {
            if let Some((outcome, objects)) = self.0.remove(&std::ptr::from_ref(*route)) {
                imported.report.part_of(route.line, outcome, objects);
            }
        }
    }
}

/// Its place stays, and answers 501.
fn close(route: &mut Value, id: &str, why: &str) {
    if let (Value::Object(fields), Value::Object(shut)) = (route, closed::route(id, why)) {
        fields.remove("upstream_id");
        fields.extend(shut);
    }
}

/// Whether all that is made elsewhere for a route, its upstream and its consumers, is as in Kong.
struct Same(bool);

/// What a route does. The error says why it is closed.
fn serve<'a>(
    entities: &Entities,
    entry: &Entry<'a>,
    names: &Names,
    route: &mut Value,
    upstreams: &mut HashMap<(*const Node, bool), (String, bool)>,
    files: &dyn Fn(&str) -> Result<String, String>,
    imported: &mut Imported,
) -> Result<Same, String> {
    if let Some(fault) = &entry.fault {
        return Err(fault.clone());
    }
    let mut plugins = plugins::of_route(entities, entry.node, entry.service, imported)?;
    let mut same = !(entities.consumers_differ && plugins::know_consumers(&plugins));
    if entry.service.is_none() && plugins.is_empty() {
        plugins.insert("fault-injection".to_owned(), nobody());
    }
    if key_text(entry.node, "request_buffering").as_deref() == Some("false") {
        merge::add(&mut plugins, "proxy-control", json!({"request_buffering": false}));
    }
    if let Some(service) = entry.service {
        let target = upstreams::target(service, imported)
            .ok_or_else(|| format!("{} is not converted", label("service", service)))?;
        let preserve = preserves_host(entry.node);
        let known = upstreams.entry((std::ptr::from_ref(service), preserve)).or_insert_with(|| {
            let id = imported.output.id("upstreams", &names.of_upstream(service, preserve));
            let make =
                |imported: &mut Imported| upstreams::upstream(entities, service, &target, preserve, imported);
            let (object, differs) = crate::imported::aside(imported, make);
            imported.output.add("upstreams", &id, object);
            imported.report.made("upstreams", &id, service.line);
            imported.report.converted(service.line, &label("service", service));
            (id, differs)
        });
        route["upstream_id"] = known.0.clone().into();
        same &= !known.1;
        rewrite(entry, &target, &mut plugins, imported);
    }
    let gateway = plugins.remove("grpc-gateway");
    if !plugins.is_empty() {
        route["plugins"] = plugins.into();
    }
    if let Some(gateway) = gateway {
        grpc_gateway::add_routes(&gateway, &name(entry.node), route, BAND, files, imported);
    }
    Ok(Same(same))
}

/// What Kong answers on a route without a service.
fn nobody() -> Value {
    let body = json!({"message": "no Service found with those values"}).to_string();
    let headers = json!({"Content-Type": "application/json; charset=utf-8"});
    json!({"abort": {"http_status": 503, "body": body, "headers": headers}})
}

/// Whether our order of hosts (exact, with a wildcard, any) is the order of these ranks. If not, hosts become
/// conditions like any other.
fn hosts_are_native(entries: &[Entry]) -> bool {
    let class = |entry: &Entry| {
        if entry.hosts.is_empty() {
            return Some(2);
        }
        let wild = entry.hosts.iter().filter(|host| host.contains('*')).count();
        let leftmost = entry.hosts.iter().all(|host| !host.contains('*') || host.starts_with("*."));
        match wild {
            0 => Some(0),
            _ if leftmost && wild == entry.hosts.len() => Some(1),
            _ => None,
        }
    };
    let classes: Option<Vec<i32>> = entries.iter().map(class).collect();
    classes.is_some_and(|classes| classes.is_sorted())
}
