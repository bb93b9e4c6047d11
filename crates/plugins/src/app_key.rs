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
    phases: Phases::RECEIVED.and(Phases::REWRITE),
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

/// The key that was in the path.
struct Key(Vec<u8>);

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
    /// Guards, logs and the upstream see the path as if the key had never been in it.
    fn received(&self, request: &mut Request) {
        let Some(found) = self.in_path(request) else { return };
        let path = [found.before, found.after].concat();
        // Otherwise the guards of that route would be bypassed.
        if !is_known(request, found.key) || plugin::reroute::leads_elsewhere(request, &path) {
            return;
        }
        let key = Key(found.key.to_vec());
        request.extensions.insert(key);
        without_key(request, path);
    }

    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.find(request) {
            Ok(()) => Step::Next,
            Err(reason) => Err(Box::new(Reply::message(self.rejected_code, reason))).into(),
        }
    }
}

impl AppKey {
    /// Only where the key is nowhere else.
    fn in_path<'a>(&self, request: &'a Request) -> Option<InPath<'a>> {
        let elsewhere = request.header(&self.header).is_some() || request.arg(&self.query).is_some();
        (self.in_path && !elsewhere).then(|| in_path(&request.path)).flatten()
    }

    fn find(&self, request: &mut Request) -> Result<(), &'static str> {
        let given = request.header(&self.header).map(<[u8]>::to_vec).or_else(|| request.arg(&self.query));
        let taken = || request.extensions.get::<Key>().filter(|_| self.in_path).map(|Key(key)| key.clone());
        let Some(key) = given.or_else(taken) else {
            // `received` has left it there.
            return Err(match self.in_path(request) {
                None => "Missing application key in request",
                Some(found) if !is_known(request, found.key) => "Invalid application key in request",
                Some(_) => "The path without its application key belongs to another route",
            });
        };
        let snapshot = request.snapshot.clone();
        let entry = std::str::from_utf8(&key).ok().and_then(|key| snapshot.consumers.find("app-key", key));
        request.attach(entry.ok_or("Invalid application key in request")?);
        Ok(())
    }
}

fn is_known(request: &Request, key: &[u8]) -> bool {
    std::str::from_utf8(key).is_ok_and(|key| request.snapshot.consumers.find("app-key", key).is_some())
}

fn without_key(request: &mut Request, path: Vec<u8>) {
    request.path = path;
    let target = request.canonical_target();
    request.head.set_target(&target);
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
