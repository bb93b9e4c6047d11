//! The headers that report its quota to a client.

use serde_json::Value;
use tidegate_plugin_api::Request;
use tidegate_protocol::FieldName;

use super::counters::Taken;
use crate::common::number;

#[derive(Clone)]
pub(crate) struct HeaderNames {
    names: [String; 3],
    /// The same, for each response: limit, remaining, reset.
    fields: [FieldName; 3],
}

impl HeaderNames {
    /// From plugin metadata, else the usual ones.
    pub(crate) fn new(metadata: Option<&Value>) -> HeaderNames {
        let name = |key: &str, default: &str| {
            let configured = metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
            configured.unwrap_or(default).to_owned()
        };
        HeaderNames::of([
            name("limit_header", "X-RateLimit-Limit"),
            name("remaining_header", "X-RateLimit-Remaining"),
            name("reset_header", "X-RateLimit-Reset"),
        ])
    }

    fn of(names: [String; 3]) -> HeaderNames {
        let fields = names.each_ref().map(|name| FieldName::new(name));
        HeaderNames { names, fields }
    }

    /// Those of one of several rules: `X-PREFIX-RateLimit-Limit`.
    pub(crate) fn with_prefix(&self, prefix: &str) -> HeaderNames {
        let place = |name: &String| name.replacen("RateLimit-", &format!("{prefix}-RateLimit-"), 1);
        HeaderNames::of(self.names.each_ref().map(place))
    }

    pub(crate) fn write(&self, request: &mut Request, limit: f64, taken: &Taken) {
        let headers = &mut request.early_headers;
        let remaining = if taken.allowed { taken.remaining } else { 0.0 };
        let values = [limit, remaining, (taken.reset_seconds * 100.0).floor() / 100.0];
        for (name, value) in self.fields.iter().zip(values) {
            headers.set_named(name, |out| number::write_lua(value, out));
        }
    }
}
