//! A compiled configuration as text: what requests, operators and probes can distinguish. Serial numbers and the numbers of
//! pools, which differ with each compiler, are not part of it.
//!
//! A compiler that has seen an object before knows more of it than one that has not: of a route that cannot be used and whose
//! paths cannot be read, the paths it had, and of a certificate its names. What it makes of that may only be stricter.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tidegate_compiler::Compiler;
use tidegate_model::{Kind, Rejected};
use tidegate_plugin_api::{
    AuthEntry, Instance, PluginChain, Route, Snapshot, UpstreamHandle, route::RouteUpstream,
};

use crate::{
    found::{Claimed, Found, claimed, found},
    keys,
    objects::KEYS,
    probe,
};

pub(crate) struct Description {
    /// Sorted.
    lines: Vec<String>,
    found: Vec<(String, Option<Found>)>,
    claimed: Vec<(String, Option<Claimed>)>,
    /// Routes of which some path is not known.
    placeless: BTreeSet<Arc<str>>,
    /// Certificates that cannot be used.
    shut: BTreeSet<Arc<str>>,
}

impl Description {
    pub(crate) fn of(compiler: &mut Compiler, revision: u64) -> Description {
        let snapshot = compiler.snapshot(revision);
        let rejected = compiler.rejected();
        let ids = |is_one: fn(&Rejected) -> bool| {
            rejected.iter().filter(|found| is_one(found)).map(|found| found.id.clone()).collect()
        };
        let shut: BTreeSet<Arc<str>> = ids(|found| found.kind == Kind::Ssl);
        let mut lines = objects(&snapshot);
        lines.extend(rejected.iter().flat_map(rejections));
        // Which names another certificate has is not known of one that cannot be read.
        let warnings = compiler.warnings().into_iter();
        let warnings = warnings.filter(|warning| warning.kind != Kind::Ssl || shut.is_empty());
        lines.extend(
            warnings.map(|warning| format!("warns of {:?}/{}: {}", warning.kind, warning.id, warning.reason)),
        );
        lines.extend(compiler.names().map(|name| format!("{} wait for {name}", compiler.users_of(name))));
        lines.extend(compiler.services().map(|service| format!("waits for service {}", service.name)));
        lines.extend(compiler.checked_upstreams().map(|handle| format!("probes {}", handle.name)));
        for plugin in ["probe", "probe-guard", "key-auth"] {
            lines.push(format!("metadata of {plugin}: {:?}", compiler.metadata_of(plugin)));
        }
        lines.sort();
        lines.dedup();
        Description {
            lines,
            found: found(&snapshot),
            claimed: claimed(&snapshot),
            placeless: ids(|found| found.is_placeless),
            shut,
        }
    }

    /// How `self`, of a compiler that has seen more, differs from `fresh`.
    pub(crate) fn compare(&self, fresh: &Description) -> Result<(), String> {
        if self.lines != fresh.lines {
            let only = |one: &Description, other: &Description| -> Vec<String> {
                let lines = one.lines.iter().filter(|line| !other.lines.contains(line));
                lines.take(4).cloned().map(keys::hidden).collect()
            };
            let (grown, new) = (only(self, fresh).join("\n  "), only(fresh, self).join("\n  "));
            return Err(format!("grown only:\n  {grown}\nfresh only:\n  {new}"));
        }
        for ((request, grown), (_, new)) in self.found.iter().zip(&fresh.found) {
            let is_kept =
                |found: &Found| found.is_broken && fresh.placeless.contains(&found.route) && grown != new;
            if grown != new && !grown.as_ref().is_some_and(is_kept) {
                return Err(format!("{request}\ngrown: {grown:?}\nfresh: {new:?}"));
            }
        }
        for ((name, grown), (_, new)) in self.claimed.iter().zip(&fresh.claimed) {
            let is_shut = |claimed: &Option<Claimed>| {
                claimed
                    .as_ref()
                    .is_some_and(|claimed| !claimed.is_usable && fresh.shut.contains(&claimed.ssl))
            };
            if grown != new && !is_shut(grown) && !is_shut(new) {
                return Err(format!("{name}\ngrown: {grown:?}\nfresh: {new:?}"));
            }
        }
        match self.placeless.difference(&fresh.placeless).next() {
            Some(id) => Err(format!("the paths of routes/{id} are known to the fresh compiler only")),
            None => Ok(()),
        }
    }
}

fn objects(snapshot: &Snapshot) -> Vec<String> {
    let mut lines: Vec<String> = snapshot.routes.iter().map(|route| route_line(snapshot, route)).collect();
    lines.extend(snapshot.upstreams.iter().map(|(id, handle)| format!("named {id} {}", upstream(handle))));
    lines.extend(snapshot.consumers.by_name.values().map(|consumer| {
        let (name, group, missing) = (&consumer.username, &consumer.group_id, consumer.group_missing);
        format!(
            "consumer {name} version {} {group:?} {missing} {}",
            consumer.version,
            plugins(&consumer.plugins)
        )
    }));
    for plugin in ["key-auth", "basic-auth"] {
        for key in KEYS {
            let found = snapshot.consumers.find(plugin, key);
            lines.push(format!("{plugin} {key} is {:?}", found.map(|entry| identity(snapshot, entry))));
        }
        let entries = snapshot.consumers.index(plugin).into_iter().flat_map(|index| index.iter());
        let count = entries.inspect(|entry| lines.push(identity(snapshot, entry))).count();
        lines.push(format!("{count} keys of {plugin}"));
    }
    lines.push(format!("globals {}", plugins(snapshot.globals.instances())));
    lines.push(format!("looks into bodies: {}", snapshot.matches_on_body));
    lines.extend(snapshot.metadata.iter().map(|(id, value)| format!("metadata {id} {value}")));
    lines.extend(snapshot.certificates.expiries.iter().map(|expiry| format!("{expiry:?}")));
    lines.extend(snapshot.certificates.stapled.iter().map(|server| format!("stapled {}", server.id)));
    lines.extend(pools(snapshot));
    lines
}

fn identity(snapshot: &Snapshot, entry: &AuthEntry) -> String {
    let now = snapshot.consumers.by_name(&entry.consumer.username);
    let is_current = now.is_some_and(|now| Arc::ptr_eq(now, &entry.consumer));
    format!(
        "{} by {:?} with {}, current {is_current}",
        entry.consumer.username, entry.credential_id, entry.value
    )
}

/// A line for each reason. Of several others with the same key any may be named, and of several keys of a consumer any.
/// What is said of places that are not known is compared elsewhere.
fn rejections(found: &Rejected) -> Vec<String> {
    let consumer = found.id.split('/').next().unwrap_or_default();
    let line = |reason: &str| match reason.contains(" has the same key, so ") {
        true => format!("a key of consumer {consumer} is contested"),
        false => format!("rejected {:?}/{}: {reason}", found.kind, found.id),
    };
    let is_of_place = |reason: &&str| {
        ["none of its paths can ", "some of its paths cannot ", "some of its server names cannot "]
            .iter()
            .any(|start| reason.starts_with(start))
    };
    found.reason.split("; ").filter(|reason| !is_of_place(reason)).map(line).collect()
}

fn route_line(snapshot: &Snapshot, route: &Route) -> String {
    let to = match &route.upstream {
        RouteUpstream::None => "none".to_owned(),
        RouteUpstream::Missing => "missing".to_owned(),
        RouteUpstream::Some(handle) => {
            let named = handle.name.strip_prefix("upstreams/");
            let is_current = named.is_none_or(|id| {
                snapshot.upstreams.get(id).is_some_and(|current| Arc::ptr_eq(current, handle))
            });
            format!("{} current {is_current}", upstream(handle))
        }
    };
    format!(
        "route {} {:?} version {} {:?} broken {:?} service {:?} {:?} {:?} {:?} to {to} with {} from {} {:?} {} {}",
        route.id,
        route.name,
        route.version,
        route.birth,
        route.broken,
        route.service_id(),
        route.service_name(),
        route.service.as_ref().and_then(|service| service.birth),
        route.service.as_ref().and_then(|service| Some(service.document.as_ref()?.text().to_owned())),
        chain(&route.chain),
        route.document.text(),
        route.timeouts,
        route.enable_websocket,
        route.filter.is_some(),
    )
}

pub(crate) fn upstream(handle: &UpstreamHandle) -> String {
    let node = |node: &Arc<tidegate_plugin_api::upstream::Node>| {
        format!("{node} {:?} {} {}", node.address, node.ip, node.host_header)
    };
    let nodes: Vec<String> = handle.nodes.iter().map(node).collect();
    format!(
        "{} version {} {} {nodes:?} {:?} {:?} {:?} {:?} {:?} {:?} tls {} {}",
        handle.name,
        handle.version,
        handle.scheme.as_str(),
        handle.pass_host,
        handle.timeouts,
        handle.retries,
        handle.keepalive,
        handle.hash_key,
        handle.balancer.spec,
        handle.tls.is_some(),
        handle.value(),
    )
}

fn chain(chain: &PluginChain) -> String {
    plugins(chain.instances())
}

fn plugins(instances: &[Arc<Instance>]) -> String {
    let one = |instance: &Arc<Instance>| {
        let owner = &instance.owner;
        format!(
            "{} of {:?}/{}@{} {} {} {:?} {} {}",
            instance.def.name,
            owner.kind,
            owner.id,
            owner.version,
            instance.priority,
            instance.filter.is_some(),
            instance.error_response,
            instance.pre_function.as_ref().map(probe::built).unwrap_or_default(),
            probe::built(&instance.plugin),
        )
    };
    format!("{:?}", instances.iter().map(one).collect::<Vec<_>>())
}

/// Which nodes of routes and named upstreams share a keep-alive pool.
fn pools(snapshot: &Snapshot) -> Vec<String> {
    let of_routes = snapshot.routes.iter().filter_map(|route| match &route.upstream {
        RouteUpstream::Some(handle) => Some(handle),
        _ => None,
    });
    let mut members: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for handle in of_routes.chain(snapshot.upstreams.values()) {
        for node in &handle.nodes {
            members.entry(node.pool).or_default().insert(format!("{node} of {}", handle.name));
        }
    }
    members.values().map(|members| format!("one pool: {members:?}")).collect()
}
