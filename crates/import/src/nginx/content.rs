//! What a location does with requests that reach it: guards, then a proxy, files or an answer.

use serde_json::{Map, Value, json};

use super::{
    Context, Place,
    access::{self, Gate, Guarded},
    answers,
    branch::{Branch, all_when},
    chain::{Chain, Handler},
    condition::Condition,
    fallback::{check_index, with_fallback},
    files, forward_auth,
    parse::Directive,
    proxy, redirects,
    server::Server,
    variables::{Made, Stop, Variables},
};
use crate::Report;

/// The place that is converted, in its server.
pub struct At<'s, 'a> {
    pub server: &'s Server<'s, 'a>,
    pub context: &'s Context<'a>,
    pub place: &'s Place,
    pub redirects: usize,
}

/// The cases of a place, guards included. What cannot be converted is closed, case by case.
pub fn content<'a>(
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let mut variables = variables.clone();
    let moved = real_ip(chain)?;
    variables.moved_addresses = moved.is_some();
    let mut branches = Vec::new();
    for Guarded { condition, gate, chain } in access::gates(chain, &variables)? {
        let made = match gate {
            Gate::Deny => vec![refused(403, &chain, &variables, report)?],
            Gate::Closed(why) => vec![Branch::closed(why)],
            Gate::Pass(plugins) => handled(at, &chain, &variables, plugins, report)?,
            Gate::Ask(path) => {
                let plugins = forward_auth::convert(&path, at, &chain, &variables, report)?;
                handled(at, &chain, &variables, plugins, report)?
            }
        };
        branches.extend(all_when(made, &condition));
        if condition == Condition::Always {
            break;
        }
    }
    if let Some(plugin) = moved {
        for branch in &mut branches {
            branch.plugins.insert("real-ip".to_owned(), plugin.clone());
        }
    }
    Ok(branches)
}

/// A status of nginx's own, with the fields that are added to it.
pub fn refused(status: u16, chain: &Chain, variables: &Variables, report: &mut Report) -> Made<Branch> {
    let mut branch = Branch::status(status);
    answers::headers(chain, variables, &mut branch.plugins, report)?;
    let names = |page: &&&Directive| page.arguments.iter().any(|word| *word == status.to_string());
    if let Some(page) = chain.all("error_page").iter().find(names) {
        report.unsupported(&page.at, "error_page", "errors have the gateway's pages");
    }
    Ok(branch)
}

/// `set_real_ip_from` and its neighbours as a plugin.
fn real_ip(chain: &Chain) -> Made<Option<Value>> {
    let from = chain.all("set_real_ip_from");
    chain.take(&["real_ip_header", "real_ip_recursive"]);
    if from.is_empty() {
        return Ok(None);
    }
    let header = match chain.word("real_ip_header") {
        "" => "X-Real-IP",
        "proxy_protocol" => return Err(Stop::closed("`real_ip_header proxy_protocol` is not converted")),
        header => header,
    };
    let trusted: Vec<&str> =
        from.iter().map(|from| from.argument(0)).filter(|address| *address != "unix:").collect();
    if let Some(bad) = trusted.iter().find(|address| super::maps::network(address).is_none()) {
        return Err(Stop::closed(format!("`set_real_ip_from {bad}`: invalid network")));
    }
    Ok(Some(json!({
        "source": format!("http_{}", header.to_lowercase().replace('-', "_")),
        "trusted_addresses": trusted,
        "recursive": chain.word("real_ip_recursive") == "on",
    })))
}

/// Behind the guards.
fn handled<'a>(
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables,
    guards: Map<String, Value>,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let pass = chain.own_one("proxy_pass").or_else(|| chain.own_one("grpc_pass"));
    let mut branch = if let Some(pass) = pass {
        let (upstream, mut plugins) = proxy::pass(pass, at.place, chain, variables, at.context, report)?;
        proxy_settings(chain, report);
        redirects::convert(pass, at.place, chain, variables, &mut plugins, report);
        proxy::extras(chain, variables, at.context, &mut plugins, report)?;
        chain.check(Handler::Proxy, report)?;
        Branch { upgrades: proxy::upgrades(chain), ..Branch::new(plugins, Some(upstream)) }
    } else if let Some(files) = files::convert(at.place, chain, variables, report)? {
        check_index(at, &files, chain, report)?;
        let mut plugins = Map::new();
        proxy::extras(chain, variables, at.context, &mut plugins, report)?;
        chain.check(Handler::Files, report)?;
        with_fallback(at, files, plugins, variables, report)?
    } else {
        // A handler that is not converted names itself; else nothing is served.
        chain.check(Handler::Files, report)?;
        return Err(Stop::closed("it has neither `proxy_pass` nor `return` nor a `root`"));
    };
    for (name, conf) in guards {
        branch.plugins.insert(name, conf);
    }
    Ok(vec![branch])
}

/// Settings that mean nothing here, or are reported.
fn proxy_settings(chain: &Chain, report: &mut Report) {
    chain.take(&["proxy_ignore_headers", "proxy_ssl_verify_depth"]);
    if let Some(verify) = chain.one("proxy_ssl_verify").filter(|verify| verify.argument(0) == "on") {
        report.unsupported(
            &verify.at,
            "proxy_ssl_verify",
            "the upstream's certificate is not checked; set `tls.verify` of the upstream",
        );
    }
    chain.take(&["proxy_ssl_server_name", "proxy_ssl_trusted_certificate"]);
}

pub fn is_step(name: &str) -> bool {
    ["return", "rewrite", "if", "set", "break"].contains(&name)
}
