//! Peers that are believed what they say of a client, by lists that name nearly all addresses.

use super::Said;
use crate::settings::Settings;

/// A network with fewer fixed bits has most of the world in it.
const NARROW: u8 = 8;

/// Whether any client may say what its address is.
pub fn believes_all(settings: &Settings) -> bool {
    widest(&settings.nginx.real_ip_from).is_some()
}

pub(super) fn warnings(settings: &Settings) -> Vec<Said> {
    let (apisix, nginx) = (&settings.apisix, &settings.nginx);
    let none = Vec::new();
    let stream: &[String] = if settings.stream.enable { &settings.stream.real_ip_from } else { &[] };
    let address = format!("address is in {}, so address lists and limits do not hold", nginx.real_ip_header);
    let lists: [(&str, &[String], &str); 4] = [
        ("nginx_config.http.real_ip_from", &nginx.real_ip_from, &address),
        (
            "nginx_config.stream.real_ip_from",
            stream,
            "address is in a PROXY protocol header, so address lists and limits do not hold",
        ),
        (
            "apisix.trusted_addresses",
            apisix.trusted_addresses.as_ref().unwrap_or(&none),
            "scheme, host and port are in X-Forwarded-*",
        ),
        (
            "apisix.trusted_gateways",
            apisix.trusted_gateways.as_ref().unwrap_or(&none),
            "consumer is in X-Consumer-Username and the like, so upstreams take it for whom it wants",
        ),
    ];
    let said = lists.into_iter().filter_map(|(key, list, what)| {
        let widest = widest(list)?;
        let message = format!(
            "with {widest} in {key} nearly every client is believed what its {what}; name the addresses of the proxies in front"
        );
        Some((key.to_owned(), message))
    });
    said.collect()
}

fn widest(list: &[String]) -> Option<&str> {
    let is_wide = |text: &&String| {
        let bits = text.split_once('/').and_then(|(_, bits)| bits.parse::<u8>().ok());
        bits.is_some_and(|bits| bits < NARROW)
    };
    list.iter().find(is_wide).map(String::as_str)
}
