//! `root`, `alias`, `index`, `try_files` and their neighbours: plugin static-files.
//!
//! nginx serves names that start with a dot, so this does. Links out of the directory are not followed here.

use serde_json::{Map, Value, json};

use super::{Context, Place, parse::Directive, proxy};
use crate::Report;

/// What outer blocks say for inner ones.
pub const INHERITED: [&str; 6] =
    ["root", "index", "autoindex", "gzip_static", "brotli_static", "default_type"];
/// What counts where it stands only.
pub const OWN: [&str; 2] = ["alias", "try_files"];

/// Reported where they are left out, and they do not change which file a path names.
const HARMLESS: [&str; 11] = [
    // What it matches has a route of its own.
    "rewrite",
    "expires",
    "access_log",
    "log_not_found",
    "error_page",
    "etag",
    "charset",
    "tcp_nopush",
    "server_name",
    "location",
    "open_file_cache",
];

/// Whether a block without `proxy_pass` and `return` serves files.
pub fn serves(scopes: &[&[Directive]; 3]) -> bool {
    own(scopes, "alias").is_some() || innermost(scopes, "root").is_some()
}

/// The route of a block that serves files; `None` where that would not be what nginx does.
pub fn convert(
    line: usize,
    place: &Place,
    scopes: &[&[Directive]; 3],
    context: &Context,
    report: &mut Report,
) -> Option<Value> {
    if let Some(other) = scopes.first()?.iter().find(|directive| !is_known(&directive.name)) {
        // A rewrite, or another handler: the file of that name may be what nobody should see, like a program's source.
        let why = format!("`{}` of line {} is not converted: it answers 501", other.name, other.line);
        report.unsupported(line, "location", &why);
        return None;
    }
    let mut conf = Map::new();
    let alias = own(scopes, "alias");
    let directory = alias.or_else(|| innermost(scopes, "root"))?;
    let root = directory.argument(0);
    if root.contains('$') || !root.starts_with('/') {
        let why =
            format!("`{} {root}`: only an absolute path without variables is converted", directory.name);
        report.unsupported(directory.line, "location", &format!("{why}: it answers 501"));
        return None;
    }
    conf.insert("root".to_owned(), root.into());
    if alias.is_some() {
        let Place::Prefix { path, .. } = place else {
            report.unsupported(
                line,
                "location",
                "`alias` is converted in prefix locations only: it answers 501",
            );
            return None;
        };
        conf.insert("strip_prefix".to_owned(), path.clone().into());
    }
    if let Some(try_files) = own(scopes, "try_files") {
        let attempts = &try_files.arguments;
        if let Some(bad) = attempts.iter().find(|attempt| !is_plain(attempt, alias.is_some())) {
            let why = format!("`try_files` with {bad} is not converted: it answers 501");
            report.unsupported(try_files.line, "location", &why);
            return None;
        }
        conf.insert("try_files".to_owned(), attempts.clone().into());
    }
    if let Some(index) = innermost(scopes, "index") {
        let is_name = |name: &&String| !name.starts_with('/') && !name.contains('$');
        let names: Vec<&String> = index.arguments.iter().filter(is_name).collect();
        if names.len() < index.arguments.len() {
            report.unsupported(index.line, "index", "only names of files in the directory are converted");
        }
        conf.insert("index".to_owned(), json!(names));
    }
    let on = |name: &str, word: &str| innermost(scopes, name).is_some_and(|found| found.argument(0) == word);
    if on("autoindex", "on") {
        conf.insert("autoindex".to_owned(), true.into());
    }
    let coded: Vec<&str> = [("brotli_static", "br"), ("gzip_static", "gzip")]
        .into_iter()
        .filter(|(name, _)| on(name, "on"))
        .map(|(_, coding)| coding)
        .collect();
    if !coded.is_empty() {
        conf.insert("precompressed".to_owned(), json!(coded));
    }
    let default_type = innermost(scopes, "default_type").map_or("text/plain", |found| found.argument(0));
    conf.insert("default_type".to_owned(), default_type.into());
    conf.insert("dotfiles".to_owned(), true.into());
    let mut plugins = Map::new();
    plugins.insert("static-files".to_owned(), conf.into());
    proxy::extras(scopes, context, &mut plugins, report);
    Some(json!({"plugins": plugins}))
}

fn is_known(name: &str) -> bool {
    let ours = super::is_inherited(name) || OWN.contains(&name) || super::QUIET.contains(&name);
    ours || HARMLESS.contains(&name) || name.starts_with("ssl_") || name.starts_with("open_file_cache_")
}

/// What static-files tries in the same way. Below an alias, nginx's fixed names are paths of the site, not of the
/// directory.
fn is_plain(attempt: &str, alias: bool) -> bool {
    if let Some(code) = attempt.strip_prefix('=') {
        return code.parse().is_ok_and(|code: u16| (200..600).contains(&code));
    }
    let rest = attempt.strip_prefix("$uri");
    let fixed = rest.is_none() && attempt.starts_with('/') && !alias;
    (rest.is_some() || fixed)
        && !rest.unwrap_or(attempt).contains(['$', '@', '\\'])
        && !attempt.contains("..")
}

fn own<'a>(scopes: &[&'a [Directive]; 3], name: &str) -> Option<&'a Directive> {
    scopes.first()?.iter().find(|directive| directive.name == name)
}

fn innermost<'a>(scopes: &[&'a [Directive]; 3], name: &str) -> Option<&'a Directive> {
    scopes.iter().find_map(|scope| scope.iter().find(|directive| directive.name == name))
}
