//! Which variables are there, by their names.

/// Variables of requests with the same meaning here. `$host` is lower-cased and without a port on both sides.
pub(super) const SAME: [&str; 34] = [
    "binary_remote_addr",
    "hostname",
    "msec",
    "time_iso8601",
    "time_local",
    "ssl_server_name",
    "ssl_client_verify",
    "ssl_client_s_dn",
    "ssl_client_i_dn",
    "ssl_client_serial",
    "ssl_client_fingerprint",
    "ssl_client_escaped_cert",
    "ssl_client_v_start",
    "ssl_client_v_end",
    "remote_addr",
    "remote_port",
    "server_addr",
    "server_port",
    "server_protocol",
    "scheme",
    "host",
    "request_method",
    "request_uri",
    "uri",
    "document_uri",
    "args",
    "query_string",
    "is_args",
    "content_type",
    "content_length",
    "remote_user",
    "request_id",
    "ssl_protocol",
    "ssl_cipher",
];

/// And whose names the client chooses.
pub(super) const FAMILIES: [&str; 3] = ["http_", "arg_", "cookie_"];

/// The variable here that has the value of nginx's: an argument or a cookie is found in any case of its name and not decoded,
/// and `$request_uri` is what the client wrote.
pub(super) fn as_nginx(name: &str) -> String {
    match name {
        "document_uri" => "uri".to_owned(),
        "query_string" => "args".to_owned(),
        "request_uri" => "real_request_uri".to_owned(),
        name if name.starts_with("arg_") || name.starts_with("cookie_") => format!("raw_{name}"),
        name => name.to_owned(),
    }
}

/// Variables of nginx's own that a file can set: the request changes with them.
pub(crate) fn changes_requests(name: &str) -> bool {
    ["args", "limit_rate"].contains(&name)
}

/// Whether nginx defines a variable itself.
pub(crate) fn is_of_nginx(name: &str) -> bool {
    SAME.contains(&name)
        || name == "invalid_referer"
        || FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(|rest| !rest.is_empty()))
}
