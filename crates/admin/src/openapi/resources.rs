//! The kinds of objects, and what there is to ask about plugins and schemas.

use serde_json::{Value, json};
use tidegate_model::Kind;

use super::build::{Operation, Paths};

/// A kind of object by the names that the document gives it.
pub(super) struct Resource {
    pub(super) kind: Kind,
    /// Of its schemas and operations.
    pub(super) name: &'static str,
    pub(super) plural: &'static str,
    /// Below the prefix, without the id.
    pub(super) path: &'static str,
    /// Of the id in the path.
    pub(super) id: &'static str,
}

pub(super) const SECRET_MANAGERS: [&str; 3] = ["vault", "aws", "gcp"];

pub(super) const RESOURCES: [Resource; 14] = [
    resource(Kind::Route, "Route", "Routes", "/routes", "id"),
    resource(Kind::Service, "Service", "Services", "/services", "id"),
    resource(Kind::Upstream, "Upstream", "Upstreams", "/upstreams", "id"),
    resource(Kind::Consumer, "Consumer", "Consumers", "/consumers", "username"),
    resource(Kind::Credential, "Credential", "Credentials", "/consumers/{username}/credentials", "id"),
    resource(Kind::ConsumerGroup, "ConsumerGroup", "ConsumerGroups", "/consumer_groups", "id"),
    resource(Kind::PluginConfig, "PluginConfig", "PluginConfigs", "/plugin_configs", "id"),
    resource(Kind::PluginMetadata, "PluginMetadata", "PluginMetadatas", "/plugin_metadata", "plugin"),
    resource(Kind::GlobalRule, "GlobalRule", "GlobalRules", "/global_rules", "id"),
    resource(Kind::Ssl, "Ssl", "Ssls", "/ssls", "id"),
    resource(Kind::Proto, "Proto", "Protos", "/protos", "id"),
    resource(Kind::Secret, "Secret", "Secrets", "/secrets/{manager}", "id"),
    resource(Kind::StreamRoute, "StreamRoute", "StreamRoutes", "/stream_routes", "id"),
    resource(
        Kind::GraphqlCostDecoration,
        "GraphqlCostDecoration",
        "GraphqlCostDecorations",
        "/services/{service_id}/graphql_cost_decorations",
        "id",
    ),
];

const fn resource(
    kind: Kind,
    name: &'static str,
    plural: &'static str,
    path: &'static str,
    id: &'static str,
) -> Resource {
    Resource { kind, name, plural, path, id }
}

pub(super) fn add(paths: &mut Paths) {
    let any = || json!({"type": "object"});
    let names = || json!({"type": "array", "items": {"type": "string"}});
    let admin = |id: &str, summary: &str| Operation::admin(id, "Plugins", summary);
    let subsystem = |operation: Operation| {
        operation.query("subsystem", "Of HTTP or of stream routes", json!({"enum": ["http", "stream"]}))
    };
    let list =
        subsystem(admin("listPlugins", "The names of the enabled plugins, those that run first in front"));
    paths.add("/apisix/admin/plugins/list", "get", list.json(200, "Names", names()));
    let all = subsystem(admin("getPlugins", "Every enabled plugin with its schemas")).query(
        "all",
        "Required here",
        json!({"const": "true"}),
    );
    paths.add("/apisix/admin/plugins", "get", all.json(200, "Plugins by name", any()));
    let one = subsystem(admin("getPlugin", "The schema of a plugin"));
    paths.add("/apisix/admin/plugins/{plugin}", "get", of_schema(one));
    let one = subsystem(admin("getPluginSchema", "The schema of a plugin, as /plugins/{plugin}"));
    paths.add("/apisix/admin/schema/plugins/{plugin}", "get", of_schema(one));
    let reload =
        Operation::admin("reloadPlugins", "Plugins", "Read the list of plugins in config.yaml again")
            .refusals(&[(405, "NotFound")])
            .text(200, "done", "text/plain");
    paths.add("/apisix/admin/plugins/reload", "put", reload);
    let schema = admin("getSchema", "The schema of a resource, by its name in APISIX: route, upstream, ssl");
    paths.add("/apisix/admin/schema/{id}", "get", schema.json(200, "The schema", any()));
    let validate =
        admin("validateResource", "Check a body against the schema of a resource; nothing is written")
            .body(json!({}))
            .empty(200, "It agrees with the schema");
    paths.add("/apisix/admin/schema/validate/{resource}", "post", validate);
}

fn of_schema(operation: Operation) -> Operation {
    let schema: Value = json!({"type": "object"});
    operation
        .query("schema_type", "The schema of what consumers configure", json!({"enum": ["consumer"]}))
        .json(200, "The schema", schema)
}
