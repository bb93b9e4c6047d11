//! Puts text before, after or in place of the response body; for tests.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BodyChunk, BuildContext, Phases, Plugin, PluginDef, Request};

use crate::common::{conf::typed, header_edits, instance_state};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "echo",
    version: 0.1,
    priority: 412,
    guards: false,
    answers: true,
    schema: include_str!("echo.json"),
    phases: Phases::HEADER_FILTER.and(Phases::BODY_FILTER),
    headers: &[("headers", Text::Fields)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    before_body: Option<String>,
    body: Option<String>,
    after_body: Option<String>,
    headers: Option<Value>,
}

struct Echo {
    before: Option<String>,
    body: Option<String>,
    after: Option<String>,
    headers: Vec<(String, String)>,
}

/// The first piece of the body has passed.
struct Begun;

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let headers = conf.headers.as_ref().and_then(Value::as_object).into_iter().flatten();
    Ok(Arc::new(Echo {
        before: conf.before_body,
        body: conf.body,
        after: conf.after_body,
        headers: headers
            .filter_map(|(name, value)| Some((name.clone(), header_edits::text(value)?)))
            .collect(),
    }))
}

impl Plugin for Echo {
    fn header_filter(&self, request: &mut Request) {
        request.response.body_modified();
        for (name, value) in &self.headers {
            request.response.assign(name, value);
        }
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        let first = instance_state::get_mut::<_, Begun>(request, self).is_none();
        if first {
            instance_state::set(request, self, Begun);
        }
        if let Some(body) = &self.body {
            // The upstream's body may have more pieces: they are all replaced by this one.
            chunk.data = if first { body.clone().into_bytes() } else { Vec::new() };
        }
        if let Some(before) = self.before.as_ref().filter(|_| first) {
            chunk.data.splice(..0, before.bytes());
        }
        if let Some(after) = self.after.as_ref().filter(|_| chunk.last) {
            chunk.data.extend_from_slice(after.as_bytes());
        }
    }
}
