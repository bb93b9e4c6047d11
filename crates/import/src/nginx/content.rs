//! What a location does with requests that reach it: guards, then a proxy, files or an answer.

use serde_json::{Map, Value};

use super::{
    access::{self, Gate, Guarded},
    added,
    at::At,
    branch::{Branch, all_when},
    chain::{Chain, Handler},
    condition::Condition,
    effects, error_pages, files, forward_auth, index,
    made::{Made, Stop},
    proxy, real_ip, redirects,
    variables::Variables,
};
use crate::Report;

/// The cases of a place, guards included. What cannot be converted is closed, case by case.
pub(super) fn content<'a>(
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let mut variables = variables.clone();
    // What it decides is the variable's, which is known where steps look at it.
    chain.take(&["valid_referers"]);
    let moved = real_ip::plugin(chain)?;
    variables.moved_addresses = moved.is_some();
    let mut branches = Vec::new();
    for Guarded { condition, gate, chain } in access::gates(chain, &variables)? {
        let made = match gate {
            Gate::Deny => vec![refused(403, at, &chain, &variables, report)?],
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
            branch.plugins.insert(real_ip::NAME.to_owned(), plugin.clone());
        }
    }
    Ok(branches)
}

/// A status of nginx's own, with the fields that are added to it, or its error page.
pub(super) fn refused(
    error: u16,
    at: &At<'_, '_>,
    chain: &Chain,
    variables: &Variables,
    report: &mut Report,
) -> Made<Branch> {
    let mut branch = Branch::status(error);
    let status = Some(error).filter(|_| !at.is_page);
    added::headers(chain, variables, status, &mut branch.plugins, report)?;
    error_pages::answered(at, chain, error, branch, variables, report)
}

/// Behind the guards.
fn handled<'a>(
    at: &At<'_, 'a>,
    chain: &Chain<'a>,
    variables: &Variables,
    guards: Map<String, Value>,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    // Before what stands beside it, which would be named in its place.
    if let Some(stop) = chain.unconverted_handler() {
        return Err(stop);
    }
    let pass = chain.own_one("proxy_pass").or_else(|| chain.own_one("grpc_pass"));
    let mut branches = if let Some(pass) = pass {
        let mut branch = proxy::pass(pass, at.place, chain, variables, at.context, report)?;
        let plugins = &mut branch.plugins;
        proxy_settings(chain, report);
        redirects::convert(pass, at.place, chain, variables, plugins, report);
        proxy::extras(chain, variables, at.context, plugins, report)?;
        error_pages::proxied(at, chain, plugins, variables, report)?;
        chain.check(Handler::Proxy, report)?;
        vec![branch]
    } else if let Some(mut files) = files::convert(at.place, chain, variables)? {
        index::keep_served_names(at, &mut files, chain, variables, report)?;
        if let Some(line) = chain.one("autoindex").filter(|_| files.conf.contains_key("autoindex")) {
            let how = "the list of a directory looks different, and its media type names UTF-8";
            report.approximated(&line.at, "autoindex", how);
        }
        // What the fallback's location asks for is compared with the guards here.
        let mut plugins = guards.clone();
        proxy::extras(chain, variables, at.context, &mut plugins, report)?;
        let branches = error_pages::files(at, chain, files, &plugins, variables, report)?;
        chain.check(Handler::Files, report)?;
        chain.redirects_to_path(report);
        branches
    } else {
        // A handler that is not known names itself; else nothing is served.
        let aside = &mut Report::default();
        proxy::extras(chain, variables, at.context, &mut Map::new(), aside)?;
        chain.take(&["error_page", "recursive_error_pages"]);
        chain.check(Handler::Files, aside)?;
        return Err(Stop::closed(
            "it has neither `proxy_pass` nor `return` nor a `root`: nginx serves the folder `html` of its own prefix; \
             give it `return 404;`, or a `root` with an absolute path",
        ));
    };
    for (name, conf) in guards {
        for branch in &mut branches {
            branch.plugins.insert(name.clone(), conf.clone());
        }
    }
    Ok(branches)
}

/// Settings that mean nothing here, or are reported.
fn proxy_settings(chain: &Chain, report: &mut Report) {
    chain.take(&["proxy_ignore_headers", "proxy_ssl_verify_depth"]);
    chain.take(&effects::CACHE);
    if let Some(cache) = chain.one("proxy_cache").filter(|cache| cache.argument(0) != "off") {
        let how = "answers are not kept: the upstream answers each request, so no client sees more; plugin \
        proxy-cache keeps them";
        report.unsupported(&cache.at, "proxy_cache", how);
    }
    if let Some(verify) = chain.one("proxy_ssl_verify").filter(|verify| verify.argument(0) == "on") {
        report.unsupported(
            &verify.at,
            "proxy_ssl_verify",
            "the upstream's certificate is not checked; set `tls.verify` of the upstream",
        );
    }
    chain.take(&["proxy_ssl_server_name", "proxy_ssl_trusted_certificate"]);
}
