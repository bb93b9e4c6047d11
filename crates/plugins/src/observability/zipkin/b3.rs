//! B3 propagation: the header `b3`, or `x-b3-*` (https://github.com/openzipkin/b3-propagation).

use tidegate_model::random::random_u64;
use tidegate_plugin_api::Request;

/// What the client's headers say, unchecked.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Incoming {
    pub(crate) trace_id: Option<String>,
    pub(crate) span_id: Option<String>,
    pub(crate) parent_id: Option<String>,
    pub(crate) sampled: Option<String>,
    /// Debug: overrides every sampling decision.
    pub debug: bool,
}

impl Incoming {
    /// `Err` for an invalid `b3` header. Removes `b3`: the upstream gets the headers apart.
    pub(super) fn take(request: &mut Request) -> Result<Incoming, &'static str> {
        let header = |name: &str| request.header_str(name).map(str::to_owned);
        let debug = header("x-b3-flags").as_deref() == Some("1");
        let Some(b3) = header("b3") else {
            return Ok(Incoming {
                trace_id: header("x-b3-traceid"),
                span_id: header("x-b3-spanid"),
                parent_id: header("x-b3-parentspanid"),
                sampled: header("x-b3-sampled"),
                debug,
            });
        };
        request.head.headers.remove("b3");
        let mut incoming = Incoming::parse(&b3)?;
        if incoming.sampled.as_deref() == Some("d") {
            request.head.headers.set("x-b3-flags", "1");
            incoming.sampled = Some("1".to_owned());
        }
        incoming.debug = debug;
        Ok(incoming)
    }

    fn parse(b3: &str) -> Result<Incoming, &'static str> {
        if b3 == "0" {
            return Ok(Incoming { sampled: Some("0".to_owned()), ..Incoming::default() });
        }
        let mut parts = b3.splitn(4, '-').map(str::to_owned);
        let trace_id = parts.next();
        let span_id = parts.next();
        if span_id.is_none() {
            return Err("missing span_id");
        }
        Ok(Incoming { trace_id, span_id, sampled: parts.next(), parent_id: parts.next(), debug: false })
    }

    /// Trace and span of the caller, if all ids are valid.
    pub(super) fn context(&self) -> Option<(String, String)> {
        let valid = |id: &Option<String>, lengths: &[usize]| {
            id.as_ref().is_none_or(|id| {
                lengths.contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        let all =
            valid(&self.trace_id, &[16, 32]) && valid(&self.span_id, &[16]) && valid(&self.parent_id, &[16]);
        let trace_id = self.trace_id.as_ref().filter(|_| all)?.to_ascii_lowercase();
        let span_id = self.span_id.as_ref().map_or_else(new_id, |id| id.to_ascii_lowercase());
        Some((trace_id, span_id))
    }

    /// The client's decision; none leaves it to the configuration.
    pub(super) fn decision(&self) -> Option<bool> {
        match self.sampled.as_deref() {
            Some("1" | "true") => Some(true),
            Some("0" | "false") => Some(false),
            _ => self.debug.then_some(true),
        }
    }
}

pub(super) fn new_id() -> String {
    format!("{:016x}", random_u64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request::request;

    #[test]
    fn headers_and_decisions() {
        let (trace, span) = ("80f198ee56343ba864fe8b2a57d3eff7", "e457b5a2e4d86bd1");
        let cases = [
            (format!("b3: {trace}-{span}-1\r\n"), Ok((true, Some(true)))),
            (format!("b3: {trace}-{span}-d-{span}\r\n"), Ok((true, Some(true)))),
            (format!("b3: {trace}-{span}\r\n"), Ok((true, None))),
            ("b3: 0\r\n".to_owned(), Ok((false, Some(false)))),
            (format!("b3: {trace}\r\n"), Err("missing span_id")),
            (format!("X-B3-TraceId: {trace}\r\nX-B3-Sampled: false\r\n"), Ok((true, Some(false)))),
            ("X-B3-TraceId: xyz\r\nX-B3-Flags: 1\r\n".to_owned(), Ok((false, Some(true)))),
            (String::new(), Ok((false, None))),
        ];
        for (headers, expected) in cases {
            let mut request = request(&format!("GET / HTTP/1.1\r\nHost: h\r\n{headers}\r\n"));
            let found = Incoming::take(&mut request)
                .map(|incoming| (incoming.context().is_some(), incoming.decision()));
            assert_eq!(found, expected, "{headers}");
            assert!(request.header("b3").is_none());
        }
    }
}
