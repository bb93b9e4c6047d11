//! Clients to consumers.

use serde_json::{Map, json};
use tidegate_config::yaml::{Content, Node};

use crate::{
    fields::{self, Fields},
    imported::Imported,
};

pub(super) struct Client {
    username: String,
    /// Service, SLA.
    services: Vec<(String, String)>,
}

impl Client {
    /// Its name and its SLA on a service, if it may use it.
    pub(super) fn on(&self, service: &str) -> Option<(&str, &str)> {
        let (_, sla) = self.services.iter().find(|(id, _)| id == service)?;
        Some((&self.username, sla))
    }
}

pub(super) fn convert(nodes: &[Node], imported: &mut Imported) -> Vec<Client> {
    nodes.iter().filter_map(|node| one(node, imported)).collect()
}

fn one(node: &Node, imported: &mut Imported) -> Option<Client> {
    let id = node.get("client_id").and_then(fields::text);
    let subject = format!("client {}", id.as_deref().unwrap_or("without client_id"));
    let fields = Fields::new(node, &subject);
    // The older shape names a secret that nothing ever used.
    fields.skip(&["client_id", "app_secret"]);
    let Some(id) = id else {
        imported.report.unsupported(node.line, &subject, "`client_id` is missing");
        return None;
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let username = imported.output.id("consumers", &id.chars().map(plain).collect::<String>());
    let mut plugins = Map::new();
    if let Some(key) = fields.text("app_key").filter(|key| !key.is_empty()) {
        plugins.insert("app-key".to_owned(), json!({"key": key}));
    }
    if let Some(key) = fields.text("pub_key").filter(|key| key.contains("BEGIN")) {
        let conf = json!({"key": id, "algorithm": "ES256", "public_key": key});
        plugins.insert("jwt-auth".to_owned(), conf);
    }
    let addresses = fields.texts("ip_whitelist");
    if !addresses.is_empty() {
        plugins.insert("ip-restriction".to_owned(), json!({"whitelist": addresses}));
    }
    let services = fields.get("services").map(services).unwrap_or_default();
    fields.finish(&mut imported.report);
    imported.report.made("consumers", &username, node.line);
    imported.output.add("consumers", &username, json!({"username": username, "plugins": plugins}));
    imported.report.converted(node.line, &subject);
    Some(Client { username, services })
}

/// `{service: SLA}`, or `["service:SLA"]` in the older shape.
fn services(node: &Node) -> Vec<(String, String)> {
    match &node.content {
        Content::Map(entries) => entries
            .iter()
            .filter_map(|entry| Some((entry.key.clone(), fields::text(&entry.value)?)))
            .collect(),
        _ => fields::texts(node)
            .iter()
            .filter_map(|text| text.rsplit_once(':'))
            .map(|(service, sla)| (service.trim().to_owned(), sla.trim().to_owned()))
            .collect(),
    }
}
