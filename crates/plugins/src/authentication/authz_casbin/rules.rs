//! A model with its policy, and what it says of a request.

use std::collections::HashSet;

use tidegate_routing::expr::SearchTime;

use super::{
    matcher::{self, Matcher, Test, Text},
    model::{self, Effect, Model},
    policy::{self, Roles, Rule, Says},
};

pub(super) struct Rules {
    effect: Effect,
    matcher: Matcher,
    rules: Vec<Rule>,
    roles: Vec<Roles>,
}

/// What is known about a request so far.
#[derive(Default)]
pub(super) struct Judgement {
    /// Rules that have been looked at.
    seen: usize,
    allowed: bool,
    denied: bool,
    /// Roles of the request's names: kind, name, domain.
    known: Vec<((usize, String, String), HashSet<String>)>,
}

impl Rules {
    pub(super) fn new(model: &str, policy: &str) -> Result<Rules, String> {
        let model: Model = model::parse(model)?;
        let matcher = matcher::parse(&model)?;
        let (mut rules, roles) = policy::parse(policy, &model, &matcher)?;
        if rules.is_empty() {
            // As in Casbin, the matcher alone decides then. There a rule of empty texts stands in, which an empty user would match.
            rules.push(Rule::empty(&model, &matcher));
        }
        Ok(Rules { effect: model.effect, matcher, rules, roles })
    }

    pub(super) fn rows(&self) -> usize {
        self.rules.len()
    }

    /// Looks at some more rules. `true`: the rest changes nothing. `Err`: it cannot be said.
    pub(super) fn evaluate(
        &self,
        values: [&str; 3],
        most: usize,
        judgement: &mut Judgement,
        time: &SearchTime,
    ) -> Result<bool, &'static str> {
        for rule in self.rules.iter().skip(judgement.seen).take(most) {
            judgement.seen += 1;
            let mut trial = Trial { rules: self, rule, values, time, known: &mut judgement.known };
            if rule.says == Says::Nothing || !trial.holds(&self.matcher.test)? {
                continue;
            }
            match rule.says {
                Says::Deny => judgement.denied = true,
                _ => judgement.allowed = true,
            }
            let is_decided = match self.effect {
                Effect::SomeAllow => judgement.allowed,
                Effect::NoDeny | Effect::SomeAllowNoDeny => judgement.denied,
                Effect::First => true,
            };
            if is_decided {
                return Ok(true);
            }
        }
        Ok(judgement.seen >= self.rules.len())
    }

    pub(super) fn allows(&self, judgement: &Judgement) -> bool {
        match self.effect {
            Effect::SomeAllow => judgement.allowed,
            Effect::NoDeny => !judgement.denied,
            Effect::SomeAllowNoDeny | Effect::First => judgement.allowed && !judgement.denied,
        }
    }
}

/// One rule against one request.
struct Trial<'a> {
    rules: &'a Rules,
    rule: &'a Rule,
    values: [&'a str; 3],
    time: &'a SearchTime,
    known: &'a mut Vec<((usize, String, String), HashSet<String>)>,
}

impl<'a> Trial<'a> {
    fn text(&self, text: &'a Text) -> &'a str {
        match text {
            Text::Request(at) => self.values.get(*at).copied().unwrap_or_default(),
            Text::Policy(at) => self.rule.values.get(*at).map_or("", String::as_str),
            Text::Literal(text) => text,
        }
    }

    fn holds(&mut self, test: &'a Test) -> Result<bool, &'static str> {
        if self.rule.is_absent && !matches!(test, Test::Any(_) | Test::All(_)) && test.asks_rule() {
            return Ok(false);
        }
        Ok(match test {
            Test::Any(tests) => {
                for test in tests {
                    if self.holds(test)? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::All(tests) => {
                for test in tests {
                    if !self.holds(test)? {
                        return Ok(false);
                    }
                }
                true
            }
            Test::Not(test) => !self.holds(test)?,
            Test::Equal(one, other) => self.text(one) == self.text(other),
            Test::Matches(text, pattern) => pattern.matches(self.text(text), self.time)?,
            Test::Rule(text, number) => match self.rule.patterns.get(*number) {
                Some(pattern) => pattern.matches(self.text(text), self.time)?,
                None => return Err("a rule without its pattern"),
            },
            Test::Role(kind, texts) => self.has_role(*kind, texts),
            Test::Constant(value) => *value,
        })
    }

    fn has_role(&mut self, kind: usize, texts: &'a [Text]) -> bool {
        let [name, role, domain @ ..] = texts else { return false };
        let (name, role) = (self.text(name), self.text(role));
        let domain = domain.first().map_or("", |domain| self.text(domain));
        let is_this = |(known, _): &((usize, String, String), HashSet<String>)| {
            known.0 == kind && known.1 == name && known.2 == domain
        };
        if !self.known.iter().any(is_this) {
            let roles = self.rules.roles.get(kind).map(|roles| roles.of(name, domain)).unwrap_or_default();
            // Few: the user, in each domain that rules are about.
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.push(((kind, name.to_owned(), domain.to_owned()), roles));
        }
        self.known.iter().find(|known| is_this(known)).is_some_and(|(_, roles)| roles.contains(role))
    }
}

const MAX_KNOWN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn model(policy: &str, effect: &str, matcher: &str) -> String {
        format!(
            "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = {policy}\n[role_definition]\ng = _, _\n\
             g2 = _, _, _\n[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}"
        )
    }

    const ALLOW: &str = "some(where (p.eft == allow))";
    const DENY: &str = "!some(where (p.eft == deny))";
    const BOTH: &str = "some(where (p.eft == allow)) && !some(where (p.eft == deny))";
    const FIRST: &str = "priority(p.eft) || deny";

    fn decide(model: &str, policy: &str, request: &str) -> bool {
        let rules = Rules::new(model, policy).unwrap_or_else(|reason| panic!("{reason}"));
        let values: Vec<&str> = request.split(' ').collect();
        let values = [values[0], values[1], values[2]];
        let mut judgement = Judgement::default();
        // In pieces of one rule: how they are looked at changes nothing.
        while !rules.evaluate(values, 1, &mut judgement, &SearchTime::default()).expect("decided") {}
        rules.allows(&judgement)
    }

    #[test]
    fn rules_and_roles() {
        let of_apisix = model(
            "sub, obj, act",
            ALLOW,
            "(g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)",
        );
        let policy = "p, *, /, GET\np, admin, *, *\ng, alice, admin\ng, carol, alice\n";
        for (request, expected) in [
            ("anonymous / GET", true),
            ("anonymous / POST", false),
            ("anonymous /res GET", false),
            ("alice /res POST", true),
            ("carol /res POST", true),
            ("bob /res GET", false),
            ("admin /res DELETE", true),
            ("* /res GET", false),
        ] {
            assert_eq!(decide(&of_apisix, policy, request), expected, "{request}");
        }
        let with_domain = model("sub, obj, act", ALLOW, "g2(r.sub, p.sub, r.obj) && r_act == p_act");
        for (request, expected) in [("a /one GET", true), ("a /two GET", false), ("b /one GET", false)] {
            assert_eq!(
                decide(&with_domain, "p, admin, x, GET\ng2, a, admin, /one", request),
                expected,
                "{request}"
            );
        }
    }

    #[test]
    fn effects() {
        let matcher = "r.sub == p.sub && keyMatch(r.obj, p.obj)";
        let policy = "p, a, /x*, deny\np, a, /*, allow\np, b, /*, allow\np, b, /x*, deny";
        for (effect, request, expected) in [
            (ALLOW, "a /x GET", true),
            (ALLOW, "c /x GET", false),
            (DENY, "a /x GET", false),
            (DENY, "a /y GET", true),
            (DENY, "c /x GET", true),
            (BOTH, "b /x GET", false),
            (BOTH, "b /y GET", true),
            (BOTH, "c /y GET", false),
            (FIRST, "a /x GET", false),
            (FIRST, "b /x GET", true),
            (FIRST, "c /x GET", false),
        ] {
            assert_eq!(
                decide(&model("sub, obj, eft", effect, matcher), policy, request),
                expected,
                "{effect} {request}"
            );
        }
    }

    #[test]
    fn matchers() {
        let decide = |matcher: &str, request: &str| decide(&model("sub, obj", ALLOW, matcher), "", request);
        for (matcher, request, expected) in [
            ("r.sub == 'root'", "root / GET", true),
            ("r.sub == \"root\" || r.act in ('GET', 'HEAD')", "a / HEAD", true),
            ("r.act in ('GET', 'HEAD')", "a / POST", false),
            ("!(r.sub == 'a') && r.act != 'POST'", "b / GET", true),
            ("r.sub == 'a' || r.sub == 'b' && r.act == 'GET'", "a / POST", true),
            ("regexMatch(r.obj, '^/[a-z]+$')", "a /abc GET", true),
            ("true", "a / GET", true),
            ("regexMatch(r.obj, p.obj)", "a /abc GET", false),
        ] {
            assert_eq!(decide(matcher, request), expected, "{matcher} {request}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let good = "r.sub == p.sub";
        for matcher in [
            "",
            "r.sub",
            "r.sub ==",
            "r.sub = p.sub",
            "r.x == p.sub",
            "x.sub == p.sub",
            "r.sub.age == 'a'",
            "r.sub > p.sub",
            "f(r.sub, p.sub)",
            "keyMatch(r.sub)",
            "keyMatch(r.sub, r.obj)",
            "g(r.sub)",
            "regexMatch(r.sub, '(')",
            "r.sub == 'a",
            "(r.sub == 'a'",
            "r.sub == 'a')",
            "eval(p.sub)",
            "r.sub == p.sub && ",
            "r.sub == 'a\\'b'",
        ] {
            assert!(Rules::new(&model("sub, obj", ALLOW, matcher), "").is_err(), "{matcher}");
        }
        assert!(Rules::new(&model("sub, obj", ALLOW, &format!("{}true", "!".repeat(100_000))), "").is_err());
        for policy in ["p, a", "p, a, b, c", "x, a, b", "g, a", "g, a, b, c", "p, \"a, b"] {
            assert!(Rules::new(&model("sub, obj", ALLOW, good), policy).is_err(), "{policy}");
        }
        let with_effect = model("sub, eft", ALLOW, good);
        assert!(Rules::new(&with_effect, "p, a, alow").is_err());
        assert!(Rules::new(&model("sub, obj", ALLOW, "regexMatch(r.obj, p.obj)"), "p, a, (").is_err());
    }
}
