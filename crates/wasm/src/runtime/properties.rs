//! What properties say: those that Envoy names, and variables as in `vars` of routes (`remote_addr`, `arg_x`, `http_host`).

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_plugin_api::Request;

/// Numbers are 64 bits, the least significant byte first.
fn number(value: impl Into<i128>) -> Option<Vec<u8>> {
    i64::try_from(value.into()).ok().map(|value| value.to_le_bytes().to_vec())
}

fn text(value: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    Some(value.as_ref().to_vec())
}

pub(super) fn get(request: &Request, path: &[&str]) -> Option<Vec<u8>> {
    match path {
        [name] => variable(request, name),
        ["request", "headers", name] => request.head.headers.get(name).map(<[u8]>::to_vec),
        ["response", "headers", name] => request.response.headers.get(name).map(<[u8]>::to_vec),
        ["response", "trailers", name] => request.response.trailers.get(name).map(<[u8]>::to_vec),
        ["request", name] => of_request(request, name),
        ["response", name] => of_response(request, name),
        ["source", name] => match *name {
            "address" => text(format!("{}:{}", request.remote_addr, request.remote_port)),
            "port" => number(request.remote_port),
            _ => None,
        },
        ["destination", name] => match *name {
            "address" => text(request.connection.local.to_string()),
            "port" => number(request.connection.local.port()),
            _ => None,
        },
        ["connection", name] => of_connection(request, name),
        ["upstream", name] => of_upstream(request, name),
        ["xds", name @ ("route_name" | "cluster_name")] => variable(request, name),
        _ => None,
    }
}

/// Names that Envoy has, and then variables.
fn variable(request: &Request, name: &str) -> Option<Vec<u8>> {
    match name {
        "route_name" | "cluster_name" => {
            request.route.as_ref().map(|route| route.name.as_ref().unwrap_or(&route.id).as_bytes().to_vec())
        }
        _ => request.variable_by_name(name),
    }
}

fn of_request(request: &Request, name: &str) -> Option<Vec<u8>> {
    let target = || request.edits.target.as_deref().unwrap_or_else(|| request.head.target());
    let method = || request.edits.method.as_ref().unwrap_or(&request.head.method);
    match name {
        "path" => text(target()),
        "url_path" => target().split(|byte| *byte == b'?').next().and_then(text),
        "query" => text(request.head.query().unwrap_or_default()),
        "host" => request.edits.host.clone().or_else(|| request.head.headers.get("host").map(<[u8]>::to_vec)),
        "scheme" => text(if request.https { "https" } else { "http" }),
        "method" => text(method().as_bytes()),
        "protocol" => text(request.head.version.as_str()),
        "id" => text(request.request_id()),
        "referer" => request.head.headers.get("referer").map(<[u8]>::to_vec),
        "useragent" => request.head.headers.get("user-agent").map(<[u8]>::to_vec),
        "time" => {
            let since =
                SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(request.started.elapsed())?;
            number(i128::try_from(since.as_nanos()).ok()?)
        }
        "duration" => number((request.elapsed_seconds() * 1e9) as i128),
        "size" => {
            let announced =
                request.head.headers.get_str("content-length").and_then(|text| text.parse::<i128>().ok());
            number(announced.unwrap_or(0))
        }
        "total_size" => number(request.outcome.request_length),
        _ => None,
    }
}

fn of_response(request: &Request, name: &str) -> Option<Vec<u8>> {
    match name {
        "code" if request.response.status > 0 => number(request.response.status),
        "size" => number(request.outcome.body_bytes_sent),
        "total_size" => number(request.outcome.bytes_sent),
        _ => None,
    }
}

fn of_connection(request: &Request, name: &str) -> Option<Vec<u8>> {
    let connection = &request.connection;
    let tls = connection.tls.as_ref();
    match name {
        "id" => number(connection.id),
        "mtls" => Some(vec![u8::from(tls.is_some_and(|tls| tls.client_certificate.is_some()))]),
        "tls_version" => tls.and_then(|tls| text(tls.protocol)),
        "requested_server_name" => tls.and_then(|tls| tls.server_name.as_deref().and_then(text)),
        "subject_peer_certificate" => request.variable_by_name("ssl_client_s_dn"),
        _ => None,
    }
}

fn of_upstream(request: &Request, name: &str) -> Option<Vec<u8>> {
    match name {
        "address" => request.variable_by_name("upstream_addr").filter(|address| !address.is_empty()),
        "port" => {
            let address = request.variable_by_name("upstream_addr")?;
            let port = std::str::from_utf8(&address).ok()?.rsplit(':').next()?.parse::<u16>().ok()?;
            number(port)
        }
        _ => None,
    }
}
