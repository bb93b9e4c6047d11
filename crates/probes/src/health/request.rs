//! One probe: connect, for `https` a handshake, then a request of which only the status line is read.

use std::{net::SocketAddr, time::Duration};

use tidegate_balancing::{
    HealthSignal, PassHost, Upstream,
    health::{Active, ProbeKind},
};
use tidegate_clients::verbatim;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::ProbeTls;

/// What went wrong on the way to a status line.
enum Failure {
    Tcp,
    Timeout,
}

/// Probes a node once. `None` when the upstream has no checks or the number names no node. A node whose domain
/// resolves to nothing fails like one that cannot be connected to.
pub async fn probe(upstream: &Upstream, node: u16, tls: &ProbeTls) -> Option<HealthSignal> {
    let active = &upstream.health.as_ref()?.checks.active;
    let spec = &upstream.nodes.get(usize::from(node))?.spec;
    let Some(address) = spec.address else { return Some(HealthSignal::TcpFailure) };
    let address = SocketAddr::new(address, active.port.unwrap_or(spec.port));
    let host = host_name(upstream, active, &spec.host);
    // Another port is not where requests go: as haproxy does, nothing is said there.
    let preface = if address.port() == spec.port { &*active.preface } else { &[] };
    let outcome = attempt(active, address, host, tls, preface).await;
    Some(outcome.unwrap_or_else(|failure| match failure {
        Failure::Tcp => HealthSignal::TcpFailure,
        Failure::Timeout => HealthSignal::Timeout,
    }))
}

/// As in APISIX: the host that requests are rewritten to, with `pass_host: node` the node's own name, else the check's
/// `host`. Without any of these the node's name, or its address; there APISIX takes the address of a name.
fn host_name<'a>(upstream: &'a Upstream, active: &'a Active, node_host: &'a str) -> &'a str {
    if upstream.spec.pass_host == PassHost::Rewrite
        && let Some(host) = &upstream.spec.upstream_host
    {
        return host;
    }
    let bare = node_host.trim_start_matches('[').trim_end_matches(']');
    let is_name = bare.parse::<std::net::IpAddr>().is_err();
    match upstream.spec.pass_host == PassHost::Node && is_name {
        true => node_host,
        false => active.host.as_deref().unwrap_or(node_host),
    }
}

async fn attempt(
    active: &Active,
    address: SocketAddr,
    host: &str,
    tls: &ProbeTls,
    preface: &[u8],
) -> Result<HealthSignal, Failure> {
    let limit = Duration::from_millis(active.timeout_ms);
    let mut stream = within(limit, TcpStream::connect(address)).await?;
    if !preface.is_empty() {
        within(limit, stream.write_all(preface)).await?;
    }
    match active.kind {
        ProbeKind::Tcp => Ok(HealthSignal::Success),
        ProbeKind::Http => exchange(active, host, limit, &mut stream).await,
        ProbeKind::Https => {
            let handshake = tls.connect(stream, host, active.https_verify_certificate);
            let mut stream = within(limit, handshake).await?;
            exchange(active, host, limit, &mut stream).await
        }
    }
}

async fn exchange<S>(
    active: &Active,
    host: &str,
    limit: Duration,
    stream: &mut S,
) -> Result<HealthSignal, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = request(active, host);
    within(limit, async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await
    })
    .await?;
    let status = within(limit, verbatim::status(stream)).await?;
    Ok(status.map_or(HealthSignal::BadStatusLine, HealthSignal::Status))
}

async fn within<T>(
    limit: Duration,
    operation: impl Future<Output = std::io::Result<T>>,
) -> Result<T, Failure> {
    match timeout(limit, operation).await {
        Ok(result) => result.map_err(|_| Failure::Tcp),
        Err(_) => Err(Failure::Timeout),
    }
}

fn request(active: &Active, host: &str) -> String {
    let Active { http_method, http_path, http_req_body, req_headers, .. } = active;
    let mut request = format!("{http_method} {http_path} HTTP/1.1\r\nConnection: close\r\n");
    let mut names_host = false;
    // A line break in a header would let it write the rest of the request.
    for line in req_headers.iter().filter(|line| !line.contains(['\r', '\n'])) {
        let name = line.split(':').next().unwrap_or_default().trim();
        names_host |= name.eq_ignore_ascii_case("host");
        request.push_str(line);
        request.push_str("\r\n");
    }
    if !names_host {
        request.push_str(&format!("Host: {host}\r\n"));
    }
    if !http_req_body.is_empty() {
        request.push_str(&format!("Content-Length: {}\r\n", http_req_body.len()));
    }
    request.push_str("\r\n");
    request.push_str(http_req_body);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let mut active = Active::default();
        assert_eq!(request(&active, "h"), "GET / HTTP/1.1\r\nConnection: close\r\nHost: h\r\n\r\n");
        active.http_method = "POST".into();
        active.http_req_body = "{}".into();
        active.req_headers = vec!["host: x".into(), "A: b\r\nC: d".into()];
        assert_eq!(
            request(&active, "h"),
            "POST / HTTP/1.1\r\nConnection: close\r\nhost: x\r\nContent-Length: 2\r\n\r\n{}"
        );
    }
}
