//! The file's entities with what they belong to.

use config::yaml::Node;

use crate::{
    Report,
    fields::{self, Fields},
};

/// An entity and the names of its owners.
#[derive(Clone, Copy)]
pub struct Plugin<'a> {
    pub node: &'a Node,
    pub service: Option<&'a Node>,
    pub route: Option<&'a Node>,
    pub consumer: Option<&'a Node>,
    pub group: Option<&'a Node>,
}

#[derive(Default)]
pub struct Entities<'a> {
    pub regex_needs_tilde: bool,
    /// Plugins that are left out knowingly.
    pub allow_missing: Vec<String>,
    /// Routes whose service is not in the file.
    pub lost_routes: Vec<&'a Node>,
    pub services: Vec<&'a Node>,
    /// With their services.
    pub routes: Vec<(&'a Node, Option<&'a Node>)>,
    pub upstreams: Vec<&'a Node>,
    pub loose_targets: Vec<&'a Node>,
    pub consumers: Vec<&'a Node>,
    pub groups: Vec<&'a Node>,
    /// Who is in which group, outside of both.
    pub loose_members: Vec<&'a Node>,
    /// Credentials outside of consumers: list name and entity.
    pub loose_credentials: Vec<(&'static str, &'a Node)>,
    pub plugins: Vec<Plugin<'a>>,
    pub certificates: Vec<&'a Node>,
    pub loose_snis: Vec<&'a Node>,
}

pub const CREDENTIALS: [&str; 5] =
    ["keyauth_credentials", "basicauth_credentials", "jwt_secrets", "hmacauth_credentials", "acls"];

/// Lists that guard nothing by themselves.
const IGNORED: [(&str, &str); 8] = [
    ("_konnect", "it says where the file came from"),
    ("_workspace", "all of the file is served as one"),
    ("workspaces", "all of the file is served as one"),
    ("ca_certificates", "plugins that ask for certificates of clients are closed"),
    ("keys", "plugins that refer to it are closed"),
    ("key_sets", "plugins that refer to it are closed"),
    ("partials", "its settings are put into the plugins that name it"),
    ("vaults", "references to vaults of the environment are converted; what has others is closed"),
];

impl<'a> Entities<'a> {
    pub fn collect(root: &'a Node, report: &mut Report) -> Self {
        let top = Fields::new(root, "file");
        top.skip(&["_format_version", "_transform", "_comment", "_ignore", "_info", "_plugin_configs"]);
        for (name, why) in IGNORED {
            if let Some(node) = top.get(name).filter(|node| !fields::is_empty(node)) {
                report.ignored(node.line, name, why);
            }
        }
        let mut all = Entities {
            services: top.list("services").iter().collect(),
            upstreams: top.list("upstreams").iter().collect(),
            loose_targets: top.list("targets").iter().collect(),
            consumers: top.list("consumers").iter().collect(),
            groups: top.list("consumer_groups").iter().collect(),
            loose_members: top.list("consumer_group_consumers").iter().collect(),
            certificates: top.list("certificates").iter().collect(),
            loose_snis: top.list("snis").iter().collect(),
            ..Entities::default()
        };
        for name in CREDENTIALS {
            all.loose_credentials.extend(top.list(name).iter().map(|node| (name, node)));
        }
        for service in all.services.clone() {
            all.routes.extend(children(service, "routes").iter().map(|route| (route, Some(service))));
        }
        for route in top.list("routes") {
            let service = all.find(&all.services, route.get("service"));
            if service.is_none() && route.get("service").is_some_and(|service| !service.is_null()) {
                all.lost_routes.push(route);
            }
            all.routes.push((route, service));
        }
        all.collect_plugins(&top, report);
        top.finish(report);
        all
    }

    fn collect_plugins(&mut self, top: &Fields<'a>, report: &mut Report) {
        let none = |node| Plugin { node, service: None, route: None, consumer: None, group: None };
        let mut plugins = Vec::new();
        for service in &self.services {
            let own = ["plugins", "filter_chains"].into_iter().flat_map(|list| children(service, list));
            plugins.extend(own.map(|node| Plugin { service: Some(service), ..none(node) }));
        }
        for (route, _) in &self.routes {
            let own = ["plugins", "filter_chains"].into_iter().flat_map(|list| children(route, list));
            plugins.extend(own.map(|node| Plugin { route: Some(route), ..none(node) }));
        }
        for consumer in &self.consumers {
            let own = children(consumer, "plugins").iter();
            plugins.extend(own.map(|node| Plugin { consumer: Some(consumer), ..none(node) }));
        }
        for group in &self.groups {
            let own = children(group, "plugins").iter();
            plugins.extend(own.map(|node| Plugin { group: Some(group), ..none(node) }));
        }
        plugins.extend(top.list("plugins").iter().map(none));
        plugins.extend(top.list("consumer_group_plugins").iter().map(none));
        // Filters may guard as plugins do. They have no name, so they count as unknown plugins.
        plugins.extend(top.list("filter_chains").iter().map(none));
        let routes: Vec<&Node> = self.routes.iter().map(|(route, _)| *route).collect();
        for plugin in &mut plugins {
            let mut lost = false;
            let mut owner = |key: &str, among: &[&'a Node], known: Option<&'a Node>| {
                let named = plugin.node.get(key).filter(|node| !node.is_null());
                let found = self.find(among, named);
                lost |= named.is_some() && found.is_none();
                known.or(found)
            };
            plugin.service = owner("service", &self.services, plugin.service);
            plugin.route = owner("route", &routes, plugin.route);
            plugin.consumer = owner("consumer", &self.consumers, plugin.consumer);
            plugin.group = owner("consumer_group", &self.groups, plugin.group);
            if lost {
                let subject = label("plugin", plugin.node);
                report.unsupported(plugin.node.line, &subject, "what it belongs to is not in the file");
            } else {
                self.plugins.push(*plugin);
            }
        }
    }

    /// The entity a reference means: by name or id, as text or as `{name: ...}`, `{id: ...}`.
    pub fn find(&self, among: &[&'a Node], reference: Option<&Node>) -> Option<&'a Node> {
        let reference = reference?;
        let wanted = fields::text(reference)
            .or_else(|| ["id", "name", "username"].iter().find_map(|key| key_text(reference, key)))?;
        let named = |node: &&&'a Node| {
            ["id", "name", "username", "custom_id"]
                .iter()
                .any(|key| key_text(node, key).as_ref() == Some(&wanted))
        };
        among.iter().find(named).copied()
    }
}

pub fn children<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).map(fields::list).unwrap_or_default()
}

pub fn key_text(node: &Node, key: &str) -> Option<String> {
    node.get(key).and_then(fields::text)
}

/// The name, else the id, else the line.
pub fn name(node: &Node) -> String {
    ["name", "username", "custom_id", "id"]
        .iter()
        .find_map(|key| key_text(node, key))
        .unwrap_or_else(|| format!("line-{}", node.line))
}

pub fn label(kind: &str, node: &Node) -> String {
    format!("{kind} {}", name(node))
}
