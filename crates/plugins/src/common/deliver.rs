//! Entries for receivers that answer less than 400 when they have taken them.

use tidegate_clients::http::{self, ClientOptions, Outgoing};

/// The error names the receiver, and what it says.
pub(crate) async fn deliver(outgoing: Outgoing, options: &ClientOptions) -> Result<(), String> {
    let (host, port) = (outgoing.endpoint.host.clone(), outgoing.endpoint.port);
    let answer = http::send(outgoing, options)
        .await
        .map_err(|reason| format!("error while sending data to [{host}] port[{port}] {reason}"))?;
    if answer.status < 400 {
        return Ok(());
    }
    Err(format!(
        "server returned status code[{}] host[{host}] port[{port}] body[{}]",
        answer.status,
        String::from_utf8_lossy(&answer.body)
    ))
}
