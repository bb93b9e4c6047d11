//! Authenticates consumers by a key in a header, a query argument or the path: `/SERVICE/~KEY/rest`. Ours; it is what
//! clients of hyperapi send.

use std::sync::Arc;

use model::header_text::Text;
use plugin::{BuildContext, Phases, Plugin, PluginDef, Reply, Request, Step, definition::ConsumerKey};
use serde::Deserialize;
use serde_json::Value;

use crate::common::{auth, conf::typed};

pub static PLUGIN: PluginDef = PluginDef {
    name: "app-key",
    version: 0.1,
    priority: 2498,
    kind: Some("auth"),
    schema: include_str!("../schemas/app-key.json"),
    consumer_schema: Some(include_str!("../schemas/app-key.consumer.json")),
    encrypt_fields: &["key"],
    phases: Phases::REWRITE,
    headers: &[("header", Text::Value)],
    remarks: auth::remarks_of_key,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct AppKey {
    header: String,
    query: String,
    in_path: bool,
    rejected_code: u16,
}

/// Marks a request whose path no longer has the key in it: plugins that checked the path before have to check it again.
#[derive(Clone, Copy)]
pub struct PathWithoutKey;

/// Where in the path a key stands: the text between `/~` and the next slash, behind the first segment.
#[derive(Debug, PartialEq, Eq)]
struct InPath<'a> {
    before: &'a [u8],
    key: &'a [u8],
    /// From the slash behind the key.
    after: &'a [u8],
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<AppKey>(conf)?))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    let key = conf.get("key").and_then(Value::as_str).ok_or("property \"key\" is required")?;
    Ok(ConsumerKey { key: key.to_owned(), data: Box::new(()) })
}

impl Plugin for AppKey {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.find(request) {
            Ok(()) => Step::Next,
            Err(reason) => Err(Box::new(Reply::message(self.rejected_code, reason))).into(),
        }
    }
}

impl AppKey {
    fn find(&self, request: &mut Request) -> Result<(), &'static str> {
        let snapshot = request.snapshot.clone();
        let mut path = None;
        let key = match request.header(&self.header) {
            Some(key) => key.to_vec(),
            None => match request.arg(&self.query) {
                Some(key) => key,
                None => {
                    let found = self.in_path.then(|| in_path(&request.path)).flatten();
                    let InPath { before, key, after } = found.ok_or("Missing application key in request")?;
                    path = Some([before, after].concat());
                    key.to_vec()
                }
            },
        };
        let entry = std::str::from_utf8(&key).ok().and_then(|key| snapshot.consumers.find("app-key", key));
        let entry = entry.ok_or("Invalid application key in request")?;
        if let Some(path) = path {
            // Otherwise the guards of that route would be bypassed.
            if plugin::reroute::leads_elsewhere(request, &path) {
                return Err("The path without its application key belongs to another route");
            }
            without_key(request, path);
            request.extensions.insert(PathWithoutKey);
        }
        request.attach(entry);
        Ok(())
    }
}

/// Later plugins and the upstream see the path as if the key had never been in it.
fn without_key(request: &mut Request, path: Vec<u8>) {
    let mut target = Vec::with_capacity(path.len() + 16);
    wire::uri::encode_path(&path, &mut target);
    if let Some(query) = request.head.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    request.edits.target = Some(target);
    request.path = path;
}

fn in_path(path: &[u8]) -> Option<InPath<'_>> {
    let rest = path.strip_prefix(b"/")?;
    let mark = 1 + rest.windows(2).position(|pair| pair == b"/~")?;
    let (before, tail) = path.split_at_checked(mark)?;
    let key_and_rest = tail.strip_prefix(b"/~")?;
    let end = key_and_rest.iter().position(|&byte| byte == b'/')?;
    let (key, after) = key_and_rest.split_at_checked(end)?;
    (!key.is_empty() && mark > 1).then_some(InPath { before, key, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Option<(&str, &str, &str)>) {
        let expected = expected.map(|(before, key, after)| InPath {
            before: before.as_bytes(),
            key: key.as_bytes(),
            after: after.as_bytes(),
        });
        assert_eq!(in_path(path.as_bytes()), expected, "{path}");
    }

    #[test]
    fn keys_in_paths() {
        check("/mws/~secret/test.html", Some(("/mws", "secret", "/test.html")));
        check("/mws/~secret/", Some(("/mws", "secret", "/")));
        check("/mws/~secret/~other/", Some(("/mws", "secret", "/~other/")));
        check("/mws/v1/~secret/x", Some(("/mws/v1", "secret", "/x")));
        // Without the slash behind it, a key is a file name.
        check("/mws/~secret", None);
        check("/mws/~/x", None);
        check("/~secret/x", None);
        check("/", None);
        check("", None);
    }
}
