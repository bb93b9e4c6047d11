//! The lists of apisix.yaml as they fill up.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value};

/// Collections in the order in which they refer to each other.
const ORDER: [&str; 12] = [
    "secrets",
    "protos",
    "ssls",
    "upstreams",
    "services",
    "plugin_configs",
    "consumer_groups",
    "consumers",
    "global_rules",
    "plugin_metadata",
    "routes",
    "stream_routes",
];

/// Objects by collection, as in apisix.yaml.
#[derive(Debug, Default)]
pub struct Output {
    lists: Map<String, Value>,
    ids: HashSet<(String, String)>,
    /// The number that an id got last, of those that were there already.
    numbers: RefCell<HashMap<(String, String), usize>>,
    /// Lists that name variables of the environment themselves.
    names_variables: bool,
}

/// What begins the name of a variable of the environment in apisix.yaml, which is filled in before the YAML is read.
const OPEN: &str = "${{";

/// In place of [`OPEN`] until the text is YAML. Its second character is one that YAML writes as an escape.
const MARKED: &str = "$\u{1}{{";

impl Output {
    /// Adds an object; `id` must be one of [`Output::id`], or unique by nature.
    pub fn add(&mut self, collection: &str, id: &str, object: Value) {
        let mut with_id = Map::new();
        with_id.insert("id".to_owned(), id.into());
        if let Value::Object(fields) = object {
            with_id.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        self.ids.insert((collection.to_owned(), id.to_owned()));
        let list = self.lists.entry(collection).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(Value::Object(with_id));
        }
    }

    /// An id that the collection does not have yet, from a name that may hold anything.
    pub fn id(&self, collection: &str, name: &str) -> String {
        let plain = plain_id(name);
        let taken = |id: &str| self.ids.contains(&(collection.to_owned(), id.to_owned()));
        if !taken(&plain) {
            return plain;
        }
        let mut numbers = self.numbers.borrow_mut();
        let last = numbers.entry((collection.to_owned(), plain.clone())).or_insert(2);
        while taken(&format!("{plain}-{last}")) {
            *last += 1;
        }
        format!("{plain}-{last}")
    }

    /// Takes over a list unchanged.
    pub fn put(&mut self, collection: &str, list: Value) {
        self.names_variables = true;
        self.lists.insert(collection.to_owned(), list);
    }

    /// Whether the collection has objects.
    pub fn has(&self, collection: &str) -> bool {
        self.lists.contains_key(collection)
    }

    /// Collection, objects; in the order in which an Admin API takes them.
    pub fn lists(&self) -> impl Iterator<Item = (&str, &[Value])> {
        ORDER.iter().filter_map(|name| Some((*name, self.lists.get(*name)?.as_array()?.as_slice())))
    }

    /// The text of an apisix.yaml.
    pub fn yaml(&self) -> Result<String, String> {
        let mut document = Map::new();
        let others = self.lists.keys().map(String::as_str).filter(|name| !ORDER.contains(name));
        for name in ORDER.into_iter().chain(others) {
            if let Some(list) = self.lists.get(name) {
                document.insert(name.to_owned(), list.clone());
            }
        }
        if document.is_empty() {
            document.insert("routes".to_owned(), Value::Array(Vec::new()));
        }
        let mut document = Value::Object(document);
        if !self.names_variables {
            mark(&mut document);
        }
        let text = serde_saphyr::to_string(&document).map_err(|error| error.to_string())?;
        let text = if self.names_variables { text } else { unmarked(&text)? };
        Ok(format!("{}\n#END\n", text.trim_end()))
    }
}

/// Texts that only look like variables of the environment.
fn mark(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(OPEN) => *text = text.replace(OPEN, MARKED),
        Value::Array(items) => items.iter_mut().for_each(mark),
        Value::Object(fields) => fields.values_mut().for_each(mark),
        _ => {}
    }
}

/// The dollar sign as an escape of YAML: what replaces variables does not know these.
fn unmarked(yaml: &str) -> Result<String, String> {
    let text = ["$\\x01{{", "$\\u0001{{"]
        .iter()
        .fold(yaml.to_owned(), |text, written| text.replace(written, "\\x24{{"));
    match text.contains(OPEN) || text.contains(MARKED) {
        true => Err(format!("a text has `{OPEN}`, which apisix.yaml cannot have there")),
        false => Ok(text),
    }
}

/// At most 60 of the characters an id may have, so that a number still fits behind it.
pub(crate) fn plain_id(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let plain: String = name.chars().take(60).map(allowed).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_look_like_variables_of_the_environment_stay() {
        let mut output = Output::default();
        let texts = ["a ${{HOME}} b", "${{ A }}\n\"two\" lines\\", "${{", "'${{A:=b}}'"];
        output.add("routes", "a", json!({"desc": texts}));
        let yaml = output.yaml().expect("it can be written");
        assert!(!yaml.contains(OPEN), "{yaml}");
        let read = tidegate_config::yaml::to_value(&yaml).expect("it is YAML");
        assert_eq!(read["routes"][0]["desc"], json!(texts), "{yaml}");
        output.put("services", json!([{"desc": "${{HOME}}"}]));
        assert!(output.yaml().expect("it can be written").contains("${{HOME}}"));
    }
}
