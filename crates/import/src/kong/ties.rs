//! Routes that Kong asks in an order which the file does not determine.
//!
//! Versions and settings of Kong differ in how they order routes, see [`super::priority`].
//! Of two routes with equal priorities Kong asks the one with the higher id first, and makes ids where the file has none. Where such
//! routes may take the same request, and one of them turns clients away that the other serves, both are closed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};
use tidegate_config::yaml::Node;

use super::{entities::Entities, entry::Entry, node::label, order::Path, plugins, priority::Priorities};
use crate::{
    Imported,
    fields::{self, Fields},
    reach::{Automaton, may_both_match},
};

/// Pairs of expressions that are compared; more are taken for rivals.
const MAX_PAIRS: usize = 20_000;

/// Pairs whose order is not the same everywhere.
const MAX_DISORDERED: usize = 2_000_000;

pub(crate) fn resolve_ties(entities: &Entities, entries: &mut [Entry], imported: &mut Imported) {
    let mut judge =
        Judge { entities, automata: HashMap::new(), guards: HashMap::new(), known: Vec::new(), pairs: 0 };
    let mut verdicts = Vec::new();
    let mut start = 0;
    while let Some(first) = entries.get(start) {
        let same = entries.iter().skip(start).take_while(|entry| key(entry) == key(first)).count();
        verdicts.extend(judge.verdicts(entries, rivals(entries, start, start + same), by_id));
        start += same;
    }
    match disordered(entries) {
        Ok(pairs) => verdicts.extend(judge.verdicts(entries, pairs, by_version)),
        Err(all) => {
            let why = "Kong's versions and settings order too many routes in different ways";
            verdicts.extend(all.into_iter().map(|index| (index, Ambiguity::Closed(why.to_owned()))));
        }
    }
    for (index, verdict) in verdicts {
        let Some(entry) = entries.get_mut(index) else { continue };
        match verdict {
            Ambiguity::Closed(why) => _ = entry.fault.get_or_insert(why),
            Ambiguity::Differs(how) => {
                imported.report.approximated(entry.node.line, &label("route", entry.node), &how);
                entry.differs = true;
            }
        }
    }
}

enum Ambiguity {
    Closed(String),
    Differs(String),
}

/// What decides before ids do.
fn key(entry: &Entry) -> impl PartialEq + use<> {
    let (given, plain, headers, regex, priority, length, _, _) = entry.rank;
    (given, plain, headers, regex, priority, length)
}

fn by_version(other: &Entry) -> String {
    format!(
        "{} of line {} may take the same requests, and which of the two comes first depends on Kong's version and settings; \
         add the conditions of the one (hosts, methods, headers, sources, snis) to the other, or give both the same guards",
        label("route", other.node),
        other.node.line
    )
}

fn by_id(other: &Entry) -> String {
    format!(
        "{} of line {} has the same priority and may take the same requests, and Kong goes by their ids, which are not in the file; \
         give both an `id`, or one of them more conditions",
        label("route", other.node),
        other.node.line
    )
}

/// Pairs of entries whose paths begin alike, and of which the file does not order all by their ids.
fn rivals(entries: &[Entry], start: usize, end: usize) -> Vec<(usize, usize)> {
    let base = |index: usize| entries.get(index).map_or("", |entry| base(&entry.path));
    let node = |index: usize| entries.get(index).map(|entry| std::ptr::from_ref(entry.node));
    let has_id = |index: usize| entries.get(index).is_some_and(|entry| entry.rank.6.0.is_some());
    let mut order: Vec<usize> = (start..end).collect();
    order.sort_by_key(|index| base(*index));
    let mut pairs = Vec::new();
    for (at, one) in order.iter().enumerate() {
        let below = order.iter().skip(at + 1).take_while(|other| base(**other).starts_with(base(*one)));
        let is_open = |other: &&usize| node(*one) != node(**other) && !(has_id(*one) && has_id(**other));
        pairs.extend(below.filter(is_open).map(|other| (*one, *other)));
    }
    pairs
}

/// Pairs of entries whose paths begin alike, and whose order is not the same in all of Kong's versions and settings. With too
/// many pairs the entries that they are made of.
fn disordered(entries: &[Entry]) -> Result<Vec<(usize, usize)>, Vec<usize>> {
    let kinds: BTreeSet<Priorities> = entries.iter().filter_map(|entry| entry.priorities).collect();
    let is_doubtful = |one: &Priorities| kinds.iter().any(|other| one.disagree(other));
    let doubtful: BTreeSet<Priorities> = kinds.iter().copied().filter(is_doubtful).collect();
    let at = |index: usize| entries.get(index);
    let base = |index: usize| at(index).map_or("", |entry| base(&entry.path));
    let counted = |index: &usize| at(*index)?.priorities.filter(|own| doubtful.contains(own));
    let mut order: Vec<usize> = (0..entries.len()).filter(|index| counted(index).is_some()).collect();
    order.sort_by_key(|index| base(*index));
    let mut pairs = Vec::new();
    for (place, one) in order.iter().enumerate() {
        let Some(own) = counted(one) else { continue };
        let below = order.iter().skip(place + 1).take_while(|other| base(**other).starts_with(base(*one)));
        pairs.extend(
            below
                .filter(|other| counted(other).is_some_and(|theirs| own.disagree(&theirs)))
                .map(|other| (*one, *other)),
        );
        if pairs.len() > MAX_DISORDERED {
            return Err(order);
        }
    }
    Ok(pairs)
}

fn base(path: &Path) -> &str {
    match path {
        Path::Prefix(prefix) => prefix,
        Path::Regex(pattern) => &pattern.base,
    }
}

/// What runs on a route, as numbers in `known`.
#[derive(Clone, Copy, PartialEq)]
struct Run {
    all: usize,
    /// Without those that turn no client away.
    guards: usize,
}

struct Judge<'e, 'a> {
    entities: &'e Entities<'a>,
    /// `None`: too large.
    automata: HashMap<usize, Option<Automaton>>,
    guards: HashMap<*const Node, Run>,
    known: Vec<Result<Map<String, Value>, String>>,
    pairs: usize,
}

impl Judge<'_, '_> {
    /// What becomes of entries whose order is unknown.
    fn verdicts(
        &mut self,
        entries: &[Entry],
        pairs: Vec<(usize, usize)>,
        why: impl Fn(&Entry) -> String,
    ) -> BTreeMap<usize, Ambiguity> {
        let mut verdicts = BTreeMap::new();
        for (one, other) in pairs {
            let (Some(left), Some(right)) = (entries.get(one), entries.get(other)) else { continue };
            let (own, theirs) = (self.guards(left), self.guards(right));
            let is_guarded_alike = own.guards == theirs.guards;
            let is_alike = own == theirs
                && left.service.map(std::ptr::from_ref) == right.service.map(std::ptr::from_ref);
            if is_alike || !self.may_meet((one, left), (other, right)) {
                continue;
            }
            for (index, rival) in [(one, right), (other, left)] {
                match is_guarded_alike {
                    true => _ = verdicts.entry(index).or_insert_with(|| Ambiguity::Differs(why(rival))),
                    false => _ = verdicts.insert(index, Ambiguity::Closed(why(rival))),
                }
            }
        }
        verdicts
    }

    fn may_meet(&mut self, (one, left): (usize, &Entry), (other, right): (usize, &Entry)) -> bool {
        if are_apart(left, right) {
            return false;
        }
        self.pairs += 1;
        if self.pairs > MAX_PAIRS {
            return true;
        }
        for (index, entry) in [(one, left), (other, right)] {
            self.automata.entry(index).or_insert_with(|| Automaton::of(&pattern(&entry.path)));
        }
        match (self.automata.get(&one), self.automata.get(&other)) {
            (Some(Some(one)), Some(Some(other))) => may_both_match(one, other),
            _ => true,
        }
    }

    fn guards(&mut self, entry: &Entry) -> Run {
        let (entities, known) = (self.entities, &mut self.known);
        let mut number = |made: Result<Map<String, Value>, String>| {
            known.iter().position(|one| *one == made).unwrap_or_else(|| {
                known.push(made);
                known.len() - 1
            })
        };
        *self.guards.entry(std::ptr::from_ref(entry.node)).or_insert_with(|| {
            let made = plugins::of_route(entities, entry.node, entry.service, &mut Imported::default());
            let all = number(made.clone());
            Run { all, guards: number(made.map(plugins::guards_alone)) }
        })
    }
}

fn pattern(path: &Path) -> String {
    match path {
        Path::Prefix(prefix) => format!("^{}", regex::escape(prefix)),
        Path::Regex(pattern) => pattern.text.clone(),
    }
}

/// Whether other conditions than the path exclude each other. A request with both values of a header gets no more than one with the
/// value of the open route.
fn are_apart(left: &Entry, right: &Entry) -> bool {
    let hosts = |entry: &Entry| entry.hosts.iter().map(|host| host.to_lowercase()).collect::<Vec<_>>();
    let (own, other) = (hosts(left), hosts(right));
    let share_hosts = own.is_empty()
        || other.is_empty()
        || own.iter().any(|one| other.iter().any(|other| may_be_one(one, other)));
    let texts = |entry: &Entry, name: &str| Fields::new(entry.node, "").texts(name);
    if !share_hosts
        || excludes(&texts(left, "methods"), &texts(right, "methods"))
        || excludes(&texts(left, "snis"), &texts(right, "snis"))
    {
        return true;
    }
    let headers = |entry: &Entry| -> BTreeMap<String, Vec<String>> {
        let headers = Fields::new(entry.node, "").get("headers");
        let all = headers.map(fields::entries).unwrap_or_default().iter();
        all.map(|header| (header.key.to_lowercase(), fields::texts(&header.value)))
            .filter(|(_, values)| !values.iter().any(|value| value.starts_with("~*")))
            .map(|(name, values)| (name, values.iter().map(|value| value.to_lowercase()).collect()))
            .collect()
    };
    let theirs = headers(right);
    headers(left).iter().any(|(name, values)| theirs.get(name).is_some_and(|other| excludes(values, other)))
        || left.conditions.iter().any(|one| right.conditions.iter().any(|other| contradicts(one, other)))
}

/// Whether a host may meet both; a wildcard stands at the start or at the end.
fn may_be_one(one: &str, other: &str) -> bool {
    let bare = |host: &str| host.split(':').next().unwrap_or_default().to_owned();
    let (one, other) = (bare(one), bare(other));
    match (one.strip_prefix('*'), one.strip_suffix('*'), other.strip_prefix('*'), other.strip_suffix('*')) {
        (Some(one), _, Some(other), _) => one.ends_with(other) || other.ends_with(one),
        (_, Some(one), _, Some(other)) => one.starts_with(other) || other.starts_with(one),
        (Some(_), .., Some(_)) | (_, Some(_), Some(_), _) => true,
        (Some(end), ..) => other.ends_with(end),
        (_, Some(start), ..) => other.starts_with(start),
        (_, _, Some(end), _) => one.ends_with(end),
        (.., Some(start)) => one.starts_with(start),
        _ => one == other,
    }
}

fn excludes(one: &[String], other: &[String]) -> bool {
    !one.is_empty() && !other.is_empty() && !one.iter().any(|value| other.contains(value))
}

/// `a == 1` and `a == 2`.
fn contradicts(one: &Value, other: &Value) -> bool {
    match (one.as_array().map(Vec::as_slice), other.as_array().map(Vec::as_slice)) {
        (Some([name, sign, value]), Some([other_name, other_sign, other])) => {
            name == other_name && sign == "==" && other_sign == "==" && value != other
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_may_be_one() {
        for (one, other, wanted) in [
            ("a.test", "a.test", true),
            ("a.test", "b.test", false),
            ("*.a.test", "*.b.test", false),
            ("*.test", "*.b.test", true),
            ("www.*", "*.test", true),
            ("*.test", "a.test", true),
            ("a.*", "a.test:80", true),
            ("a.*", "b.*", false),
        ] {
            assert_eq!((may_be_one(one, other), may_be_one(other, one)), (wanted, wanted), "{one} {other}");
        }
    }
}
