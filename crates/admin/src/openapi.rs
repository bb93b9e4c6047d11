//! The Admin, Control and status APIs as one OpenAPI 3.1 document, made from the schemas that requests are checked against.

mod build;
mod components;
mod control;
mod convert;
mod figures;
mod fragments;
mod objects;
mod people;
mod resources;
mod whole;

use serde_json::{Value, json};
use tidegate_model::PluginCatalog;

use self::build::Paths;
use crate::{admin_api::AdminApi, documents::Holds, message::Response};

/// What the Admin API offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offers {
    /// One path for each resource.
    Resources,
    /// The whole configuration at `/configs`, as API-driven standalone mode has it.
    Configurations,
}

/// The document, with the schemas of the enabled plugins.
pub fn document(plugins: &dyn PluginCatalog, offers: Offers) -> Value {
    let mut paths = paths_of_admin(offers);
    control::add(&mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The Admin, Control and status APIs of the gateway",
            "description": "The Admin API is that of Apache APISIX 3.18 (`admin_api_version: v3`) with additions: transactions, \
                            history, checkpoints, rollback, import and export. Each path names the server that has it, with \
                            the default port.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": build::ADMIN, "description": "Admin API (deployment.admin.admin_listen)"}],
        "security": [{"adminKey": []}, {"adminKeyInQuery": []}],
        "tags": tags(),
        "paths": paths.finish(),
        "components": {
            "schemas": components::schemas(plugins),
            "responses": components::responses(),
            "securitySchemes": {
                "adminKey": {"type": "apiKey", "in": "header", "name": "X-API-KEY"},
                "adminKeyInQuery": {"type": "apiKey", "in": "query", "name": "api_key"},
            },
        },
    })
}

fn paths_of_admin(offers: Offers) -> Paths {
    let mut paths = Paths::default();
    match offers {
        Offers::Resources => {
            resources::add(&mut paths);
            objects::add(&mut paths);
            whole::add(&mut paths);
            people::add_users(&mut paths);
        }
        Offers::Configurations => whole::add_configurations(&mut paths),
    }
    whole::add_shared(&mut paths);
    people::add_sessions(&mut paths);
    figures::add(&mut paths);
    paths
}

/// Of the Admin API, whatever it offers.
pub(crate) fn admin_paths() -> [Value; 2] {
    [Offers::Resources, Offers::Configurations].map(|offers| paths_of_admin(offers).finish())
}

/// Of the Control API.
pub(crate) fn control_paths() -> [Value; 1] {
    let mut paths = Paths::default();
    control::add(&mut paths);
    [paths.finish()]
}

fn tags() -> Vec<Value> {
    let tags = [
        ("Resources", "Objects of the configuration, one by one"),
        ("Configuration", "The configuration as a whole: transactions, history, import and export"),
        ("People", "Sessions of the console, and users"),
        ("Plugins", "The plugins of this gateway and their schemas"),
        ("Control", "What the gateway works with, without a key, on the loopback interface"),
        ("Status", "For load balancers, orchestrators and Prometheus"),
    ];
    tags.map(|(name, description)| json!({"name": name, "description": description})).to_vec()
}

impl AdminApi {
    /// `GET /openapi.json`
    pub(crate) async fn openapi(&self) -> Response {
        let plugins = self.plugins().clone();
        let offers = if self.standalone.is_some() { Offers::Configurations } else { Offers::Resources };
        let make = move || Response::json(200, &document(plugins.as_ref(), offers));
        // The list of plugins changes without a revision.
        self.documents.get("openapi".to_owned(), Holds::Now, make).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{Catalog, ask, open, parts};

    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
                Some(text) if name == "$ref" => drop(found.insert(text)),
                _ => references(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn what_is_referred_to_is_there() {
        for offers in [Offers::Resources, Offers::Configurations] {
            let document = document(&Catalog::default(), offers);
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            assert!(found.len() > 20, "{found:?}");
            for reference in found {
                let pointer = reference.strip_prefix('#').unwrap_or_default();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let document = document(&Catalog::default(), Offers::Resources);
        let mut seen = BTreeSet::new();
        let paths = document["paths"].as_object().expect("paths");
        for (path, item) in paths {
            let operations = item.as_object().expect("operations").values();
            for id in operations.filter_map(|operation| operation["operationId"].as_str()) {
                assert!(seen.insert(id), "{path}: {id}");
            }
        }
        assert!(seen.len() > 90, "{}", seen.len());
    }

    /// No documented path ends at the page for what is not here, nor with a method that is refused.
    #[test]
    fn the_admin_api_has_what_is_documented() {
        let api = AdminApi::new(parts(open()));
        let document = document(&Catalog::default(), Offers::Resources);
        for (path, item) in document["paths"].as_object().expect("paths") {
            let Some(below) = path.strip_prefix("/apisix/admin").filter(|below| !below.is_empty()) else {
                continue;
            };
            let below =
                below.replace("{revision}", "1").replace("{resource}", "routes").replace(['{', '}'], "");
            for method in item.as_object().expect("operations").keys() {
                let method = method.to_uppercase();
                if ["PARAMETERS", "SERVERS"].contains(&method.as_str()) {
                    continue;
                }
                let response = ask(&api, &method, &below, "");
                let text = String::from_utf8_lossy(&response.body).into_owned();
                let page = text.starts_with("<!doctype") || text.contains("Unsupported resource type: ");
                assert!(response.status != 405 && !page, "{method} {path}: {} {text}", response.status);
            }
        }
        let listed = ask(&api, "GET", "/openapi.json", "");
        assert_eq!(serde_json::from_slice::<Value>(&listed.body).expect("JSON"), document);
    }
}
