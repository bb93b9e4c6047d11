//! The header `sw8` of SkyWalking's cross-process propagation, version 3: eight parts, texts in base64.

use data_encoding::BASE64;

/// Where a request comes from.
#[derive(Debug, PartialEq)]
pub(super) struct Origin {
    pub trace_id: String,
    pub segment_id: String,
    pub span_id: u32,
    pub service: String,
    pub instance: String,
    pub endpoint: String,
    /// How the sender calls this gateway.
    pub address: String,
}

/// A longer header is none of an agent's.
const MOST_BYTES: usize = 2048;

/// `None`: it is not what an agent writes, and a trace begins here.
pub(super) fn parse(header: &[u8]) -> Option<Origin> {
    if header.len() > MOST_BYTES {
        return None;
    }
    let mut parts = std::str::from_utf8(header).ok()?.split('-');
    let text = |part: Option<&str>| String::from_utf8(BASE64.decode(part?.as_bytes()).ok()?).ok();
    let _sampled = parts.next().filter(|sampled| matches!(*sampled, "0" | "1"))?;
    let origin = Origin {
        trace_id: text(parts.next())?,
        segment_id: text(parts.next())?,
        span_id: parts.next()?.parse().ok()?,
        service: text(parts.next())?,
        instance: text(parts.next())?,
        endpoint: text(parts.next())?,
        address: text(parts.next())?,
    };
    parts.next().is_none().then_some(origin).filter(|origin| !origin.trace_id.is_empty())
}

impl Origin {
    pub(super) fn header(&self) -> String {
        let code = |text: &str| BASE64.encode(text.as_bytes());
        format!(
            "1-{}-{}-{}-{}-{}-{}-{}",
            code(&self.trace_id),
            code(&self.segment_id),
            self.span_id,
            code(&self.service),
            code(&self.instance),
            code(&self.endpoint),
            code(&self.address)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_agents() {
        // Of the protocol's own description.
        let header = "1-MTk4LjUxLjEwMC4xMTY-MTk4-3-dXNlcg==-aW5z-L2E=-MTI3LjAuMC4xOjgw";
        assert_eq!(parse(header.as_bytes()), None, "without padding");
        let origin = Origin {
            trace_id: "t".into(),
            segment_id: "s".into(),
            span_id: 3,
            service: "user".into(),
            instance: "ins".into(),
            endpoint: "/a".into(),
            address: "127.0.0.1:80".into(),
        };
        let header = "1-dA==-cw==-3-dXNlcg==-aW5z-L2E=-MTI3LjAuMC4xOjgw";
        assert_eq!(origin.header(), header);
        assert_eq!(parse(header.as_bytes()), Some(origin));
        for bad in [
            "",
            "1",
            "2-dA==-cw==-3-dQ==-aQ==-L2E=-MQ==",
            "1-dA==-cw==-x-dQ==-aQ==-L2E=-MQ==",
            "1-dA==-cw==-3-dQ==-aQ==-L2E=",
            "1-dA==-cw==-3-dQ==-aQ==-L2E=-MQ==-x",
            "1--cw==-3-dQ==-aQ==-L2E=-MQ==",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse(format!("1-{}", "A".repeat(3000)).as_bytes()), None);
    }
}
