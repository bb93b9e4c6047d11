//! Where in the file an object stands that cannot be used.

use std::cell::OnceCell;

use tidegate_config::yaml::{self, Content, Node};

use crate::collections::{Places, Twice};

/// The text of a file, to be looked through when there is something to complain of.
pub(super) struct Text {
    file: String,
    text: String,
    /// With places; JSON reads as YAML. `None`: it does not, and only the file is named.
    tree: OnceCell<Option<Node>>,
}

impl Text {
    pub(super) fn new(file: String, text: String) -> Self {
        Self { file, text, tree: OnceCell::new() }
    }

    fn root(&self) -> Option<&Node> {
        self.tree.get_or_init(|| yaml::parse(&self.text).ok()).as_ref()
    }

    /// The message about two items of a list that are the same object.
    pub(super) fn twice(&self, twice: &Twice) -> String {
        let place = |index: usize| {
            let item = element(self.root()?.get(twice.list)?, index)?;
            Some((item.line, item.column))
        };
        let first =
            place(twice.first).map_or(String::new(), |(line, column)| format!(", first at {line}:{column}"));
        let second = self.at(place(twice.second));
        format!("{second}{} has id {:?} twice{first}", twice.list, twice.id)
    }

    fn at(&self, place: Option<(usize, usize)>) -> String {
        match place {
            Some((line, column)) => format!("{}:{line}:{column}: ", self.file),
            None => format!("{}: ", self.file),
        }
    }
}

impl Places for Text {
    fn key(&self, key: &str) -> String {
        self.at(self.root().and_then(|root| child(root, key)).map(|(_, place)| place))
    }

    fn item(&self, list: &str, index: usize, message: &str) -> String {
        let item = self.root().and_then(|root| element(root.get(list)?, index));
        self.at(item.map(|item| place_in(item, message)))
    }
}

/// The part of an object that the message begins with: `unknown field plugins.key-auth.hide_credental`, or `plugins.limit-count:`.
fn place_of_path(item: &Node, message: &str) -> Option<(usize, usize)> {
    let path = message.strip_prefix("unknown field ").unwrap_or(message).split([' ', ':']).next()?;
    let (mut node, mut place) = (item, None);
    for step in path.split(['.', '[']) {
        let found = match step.strip_suffix(']').and_then(|index| index.parse().ok()) {
            Some(index) => element(node, index).map(|found| (found, (found.line, found.column))),
            None => child(node, step),
        };
        let Some((found, at)) = found else { break };
        (node, place) = (found, Some(at));
    }
    place
}

/// A word of a message that names a part of the object, with what stands around it.
const NAMES: [(&str, &str, Part); 8] = [
    ("plugin ", ":", Part::Plugin),
    ("unknown plugin [", "]", Part::Plugin),
    ("for plugin [", "]", Part::Plugin),
    ("configuration of plugin ", " ", Part::Plugin),
    ("_meta.pre_function in plugin ", ":", Part::Plugin),
    ("property \"", "\"", Part::Key),
    ("forbidden, found ", ";", Part::Key),
    ("validate item ", ":", Part::Item),
];

#[derive(Clone, Copy)]
enum Part {
    Plugin,
    Key,
    Item,
}

/// As deep in the object as the message of its check says.
fn place_in(item: &Node, message: &str) -> (usize, usize) {
    if let Some(place) = place_of_path(item, message) {
        return place;
    }
    let (mut node, mut place, mut rest) = (item, (item.line, item.column), message);
    while let Some((name, part, after)) = next_name(rest) {
        let found = match part {
            Part::Plugin => item.get("plugins").and_then(|plugins| child(plugins, name)),
            Part::Key => child(node, name),
            Part::Item => name
                .parse::<usize>()
                .ok()
                .and_then(|number| element(node, number.checked_sub(1)?))
                .map(|found| (found, (found.line, found.column))),
        };
        let Some((found, at)) = found else { return place };
        (node, place, rest) = (found, at, after);
    }
    place
}

fn next_name(message: &str) -> Option<(&str, Part, &str)> {
    let found =
        NAMES.iter().filter_map(|(before, end, part)| Some((message.find(before)?, before, end, part)));
    let (at, before, end, part) = found.min_by_key(|(at, ..)| *at)?;
    let rest = message.get(at + before.len()..)?;
    let (name, after) = rest.split_once(end).unwrap_or((rest, ""));
    Some((name, *part, after))
}

/// The value of a key, and where the key stands.
fn child<'a>(node: &'a Node, key: &str) -> Option<(&'a Node, (usize, usize))> {
    let Content::Map(entries) = &node.content else { return None };
    let entry = entries.iter().find(|entry| entry.key == key)?;
    Some((&entry.value, (entry.line, entry.column)))
}

fn element(node: &Node, index: usize) -> Option<&Node> {
    match &node.content {
        Content::List(items) => items.get(index),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_deep_as_the_message_tells() {
        let yaml = "routes:\n  - id: 1\n    uris:\n      - /a\n      - 5\n    plugins:\n      kye-auth: {}\n      \
                    cors:\n        max_age: x\n";
        let json = "{\"routes\": [\n\t{\"id\": 1,\n\t\"plugins\": {\"kye-auth\": {}}}]}";
        for (text, message, expected) in [
            (yaml, "it is bad", "f:2:5: "),
            (yaml, "unknown plugin [kye-auth]; did you mean key-auth?", "f:7:7: "),
            (yaml, "unknown plugin [none]", "f:2:5: "),
            (
                yaml,
                "failed to check the configuration of plugin cors err: property \"max_age\" validation failed: wrong",
                "f:9:9: ",
            ),
            (
                yaml,
                "invalid configuration: property \"uris\" validation failed: failed to validate item 2: wrong",
                "f:5:9: ",
            ),
            (yaml, "invalid configuration: property \"uri\" is required", "f:2:5: "),
            (json, "unknown plugin [kye-auth]", "f:3:14: "),
            (yaml, "plugins.cors.max_age is not known", "f:9:9: "),
            (yaml, "plugins.cors.other is not known", "f:8:7: "),
            (yaml, "uris[1] is wrong", "f:5:9: "),
            (yaml, "plugin cors: it is idle", "f:8:7: "),
            ("routes: [", "it is bad", "f: "),
        ] {
            let text = Text::new("f".to_owned(), text.to_owned());
            assert_eq!(text.item("routes", 0, message), expected, "{message}");
        }
        let text = Text::new("f".to_owned(), "upstreams: []\nrotes: []\n".to_owned());
        assert_eq!(text.key("rotes"), "f:2:1: ");
        assert_eq!(text.key("none"), "f: ");
    }
}
