//! Consumers, their credentials and groups.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tidegate_config::yaml::Node;

use super::{
    entities::{CREDENTIALS, Entities},
    node::{key_text, label, name, username},
    plugins,
};
use crate::{
    closed,
    fields::Fields,
    imported::Imported,
    names::{folded, words},
    output,
};

/// Whether what they may do, or what upstreams learn about them, differs from Kong.
pub(super) fn convert(entities: &Entities, imported: &mut Imported) -> bool {
    let ((), differs) = crate::imported::aside(imported, |imported| convert_all(entities, imported));
    differs
}

fn convert_all(entities: &Entities, imported: &mut Imported) {
    for group in entities.groups.iter() {
        let subject = label("consumer group", group);
        let fields = Fields::new(group, &subject);
        fields.skip(&["id", "name", "tags", "plugins", "consumers", "created_at", "updated_at"]);
        let conf = plugins::of_owner(entities, imported, group);
        fields.finish(&mut imported.report);
        let id = output::plain_id(&name(group));
        imported.output.add("consumer_groups", &id, json!({"plugins": conf}));
        imported.report.made("consumer_groups", &id, group.line);
        imported.report.converted(group.line, &subject);
    }
    for consumer in entities.consumers.iter() {
        convert_one(entities, consumer, imported);
    }
}

fn convert_one(entities: &Entities, consumer: &Node, imported: &mut Imported) {
    let subject = label("consumer", consumer);
    let fields = Fields::new(consumer, &subject);
    fields.skip(&["id", "username", "custom_id", "tags", "plugins", "created_at", "updated_at", "type"]);
    let mut credentials: Vec<(&'static str, &Node)> = Vec::new();
    for list in CREDENTIALS {
        credentials.extend(fields.list(list).iter().map(|node| (list, node)));
    }
    credentials.extend(entities.loose_credentials.of(consumer).iter().copied());
    let username = username(consumer);
    if imported.output.id("consumers", &username) != output::plain_id(&username) {
        let why = format!("another consumer is {username} here; no consumer has its credentials");
        imported.report.closed(consumer.line, &subject, &why);
        return;
    }
    if entities.has_lost_a_group(consumer) {
        let why = "one of its groups, whose plugins apply to it, is not in the file; no consumer has its \
        credentials";
        imported.report.closed(consumer.line, &subject, why);
        return;
    }
    if key_text(consumer, "username").is_some_and(|given| given != username) {
        imported.report.approximated(consumer.line, &subject, &format!("its name becomes {username}"));
    }
    fields.skip(&["groups"]);
    let groups = entities.groups_of(consumer);
    fields.finish(&mut imported.report);
    let mut plugins = plugins::of_owner(entities, imported, consumer);
    if groups.len() > 1 {
        add_plugins_of(&groups, &mut plugins, entities, consumer, imported);
    }
    let acls: Vec<String> = credentials
        .iter()
        .filter(|(list, _)| *list == "acls")
        .filter_map(|(_, node)| key_text(node, "group"))
        .collect();
    let mut object = Map::new();
    object.insert("username".to_owned(), username.clone().into());
    if !plugins.is_empty() {
        object.insert("plugins".to_owned(), plugins.into());
    }
    if let [group] = groups.as_slice() {
        object.insert("group_id".to_owned(), output::plain_id(&name(group)).into());
    }
    if !acls.is_empty() {
        // A label is text without blanks; the plugin acl reads a JSON list in it.
        object
            .insert("labels".to_owned(), json!({"groups": json!(acls).to_string().replace(' ', "\\u0020")}));
    }
    imported.output.add("consumers", &username, Value::Object(object));
    imported.report.made("consumers", &username, consumer.line);
    imported.report.converted(consumer.line, &subject);
    let mut known = HashSet::new();
    for (list, node) in credentials.into_iter().filter(|(list, _)| *list != "acls") {
        let subject = format!("{subject}: {list}");
        if let Some((plugin, conf)) = credential(list, node, &subject, entities.has_hashes, imported) {
            let id = unique(credential_name(&username, plugin, &conf), &mut known);
            let id = format!("{username}/credentials/{id}");
            imported.output.add("consumers", &id, json!({"plugins": {plugin: conf}}));
            imported.report.made("consumers", &id, node.line);
            imported.report.converted(node.line, &subject);
        }
    }
}

/// Of what a client is recognised by, wherever it stands in the file. A key is a secret: of it three digits of a hash are shown, which
/// are those of every 4,096th key.
fn credential_name(username: &str, plugin: &str, conf: &Value) -> String {
    let field = match plugin {
        "basic-auth" => "username",
        "hmac-auth" => "key_id",
        _ => "key",
    };
    let key = conf.get(field).and_then(Value::as_str).unwrap_or_default();
    let digits = folded(&format!("{username}\n{plugin}\n{key}"));
    if plugin == "key-auth" {
        return format!("{plugin}-{:03x}", digits & 0xfff);
    }
    match words(key) {
        words if words.is_empty() => format!("{plugin}-{digits:04x}"),
        words => format!("{plugin}-{words}-{digits:04x}"),
    }
}

fn unique(name: String, known: &mut HashSet<String>) -> String {
    let mut free = name.clone();
    let mut number = 1;
    while !known.insert(free.clone()) {
        number += 1;
        free = format!("{name}-{number}");
    }
    free
}

/// A consumer has one group here: the plugins of several become its own. Its own ones come first, as in Kong.
fn add_plugins_of(
    groups: &[&Node],
    plugins: &mut Map<String, Value>,
    entities: &Entities,
    consumer: &Node,
    imported: &mut Imported,
) {
    let mut added: Map<String, Value> = Map::new();
    for group in groups {
        let conf = plugins::of_owner(entities, imported, group);
        for (kind, conf) in conf {
            if added.get(&kind).is_some_and(|present| *present != conf) && !plugins.contains_key(&kind) {
                let subject = label("consumer", consumer);
                let why = format!("{kind} differs between its groups, of which Kong takes one");
                imported.report.closed(consumer.line, &subject, &why);
                if let Value::Object(shut) = closed::plugins(&closed::id(&name(consumer))) {
                    plugins.extend(shut);
                }
                return;
            }
            added.insert(kind, conf);
        }
    }
    for (kind, conf) in added {
        plugins.entry(kind).or_insert(conf);
    }
}

fn credential(
    list: &str,
    node: &Node,
    subject: &str,
    has_hashes: bool,
    imported: &mut Imported,
) -> Option<(&'static str, Value)> {
    let fields = Fields::new(node, subject);
    fields.skip(&["id", "tags", "created_at", "consumer"]);
    if let Some(reference) = super::converted::vault_reference(node) {
        let why = format!(
            "{reference} is not converted ({{vault://env/NAME}} is): no consumer has this credential"
        );
        imported.report.closed(node.line, subject, &why);
        return None;
    }
    let missing = |key: &str| format!("`{key}` is missing; Kong would generate one, set it in the file");
    let mut need = |key: &str| {
        let text = fields.text(key);
        if text.is_none() {
            imported.report.unsupported(node.line, subject, &missing(key));
        }
        text
    };
    if fields.get("ttl").is_some() {
        let why = "`ttl`: credentials do not expire here: no consumer has this one";
        imported.report.closed(node.line, subject, why);
        return None;
    }
    if has_hashes && list == "basicauth_credentials" {
        let why =
            "`_transform: false`: the password is not known, only its hash: no consumer has this credential";
        imported.report.closed(node.line, subject, why);
        return None;
    }
    if fields.flag("skip_hash") == Some(true) {
        let why = "`skip_hash`: the password is not known, only its hash: no consumer has this credential";
        imported.report.closed(node.line, subject, why);
        return None;
    }
    let converted = match list {
        "keyauth_credentials" => ("key-auth", json!({"key": need("key")?})),
        "basicauth_credentials" => {
            ("basic-auth", json!({"username": need("username")?, "password": need("password")?}))
        }
        "hmacauth_credentials" => {
            ("hmac-auth", json!({"key_id": need("username")?, "secret_key": need("secret")?}))
        }
        "jwt_secrets" => {
            let algorithm = fields.text("algorithm").unwrap_or_else(|| "HS256".to_owned());
            let mut conf = json!({"key": need("key")?, "algorithm": algorithm});
            if algorithm.starts_with("HS") {
                conf["secret"] = need("secret")?.into();
            } else {
                fields.skip(&["secret"]);
                conf["public_key"] = need("rsa_public_key")?.into();
            }
            ("jwt-auth", conf)
        }
        _ => return None,
    };
    fields.finish(&mut imported.report);
    Some(converted)
}
