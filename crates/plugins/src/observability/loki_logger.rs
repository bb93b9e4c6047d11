//! Pushes log entries to Grafana Loki; entries with the same labels share a stream.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::batch::Weigh;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef, Request};

use crate::common::{
    batch_logger::{self, BatchLogger},
    conf::typed,
    log_entry::{self, LogEntry},
    receivers::{Addresses, Receivers},
    variable_text::VariableTexts,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "loki-logger",
    version: 0.1,
    priority: 414,
    guards: false,
    schema: include_str!("loki_logger.json"),
    metadata_schema: Some(include_str!("loki_logger.metadata.json")),
    encrypt_fields: &["headers"],
    phases: LogEntry::ALL_PHASES,
    check: log_entry::check,
    remarks,
    headers: &[("headers", Text::Fields), ("tenant_id", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    #[serde(flatten)]
    addresses: Addresses,
    tenant_id: String,
    headers: Option<Map<String, Value>>,
    log_labels: Map<String, Value>,
}

/// Loki refuses a whole push for an invalid label name, and for a stream without labels.
fn remarks(conf: &Value) -> Vec<String> {
    let Some(labels) = conf.get("log_labels").and_then(Value::as_object) else { return Vec::new() };
    if labels.is_empty() {
        return vec![
            "log_labels is empty: Loki refuses entries without a label; add one, or leave it out".to_owned(),
        ];
    }
    let is_name = |name: &str| {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        name.chars().all(fits) && name.starts_with(|first: char| !first.is_ascii_digit())
    };
    let wrong = labels.iter().map(|(name, _)| name).filter(|name| !is_name(name));
    wrong
        .map(|name| format!("log_labels: Loki refuses the label {name:?}, and all entries with it; use letters, digits and _"))
        .collect()
}

/// One line for Loki.
struct Line {
    labels: Vec<(String, String)>,
    /// Nanoseconds since 1970.
    time: String,
    entry: Map<String, Value>,
}

impl Weigh for Line {
    fn held(&self) -> usize {
        self.labels.held() + self.time.held() + self.entry.held()
    }

    /// The entry is sent as a text of JSON within JSON, with the quotes and backslashes of both.
    fn encoded(&self) -> usize {
        self.labels.encoded() + self.time.encoded() + 2 * self.entry.encoded()
    }
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut headers: Vec<(String, String)> =
        typed.headers.iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect();
    headers.retain(|(name, _)| {
        !name.eq_ignore_ascii_case("X-Scope-OrgID") && !name.eq_ignore_ascii_case("Content-Type")
    });
    headers.push(("X-Scope-OrgID".to_owned(), typed.tenant_id));
    let receivers = Arc::new(Receivers::new("loki server", &typed.addresses, headers)?);
    let labels = VariableTexts::new(&typed.log_labels);
    let make = move |entry: &LogEntry, request: &mut Request| {
        let labels = labels.render(request).collect();
        let time = nanoseconds(request);
        batch_logger::with_route(entry, request).map(move |entry| Line { labels, time, entry })
    };
    BatchLogger::build(PLUGIN.name, conf, context, make, move |lines| {
        let receivers = receivers.clone();
        Box::pin(async move { receivers.send(&streams(&lines)).await })
    })
}

/// When the request came in.
fn nanoseconds(request: &Request) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}000000", now.saturating_sub(request.started.elapsed()).as_millis())
}

/// `{"streams": [{"stream": labels, "values": [[time, line]]}]}`
fn streams(lines: &[Line]) -> Value {
    type Labels = [(String, String)];
    let mut streams: Vec<(&Labels, Vec<Value>)> = Vec::new();
    for line in lines {
        let value = json!([line.time, Value::from(line.entry.clone()).to_string()]);
        match streams.iter_mut().find(|(labels, _)| *labels == line.labels) {
            Some((_, values)) => values.push(value),
            None => streams.push((&line.labels, vec![value])),
        }
    }
    let streams = streams.into_iter().map(|(labels, values)| {
        let labels: Map<String, Value> =
            labels.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        json!({ "stream": labels, "values": values })
    });
    json!({ "streams": streams.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_the_same_labels_share_a_stream() {
        let line = |label: &str, time: &str| Line {
            labels: vec![("job".to_owned(), label.to_owned())],
            time: time.to_owned(),
            entry: Map::new(),
        };
        let streams = streams(&[line("a", "1"), line("b", "2"), line("a", "3")]);
        let expected = json!({"streams": [
            {"stream": {"job": "a"}, "values": [["1", "{}"], ["3", "{}"]]},
            {"stream": {"job": "b"}, "values": [["2", "{}"]]},
        ]});
        assert_eq!(streams, expected);
    }
}
