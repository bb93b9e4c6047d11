//! nginx's variables: those that mean the same here, those that the file sets to a text, and those that a `map` or `geo`
//! makes of others.

mod moved;
pub(super) mod names;
mod parts;
mod redirect;

use std::{collections::BTreeMap, rc::Rc};

use self::{
    moved::{ANY_ARGUMENT, Moved},
    names::{FAMILIES, SAME, as_nginx},
};
use super::{
    condition::Condition,
    made::{Made, Stop},
    map::Map,
    parse::Directive,
};
pub(super) use parts::{Part, parts};

/// What arguments a request has behind a redirect within the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query<'q> {
    /// Those of the client.
    Kept,
    Is(&'q str),
    Unknown,
}

/// Variables may hold variables: `set $b $a$a` doubles with every line.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// What the file says of a variable.
#[derive(Clone, Debug)]
enum Known<'a> {
    /// A text with variables of requests only.
    Text(String),
    Map(&'a Map),
    /// One of the values of a map.
    Case(String, &'a Map),
    /// `1` where this holds, else empty.
    Flag(Condition),
    /// Set on some ways and not on others.
    Unclear(String),
}

/// The variables of a place in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables<'a> {
    known: BTreeMap<String, Known<'a>>,
    /// Variables whose values are unknown, whatever is set, with the reason.
    unknown: Rc<BTreeMap<String, String>>,
    /// Client addresses are not those of connections: conditions on them are for plugins, which run later.
    pub(crate) moved_addresses: bool,
    /// Clients of IPv4 come to an address of IPv6: nginx writes theirs as `::ffff:127.0.0.1`.
    pub(crate) maps_addresses: bool,
    /// `$host` of a request without Host: the server's first name.
    pub(crate) first_name: String,
    /// The gateway decides whose `X-Forwarded-*` and the like are believed, not the file.
    pub drops_claims: bool,
    /// By rewrites and redirects within the server.
    moved: Moved,
}

impl<'a> Variables<'a> {
    /// `unknown`: names without a value that is known, in small letters.
    pub(crate) fn new(unknown: BTreeMap<String, String>) -> Self {
        Variables { unknown: Rc::new(unknown), ..Variables::default() }
    }

    /// Names have no case.
    fn put(&mut self, name: &str, known: Known<'a>) {
        let name = name.to_ascii_lowercase();
        let known = match self.unknown.get(&name) {
            Some(why) => Known::Unclear(why.clone()),
            None => known,
        };
        self.known.insert(name, known);
    }

    fn known(&self, name: &str) -> Option<&Known<'a>> {
        let name = name.to_ascii_lowercase();
        let any = || self.known.get(ANY_ARGUMENT).filter(|_| name.starts_with(ANY_ARGUMENT));
        self.known.get(&name).or_else(any)
    }

    pub(crate) fn set_map(&mut self, map: &'a Map) {
        self.put(&map.name, Known::Map(map));
    }

    /// `set $name value;`
    pub(crate) fn set_as(&mut self, step: &Directive) {
        self.set(step.argument(0).trim_start_matches('$'), step.argument(1));
    }

    /// A `set` on some ways only, so that the value is not known.
    pub(crate) fn forget(&mut self, step: &Directive) {
        self.unclear(step.argument(0).trim_start_matches('$'), "it is set in an `if`");
    }

    /// A variable that is `1` or empty.
    pub(crate) fn set_flag(&mut self, name: &str, held: Condition) {
        self.put(name, Known::Flag(held));
    }

    /// The values that a variable can have, each with when it has it; `None` for others than those of maps.
    pub(crate) fn cases(&self, name: &str) -> Option<Made<Vec<(Condition, String)>>> {
        match self.known(name)? {
            Known::Map(map) => Some(map.cases(self)),
            Known::Flag(held) => {
                let cases = [(held.clone(), "1"), (held.clone().negated(), "")];
                Some(Ok(cases.map(|(condition, value)| (condition, value.to_owned())).to_vec()))
            }
            _ => None,
        }
    }

    /// `set $name value`; a value with captures or unknown variables makes the variable unclear.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let known = match self.text(value) {
            Ok(text) => Known::Text(text),
            Err(Stop::Closed(why)) => Known::Unclear(why),
            Err(Stop::Split(map)) => {
                Known::Unclear(format!("`${name}` is set to `${map}`, which a map makes"))
            }
        };
        self.put(name, known);
    }

    /// A condition on a variable, which does not hold where there is none, as nginx reads it. `fits_first_name`: the server's first name meets it, which is `$host` where
    /// there is no Host.
    pub(crate) fn on_host(&self, name: &str, condition: Condition, fits_first_name: bool) -> Condition {
        let nameless = || super::patterns::is_empty("http_host");
        match (name, fits_first_name) {
            ("host", true) => Condition::any([condition, nameless()]),
            _ => condition,
        }
    }

    pub(crate) fn unclear(&mut self, name: &str, why: &str) {
        self.put(name, Known::Unclear(why.to_owned()));
    }

    /// The map that makes a variable.
    pub(crate) fn map(&self, name: &str) -> Option<&'a Map> {
        match self.known(name)? {
            Known::Map(map) => Some(map),
            _ => None,
        }
    }

    /// A text in which only variables of requests are left, in the form `${name}`.
    pub(crate) fn text(&self, value: &str) -> Made<String> {
        let mut text = String::new();
        for part in parts(value) {
            match part {
                Part::Text("$") => {
                    return Err(Stop::closed(format!("`{value}` has a dollar sign without a name")));
                }
                Part::Variable(_) if text.ends_with('\\') => return Err(behind_backslash(value)),
                Part::Text(part) => text.push_str(part),
                Part::Capture(digit) => {
                    return Err(Stop::closed(format!(
                        "`${digit}` in `{value}` is a part of a match, which is converted in replacements of `rewrite` only"
                    )));
                }
                Part::Variable(name) => text.push_str(&self.one(name)?),
            }
            if text.len() > MAX_TEXT_BYTES {
                return Err(Stop::closed(format!("`{value}` becomes longer than {MAX_TEXT_BYTES} bytes")));
            }
        }
        Ok(text)
    }

    /// A text without variables.
    pub(crate) fn literal(&self, value: &str) -> Made<String> {
        let text = self.text(value)?;
        match text.contains("${") {
            true => Err(Stop::closed(format!("`{value}` depends on the request"))),
            false => Ok(text),
        }
    }

    fn one(&self, name: &str) -> Made<String> {
        let name = name.to_ascii_lowercase();
        let name = name.as_str();
        if let Some(why) = self.unknown.get(name) {
            return Err(Stop::closed(format!("`${name}` is not known: {why}")));
        }
        match self.known(name) {
            Some(Known::Text(text) | Known::Case(text, _)) => Ok(text.clone()),
            Some(Known::Map(_) | Known::Flag(_)) => Err(Stop::Split(name.to_owned())),
            Some(Known::Unclear(why)) => Err(Stop::closed(format!("`${name}` is not known: {why}"))),
            // Early data is never taken.
            None if name == "ssl_early_data" => Ok(String::new()),
            // Nor are answers kept.
            None if name == "upstream_cache_status" => Ok(String::new()),
            None => self.of_request(name).map(|name| format!("${{{name}}}")),
        }
    }

    /// Whether the text of a variable can be compared with one in the file.
    pub(crate) fn require_text(&self, name: &str) -> Made<()> {
        if name == "remote_addr" && self.maps_addresses {
            return Err(Stop::closed("with `ipv6only=off` the text of `$remote_addr` is another one"));
        }
        self.require_own_address(name)?;
        self.require_seen(name)
    }

    /// Routes are chosen before plugins run: a condition sees the address of the peer.
    fn require_own_address(&self, name: &str) -> Made<()> {
        match name == "remote_addr" && self.moved_addresses {
            true => Err(Stop::closed("`$remote_addr` is changed by `set_real_ip_from`")),
            false => Ok(()),
        }
    }

    /// The name of a request's variable for a condition on routes, which are chosen before plugins run.
    pub(crate) fn for_condition(&self, name: &str) -> Made<String> {
        self.require_own_address(name)?;
        self.of_request(name)
    }

    /// Whether a condition sees what nginx would: a running gateway takes what only it may say out of requests first.
    pub(crate) fn require_seen(&self, name: &str) -> Made<()> {
        let field = name.strip_prefix("http_").unwrap_or_default().replace('_', "-");
        if self.drops_claims && tidegate_protocol::claims::of(field.as_bytes()).is_some() {
            return Err(Stop::closed(format!(
                "`${name}` is compared after the gateway has dropped it: see apisix.trusted_addresses and \
                 apisix.trusted_gateways, or use `run --from`"
            )));
        }
        Ok(())
    }

    /// The name of a request's variable here, which the client or nginx itself decides.
    fn of_request(&self, name: &str) -> Made<String> {
        let family =
            FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(|rest| !rest.is_empty()));
        if !family && !SAME.contains(&name) {
            return Err(Stop::closed(format!("the variable `${name}` is not converted")));
        }
        Ok(as_nginx(name))
    }

    /// For each value that a map can have: when it has it, and the variables with this value.
    pub(crate) fn split(&self, name: &str) -> Made<Vec<(Condition, Variables<'a>)>> {
        let cases = self.cases(name).ok_or_else(|| Stop::closed(format!("`${name}` is not known")))?;
        let mut all = Vec::new();
        for (condition, value) in cases? {
            let mut variables = self.clone();
            variables.set(name, &value);
            if let (Some(map), Some(Known::Text(text))) = (self.map(name), variables.known(name)) {
                let case = Known::Case(text.clone(), map);
                variables.put(name, case);
            }
            all.push((condition, variables));
        }
        Ok(all)
    }
}

/// `\$name`: to nginx a backslash and a variable, here a text.
pub(super) fn behind_backslash(value: &str) -> Stop {
    Stop::closed(format!("`{value}` has a backslash before a variable"))
}

/// A text of [`Variables::text`] as the templates of plugins have it: braces stay where the name would go on without them.
pub(crate) fn in_templates(text: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        let goes_on = behind.starts_with(|next: char| next.is_ascii_alphanumeric() || "_.".contains(next));
        written.push_str(before);
        written.push_str(&if goes_on { format!("${{{name}}}") } else { format!("${name}") });
        rest = behind;
    }
    written + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_that_end_a_name_stay() {
        for (text, expected) in [
            ("${host}", "$host"),
            ("${host}/${uri}-x}", "$host/$uri-x}"),
            ("${arg_a}b", "${arg_a}b"),
            ("${a}_${b}.c", "${a}_${b}.c"),
            ("{x}", "{x}"),
        ] {
            assert_eq!(in_templates(text), expected);
        }
    }

    #[test]
    fn texts_are_resolved_or_not_at_all() {
        let mut variables = Variables::default();
        variables.set("a", "x$host");
        variables.set("b", "${a}y");
        variables.set("c", "$no_such");
        assert_eq!(variables.text("$b/$query_string"), Ok("x${host}y/${args}".to_owned()));
        assert!(matches!(variables.text("$c"), Err(Stop::Closed(_))));
        assert!(matches!(variables.text("$1"), Err(Stop::Closed(_))));
        assert!(matches!(variables.text(r"\$host"), Err(Stop::Closed(_))));
        variables.set("d", r"\");
        assert!(matches!(variables.text("$d$host"), Err(Stop::Closed(_))));
        assert!(matches!(variables.literal("$b"), Err(Stop::Closed(_))));
        assert_eq!(variables.text("$arg_x$cookie_y"), Ok("${raw_arg_x}${raw_cookie_y}".to_owned()));
        assert_eq!(variables.text("$request_uri"), Ok("${real_request_uri}".to_owned()));
    }
}
