//! Who may come in: `allow`, `deny`, `satisfy`, `auth_request`, `limit_except`. A guard of another kind closes the place.

use serde_json::{Map, Value, json};

use super::{
    chain::{Chain, Kind},
    condition::Condition,
    made::{Made, Stop},
    maps::network,
    parse::Directive,
    variables::Variables,
};

/// What becomes of a request whose condition is the first that holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Gate {
    /// It continues, with these plugins.
    Pass(Map<String, Value>),
    Deny,
    /// An `auth_request` to this path is asked.
    Ask(String),
    Closed(String),
}

impl Gate {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Gate::Pass(plugins) if plugins.is_empty())
    }
}

/// A gate, and what leads to it; `None`: the block is that of the place, else the one of `limit_except`.
pub(crate) struct Guarded<'a> {
    pub condition: Condition,
    pub gate: Gate,
    pub chain: Chain<'a>,
}

pub(crate) fn gates<'a>(chain: &Chain<'a>, variables: &Variables) -> Made<Vec<Guarded<'a>>> {
    if chain.only_outside("limit_except") {
        return Err(Stop::closed("`limit_except` of an outer location is not converted"));
    }
    let mut all = Vec::new();
    if let Some(limited) = chain.own_one("limit_except") {
        let others = other_methods(limited);
        let inner = chain.inner(Kind::Unnamed, &limited.block);
        inner.take(&["limit_except"]);
        for (condition, gate) in of(&inner, variables)? {
            all.push(Guarded {
                condition: Condition::all([others.clone(), condition]),
                gate,
                chain: inner.clone(),
            });
        }
    }
    for (condition, gate) in of(chain, variables)? {
        all.push(Guarded { condition, gate, chain: chain.clone() });
    }
    Ok(all)
}

/// `GET` means `HEAD` as well.
fn other_methods(limited: &Directive) -> Condition {
    let mut methods: Vec<String> = limited.arguments.iter().map(|method| method.to_uppercase()).collect();
    if methods.iter().any(|method| method == "GET") {
        methods.push("HEAD".to_owned());
    }
    Condition::test("request_method", "in", methods).negated()
}

fn of(chain: &Chain, variables: &Variables) -> Made<Vec<(Condition, Gate)>> {
    let rules = chain.any_of(&["allow", "deny"]);
    chain.take(&["auth_basic_user_file", "auth_request_set"]);
    let basic = chain.one("auth_basic").filter(|basic| basic.argument(0) != "off");
    let asked = chain.one("auth_request").filter(|asked| asked.argument(0) != "off");
    let any = chain.word("satisfy") == "any";
    let rest = match (basic, asked) {
        (Some(basic), _) => Gate::Closed(format!(
            "`auth_basic` of line {} is not converted: the hashes of its file cannot be checked here; make a consumer of \
             plugin basic-auth for each user",
            basic.at.line
        )),
        (None, Some(asked)) => Gate::Ask(asked.argument(0).to_owned()),
        (None, None) => Gate::Pass(Map::new()),
    };
    let is_guarded = basic.is_some() || asked.is_some();
    if rules.is_empty() {
        return Ok(vec![(Condition::Always, rest)]);
    }
    if variables.maps_addresses && !rules.iter().any(|rule| is_of_ipv4(rule)) {
        // nginx compares clients of IPv4 with networks of IPv6 then, as `::ffff:127.0.0.1`.
        return Err(Stop::closed("`allow` and `deny` of IPv6 alone, with `ipv6only=off`"));
    }
    if variables.moved_addresses {
        return match is_guarded {
            true => Err(Stop::closed("`set_real_ip_from` with both addresses and another guard")),
            false => Ok(vec![(Condition::Always, Gate::Pass(restriction(&rules)?))]),
        };
    }
    if any && is_guarded {
        // An address is enough where a rule allows it; one that no rule names is not.
        let allowed = allowed(&rules, Condition::Never)?;
        return Ok(vec![(allowed, Gate::Pass(Map::new())), (Condition::Always, rest)]);
    }
    Ok(match allowed(&rules, Condition::Always)? {
        Condition::Always => vec![(Condition::Always, rest)],
        Condition::Never => vec![(Condition::Always, Gate::Deny)],
        allowed => vec![(allowed.negated(), Gate::Deny), (Condition::Always, rest)],
    })
}

fn is_of_ipv4(rule: &Directive) -> bool {
    rule.argument(0) == "all" || network(rule.argument(0)).is_some_and(|(network, _)| !network.contains(':'))
}

/// Networks of a rule; none for `all`.
fn networks(rule: &Directive) -> Made<Option<String>> {
    match rule.argument(0) {
        "all" => Ok(None),
        text => match network(text) {
            Some((network, _)) => Ok(Some(network)),
            None => {
                Err(Stop::closed(format!("`{}` of line {} is not converted", rule.title(), rule.at.line)))
            }
        },
    }
}

/// The first rule that an address meets counts; `others`: what becomes of those that meet none.
fn allowed(rules: &[&Directive], others: Condition) -> Made<Condition> {
    let mut allowed = others;
    let mut rest = rules.iter().rev().filter(|rule| rule.argument(0) != "unix:").peekable();
    while let Some(rule) = rest.next() {
        let is_allow = rule.name == "allow";
        let Some(first) = networks(rule)? else {
            allowed = if is_allow { Condition::Always } else { Condition::Never };
            continue;
        };
        let mut list = vec![first];
        // Neighbours of the same kind are one list.
        while let Some(next) = rest.next_if(|next| next.name == rule.name && next.argument(0) != "all") {
            list.extend(networks(next)?);
        }
        let own = Condition::test("remote_addr", "ipmatch", json!(list));
        allowed = match is_allow {
            true => Condition::any([own, allowed]),
            false => Condition::all([own.negated(), allowed]),
        };
    }
    Ok(allowed)
}

/// As a plugin, which runs after the client's address was taken from a header.
fn restriction(rules: &[&Directive]) -> Made<Map<String, Value>> {
    let (mut listed, mut kind) = (Vec::new(), None);
    for rule in rules {
        match (networks(rule)?, kind) {
            (Some(network), None) => {
                kind = Some(rule.name.as_str());
                listed.push(network);
            }
            (Some(network), Some(known)) if known == rule.name => listed.push(network),
            (None, Some(known)) if known != rule.name => break,
            (None, _) if listed.is_empty() && rule.name == "allow" => return Ok(Map::new()),
            _ => return Err(Stop::closed("`allow` and `deny` by turns, with `set_real_ip_from`")),
        }
    }
    let name = match kind {
        // Without `deny all` behind them they allow every client.
        Some("allow")
            if rules.last().is_some_and(|last| last.name == "deny" && last.argument(0) == "all") =>
        {
            "whitelist"
        }
        Some("allow") => return Ok(Map::new()),
        Some(_) => "blacklist",
        None => return Err(Stop::closed("`deny all`, with `set_real_ip_from`")),
    };
    Ok(Map::from_iter([("ip-restriction".to_owned(), json!({name: listed}))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::parse::parse;

    fn rules(text: &str) -> Vec<Directive> {
        parse(text, None).expect("rules")
    }

    #[test]
    fn the_first_rule_counts() {
        for (text, wanted) in [
            ("allow all; deny all;", json!([])),
            (
                "allow 10.0.0.0/8; allow 1.2.3.4; deny all;",
                json!([["remote_addr", "ipmatch", ["1.2.3.4", "10.0.0.0/8"]]]),
            ),
            ("deny 1.2.3.4;", json!([["remote_addr", "!", "ipmatch", ["1.2.3.4"]]])),
            (
                "allow 10.0.0.1; deny 10.0.0.0/8; allow all;",
                json!([[
                    "OR",
                    ["remote_addr", "ipmatch", ["10.0.0.1"]],
                    ["remote_addr", "!", "ipmatch", ["10.0.0.0/8"]]
                ]]),
            ),
        ] {
            let rules = rules(text);
            let found = allowed(&rules.iter().collect::<Vec<_>>(), Condition::Always).expect("converted");
            assert_eq!(json!(found.vars()), wanted, "{text}");
        }
        let rules = rules("deny 1.2.3.4; deny all;");
        assert_eq!(allowed(&rules.iter().collect::<Vec<_>>(), Condition::Always), Ok(Condition::Never));
        assert!(
            allowed(
                &super::tests::rules("allow example.com; deny all;").iter().collect::<Vec<_>>(),
                Condition::Always
            )
            .is_err()
        );
    }

    #[test]
    fn lists_for_moved_addresses() {
        let one = |text: &str| {
            let rules = rules(text);
            restriction(&rules.iter().collect::<Vec<_>>()).map(Value::Object)
        };
        assert_eq!(
            one("allow 10.0.0.0/8; deny all;"),
            Ok(json!({"ip-restriction": {"whitelist": ["10.0.0.0/8"]}}))
        );
        assert_eq!(
            one("deny 10.0.0.1; allow all;"),
            Ok(json!({"ip-restriction": {"blacklist": ["10.0.0.1"]}}))
        );
        assert!(one("allow 10.0.0.1; deny 10.0.0.0/8;").is_err());
        assert!(one("deny all;").is_err());
    }
}
