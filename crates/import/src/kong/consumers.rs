//! Consumers, their credentials and groups.

use config::yaml::Node;
use serde_json::{Map, Value, json};

use super::{
    entities::{CREDENTIALS, Entities, children, key_text, label, name},
    plugins,
};
use crate::{Imported, fields::Fields, output};

pub fn convert(entities: &Entities, imported: &mut Imported) {
    for group in &entities.groups {
        let subject = label("consumer group", group);
        let fields = Fields::new(group, &subject);
        fields.skip(&["id", "name", "tags", "plugins", "created_at", "updated_at"]);
        let conf = plugins::of_owner(entities, imported, |plugin| {
            plugin.group.is_some_and(|owner| std::ptr::eq(owner, *group))
        });
        fields.finish(&mut imported.report);
        let id = output::plain_id(&name(group));
        imported.output.add("consumer_groups", &id, json!({"plugins": conf}));
        imported.report.converted(group.line, &subject);
    }
    for consumer in &entities.consumers {
        convert_one(entities, consumer, imported);
    }
}

/// The name a consumer has with us.
pub fn username(consumer: &Node) -> String {
    let name = key_text(consumer, "username").unwrap_or_else(|| name(consumer));
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}

fn convert_one(entities: &Entities, consumer: &Node, imported: &mut Imported) {
    let subject = label("consumer", consumer);
    let fields = Fields::new(consumer, &subject);
    fields.skip(&["id", "username", "custom_id", "tags", "plugins", "created_at", "updated_at", "type"]);
    let mut credentials: Vec<(&'static str, &Node)> = Vec::new();
    for list in CREDENTIALS {
        credentials.extend(fields.list(list).iter().map(|node| (list, node)));
    }
    let ours = |node: &Node| {
        entities
            .find(&entities.consumers, node.get("consumer"))
            .is_some_and(|owner| std::ptr::eq(owner, consumer))
    };
    credentials.extend(entities.loose_credentials.iter().filter(|(_, node)| ours(node)));
    let username = username(consumer);
    if key_text(consumer, "username").is_some_and(|given| given != username) {
        imported.report.approximated(consumer.line, &subject, &format!("its name becomes {username}"));
    }
    let groups = groups(entities, &fields, consumer, imported);
    fields.finish(&mut imported.report);
    let plugins = plugins::of_owner(entities, imported, |plugin| {
        plugin.consumer.is_some_and(|owner| std::ptr::eq(owner, consumer))
    });
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
    if let Some(group) = groups {
        object.insert("group_id".to_owned(), group.into());
    }
    if !acls.is_empty() {
        // A label is text; the plugin acl reads a JSON list in it.
        object.insert("labels".to_owned(), json!({"groups": json!(acls).to_string()}));
    }
    imported.output.add("consumers", &username, Value::Object(object));
    imported.report.converted(consumer.line, &subject);
    for (number, (list, node)) in credentials.into_iter().filter(|(list, _)| *list != "acls").enumerate() {
        let subject = format!("{subject}: {list}");
        if let Some((plugin, conf)) = credential(list, node, &subject, imported) {
            let id = format!("{username}/credentials/{plugin}-{}", number + 1);
            imported.output.add("consumers", &id, json!({"plugins": {plugin: conf}}));
            imported.report.converted(node.line, &subject);
        }
    }
}

fn groups(entities: &Entities, fields: &Fields, consumer: &Node, imported: &mut Imported) -> Option<String> {
    let mut names: Vec<String> = fields
        .list("groups")
        .iter()
        .filter_map(|node| entities.find(&entities.groups, Some(node)))
        .map(|group| output::plain_id(&name(group)))
        .collect();
    for group in &entities.groups {
        let member = |node: &Node| {
            entities.find(&entities.consumers, Some(node)).is_some_and(|found| std::ptr::eq(found, consumer))
        };
        if children(group, "consumers").iter().any(member) {
            names.push(output::plain_id(&name(group)));
        }
    }
    names.dedup();
    if let Some(others) = names.get(1..).filter(|others| !others.is_empty()) {
        let why = format!("a consumer has one group; left out: {}", others.join(", "));
        imported.report.unsupported(fields.line(), fields.subject(), &why);
    }
    names.into_iter().next()
}

fn credential(
    list: &str,
    node: &Node,
    subject: &str,
    imported: &mut Imported,
) -> Option<(&'static str, Value)> {
    let fields = Fields::new(node, subject);
    fields.skip(&["id", "tags", "created_at", "consumer"]);
    let missing = |key: &str| format!("`{key}` is missing; Kong would make one up, give it in the file");
    let mut need = |key: &str| {
        let text = fields.text(key);
        if text.is_none() {
            imported.report.unsupported(node.line, subject, &missing(key));
        }
        text
    };
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
