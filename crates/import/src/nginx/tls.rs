//! `listen … ssl`, `ssl_certificate` and `ssl_certificate_key`: certificates become ssls for the server's names, and servers
//! that listen on one kind of port only take requests of that kind only.

use serde_json::{Value, json};

use super::{Context, parse::Directive, proxy::effective};
use crate::Imported;

/// The kinds of ports that a server listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    Plain,
    Tls,
    Both,
}

impl Ports {
    pub fn of(server: &Directive) -> Ports {
        let is_tls = |listen: &Directive| listen.arguments.iter().any(|word| word == "ssl" || word == "quic");
        let (tls, plain): (Vec<_>, Vec<_>) = server.all("listen").partition(|listen| is_tls(listen));
        let on = server.one("ssl").is_some_and(|ssl| ssl.argument(0) == "on");
        match (tls.is_empty() && !on, plain.is_empty() || on) {
            (true, _) => Ports::Plain,
            (false, true) => Ports::Tls,
            (false, false) => Ports::Both,
        }
    }

    pub fn meets(self, other: Ports) -> bool {
        self == other || self == Ports::Both || other == Ports::Both
    }

    /// The condition for requests that nginx would give to such a server. Without TLS in the file there is none.
    pub fn condition(self, context: &Context) -> Option<Value> {
        match self {
            Ports::Plain if context.has_tls => Some(json!(["scheme", "==", "http"])),
            Ports::Tls => Some(json!(["scheme", "==", "https"])),
            _ => None,
        }
    }
}

pub fn convert(
    server: &Directive,
    http: &[Directive],
    hosts: &[String],
    context: &Context,
    imported: &mut Imported,
) {
    if Ports::of(server) == Ports::Plain {
        return;
    }
    let scopes = [server.block.as_slice(), &[], http];
    let (certificates, keys) =
        (effective(&scopes, "ssl_certificate"), effective(&scopes, "ssl_certificate_key"));
    let Some(line) = certificates.first().map(|first| first.line) else {
        return imported.report.unsupported(
            server.line,
            "server",
            "it listens with ssl, but has no ssl_certificate",
        );
    };
    if hosts.is_empty() {
        let why = "a certificate is for names: give the server a `server_name`, and set apisix.ssl.fallback_sni to one \
                   for clients that send none";
        return imported.report.unsupported(line, "ssl_certificate", why);
    }
    let mut pairs = Vec::new();
    for (certificate, key) in certificates.iter().zip(&keys) {
        match (context.files)(certificate.argument(0))
            .and_then(|cert| Ok((cert, (context.files)(key.argument(0))?)))
        {
            Ok(pair) => pairs.push(pair),
            Err(why) => return imported.report.unsupported(certificate.line, "ssl_certificate", &why),
        }
    }
    let mut pairs = pairs.into_iter();
    let Some((cert, key)) = pairs.next() else {
        return imported.report.unsupported(line, "ssl_certificate", "there is no ssl_certificate_key");
    };
    let (certs, keys): (Vec<String>, Vec<String>) = pairs.unzip();
    let mut object = json!({"cert": cert, "key": key, "snis": hosts});
    if !certs.is_empty() {
        object["certs"] = certs.into();
        object["keys"] = keys.into();
    }
    let protocols = effective(&scopes, "ssl_protocols");
    let known = |name: &&String| ["TLSv1.2", "TLSv1.3"].contains(&name.as_str());
    if let Some(protocols) = protocols.first() {
        let kept: Vec<&String> = protocols.arguments.iter().filter(known).collect();
        if kept.len() < protocols.arguments.len() {
            imported.report.approximated(protocols.line, "ssl_protocols", "TLSv1.2 and TLSv1.3 only");
        }
        if !kept.is_empty() {
            object["ssl_protocols"] = json!(kept);
        }
    }
    let id = imported.output.id("ssls", hosts.first().map_or("ssl", String::as_str));
    imported.output.add("ssls", &id, object);
    imported.report.converted(line, "ssl_certificate");
}
