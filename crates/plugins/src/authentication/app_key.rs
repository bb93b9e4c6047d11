//! Authenticates consumers by a key in a header, a query argument or the path: `/SERVICE/~KEY/rest`. Ours; it is what
//! clients of hyperapi send.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    AuthEntry, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step,
    definition::ConsumerKey,
};
use tidegate_protocol::uri::unmarked;

use crate::common::{auth, conf::typed};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "app-key",
    version: 0.1,
    priority: 2498,
    kind: Some("auth"),
    schema: include_str!("app_key.json"),
    consumer_schema: Some(include_str!("app_key.consumer.json")),
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

/// The key of the path, looked for once, before the guards: they see the path without it.
struct Found {
    key: Vec<u8>,
    /// No consumer has this key.
    is_unknown: bool,
    /// It is still there, because the path without it belongs to another route.
    is_left: bool,
}

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
        let is_sought = self.in_path && request.extensions.get::<Found>().is_none();
        if !is_sought || self.given(request).is_some() {
            return;
        }
        let marked = request.marked_path();
        let Some(InPath { before, key, after }) = in_path(&marked) else { return };
        let (key, marked) = (unmarked(key), [before, after].concat());
        let path = unmarked(&marked);
        let is_unknown = entry(request, &key).is_none();
        // Otherwise the guards of that route would be bypassed.
        let is_left = is_unknown || tidegate_plugin_api::reroute::leads_elsewhere(request, &path);
        request.extensions.insert(Found { key, is_unknown, is_left });
        if !is_left {
            let target = request.target_with(&marked);
            request.head.set_target(&target);
            request.path = path;
        }
    }

    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.find(request) {
            Ok(entry) => {
                request.attach(&entry);
                Step::Next
            }
            Err(reason) => Err(Box::new(Reply::message(self.rejected_code, reason))).into(),
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl AppKey {
    /// In a header or an argument, where a plugin that ran before may have put it.
    fn given(&self, request: &Request) -> Option<Vec<u8>> {
        request.header(&self.header).map(<[u8]>::to_vec).or_else(|| request.arg(&self.query))
    }

    fn find(&self, request: &Request) -> Result<Arc<AuthEntry>, &'static str> {
        const INVALID: &str = "Invalid application key in request";
        if let Some(key) = self.given(request) {
            return entry(request, &key).ok_or(INVALID);
        }
        match request.extensions.get::<Found>().filter(|_| self.in_path) {
            None => Err("Missing application key in request"),
            Some(found) if found.is_unknown => Err(INVALID),
            Some(found) if found.is_left => {
                Err("The path without its application key belongs to another route")
            }
            Some(found) => entry(request, &found.key).ok_or(INVALID),
        }
    }
}

fn entry(request: &Request, key: &[u8]) -> Option<Arc<AuthEntry>> {
    request.snapshot.consumers.find("app-key", std::str::from_utf8(key).ok()?).cloned()
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
