//! The text of a policy: rules, and who has which role.

use std::collections::{HashMap, HashSet};

use super::{functions::Pattern, matcher::Matcher, model::Model};

/// As in Casbin: roles of roles count up to here.
const MAX_LEVELS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Allow,
    Deny,
    Nothing,
}

pub(super) struct Rule {
    pub(super) values: Vec<String>,
    pub(super) patterns: Vec<Pattern>,
    pub(super) says: Says,
    /// It stands for a policy without rules: what the matcher asks of a rule does not hold.
    pub(super) is_absent: bool,
}

/// Roles of one kind: domain and name to names.
#[derive(Default)]
pub(super) struct Roles(HashMap<(String, String), Vec<String>>);

pub(super) fn parse(text: &str, model: &Model, matcher: &Matcher) -> Result<(Vec<Rule>, Vec<Roles>), String> {
    let mut rules = Vec::new();
    let mut roles: Vec<Roles> = model.roles.iter().map(|_| Roles::default()).collect();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |reason: String| format!("policy, line {}: {reason}", number + 1);
        let mut values = values(line).map_err(wrong)?.into_iter();
        let kind = values.next().unwrap_or_default();
        let values: Vec<String> = values.collect();
        if kind == "p" {
            rules.push(Rule::new(values, model, matcher).map_err(wrong)?);
            continue;
        }
        let role = model.roles.iter().position(|(name, _)| *name == kind);
        let role = role.ok_or_else(|| wrong(format!("{kind} is not defined")))?;
        let wanted = model.roles.get(role).map_or(0, |(_, count)| *count);
        if values.len() != wanted {
            return Err(wrong(format!("{kind} takes {wanted} values")));
        }
        let mut values = values.into_iter();
        if let (Some(name), Some(above), Some(roles)) = (values.next(), values.next(), roles.get_mut(role)) {
            roles.0.entry((values.next().unwrap_or_default(), name)).or_default().push(above);
        }
    }
    Ok((rules, roles))
}

/// Separated by commas; one in quotes may have commas, and quotes twice.
fn values(line: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        let mut value = String::new();
        if let Some(mut inner) = rest.strip_prefix('"') {
            loop {
                let (text, behind) = inner.split_once('"').ok_or("a quote is not closed")?;
                value.push_str(text);
                match behind.strip_prefix('"') {
                    Some(more) => {
                        value.push('"');
                        inner = more;
                    }
                    None => {
                        rest = behind.trim_start();
                        break;
                    }
                }
            }
        } else {
            let (text, behind) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
            text.trim_end().clone_into(&mut value);
            rest = behind;
        }
        found.push(value);
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind,
            None if rest.is_empty() => return Ok(found),
            None => return Err("there is more behind a quote".to_owned()),
        }
    }
}

impl Rule {
    fn new(values: Vec<String>, model: &Model, matcher: &Matcher) -> Result<Rule, String> {
        if values.len() != model.policy.len() {
            return Err(format!("a rule has {} values, and not {}", model.policy.len(), values.len()));
        }
        let says = match model.policy.iter().position(|name| name == "eft").and_then(|at| values.get(at)) {
            None => Says::Allow,
            Some(text) => match text.as_str() {
                "allow" => Says::Allow,
                "deny" => Says::Deny,
                other => return Err(format!("a rule says allow or deny, and not {other}")),
            },
        };
        Ok(Rule { patterns: patterns(&values, matcher)?, values, says, is_absent: false })
    }

    /// What the matcher sees in a policy without rules.
    pub(super) fn empty(model: &Model, matcher: &Matcher) -> Rule {
        let values = vec![String::new(); model.policy.len()];
        // A pattern that cannot be empty: then nothing matches.
        let patterns = patterns(&values, matcher);
        let says = if patterns.is_ok() { Says::Allow } else { Says::Nothing };
        Rule { patterns: patterns.unwrap_or_default(), values, says, is_absent: true }
    }
}

fn patterns(values: &[String], matcher: &Matcher) -> Result<Vec<Pattern>, String> {
    let of =
        |(function, at): &(_, usize)| Pattern::new(*function, values.get(*at).map_or("", String::as_str));
    matcher.per_rule.iter().map(of).collect()
}

impl Roles {
    /// The name itself and all roles that it has, directly or through others.
    pub(super) fn of(&self, name: &str, domain: &str) -> HashSet<String> {
        let mut found = HashSet::from([name.to_owned()]);
        let mut level = vec![name.to_owned()];
        for _ in 0..MAX_LEVELS {
            let mut next = Vec::new();
            for name in level {
                for above in self.0.get(&(domain.to_owned(), name)).into_iter().flatten() {
                    if found.insert(above.clone()) {
                        next.push(above.clone());
                    }
                }
            }
            level = next;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (line, expected) in [
            ("p, a, b ,c", Ok(vec!["p", "a", "b", "c"])),
            ("p,,", Ok(vec!["p", "", ""])),
            ("p, \"a, b\" , \"c \"\"d\"\"\"", Ok(vec!["p", "a, b", "c \"d\""])),
            ("p, \"a", Err("a quote is not closed")),
            ("p, \"a\" b", Err("there is more behind a quote")),
        ] {
            let found = values(line);
            let found = found.as_ref().map(|values| values.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(found.map_err(String::as_str), expected, "{line}");
        }
    }
}
