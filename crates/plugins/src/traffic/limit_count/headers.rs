//! The headers that report its quota to a client.

use serde_json::Value;
use tidegate_plugin_api::Request;

use super::counters::Taken;
use crate::common::number;

#[derive(Clone)]
pub(crate) struct HeaderNames {
    limit: String,
    remaining: String,
    reset: String,
}

impl HeaderNames {
    /// From plugin metadata, else the usual ones.
    pub(crate) fn new(metadata: Option<&Value>) -> HeaderNames {
        let name = |key: &str, default: &str| {
            let configured = metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
            configured.unwrap_or(default).to_owned()
        };
        HeaderNames {
            limit: name("limit_header", "X-RateLimit-Limit"),
            remaining: name("remaining_header", "X-RateLimit-Remaining"),
            reset: name("reset_header", "X-RateLimit-Reset"),
        }
    }

    /// Those of one of several rules: `X-PREFIX-RateLimit-Limit`.
    pub(crate) fn with_prefix(&self, prefix: &str) -> HeaderNames {
        let place = |name: &str| name.replacen("RateLimit-", &format!("{prefix}-RateLimit-"), 1);
        HeaderNames {
            limit: place(&self.limit),
            remaining: place(&self.remaining),
            reset: place(&self.reset),
        }
    }

    pub(crate) fn write(&self, request: &mut Request, limit: f64, taken: &Taken) {
        let headers = &mut request.early_headers;
        let mut set = |name, value| headers.set_with(name, |out| number::write_lua(value, out));
        set(&self.limit, limit);
        set(&self.remaining, if taken.allowed { taken.remaining } else { 0.0 });
        set(&self.reset, (taken.reset_seconds * 100.0).floor() / 100.0);
    }
}
