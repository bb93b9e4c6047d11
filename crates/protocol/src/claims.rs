//! Fields that only the gateway may send to an upstream: who the client is, where it came from, how long the body is.
//!
//! CGI, WSGI and PHP read `X_Consumer_Username` and `X-Consumer-Username` as one variable, and some of them fold every
//! sign of a name to `_` (PHP `.`, lighttpd all), so names are compared here without case and with any sign read as `-`.
//! This is the only list of such names; plugins add the ones they are configured with when a request runs through them.
//! The caller decides which peers are believed.

/// What kind of statement a field makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Who the client is: `X-Consumer-*` and what authentication plugins set.
    Identity,
    /// `X-Access-Token`: a credential that openid-connect reads from clients, and an identity it sends upstream.
    AccessToken,
    /// Where the request came from: `X-Forwarded-*`, `X-Real-IP`, `Forwarded`.
    Forwarding,
    /// Where the message ends and which hop it is for.
    Framing,
}

const PREFIXES: [(&[u8], Claim); 2] =
    [(b"x-consumer-", Claim::Identity), (b"x-forwarded-", Claim::Forwarding)];

const NAMES: [(&[u8], Claim); 14] = [
    (b"x-credential-identifier", Claim::Identity),
    (b"x-userinfo", Claim::Identity),
    (b"x-id-token", Claim::Identity),
    (b"x-raw-id-token", Claim::Identity),
    (b"x-refresh-token", Claim::Identity),
    (b"x-access-token", Claim::AccessToken),
    (b"x-real-ip", Claim::Forwarding),
    (b"forwarded", Claim::Forwarding),
    (b"content-length", Claim::Framing),
    (b"transfer-encoding", Claim::Framing),
    (b"keep-alive", Claim::Framing),
    (b"proxy-connection", Claim::Framing),
    (b"proxy-authorization", Claim::Framing),
    (b"http2-settings", Claim::Framing),
];

/// The claim that a field of this name makes.
pub fn of(name: &[u8]) -> Option<Claim> {
    let prefixed = PREFIXES
        .iter()
        .find(|(prefix, _)| name.get(..prefix.len()).is_some_and(|start| same_name(start, prefix)));
    prefixed.or_else(|| NAMES.iter().find(|(known, _)| same_name(name, known))).map(|&(_, claim)| claim)
}

/// Whether two names are one to an upstream that folds all signs to one.
pub fn same_name(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(&one, &other)| fold(one) == fold(other))
}

/// The folded form that two such names share.
pub fn folded(name: &[u8]) -> Vec<u8> {
    name.iter().map(|&byte| fold(byte)).collect()
}

fn fold(byte: u8) -> u8 {
    FOLDED[usize::from(byte)]
}

/// Letters in lower case, digits, and `-` for everything else.
static FOLDED: [u8; 256] = {
    let mut table = [b'-'; 256];
    let mut byte = 0usize;
    while byte < 256 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    table
};

/// Whether a name has a sign other than `-` and `_`.
pub(crate) fn has_invalid_sign(name: &[u8]) -> bool {
    name.iter().any(|&byte| fold(byte) == b'-' && !matches!(byte, b'-' | b'_'))
}

/// Whether a name may be one of [`PREFIXES`], spelled with dashes: one comparison for each of them.
pub(crate) fn may_have_prefix(name: &[u8]) -> bool {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    const CONSUMER: u64 = u64::from_le_bytes(*b"x-consum");
    const FORWARDED: u64 = u64::from_le_bytes(*b"x-forwar");
    name.first_chunk::<8>().is_some_and(|start| {
        let start = u64::from_le_bytes(*start) | LOWER;
        start == CONSUMER || start == FORWARDED
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_with_any_sign_as_a_dash() {
        let cases: &[(&str, Option<Claim>)] = &[
            ("X-Consumer-Username", Some(Claim::Identity)),
            ("x_consumer_username", Some(Claim::Identity)),
            ("X-CONSUMER_Role", Some(Claim::Identity)),
            ("X_Credential-Identifier", Some(Claim::Identity)),
            ("x_userinfo", Some(Claim::Identity)),
            ("X_Access_Token", Some(Claim::AccessToken)),
            ("x_real_ip", Some(Claim::Forwarding)),
            ("X_Forwarded_Prefix", Some(Claim::Forwarding)),
            ("FORWARDED", Some(Claim::Forwarding)),
            ("content_length", Some(Claim::Framing)),
            ("Transfer_Encoding", Some(Claim::Framing)),
            ("X-Consumer.Username", Some(Claim::Identity)),
            ("x+consumer~username", Some(Claim::Identity)),
            ("X.Forwarded|For", Some(Claim::Forwarding)),
            ("X!Real*IP", Some(Claim::Forwarding)),
            ("Content.Length", Some(Claim::Framing)),
            ("X-Consumer", None),
            ("XxConsumer-Username", None),
            ("X-Consumers-Only", None),
            ("X-Access-Tokens", None),
            ("user_id", None),
            ("", None),
        ];
        for (name, claim) in cases {
            assert_eq!(of(name.as_bytes()), *claim, "{name}");
        }
    }

    #[test]
    fn no_prefix_is_missed_at_a_glance() {
        for (prefix, _) in PREFIXES {
            assert!(may_have_prefix(prefix) && may_have_prefix(&prefix.to_ascii_uppercase()));
        }
        assert!(!may_have_prefix(b"X-Conten") && !may_have_prefix(b"x-c"));
    }
}
