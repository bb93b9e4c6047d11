//! `index`: nginx does not serve such a file, but redirects to its path, whose location may be another one with guards of its own.
//!
//! A name stays on the list while every location that may take it answers as the place itself would. Whether a file is there is not
//! known, so the first name that may lead elsewhere ends the list: directories that get so far are answered 403.

use serde_json::{Value, json};

use super::{
    access::gates,
    again::Redirected,
    at::At,
    chain::Chain,
    effects::{self, Effect},
    files::Files,
    locations::Location,
    made::{Made, Stop},
    parse::Directive,
    places::LocationMatch,
    variables::Variables,
};
use crate::{
    Report,
    reach::{self, Piece},
};

/// What a location that serves the same file may say besides.
const FIELDS: [&str; 6] = ["add_header", "expires", "etag", "if_modified_since", "default_type", "types"];
const OF_FILES: [&str; 3] = ["root", "index", "internal"];

/// Leaves the names that the place serves as nginx does.
pub(super) fn keep_served_names(
    at: &At,
    files: &mut Files,
    chain: &Chain,
    variables: &Variables,
    report: &mut Report,
) -> Made<()> {
    let given = files.conf.get("index").cloned().unwrap_or_else(|| json!(["index.html"]));
    let own = at.server.locations.all.iter().find(|location| std::ptr::eq(&location.place, at.place));
    let here = own.map_or(at.server.directive, |location| location.directive);
    let line = chain.one("index").map_or(&here.at, |index| &index.at).clone();
    let here = own.map_or_else(|| "server".to_owned(), |location| location.directive.title());
    let mut kept = Vec::new();
    for name in given.as_array().into_iter().flatten().filter_map(Value::as_str) {
        match destination(at, chain, variables, name) {
            Leads::Here => {}
            Leads::ToFields(title) => {
                let how = format!("`{name}` has the fields of this place, not those of `{title}`");
                report.approximated(line.clone(), "index", &how);
            }
            Leads::Elsewhere(title) => {
                if files.conf.contains_key("autoindex") {
                    let why = format!("`index {name}` leads to `{title}`, and directories are listed");
                    return Err(Stop::Closed(why));
                }
                let how = format!(
                    "in `{here}` the file `{name}` is served by `{title}`: directories without a file before it are 403"
                );
                report.unsupported(line, "index", &how);
                break;
            }
        }
        kept.push(name.to_owned());
    }
    if json!(kept) != given {
        files.conf.insert("index".to_owned(), kept.into());
    }
    Ok(())
}

/// Whose file an index is.
enum Leads {
    Here,
    /// The same file with other fields.
    ToFields(String),
    Elsewhere(String),
}

fn destination(at: &At, chain: &Chain, variables: &Variables, name: &str) -> Leads {
    let Some(folders) = Folders::of(at.place) else { return Leads::Here };
    let own = at.server.locations.all.iter().position(|location| std::ptr::eq(&location.place, at.place));
    let own_location = own.and_then(|own| at.server.locations.all.get(own));
    if let Err(step) =
        Redirected::to_file(folders.pieces(), name).variables(at.server, own_location, variables)
    {
        return Leads::Elsewhere(step.title());
    }
    let mut fields = Leads::Here;
    for taker in takers(at, own, &folders, name) {
        let title = match taker {
            Taker::Location(location) => location.directive.title(),
            Taker::Server | Taker::Unknown => "server".to_owned(),
        };
        match alike(at, own, chain, variables, &taker) {
            Some(true) => {}
            Some(false) => fields = Leads::ToFields(title),
            None => return Leads::Elsewhere(title),
        }
    }
    fields
}

/// The paths of the directories that come to a place.
enum Folders<'p> {
    One(&'p str),
    Below(&'p str),
    Any,
}

impl<'p> Folders<'p> {
    fn of(place: &'p LocationMatch) -> Option<Self> {
        match place {
            LocationMatch::Exact(path) => path.ends_with('/').then_some(Folders::One(path)),
            LocationMatch::Prefix { path, .. } => Some(Folders::Below(path)),
            LocationMatch::Regex(pattern) => {
                reach::may_match(pattern, &[Piece::Any, Piece::Text("/")]).then_some(Folders::Any)
            }
            LocationMatch::Named(_) => Some(Folders::Any),
        }
    }

    fn base(&self) -> &'p str {
        match self {
            Folders::One(path) | Folders::Below(path) => path,
            Folders::Any => "",
        }
    }

    fn pieces(&self) -> Vec<Piece<'p>> {
        match self {
            Folders::One(path) => vec![Piece::Text(path)],
            Folders::Below(path) => {
                vec![Piece::Text(path.strip_suffix('/').unwrap_or(path)), Piece::Any, Piece::Text("/")]
            }
            Folders::Any => vec![Piece::Any, Piece::Text("/")],
        }
    }

    /// Whether this is the beginning of an index's path that is longer than its directory's.
    fn meets(&self, prefix: &str, name: &str) -> bool {
        let starts = name.char_indices().map(|(at, sign)| at + sign.len_utf8());
        starts.filter_map(|end| prefix.strip_suffix(name.get(..end)?)).any(|folder| self.has(folder))
    }

    fn has(&self, folder: &str) -> bool {
        folder.ends_with('/') && folder.starts_with(self.base())
    }
}

enum Taker<'s, 'a> {
    Location(&'s Location<'a>),
    /// No location.
    Server,
    Unknown,
}

/// What may take an index instead of the place that has its directory.
fn takers<'s, 'a>(at: &At<'s, 'a>, own: Option<usize>, folders: &Folders, name: &str) -> Vec<Taker<'s, 'a>> {
    let locations = &at.server.locations;
    let find = |index: usize| locations.all.get(index).map_or(Taker::Unknown, Taker::Location);
    if let Folders::One(path) = folders {
        return match locations.nested_taker(&format!("{path}{name}"), &[]) {
            Ok(Some(index)) if Some(index) == own => Vec::new(),
            Ok(Some(index)) => vec![find(index)],
            Ok(None) => vec![Taker::Server],
            Err(_) => vec![Taker::Unknown],
        };
    }
    let stays = match at.place {
        LocationMatch::Regex(pattern) => reach::stays(pattern),
        LocationMatch::Named(_) => false,
        _ => true,
    };
    let mut around: Vec<usize> =
        own.and_then(|own| locations.all.get(own)).map(|own| own.inside.clone()).unwrap_or_default();
    around.extend(own.filter(|_| matches!(folders, Folders::Below(_))));
    let regexes = locations.regexes();
    let order = |index: usize| regexes.iter().position(|regex| *regex == index);
    let comes_first =
        |index: usize| own.and_then(order).is_none_or(|own| order(index).is_some_and(|one| one < own));
    let meets = |index: usize| match locations.all.get(index).map(|one| &one.place) {
        Some(LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. }) => folders.meets(path, name),
        _ => false,
    };
    // Whether nginx looks at the expressions of a level: it is inside of locations that have the directory, or may have its index.
    let is_looked_at = |inside: &[usize]| {
        let common = inside.iter().zip(&around).take_while(|(one, other)| one == other).count();
        match (inside.get(common), around.get(common)) {
            (Some(deeper), _) if matches!(folders, Folders::Below(_)) => meets(*deeper),
            (Some(_), _) | (None, None) => true,
            (None, Some(deciding)) => !locations.ends(*deciding),
        }
    };
    let takes = |index: usize, location: &Location| match &location.place {
        LocationMatch::Named(_) => false,
        _ if Some(index) == own => false,
        _ if !stays => true,
        LocationMatch::Exact(path) => path.strip_suffix(name).is_some_and(|folder| folders.has(folder)),
        LocationMatch::Prefix { .. } => meets(index),
        LocationMatch::Regex(pattern) => {
            comes_first(index)
                && is_looked_at(&location.inside)
                && reach::may_match_with(pattern, &folders.pieces(), name)
        }
    };
    let mut all: Vec<Taker> = locations
        .all
        .iter()
        .enumerate()
        .filter(|(index, location)| takes(*index, location))
        .map(|(_, location)| Taker::Location(location))
        .collect();
    if !stays {
        all.push(Taker::Server);
    }
    all
}

/// Whether it answers with the same file to the same clients, and whether with the same fields; `None`: it does not, or
/// that is unknown.
fn alike(at: &At, own: Option<usize>, chain: &Chain, variables: &Variables, taker: &Taker) -> Option<bool> {
    let server;
    let (block, other, inside): (&[Directive], _, &[usize]) = match taker {
        Taker::Location(location) => (&location.directive.block, &location.chain, &location.inside),
        Taker::Server => {
            server = at.server.chain();
            (&[], &server, &[])
        }
        Taker::Unknown => return None,
    };
    // What is looked at here is not dealt with there.
    let (chain, other) = (chain.clone(), other.clone());
    let mut around = own
        .and_then(|own| at.server.locations.all.get(own))
        .map(|own| own.inside.clone())
        .unwrap_or_default();
    around.extend(own);
    let is_plain = |directive: &Directive| {
        let name = directive.name.as_str();
        FIELDS.contains(&name)
            || OF_FILES.contains(&name)
            || effects::of(name) == Effect::None
            || (name == "try_files" && directive.argument(0) == "$uri")
    };
    let is_fine = matches!(taker, Taker::Server)
        || matches!(taker, Taker::Location(location) if location.fault.is_none());
    if !is_fine || !block.iter().all(is_plain) || !around.starts_with(inside) {
        return None;
    }
    let has_alias = [&chain, &other].into_iter().any(|one| one.one("alias").is_some());
    if has_alias || chain.word("root") != other.word("root") {
        return None;
    }
    let list = |chain: &Chain| -> Option<Vec<_>> {
        let all = gates(chain, variables).ok()?;
        Some(all.into_iter().map(|guarded| (guarded.condition, guarded.gate)).collect())
    };
    let theirs = list(&other)?;
    if !theirs.iter().all(|(_, gate)| gate.is_open()) && Some(theirs) != list(&chain) {
        return None;
    }
    Some(FIELDS.into_iter().all(|name| {
        let said = |chain: &Chain| {
            chain.all(name).iter().map(|one| (one.title(), one.block.len())).collect::<Vec<_>>()
        };
        said(&chain) == said(&other)
    }))
}
