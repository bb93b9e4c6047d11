//! `ssl_certificate` and `ssl_certificate_key`: certificates become ssls for the server's names.

use serde_json::json;

use super::{block::Server, context::Context, listen::Names, parse::Directive, sites::part::Part};
use crate::imported::Imported;

pub(super) fn convert(server: &Server, parts: &[Part], context: &Context, imported: &mut Imported) {
    let directive = server.directive;
    let listens = directive.all("listen").any(|listen| listen.arguments.iter().any(|word| word == "ssl"));
    if !listens && directive.one("ssl").is_none_or(|ssl| ssl.argument(0) != "on") {
        return;
    }
    if directive.one("ssl_reject_handshake").is_some_and(|reject| reject.argument(0) == "on") {
        // Handshakes fail here, too, without a certificate.
        return;
    }
    // The default server has routes for all names.
    let own = Names::of(directive).hosts;
    let own = parts.iter().any(|part| part.is_default).then_some(&own);
    let mut hosts: Vec<&String> =
        parts.iter().flat_map(|part| &part.hosts).chain(own.into_iter().flatten()).collect();
    // No client asks for it in a handshake.
    hosts.retain(|host| *host != "_");
    hosts.sort();
    hosts.dedup();
    let chain = server.chain();
    let (certificates, keys) = (chain.all("ssl_certificate"), chain.all("ssl_certificate_key"));
    let Some(line) = certificates.first().map(|first| first.at.clone()) else {
        if directive.one("ssl_reject_handshake").is_none() {
            let why = "it listens with ssl, but has no ssl_certificate";
            imported.report.unsupported(&directive.at, "server", why);
        }
        return;
    };
    if hosts.is_empty() {
        let why = "a certificate is for names: give the server a `server_name`, and set apisix.ssl.fallback_sni to one \
                   for clients that send none";
        return imported.report.unsupported(line, "ssl_certificate", why);
    }
    let mut pairs = Vec::new();
    for (certificate, key) in certificates.iter().zip(&keys) {
        let read = |directive: &Directive| context.files.read(directive.argument(0));
        match read(certificate).and_then(|cert| Ok((cert, read(key)?))) {
            Ok(pair) => pairs.push(pair),
            Err(why) => return imported.report.unsupported(&certificate.at, "ssl_certificate", &why),
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
    let protocols = chain.all("ssl_protocols");
    let known = |name: &&String| ["TLSv1.2", "TLSv1.3"].contains(&name.as_str());
    if let Some(protocols) = protocols.first() {
        let kept: Vec<&String> = protocols.arguments.iter().filter(known).collect();
        if kept.len() < protocols.arguments.len() {
            imported.report.ignored(&protocols.at, "ssl_protocols", "TLSv1.2 and TLSv1.3 only");
        }
        if !kept.is_empty() {
            object["ssl_protocols"] = json!(kept);
        }
    }
    let id = imported.output.id("ssls", hosts.first().map_or("ssl", |host| host.as_str()));
    imported.output.add("ssls", &id, object);
    imported.report.converted(line, "ssl_certificate");
}
