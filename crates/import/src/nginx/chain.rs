//! The blocks around a place, innermost first, and which of their directives have been asked for. A directive that no
//! converter asked for, and that is on no list of [`effects`], closes the place: that is how no guard is overlooked.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use super::{
    effects::{self, Effect},
    made::{Made, Stop},
    parse::Directive,
};
use crate::Report;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `if` in a location, and `limit_except`: what does something in the location does it here too.
    Unnamed,
    Location,
    Server,
    Http,
}

#[derive(Clone, Debug)]
pub(crate) struct Chain<'a> {
    blocks: Vec<(Kind, Rc<[&'a Directive]>)>,
    taken: RefCell<BTreeSet<&'static str>>,
    /// The one that leads here; `None`: there are several.
    path: Option<Rc<str>>,
}

/// What a place does with a request, for which some settings mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Proxy,
    Files,
    Answer,
}

/// Without the blocks that other modules look at, of which there may be thousands.
fn own(kind: Kind, block: &[Directive]) -> Rc<[&Directive]> {
    let is_other = |name: &str| match kind {
        Kind::Http => ["server", "upstream", "map", "geo"].contains(&name),
        _ => name == "location" || name == "server",
    };
    block.iter().filter(|directive| !is_other(&directive.name)).collect()
}

impl<'a> Chain<'a> {
    pub(crate) fn new(blocks: &[(Kind, &'a [Directive])]) -> Self {
        let blocks = blocks.iter().map(|(kind, block)| (*kind, own(*kind, block))).collect();
        Chain { blocks, taken: RefCell::default(), path: None }
    }

    /// Of a block in this place.
    pub(crate) fn inner(&self, kind: Kind, block: &'a [Directive]) -> Self {
        let mut blocks = vec![(kind, own(kind, block))];
        blocks.extend(self.blocks.iter().cloned());
        Chain { blocks, taken: RefCell::default(), path: self.path.clone() }
    }

    /// Of a place that only this path leads to.
    pub(crate) fn with_path(self, path: &str) -> Self {
        Chain { path: Some(path.into()), ..self }
    }

    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The directives of a name that count: those of the innermost block that has any.
    pub(crate) fn all(&self, name: &'static str) -> Vec<&'a Directive> {
        self.any_of(&[name])
    }

    /// As [`Chain::all`], for names that make one list.
    pub(crate) fn any_of(&self, names: &[&'static str]) -> Vec<&'a Directive> {
        self.taken.borrow_mut().extend(names);
        let of = |block: &[&'a Directive]| -> Vec<&'a Directive> {
            block.iter().copied().filter(|directive| names.contains(&directive.name.as_str())).collect()
        };
        self.blocks.iter().map(|(_, block)| of(block)).find(|found| !found.is_empty()).unwrap_or_default()
    }

    pub(crate) fn one(&self, name: &'static str) -> Option<&'a Directive> {
        self.all(name).first().copied()
    }

    /// The first argument; empty without the directive.
    pub(crate) fn word(&self, name: &'static str) -> &'a str {
        self.one(name).map_or("", |directive| directive.argument(0))
    }

    /// What the place says itself, or around an unnamed block.
    pub(crate) fn own(&self, name: &'static str) -> Vec<&'a Directive> {
        self.taken.borrow_mut().insert(name);
        for (kind, block) in &self.blocks {
            let found: Vec<_> = block.iter().copied().filter(|directive| directive.name == name).collect();
            if !found.is_empty() || *kind != Kind::Unnamed {
                return found;
            }
        }
        Vec::new()
    }

    /// What the innermost block says, and an unnamed one does not take over from that around it.
    pub(crate) fn innermost_one(&self, name: &'static str) -> Option<&'a Directive> {
        self.taken.borrow_mut().insert(name);
        let (_, block) = self.blocks.first()?;
        block.iter().copied().find(|directive| directive.name == name)
    }

    pub(crate) fn own_one(&self, name: &'static str) -> Option<&'a Directive> {
        self.own(name).first().copied()
    }

    /// What answers in the place in a way that is not converted: `fastcgi_pass` and its like.
    pub(crate) fn unconverted_handler(&self) -> Option<Stop> {
        for (kind, block) in &self.blocks {
            if let Some(handler) = block.iter().find(|directive| is_unconverted_handler(&directive.name)) {
                return Some(Stop::closed(why(handler)));
            }
            if *kind != Kind::Unnamed {
                break;
            }
        }
        None
    }

    /// Whether a block around the place says it, and the place itself does not.
    pub(crate) fn only_outside(&self, name: &str) -> bool {
        let is_said =
            |(_, block): &(Kind, Rc<[&Directive]>)| block.iter().any(|directive| directive.name == name);
        let own = self.blocks.iter().take_while(|(kind, _)| *kind == Kind::Unnamed).count() + 1;
        let (inner, outer) = self.blocks.split_at(own.min(self.blocks.len()));
        !inner.iter().any(is_said) && outer.iter().any(is_said)
    }

    /// Whether the server or `http` says it, and no location around the place.
    pub(crate) fn only_of_server(&self, name: &str) -> bool {
        let says = |of_server: bool| {
            let is_of_server = |kind: &Kind| matches!(kind, Kind::Server | Kind::Http);
            let mut blocks = self.blocks.iter().filter(|(kind, _)| is_of_server(kind) == of_server);
            blocks.any(|(_, block)| block.iter().any(|directive| directive.name == name))
        };
        says(true) && !says(false)
    }

    /// Whether the location says one of the names, and a block around it `outer`.
    pub(crate) fn says_besides(&self, names: &[&str], outer: &str) -> bool {
        let says = |kinds: &[Kind], names: &[&str]| {
            let blocks = self.blocks.iter().filter(|(kind, _)| kinds.contains(kind));
            blocks
                .flat_map(|(_, block)| block.iter())
                .any(|directive| names.contains(&directive.name.as_str()))
        };
        says(&[Kind::Unnamed, Kind::Location], names) && says(&[Kind::Server, Kind::Http], &[outer])
    }

    /// The names are dealt with.
    pub(crate) fn take(&self, names: &[&'static str]) {
        self.taken.borrow_mut().extend(names);
    }

    /// Reports what is left out; the error names what closes the place. Whether answers differ.
    pub(crate) fn check(&self, handler: Handler, report: &mut Report) -> Made<bool> {
        let taken = self.taken.borrow();
        let mut differs = false;
        for (depth, (kind, block)) in self.blocks.iter().enumerate() {
            for directive in block.iter() {
                let name = directive.name.as_str();
                let elsewhere = is_structure(*kind, name) || (depth > 0 && !self.reaches(depth, name));
                if elsewhere || taken.contains(name) {
                    continue;
                }
                let is_nothing = self.leaves_paths(directive) || effects::is_default(directive);
                let effect = if is_nothing { Effect::None } else { effect(name, handler) };
                match effect {
                    Effect::None => report.ignored(&directive.at, name, effects::remark(name)),
                    Effect::Answers(how) => {
                        differs = true;
                        report.unsupported(&directive.at, name, how);
                    }
                    Effect::Closes => return Err(Stop::closed(why(directive))),
                }
            }
        }
        Ok(differs)
    }

    /// Whether a directive about the addresses in redirects leaves them as the gateway sends them: a path alone, which leads to the
    /// address that was asked.
    fn leaves_paths(&self, directive: &Directive) -> bool {
        match (directive.name.as_str(), directive.argument(0)) {
            ("absolute_redirect", _) | ("port_in_redirect", "on") | ("server_name_in_redirect", "off") => {
                true
            }
            ("port_in_redirect" | "server_name_in_redirect", _) => self.redirects_are_paths(),
            _ => false,
        }
    }

    fn redirects_are_paths(&self) -> bool {
        let mut all = self.blocks.iter().flat_map(|(_, block)| block.iter());
        all.find(|one| one.name == "absolute_redirect").is_some_and(|one| one.argument(0) == "off")
    }

    /// Says once what holds for redirects to a path.
    pub(crate) fn redirects_to_path(&self, report: &mut Report) {
        if !self.redirects_are_paths() {
            report.differs_always(
                "redirects",
                "Location is a path where nginx puts the address that was asked before it, for want of `absolute_redirect off`",
            );
        }
    }

    /// Whether what an outer block says of this name counts here.
    fn reaches(&self, depth: usize, name: &str) -> bool {
        let inner = self.blocks.get(..depth).unwrap_or_default();
        inner.iter().all(|(kind, _)| *kind == Kind::Unnamed) || !is_own(name)
    }
}

fn why(directive: &Directive) -> String {
    match (directive.name.as_str(), directive.arguments.get(1)) {
        ("include", Some(fault)) => {
            format!(
                "`include {}` of line {} cannot be read: {fault}",
                directive.argument(0),
                directive.at.line
            )
        }
        (name, _) => {
            let remedy = match name {
                "ssl_client_certificate" | "ssl_verify_client" | "ssl_trusted_certificate" | "ssl_crl" => {
                    ": an `ssls` object with `client.ca` asks for certificates of clients"
                }
                _ => "",
            };
            format!("`{}` of line {} is not converted{remedy}", short(&directive.title()), directive.at.line)
        }
    }
}

pub(super) fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > 60 || line.len() < text.len() {
        return format!("{}…", line.chars().take(60).collect::<String>());
    }
    line.to_owned()
}

fn effect(name: &str, handler: Handler) -> Effect {
    let quiet = match handler {
        Handler::Proxy => effects::is_of_files(name) || effects::is_quiet_in_proxies(name),
        Handler::Files => effects::is_of_proxies(name),
        Handler::Answer => effects::is_of_proxies(name) || effects::is_of_files(name),
    };
    if quiet || name == "proxy_cache_path" { Effect::None } else { effects::of(name) }
}

/// What other modules here look at, or what has no influence on the block that it stands in.
fn is_structure(kind: Kind, name: &str) -> bool {
    const EVERYWHERE: [&str; 1] = ["location"];
    const OF_SERVERS: [&str; 5] = ["server_name", "listen", "ssl", "ssl_certificate", "ssl_certificate_key"];
    const OF_HTTP: [&str; 8] = [
        "server",
        "upstream",
        "map",
        "geo",
        "limit_req_zone",
        "limit_conn_zone",
        "split_clients",
        "limit_zone",
    ];
    EVERYWHERE.contains(&name)
        || (matches!(kind, Kind::Server | Kind::Http)
            && (OF_SERVERS.contains(&name) || name == "ssl_protocols"))
        || (kind == Kind::Http && OF_HTTP.contains(&name))
}

/// What counts in its own block only: handlers, and the steps of the rewrite phase.
fn is_own(name: &str) -> bool {
    const OWN: [&str; 13] = [
        "return",
        "rewrite",
        "if",
        "set",
        "break",
        "try_files",
        "proxy_pass",
        "fastcgi_pass",
        "uwsgi_pass",
        "scgi_pass",
        "grpc_pass",
        "memcached_pass",
        "stub_status",
    ];
    OWN.contains(&name) || name.starts_with("content_by_lua")
}

fn is_unconverted_handler(name: &str) -> bool {
    const HANDLERS: [&str; 5] = ["fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass", "stub_status"];
    HANDLERS.contains(&name) || name.starts_with("content_by_lua")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::parse::parse;

    #[test]
    fn what_nobody_asked_for_closes() {
        let server = parse("root /srv; deny all; return 404;", None).expect("a block");
        let location = parse("proxy_pass http://a; sendfile on;", None).expect("a block");
        let chain = Chain::new(&[(Kind::Location, &location), (Kind::Server, &server)]);
        let mut report = Report::default();
        chain.own_one("proxy_pass");
        assert!(chain.check(Handler::Proxy, &mut report).is_err(), "deny is inherited");
        chain.any_of(&["allow", "deny"]);
        assert_eq!(chain.check(Handler::Proxy, &mut report), Ok(false), "the server's return is its own");
    }

    #[test]
    fn inner_blocks_count_first() {
        let server = parse("add_header A 1; add_header B 2;", None).expect("a block");
        let location = parse("add_header C 3;", None).expect("a block");
        let chain = Chain::new(&[(Kind::Location, &location), (Kind::Server, &server)]);
        assert_eq!(chain.all("add_header").len(), 1);
        let unnamed = parse("set $a b;", None).expect("a block");
        assert!(chain.inner(Kind::Unnamed, &unnamed).own("add_header").len() == 1);
    }
}
