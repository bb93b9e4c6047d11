//! A compiled configuration as lines of text: what requests can distinguish. Serial numbers and the numbers of pools,
//! which differ with each compiler, are not part of it.

use std::net::IpAddr;

use tidegate_compiler::Compiler;
use tidegate_model::Rejected;
use tidegate_plugin_api::{Instance, Snapshot, UpstreamHandle, Variable, route::RouteUpstream};
use tidegate_routing::{
    expr::{Operand, Variables},
    router::{MatchInput, Methods},
};

use crate::objects::KEYS;

pub(crate) fn all(compiler: &mut Compiler) -> Vec<String> {
    let snapshot = compiler.snapshot(0);
    let mut lines: Vec<String> = snapshot.routes.iter().map(|route| route_line(route)).collect();
    lines.extend(snapshot.upstreams.iter().map(|(id, handle)| format!("named {id} {}", upstream(handle))));
    lines.extend(snapshot.consumers.by_name.values().map(|consumer| {
        let (name, group, missing) = (&consumer.username, &consumer.group_id, consumer.group_missing);
        format!("consumer {name} {group:?} {missing} {}", plugins(&consumer.plugins))
    }));
    lines.extend(KEYS.iter().map(|key| {
        let found = snapshot.consumers.find("key-auth", key);
        format!("key {key} {:?}", found.map(|entry| (&entry.consumer.username, &entry.credential_id)))
    }));
    lines.extend(compiler.rejected().iter().flat_map(rejected));
    let mut names: Vec<String> = compiler.names().map(|name| format!("waits for {name}")).collect();
    lines.append(&mut names);
    lines.extend(compiler.services().map(|service| format!("waits for service {}", service.name)));
    lines.sort();
    lines.dedup();
    lines.push(format!("globals {}", plugins(snapshot.globals.instances())));
    lines.push(format!("looks into bodies: {}", snapshot.matches_on_body));
    lines.extend(found(&snapshot));
    lines
}

/// A line for each reason. Of several others with the same key any may be named, and of several keys of a consumer any.
fn rejected(found: &Rejected) -> Vec<String> {
    let consumer = found.id.split('/').next().unwrap_or_default();
    let line = |reason: &str| match reason.contains(" has the same key, so ") {
        true => format!("a key of consumer {consumer} is contested"),
        false => format!("rejected {:?}/{}: {reason}", found.kind, found.id),
    };
    found.reason.split("; ").map(line).collect()
}

fn route_line(route: &tidegate_plugin_api::Route) -> String {
    let to = match &route.upstream {
        RouteUpstream::None => "none".to_owned(),
        RouteUpstream::Missing => "missing".to_owned(),
        RouteUpstream::Some(handle) => upstream(handle),
    };
    format!(
        "route {} version {} broken {:?} service {:?} {:?} to {to} with {} from {} {:?}",
        route.id,
        route.version,
        route.broken,
        route.service_id,
        route.service.as_ref().map(|service| service.text().to_owned()),
        plugins(route.chain.instances()),
        route.document.text(),
        route.timeouts,
    )
}

fn upstream(handle: &UpstreamHandle) -> String {
    let nodes: Vec<String> = handle.nodes.iter().map(|node| format!("{node} {:?}", node.address)).collect();
    format!(
        "{} version {} {} {nodes:?} tls {} {}",
        handle.name,
        handle.version,
        handle.scheme.as_str(),
        handle.tls.is_some(),
        handle.document.text(),
    )
}

fn plugins(instances: &[std::sync::Arc<Instance>]) -> String {
    let one = |instance: &std::sync::Arc<Instance>| {
        let owner = &instance.owner;
        format!("{} of {:?}/{}@{}", instance.def.name, owner.kind, owner.id, owner.version)
    };
    format!("{:?}", instances.iter().map(one).collect::<Vec<_>>())
}

/// Which route the router finds for each of some requests.
fn found(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for host in [None, Some("a.test"), Some("b.test")] {
        for path in ["/a", "/a/b", "/b", "/c"] {
            for method in ["GET", "POST"] {
                let asked = Asked { host, path, method: Methods::of(method) };
                let found = snapshot.router.find(&asked);
                let route = found.as_ref().and_then(|found| snapshot.routes.get(found.route as usize));
                let id = route.map(|route| &route.id);
                let by = found.as_ref().map(|found| (found.matched_uri, found.matched_host));
                lines.push(format!("{method} {host:?} {path}: {id:?} by {by:?}"));
            }
        }
    }
    lines
}

struct Asked {
    host: Option<&'static str>,
    path: &'static str,
    method: Methods,
}

impl Variables for Asked {
    type Name = Variable;

    fn get<'a>(&'a self, _: &Variable) -> Operand<'a> {
        Operand::Nil
    }
}

impl MatchInput for Asked {
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn host(&self) -> Option<&[u8]> {
        self.host.map(str::as_bytes)
    }

    fn host_with_port(&self) -> Option<&[u8]> {
        self.host()
    }

    fn method(&self) -> Methods {
        self.method
    }

    fn remote_addr(&self) -> IpAddr {
        IpAddr::from([127, 0, 0, 1])
    }

    fn filter(&self, _: u32) -> bool {
        true
    }
}
