//! Which of the servers at one socket a host leads to.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    super::{
        condition::Condition,
        listen::{Listen, Names},
        patterns,
    },
    part::Part,
};
use crate::nginx::made::{Made, Stop};

/// The servers at a socket, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Rivals {
    pub is_tls: bool,
    /// With whether they ask to be the default one.
    servers: Vec<(usize, bool)>,
    /// Which server has a name or a wildcard in front first.
    first: HashMap<String, usize>,
    /// And which are those of several.
    shared: HashSet<String>,
    /// All of them from their ends, so that those of one domain are neighbours.
    reversed: BTreeSet<String>,
    /// Other names: the server, the rank, the condition or why there is none.
    expressions: Vec<(usize, usize, Result<Condition, String>)>,
    /// Servers whose names may match what is another one's.
    wild: Vec<usize>,
    /// The first server for requests without Host.
    nameless: Option<usize>,
    /// Why no client is served at the socket.
    pub fault: Option<String>,
}

/// Expressions that come before another one: each server has its own and all of these.
const MAX_BEFORE: usize = 500;

/// nginx looks at no expression where a request has no host.
fn host(pattern: &str) -> Result<Condition, String> {
    patterns::known(pattern)?;
    Ok(Condition::all([Condition::test("host", "~~", pattern), nobody().negated()]))
}

fn nobody() -> Condition {
    patterns::is_empty("http_host")
}

fn known(condition: &Result<Condition, String>) -> Made<Condition> {
    condition.clone().map_err(Stop::Closed)
}

impl Rivals {
    pub(super) fn add(&mut self, index: usize, listen: &Listen, names: &Names) {
        // nginx takes TLS where any server asks for it.
        self.is_tls |= listen.tls;
        self.servers.push((index, listen.default));
        for name in &names.hosts {
            if *self.first.entry(name.clone()).or_insert(index) != index {
                self.shared.insert(name.clone());
            }
            self.reversed.insert(name.chars().rev().collect());
        }
        let condition = |pattern: Result<&str, String>| pattern.and_then(host);
        self.expressions.extend(names.patterns().map(|(rank, pattern)| (index, rank, condition(pattern))));
        if names.patterns().next().is_some() || names.hosts.iter().any(|host| host.starts_with("*.")) {
            self.wild.push(index);
        }
        if names.is_for_nameless {
            self.nameless.get_or_insert(index);
        }
        self.fault = self.fault.take().or_else(|| listen.fault.clone());
    }

    pub(super) fn servers(&self) -> &[(usize, bool)] {
        &self.servers
    }

    fn default(&self) -> Option<usize> {
        let asked = self.servers.iter().find(|(_, is_default)| *is_default);
        asked.or(self.servers.first()).map(|(server, _)| *server)
    }

    fn is_of_another(&self, name: &str, index: usize) -> bool {
        self.first.get(name).is_some_and(|first| *first != index) || self.shared.contains(name)
    }

    /// Names of a server without those that another one has first. `must_exclude`: names must not lead to a server by a wildcard,
    /// or as to the default one, that another one has.
    pub(super) fn parts(&self, index: usize, own: &Names, must_exclude: bool) -> Made<Vec<Part>> {
        let is_default = self.default() == Some(index);
        // `_` stands for unknown names, which lead to the default server anyway.
        let is_first =
            |name: &&String| self.first.get(*name) == Some(&index) && !(is_default && *name == "_");
        let hosts: Vec<String> = own.hosts.iter().filter(is_first).cloned().collect();
        let mut parts = Vec::new();
        // The default server's own names lead to it as all unknown ones do, unless names of others match them too.
        let has_rivals = self.wild.iter().any(|server| *server != index);
        if !hosts.is_empty() && (has_rivals || !is_default) {
            let longer = if must_exclude { self.longer_names(index, &hosts) } else { BTreeSet::new() };
            let condition = match longer.is_empty() {
                true => Condition::Always,
                false => known(&host(&hosts_pattern(&longer)))?.negated(),
            };
            parts.push(Part { hosts, condition, is_default: false });
        }
        if self.nameless == Some(index) && !is_default {
            parts.push(Part { hosts: Vec::new(), condition: nobody(), is_default: false });
        }
        let expressions = self.own_expressions(index)?;
        if !is_default && !expressions.is_empty() {
            let condition = Condition::any(expressions);
            parts.push(Part { hosts: Vec::new(), condition, is_default: false });
        } else if is_default {
            // All other names, but for those that expressions of other servers match.
            let mut others = Vec::new();
            for (_, _, condition) in self.expressions.iter().filter(|(server, ..)| *server != index) {
                others.push(known(condition)?);
            }
            if must_exclude {
                let names = self.first.keys().filter(|name| self.is_of_another(name, index));
                let named: BTreeSet<String> = names.cloned().collect();
                if !named.is_empty() {
                    others.push(known(&host(&hosts_pattern(&named)))?);
                }
            }
            if self.nameless.is_some_and(|server| server != index) {
                others.push(nobody());
            }
            let rest = Condition::any(others).negated();
            let condition = Condition::any([rest].into_iter().chain(expressions));
            parts.push(Part { hosts: Vec::new(), condition, is_default: true });
        }
        Ok(parts)
    }

    /// What an expression among the names matches, and none of a higher rank or an earlier server does.
    fn own_expressions(&self, index: usize) -> Made<Vec<Condition>> {
        let mut all = Vec::new();
        for (_, rank, condition) in self.expressions.iter().filter(|(server, ..)| *server == index) {
            let mut before = Vec::new();
            for (other, other_rank, condition) in &self.expressions {
                let is_first = other_rank > rank || (other_rank == rank && *other < index);
                if *other != index && is_first {
                    before.push(known(condition)?);
                }
                if before.len() > MAX_BEFORE {
                    return Err(Stop::closed("too many servers have expressions for names"));
                }
            }
            all.push(Condition::all([known(condition)?, Condition::any(before).negated()]));
        }
        Ok(all)
    }

    /// Names of other servers that wildcards of this one match as well.
    fn longer_names(&self, index: usize, own: &[String]) -> BTreeSet<String> {
        let mut longer = BTreeSet::new();
        for end in own.iter().filter_map(|wildcard| wildcard.strip_prefix('*')) {
            let reversed: String = end.chars().rev().collect();
            let below =
                self.reversed.range(reversed.clone()..).take_while(|name| name.starts_with(&reversed));
            for name in below.map(|name| name.chars().rev().collect::<String>()) {
                let is_longer = name.trim_start_matches("*.").len() >= end.len();
                if is_longer && self.is_of_another(&name, index) && !own.contains(&name) {
                    longer.insert(name);
                }
            }
        }
        longer
    }
}

/// An expression for names and for wildcards in front.
fn hosts_pattern(hosts: &BTreeSet<String>) -> String {
    let one = |host: &String| match host.strip_prefix("*.") {
        Some(domain) => format!(".+\\.{}", regex::escape(domain)),
        None => regex::escape(host),
    };
    format!("(?i)^(?:{})$", hosts.iter().map(one).collect::<Vec<_>>().join("|"))
}
