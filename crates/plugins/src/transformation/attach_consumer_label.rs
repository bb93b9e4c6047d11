//! Sends labels of the authenticated consumer upstream as headers.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "attach-consumer-label",
    version: 0.1,
    priority: 2399,
    guards: false,
    schema: include_str!("attach_consumer_label.json"),
    phases: Phases::BEFORE_PROXY,
    headers: &[("headers", Text::Fields)],
    build,
    ..PluginDef::DEFAULT
};

struct AttachConsumerLabel {
    /// Header and label; the label's `$` is gone.
    headers: Vec<(String, String)>,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let headers = conf.get("headers").and_then(Value::as_object).ok_or("property \"headers\" is required")?;
    let pair = |(header, label): (&String, &Value)| {
        let label = label.as_str()?;
        Some((header.clone(), label.strip_prefix('$').unwrap_or(label).to_owned()))
    };
    Ok(Arc::new(AttachConsumerLabel { headers: headers.iter().filter_map(pair).collect() }))
}

impl Plugin for AttachConsumerLabel {
    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let consumer = request.consumer.clone();
        for (header, label) in &self.headers {
            let value = consumer.as_ref().and_then(|consumer| consumer.labels.get(label));
            let value = match value {
                Some(Value::String(text)) => Some(text.clone()),
                // A client must not be able to claim a label that its consumer lacks.
                None | Some(Value::Null) => None,
                Some(other) => Some(other.to_string()),
            };
            request.assert_header(header, value);
        }
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}
