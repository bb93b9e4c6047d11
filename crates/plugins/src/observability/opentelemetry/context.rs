//! W3C Trace Context: the headers `traceparent` and `tracestate` (https://www.w3.org/TR/trace-context/).

use tidegate_model::random::random_u64;
use tidegate_plugin_api::Request;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// 32 lower-case hex digits.
    pub(crate) trace_id: String,
    /// 16 lower-case hex digits.
    pub(crate) span_id: String,
    pub(crate) sampled: bool,
}

impl TraceContext {
    /// What the client sent, if it is valid.
    pub(super) fn extract(request: &Request) -> Option<TraceContext> {
        TraceContext::parse(request.header_str("traceparent")?)
    }

    fn parse(header: &str) -> Option<TraceContext> {
        let mut parts = header.trim().split('-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let known = is_id(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !known || !is_trace_id(trace_id) || !is_id(span_id, 16) || span_id == "0".repeat(16) {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok().filter(|_| flags.len() == 2)?;
        Some(TraceContext {
            trace_id: trace_id.to_owned(),
            span_id: span_id.to_owned(),
            sampled: flags & 1 == 1,
        })
    }

    pub(super) fn header(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

fn is_id(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

pub(crate) fn is_trace_id(text: &str) -> bool {
    is_id(text, 32) && text.bytes().any(|byte| byte != b'0')
}

pub(crate) fn new_trace_id() -> String {
    format!("{:016x}{:016x}", random_u64(), random_u64() | 1)
}

pub(crate) fn new_span_id() -> String {
    format!("{:016x}", random_u64() | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let cases = [
            (format!("00-{trace}-b7ad6b7169203331-01"), Some(true)),
            (format!("00-{trace}-b7ad6b7169203331-00"), Some(false)),
            (format!("00-{trace}-b7ad6b7169203331-01-x"), None),
            (format!("cc-{trace}-b7ad6b7169203331-01-x"), Some(true)),
            (format!("ff-{trace}-b7ad6b7169203331-01"), None),
            (format!("00-{trace}-0000000000000000-01"), None),
            (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), None),
            (format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()), None),
            ("00".to_owned(), None),
        ];
        for (header, sampled) in cases {
            let parsed = TraceContext::parse(&header);
            assert_eq!(parsed.as_ref().map(|context| context.sampled), sampled, "{header}");
            if let Some(context) = parsed.filter(|_| header.starts_with("00")) {
                assert_eq!(context.header(), header);
            }
        }
    }
}
