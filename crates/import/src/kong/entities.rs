//! The file's entities with what they belong to.

use std::collections::{BTreeSet, HashMap, HashSet};

use tidegate_config::yaml::Node;

use super::{
    named::{Named, Owned},
    node::{children, is_enabled, label, name},
};
use crate::{
    Report,
    fields::{self, Fields},
};

/// An entity and the names of its owners.
#[derive(Clone, Copy)]
pub(crate) struct Plugin<'a> {
    pub node: &'a Node,
    pub service: Option<&'a Node>,
    pub route: Option<&'a Node>,
    pub consumer: Option<&'a Node>,
    pub group: Option<&'a Node>,
}

#[derive(Default)]
pub(crate) struct Entities<'a> {
    pub(crate) regex_needs_tilde: bool,
    /// `_transform: false`: passwords are hashes.
    pub(crate) has_hashes: bool,
    /// Plugins that are left out knowingly.
    pub allow_missing: Vec<String>,
    /// Routes whose service is not in the file.
    lost_routes: HashSet<*const Node>,
    pub services: Named<'a>,
    /// With their services.
    pub routes: Vec<(&'a Node, Option<&'a Node>)>,
    pub upstreams: Named<'a>,
    pub(crate) loose_targets: Owned<&'a Node>,
    pub consumers: Named<'a>,
    /// Some of them are not who they are in Kong.
    pub(crate) consumers_differ: bool,
    pub groups: Named<'a>,
    /// The groups of consumers, as numbers in `groups`.
    members: Owned<usize>,
    /// Consumers of groups that are not in the file.
    lost_members: HashSet<*const Node>,
    /// Credentials outside of consumers: list name and entity.
    pub(crate) loose_credentials: Owned<(&'static str, &'a Node)>,
    pub plugins: Vec<Plugin<'a>>,
    /// Numbers in `plugins`: by service, route, consumer or group.
    plugins_of: Owned<usize>,
    /// And of those that belong to nothing.
    plugins_of_all: Vec<usize>,
    pub certificates: Named<'a>,
    pub(crate) loose_snis: Owned<&'a Node>,
}

pub(super) const CREDENTIALS: [&str; 5] =
    ["keyauth_credentials", "basicauth_credentials", "jwt_secrets", "hmacauth_credentials", "acls"];

/// Lists that guard nothing by themselves.
const IGNORED: [(&str, &str); 8] = [
    ("_konnect", "it names the origin of the file"),
    ("_workspace", "all of the file is served as one"),
    ("workspaces", "all of the file is served as one"),
    ("ca_certificates", "plugins that ask for certificates of clients are closed"),
    ("keys", "plugins that refer to it are closed"),
    ("key_sets", "plugins that refer to it are closed"),
    ("partials", "its settings are put into the plugins that name it"),
    ("vaults", "references to vaults of the environment are converted; what has others is closed"),
];

impl<'a> Entities<'a> {
    /// The error names an entity that is not there.
    pub(crate) fn collect(root: &'a Node, report: &mut Report) -> Result<Self, String> {
        let top = Fields::new(root, "file");
        let has_hashes = top.flag("_transform") == Some(false);
        top.skip(&["_format_version", "_transform", "_comment", "_ignore", "_info", "_plugin_configs"]);
        for (name, why) in IGNORED {
            if let Some(node) = top.get(name).filter(|node| !fields::is_empty(node)) {
                report.ignored(node.line, name, why);
            }
        }
        let named = |list: &str| Named::of(top.list(list).iter());
        let (on, off): (Vec<_>, Vec<_>) =
            top.list("services").iter().partition(|service| is_enabled(service));
        for service in &off {
            report.ignored(service.line, &name(service), "it is not enabled, and left out");
        }
        let mut off = Off { services: Named::of(off.into_iter()), routes: Named::default() };
        let mut all = Entities {
            services: Named::of(on.into_iter()),
            upstreams: named("upstreams"),
            consumers: named("consumers"),
            groups: named("consumer_groups"),
            certificates: named("certificates"),
            has_hashes,
            ..Entities::default()
        };
        let owned = |list: &str, owners: &Named, key: &str| {
            let owner = |node: &'a Node| (owners.find(node.get(key)).map(std::ptr::from_ref), node);
            Owned::by(top.list(list).iter().map(owner))
        };
        all.loose_targets = owned("targets", &all.upstreams, "upstream");
        all.loose_snis = owned("snis", &all.certificates, "certificate");
        let credentials = CREDENTIALS.into_iter().flat_map(|list| {
            let owner = |node: &'a Node| all.consumers.find(node.get("consumer")).map(std::ptr::from_ref);
            top.list(list).iter().map(move |node| (owner(node), (list, node)))
        });
        let credentials: Vec<_> = credentials.collect();
        if let Some((_, (list, node))) = credentials.iter().find(|(owner, _)| owner.is_none()) {
            return Err(absent(node, &format!("the consumer of one of {list}")));
        }
        all.loose_credentials = Owned::by(credentials.into_iter());
        all.find_members(top.list("consumer_group_consumers"))?;
        for service in all.services.iter() {
            all.routes.extend(children(service, "routes").iter().map(|route| (route, Some(*service))));
        }
        let mut off_routes: Vec<&Node> =
            off.services.iter().flat_map(|service| children(service, "routes")).collect();
        for route in top.list("routes") {
            let service = all.services.find(route.get("service"));
            if service.is_none() && off.services.find(route.get("service")).is_some() {
                report.ignored(route.line, &label("route", route), "its service is not enabled");
                off_routes.push(route);
                continue;
            }
            if service.is_none() && route.get("service").is_some_and(|service| !service.is_null()) {
                all.lost_routes.insert(std::ptr::from_ref(route));
            }
            all.routes.push((route, service));
        }
        off.routes = Named::of(off_routes.into_iter());
        all.collect_plugins(&top, &off, report)?;
        top.finish(report);
        Ok(all)
    }

    pub(crate) fn has_lost_its_service(&self, route: &Node) -> bool {
        self.lost_routes.contains(&std::ptr::from_ref(route))
    }

    /// The members of groups, as named by consumers, by groups and by a separate list.
    fn find_members(&mut self, loose: &'a [Node]) -> Result<(), String> {
        let numbers: HashMap<*const Node, usize> = self
            .groups
            .iter()
            .enumerate()
            .map(|(number, group)| (std::ptr::from_ref(*group), number))
            .collect();
        let number = |group: Option<&Node>| {
            self.groups.find(group).and_then(|group| numbers.get(&std::ptr::from_ref(group)).copied())
        };
        let consumer = |node: &Node, named: Option<&Node>| {
            let found = self.consumers.find(named).map(std::ptr::from_ref);
            found.ok_or_else(|| absent(node, "a consumer of a group"))
        };
        let mut all: BTreeSet<(*const Node, usize)> = BTreeSet::new();
        for (group, node) in self.groups.iter().enumerate() {
            for member in children(node, "consumers") {
                all.insert((consumer(member, Some(member))?, group));
            }
        }
        for member in loose {
            let group = number(member.get("consumer_group"));
            let group = group.ok_or_else(|| absent(member, "the group of a consumer"))?;
            all.insert((consumer(member, member.get("consumer"))?, group));
        }
        let mut lost = HashSet::new();
        for consumer in self.consumers.iter() {
            let own = std::ptr::from_ref(*consumer);
            for group in children(consumer, "groups") {
                match number(Some(group)) {
                    Some(group) => _ = all.insert((own, group)),
                    None => _ = lost.insert(own),
                }
            }
        }
        self.members = Owned::by(all.into_iter().map(|(consumer, group)| (Some(consumer), group)));
        self.lost_members = lost;
        Ok(())
    }

    /// Whether the plugins of one of its groups are not in the file.
    pub(crate) fn has_lost_a_group(&self, consumer: &Node) -> bool {
        self.lost_members.contains(&std::ptr::from_ref(consumer))
    }

    pub(super) fn groups_of(&self, consumer: &Node) -> Vec<&'a Node> {
        self.members.of(consumer).iter().filter_map(|number| self.groups.get(*number).copied()).collect()
    }

    /// The plugins of a consumer or group, wherever they count.
    pub(crate) fn plugins_of(&self, owner: &Node) -> impl Iterator<Item = &Plugin<'a>> {
        self.plugins_of.of(owner).iter().filter_map(|number| self.plugins.get(*number))
    }

    /// The plugins that a route may run, in the order of the file.
    pub(crate) fn plugins_at(
        &self,
        route: &Node,
        service: Option<&Node>,
    ) -> impl Iterator<Item = &Plugin<'a>> {
        let own = self.plugins_of.of(route).iter();
        let wider = service.map(|service| self.plugins_of.of(service)).unwrap_or_default();
        let numbers: BTreeSet<usize> = own.chain(wider).chain(&self.plugins_of_all).copied().collect();
        numbers.into_iter().filter_map(|number| self.plugins.get(number))
    }

    fn collect_plugins(
        &mut self,
        top: &Fields<'a>,
        off: &Off<'a>,
        report: &mut Report,
    ) -> Result<(), String> {
        let none = |node| Plugin { node, service: None, route: None, consumer: None, group: None };
        let mut plugins = Vec::new();
        for service in self.services.iter() {
            let own = ["plugins", "filter_chains"].into_iter().flat_map(|list| children(service, list));
            plugins.extend(own.map(|node| Plugin { service: Some(service), ..none(node) }));
        }
        for (route, _) in &self.routes {
            let own = ["plugins", "filter_chains"].into_iter().flat_map(|list| children(route, list));
            plugins.extend(own.map(|node| Plugin { route: Some(route), ..none(node) }));
        }
        for consumer in self.consumers.iter() {
            let own = children(consumer, "plugins").iter();
            plugins.extend(own.map(|node| Plugin { consumer: Some(consumer), ..none(node) }));
        }
        for group in self.groups.iter() {
            let own = children(group, "plugins").iter();
            plugins.extend(own.map(|node| Plugin { group: Some(group), ..none(node) }));
        }
        plugins.extend(top.list("plugins").iter().map(none));
        for node in top.list("consumer_group_plugins") {
            if node.get("consumer_group").is_none_or(Node::is_null) {
                return Err(absent(node, &format!("the consumer_group of {}", label("plugin", node))));
            }
            plugins.push(none(node));
        }
        // Filters may guard as plugins do. They have no name, so they count as unknown plugins.
        plugins.extend(top.list("filter_chains").iter().map(none));
        let routes = Named::of(self.routes.iter().map(|(route, _)| *route));
        for plugin in &mut plugins {
            let (mut lost, mut is_off) = (None, false);
            let mut owner =
                |key: &'static str, among: &Named<'a>, off: Option<&Named>, known: Option<&'a Node>| {
                    let named = plugin.node.get(key).filter(|node| !node.is_null());
                    let found = among.find(named);
                    match named.filter(|_| found.is_none()) {
                        Some(_) if off.is_some_and(|off| off.find(named).is_some()) => is_off = true,
                        Some(_) => lost = lost.or(Some(key)),
                        None => {}
                    }
                    known.or(found)
                };
            plugin.service = owner("service", &self.services, Some(&off.services), plugin.service);
            plugin.route = owner("route", &routes, Some(&off.routes), plugin.route);
            plugin.consumer = owner("consumer", &self.consumers, None, plugin.consumer);
            plugin.group = owner("consumer_group", &self.groups, None, plugin.group);
            let subject = label("plugin", plugin.node);
            if let Some(key) = lost {
                return Err(absent(plugin.node, &format!("the {key} of {subject}")));
            }
            if is_off {
                report.ignored(plugin.node.line, &subject, "its service is not enabled");
            } else if is_for_streams(plugin.node) {
                report.ignored(plugin.node.line, &subject, "Kong runs it for TCP, TLS and UDP only");
            } else {
                self.plugins.push(*plugin);
            }
        }
        self.index_plugins();
        Ok(())
    }

    fn index_plugins(&mut self) {
        let mut places = Vec::new();
        for (number, plugin) in self.plugins.iter().enumerate() {
            let owners = [plugin.service, plugin.route, plugin.consumer, plugin.group];
            places
                .extend(owners.into_iter().flatten().map(|owner| (Some(std::ptr::from_ref(owner)), number)));
            if owners.iter().all(Option::is_none) {
                self.plugins_of_all.push(number);
            }
        }
        self.plugins_of = Owned::by(places.into_iter());
    }
}

/// What belongs to services that are not enabled.
struct Off<'a> {
    services: Named<'a>,
    routes: Named<'a>,
}

fn absent(node: &Node, what: &str) -> String {
    format!("{}:{}: {what} is not in the file; Kong refuses such a file", node.line, node.column)
}

/// Protocols of requests, by which Kong runs a plugin for all of them, and of what else it proxies.
const HTTP: [&str; 6] = ["http", "https", "grpc", "grpcs", "ws", "wss"];
const STREAMS: [&str; 4] = ["tcp", "tls", "udp", "tls_passthrough"];

fn is_for_streams(plugin: &Node) -> bool {
    let protocols = plugin.get("protocols").map(fields::texts).unwrap_or_default();
    !protocols.is_empty() && protocols.iter().all(|name| STREAMS.contains(&name.as_str()))
}

/// A protocol that Kong does not know.
pub(crate) fn unknown_protocol(plugin: &Node) -> Option<String> {
    let protocols = plugin.get("protocols").map(fields::texts).unwrap_or_default();
    protocols.into_iter().find(|name| !HTTP.contains(&name.as_str()) && !STREAMS.contains(&name.as_str()))
}
