//! `root`, `alias`, `index`, `try_files` and their neighbours: plugin static-files.
//!
//! nginx serves names that start with a dot, so this does.

use serde_json::{Map, Value, json};

use super::{
    chain::Chain,
    made::{Made, Stop},
    parse::Directive,
    places::LocationMatch,
    variables::Variables,
};

/// Where the last name of `try_files` leads.
pub(super) enum Fallback {
    Status,
    /// The file of the list itself.
    Name,
    /// Another place of the server: `@name`, or the path of an internal redirect.
    LocationMatch(String),
}

#[derive(Clone)]
pub(super) struct Files {
    pub conf: Map<String, Value>,
    /// Where the last name leads, and the line that says so.
    pub fallback: Option<(String, crate::At)>,
}

/// What a block serves from a directory; `None` if it names none.
pub(super) fn convert(place: &LocationMatch, chain: &Chain, variables: &Variables) -> Made<Option<Files>> {
    if chain.only_outside("alias") {
        return Err(Stop::closed("the `alias` of an outer location is not converted"));
    }
    let alias = chain.own_one("alias");
    let Some(directory) = alias.or_else(|| chain.one("root")) else { return Ok(None) };
    chain.take(&["root", "alias"]);
    let root = variables.literal(directory.argument(0))?;
    if !root.starts_with('/') {
        let why = format!("`{}`: only an absolute path is converted", directory.title());
        return Err(Stop::Closed(why));
    }
    let mut conf = Map::from_iter([("root".to_owned(), Value::from(root))]);
    if alias.is_some() {
        let LocationMatch::Prefix { path, .. } = place else {
            return Err(Stop::closed("`alias` is converted in prefix locations only"));
        };
        if path.ends_with('/') != conf["root"].as_str().is_some_and(|root| root.ends_with('/')) {
            // `/a` with `/srv/b/`, or the reverse: nginx then joins names across the slash.
            return Err(Stop::closed("`alias` and its location end differently"));
        }
        conf.insert("strip_prefix".to_owned(), path.clone().into());
    }
    let mut fallback = None;
    if let Some(try_files) = chain.innermost_one("try_files") {
        let mut attempts = Vec::new();
        for (index, attempt) in try_files.arguments.iter().enumerate() {
            let is_last = index + 1 == try_files.arguments.len();
            match tried(attempt, is_last, alias.is_some(), try_files)? {
                Fallback::LocationMatch(target) => fallback = Some((target, try_files.at.clone())),
                Fallback::Status | Fallback::Name => attempts.push(attempt.clone()),
            }
        }
        conf.insert("try_files".to_owned(), attempts.into());
    }
    names(chain, &mut conf)?;
    types(chain, &mut conf);
    chain.take(&["autoindex_exact_size", "autoindex_localtime"]);
    if chain.word("autoindex") == "on" {
        if !["", "html"].contains(&chain.word("autoindex_format")) {
            return Err(Stop::closed("`autoindex_format` is not converted"));
        }
        conf.insert("autoindex".to_owned(), true.into());
    }
    let coded: Vec<&str> = [("brotli_static", "br"), ("gzip_static", "gzip")]
        .into_iter()
        .filter(|(name, _)| chain.word(name) == "on")
        .map(|(_, coding)| coding)
        .collect();
    if !coded.is_empty() {
        conf.insert("precompressed".to_owned(), json!(coded));
    }
    if chain.one("disable_symlinks").is_some_and(|links| links.argument(0) != "off") {
        return Err(Stop::closed(
            "`disable_symlinks` is not converted: links within the directory are followed",
        ));
    }
    conf.insert("dotfiles".to_owned(), true.into());
    Ok(Some(Files { conf, fallback }))
}

fn names(chain: &Chain, conf: &mut Map<String, Value>) -> Made<()> {
    let Some(index) = chain.one("index") else { return Ok(()) };
    if let Some(bad) = index.arguments.iter().find(|name| name.starts_with('/') || name.contains('$')) {
        return Err(Stop::closed(format!(
            "`index {bad}`: only names of files in the directory are converted"
        )));
    }
    conf.insert("index".to_owned(), json!(index.arguments));
    Ok(())
}

/// Without `types`.
const OWN_TYPES: [(&str, &str); 3] = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];

/// The endings of names with their media types.
fn endings(chain: &Chain) -> Map<String, Value> {
    let given = chain.all("types");
    if given.is_empty() {
        return OWN_TYPES.iter().map(|(ending, kind)| ((*ending).to_owned(), (*kind).into())).collect();
    }
    let lines = given.iter().flat_map(|types| &types.block);
    let of_line = |line: &Directive| -> Vec<(String, Value)> {
        line.arguments.iter().map(|ending| (ending.to_lowercase(), line.name.clone().into())).collect()
    };
    lines.flat_map(of_line).collect()
}

fn default_type(chain: &Chain) -> String {
    match chain.word("default_type") {
        "" => "text/plain".to_owned(),
        kind => kind.to_owned(),
    }
}

/// `types`, over the plugin's own, and `default_type`. nginx names no character set unless one is configured.
fn types(chain: &Chain, conf: &mut Map<String, Value>) {
    let types = endings(chain);
    if !types.is_empty() {
        conf.insert("types".to_owned(), types.into());
    }
    conf.insert("default_type".to_owned(), default_type(chain).into());
    conf.insert("charset".to_owned(), "".into());
}

/// The media type of a text that a place answers, and whether it is the same for all of its paths.
pub(crate) fn type_of_text(chain: &Chain) -> (String, bool) {
    let (endings, default) = (endings(chain), default_type(chain));
    let Some(path) = chain.path() else {
        return (default, endings.is_empty());
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending);
    let known = ending.and_then(|ending| endings.get(&ending.to_lowercase())).and_then(Value::as_str);
    (known.map_or(default, str::to_owned), true)
}

/// One name of `try_files`. Below an alias, nginx's fixed names are paths of the site, not of the directory.
fn tried(attempt: &str, is_last: bool, alias: bool, list: &Directive) -> Made<Fallback> {
    let bad = || Stop::closed(format!("`try_files` with {attempt}, line {}, is not converted", list.at.line));
    if let Some(code) = attempt.strip_prefix('=') {
        // nginx has no answer for the others below 300, and closes the connection.
        let known =
            code.parse().is_ok_and(|code: u16| [201, 204].contains(&code) || (300..600).contains(&code));
        return if known && is_last { Ok(Fallback::Status) } else { Err(bad()) };
    }
    if is_last && (attempt.starts_with('@') || (attempt.starts_with('/') && !attempt.starts_with("//"))) {
        return Ok(Fallback::LocationMatch(attempt.to_owned()));
    }
    let rest = attempt.strip_prefix("$uri");
    // nginx redirects to a directory that has such a name.
    let fixed = rest.is_none() && attempt.starts_with('/') && !attempt.ends_with('/') && !alias;
    let plain = (rest.is_some() || fixed)
        && !rest.unwrap_or(attempt).contains(['$', '@', '\\'])
        && !attempt.contains("..");
    // The last one would be a redirect to itself.
    if plain && !is_last { Ok(Fallback::Name) } else { Err(bad()) }
}
