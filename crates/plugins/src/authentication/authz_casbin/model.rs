//! The text of a model: what requests and rules consist of, which roles there are, and how rules are put together.

/// How the rules that match decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// One that allows is enough.
    SomeAllow,
    /// None may deny.
    NoDeny,
    /// One has to allow, and none may deny.
    SomeAllowNoDeny,
    /// The first one decides.
    First,
}

#[derive(Debug)]
pub(super) struct Model {
    /// Names of the three values of a request.
    pub(super) request: Vec<String>,
    /// Names of the values of a rule.
    pub(super) policy: Vec<String>,
    /// Kinds of roles, and of how many values their lines consist.
    pub(super) roles: Vec<(String, usize)>,
    pub(super) effect: Effect,
    pub(super) matcher: String,
}

#[derive(Default)]
struct Parts {
    request: Option<String>,
    policy: Option<String>,
    roles: Vec<(String, usize)>,
    effect: Option<String>,
    matcher: Option<String>,
}

pub(super) fn parse(text: &str) -> Result<Model, String> {
    let mut parts = Parts::default();
    let mut section = String::new();
    let mut lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_owned();
            continue;
        }
        let mut line = without_comment(line).to_owned();
        while let Some(start) = line.strip_suffix('\\') {
            line = format!("{} {}", start.trim_end(), without_comment(lines.next().unwrap_or_default()));
        }
        let (key, value) = line.split_once('=').ok_or_else(|| format!("model: \"{line}\" has no \"=\""))?;
        parts.set(&section, key.trim(), value.trim())?;
    }
    parts.whole()
}

/// `#` in a text of the matcher begins none.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, sign) in line.char_indices() {
        match quote {
            Some(open) if sign == open => quote = None,
            Some(_) => {}
            None if sign == '"' || sign == '\'' => quote = Some(sign),
            None if sign == '#' => return line.get(..at).unwrap_or_default().trim_end(),
            None => {}
        }
    }
    line
}

impl Parts {
    fn set(&mut self, section: &str, key: &str, value: &str) -> Result<(), String> {
        let place = match (section, key) {
            ("request_definition", "r") => &mut self.request,
            ("policy_definition", "p") => &mut self.policy,
            ("policy_effect", "e") => &mut self.effect,
            ("matchers", "m") => &mut self.matcher,
            ("role_definition", name) if is_role(name) => {
                let count = value.split(',').count();
                let is_fine = (2..=3).contains(&count) && value.split(',').all(|part| part.trim() == "_");
                return match is_fine && !self.roles.iter().any(|(other, _)| other == name) {
                    true => {
                        self.roles.push((name.to_owned(), count));
                        Ok(())
                    }
                    false => Err(format!("model: role_definition {name} = {value} is not supported")),
                };
            }
            _ => return Err(format!("model: {key} in section [{section}] is not supported")),
        };
        match place.replace(value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(format!("model: {key} is defined twice")),
        }
    }

    fn whole(self) -> Result<Model, String> {
        let missing = |name: &str| format!("model: {name} is missing");
        let names = |text: String| text.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        let request = names(self.request.ok_or_else(|| missing("request_definition"))?);
        if request.len() != 3 {
            return Err("model: a request has three values: user, path and method".to_owned());
        }
        let policy = names(self.policy.ok_or_else(|| missing("policy_definition"))?);
        Ok(Model {
            effect: effect(&self.effect.ok_or_else(|| missing("policy_effect"))?, &policy)?,
            request,
            policy,
            roles: self.roles,
            matcher: self.matcher.ok_or_else(|| missing("matchers"))?,
        })
    }
}

/// `g`, `g2`, `g3`, …
fn is_role(name: &str) -> bool {
    name.strip_prefix('g').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn effect(text: &str, policy: &[String]) -> Result<Effect, String> {
    let plain: String = text.chars().filter(|sign| !sign.is_whitespace()).collect();
    let effect = match plain.replace("p_eft", "p.eft").as_str() {
        "some(where(p.eft==allow))" => Effect::SomeAllow,
        "!some(where(p.eft==deny))" => Effect::NoDeny,
        "some(where(p.eft==allow))&&!some(where(p.eft==deny))" => Effect::SomeAllowNoDeny,
        "priority(p.eft)||deny" => Effect::First,
        _ => return Err(format!("model: policy_effect {text} is not supported")),
    };
    let says_effect = policy.iter().any(|name| name == "eft");
    match effect == Effect::NoDeny && !says_effect {
        // All requests would pass.
        true => Err("model: no rule can deny: policy_definition has no eft".to_owned()),
        false => Ok(effect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
        # a comment
        [request_definition]
        r = sub, obj, act  # another
        [policy_definition]
        p = sub, obj, act, eft
        [role_definition]
        g = _, _
        g2 = _, _, _
        [policy_effect]
        e = some(where (p.eft == allow)) && !some(where (p_eft == deny))
        [matchers]
        m = g(r.sub, p.sub) && \\
            r.obj == \"#\"";

    #[test]
    fn models() {
        let model = parse(GOOD).expect("a model");
        assert_eq!((model.request.len(), model.policy.len()), (3, 4));
        assert_eq!(model.roles, [("g".to_owned(), 2), ("g2".to_owned(), 3)]);
        assert_eq!(model.effect, Effect::SomeAllowNoDeny);
        assert_eq!(model.matcher, "g(r.sub, p.sub) && r.obj == \"#\"");
        for (from, to) in [
            ("r = sub, obj, act  # another", "r = sub, obj"),
            ("p = sub, obj, act, eft", "p2 = sub, obj"),
            ("g2 = _, _, _", "g2 = _, _, _, _"),
            ("g2 = _, _, _", "g = _, _"),
            ("g2 = _, _, _", "x"),
            ("e = some", "e = most"),
            ("[matchers]", "[others]"),
            ("[policy_effect]", "#"),
        ] {
            assert!(parse(&GOOD.replace(from, to)).is_err(), "{to}");
        }
        let open = GOOD.replace("act, eft", "act").replace("e = some(where (p.eft == allow)) && ", "e = ");
        assert!(parse(&open).is_err(), "nobody is ever denied");
    }
}
