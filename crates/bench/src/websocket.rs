//! What the upgrade to WebSocket asks for and has to answer.

/// The same on all connections: it shows that the server understood, and hides nothing.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// What a server makes of the key (RFC 6455 section 1.3).
pub(crate) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Fields of the request.
pub const FIELDS: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", KEY),
];
