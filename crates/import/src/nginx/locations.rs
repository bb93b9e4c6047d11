//! The locations of a server in one list, nested ones too, with what decides between them.
//!
//! nginx looks for an exact location, else the longest prefix, on each level, and continues inside of what it found;
//! then for the first regular expression, from the innermost level out, past levels where the prefix has `^~`.

use super::{
    chain::{Chain, Kind},
    made::{Made, Stop},
    parse::Directive,
    patterns,
    places::{LocationMatch, Untaken, place, taker},
};

pub(crate) struct Location<'a> {
    pub(crate) directive: &'a Directive,
    pub place: LocationMatch,
    pub chain: Chain<'a>,
    /// The prefixes that it is nested in, outermost first.
    pub inside: Vec<usize>,
    /// Why it cannot be reached, or distinguished from others.
    pub fault: Option<String>,
}

impl Location<'_> {
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.place, LocationMatch::Named(_))
    }

    fn prefix(&self) -> Option<&str> {
        match &self.place {
            LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. } => Some(path),
            _ => None,
        }
    }
}

pub(crate) struct Locations<'a> {
    pub all: Vec<Location<'a>>,
    /// Blocks that no place can be made of.
    pub unknown: Vec<&'a Directive>,
}

impl<'a> Locations<'a> {
    pub(crate) fn of(server: &'a Directive, http: &Chain<'a>) -> Self {
        let mut locations = Locations { all: Vec::new(), unknown: Vec::new() };
        let chain = http.inner(Kind::Server, &server.block);
        locations.collect(&server.block, &chain, &[]);
        locations.mark_hidden();
        locations
    }

    fn collect(&mut self, block: &'a [Directive], outer: &Chain<'a>, inside: &[usize]) {
        for directive in block.iter().filter(|directive| directive.name == "location") {
            let Some(place) = place(directive) else {
                self.unknown.push(directive);
                continue;
            };
            let (place, is_empty) = of_all_paths(place);
            if is_empty && block.iter().any(is_root) {
                // The longer one takes all paths.
                continue;
            }
            let mut chain = outer.inner(Kind::Location, &directive.block);
            if let LocationMatch::Exact(path) = &place {
                chain = chain.with_path(path);
            }
            let (place, unknown) = known(place);
            let holds = directive.one("location").is_some();
            let is_prefix = matches!(place, LocationMatch::Prefix { .. });
            let fault = match (holds, is_prefix) {
                (true, false) => Some("it holds locations, and is not a prefix".to_owned()),
                _ if is_empty => Some("its path is empty".to_owned()),
                _ if uri_is_pattern(&place) => Some("its path has a star".to_owned()),
                _ => unknown,
            };
            let index = self.all.len();
            self.all.push(Location {
                directive,
                place,
                chain: chain.clone(),
                inside: inside.to_vec(),
                fault,
            });
            if holds && is_prefix {
                let mut deeper = inside.to_vec();
                deeper.push(index);
                self.collect(&directive.block, &chain, &deeper);
            }
        }
    }

    /// A nested location does not count where a longer prefix beside the one around it takes the path first.
    fn mark_hidden(&mut self) {
        let hidden: Vec<usize> = (0..self.all.len()).filter(|index| self.is_hidden(*index)).collect();
        for index in hidden {
            if let Some(location) = self.all.get_mut(index) {
                location.fault = Some("a longer prefix outside takes its paths".to_owned());
            }
        }
    }

    fn is_hidden(&self, index: usize) -> bool {
        let Some(location) = self.all.get(index) else { return false };
        let Some(path) = location.prefix() else { return false };
        location.inside.iter().enumerate().any(|(depth, around)| {
            let Some(around) = self.all.get(*around).and_then(Location::prefix) else { return false };
            self.all.iter().any(|other| {
                let beside =
                    other.inside.get(..depth) == location.inside.get(..depth) && other.inside.len() == depth;
                beside
                    && other
                        .prefix()
                        .is_some_and(|other| other.len() > around.len() && path.starts_with(other))
            })
        })
    }

    /// A location of the same path inside of it takes all that comes.
    pub(crate) fn is_covered(&self, index: usize) -> bool {
        let Some(Location { place: LocationMatch::Prefix { path, .. }, .. }) = self.all.get(index) else {
            return false;
        };
        self.all.iter().any(|inner| {
            let is_same = matches!(&inner.place, LocationMatch::Prefix { path: own, .. } if own == path);
            is_same && inner.inside.last() == Some(&index)
        })
    }

    /// Whether a location of this path stands where `location` does, so that nginx finds it.
    pub(crate) fn has_beside(&self, location: &Location, path: &str) -> bool {
        self.all.iter().any(|other| match &other.place {
            LocationMatch::Exact(own) => own == path && location.inside.starts_with(&other.inside),
            LocationMatch::Prefix { path: own, .. } => own == path && other.inside == location.inside,
            LocationMatch::Regex(_) | LocationMatch::Named(_) => false,
        })
    }

    /// The indices of regular expressions, the first to be tried first.
    pub(crate) fn regexes(&self) -> Vec<usize> {
        let is_regex = |index: &usize| {
            self.all.get(*index).is_some_and(|location| matches!(location.place, LocationMatch::Regex(_)))
        };
        let mut found: Vec<usize> = (0..self.all.len()).filter(is_regex).collect();
        found.sort_by_key(|index| {
            std::cmp::Reverse(self.all.get(*index).map_or(0, |location| location.inside.len()))
        });
        found
    }

    /// Whether a location keeps the regular expressions beside it from its paths.
    pub(crate) fn ends(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|one| matches!(one.place, LocationMatch::Prefix { ends: true, .. }))
    }

    /// The prefixes below whose paths a regular expression is tried; none where `^~` takes them all.
    pub(crate) fn tried_below(&self, regex: &Location) -> Vec<String> {
        let depth = regex.inside.len();
        let around = regex.inside.last().and_then(|index| self.all.get(*index)).and_then(Location::prefix);
        let around = around.unwrap_or("/");
        // A prefix of the same path has all paths of the level, and decides for them.
        let is_ended = self.all.iter().any(|one| {
            let ends = matches!(&one.place, LocationMatch::Prefix { path, ends: true } if path == around);
            ends && one.inside == regex.inside
        });
        let mut uris = if is_ended { Vec::new() } else { vec![format!("{around}*")] };
        for (index, location) in self.all.iter().enumerate() {
            let LocationMatch::Prefix { .. } = location.place else { continue };
            if location.inside.get(..depth) != Some(regex.inside.as_slice()) || location.fault.is_some() {
                continue;
            }
            // The one on the level of the expression decides.
            let deciding = location.inside.get(depth).copied().unwrap_or(index);
            if !self.ends(deciding) {
                uris.push(super::places::uri(&location.place));
            }
        }
        uris.sort();
        uris.dedup();
        uris
    }

    /// The location that a redirect within the server goes to. The error says why that cannot be determined, or that it
    /// is closed.
    pub(crate) fn found(&self, literal: &str, whole: bool) -> Made<(usize, &Location<'a>)> {
        let index = self.taker(literal, whole).map_err(|why| self.unknown(literal, why))?;
        let location = self.all.get(index).ok_or_else(|| self.unknown(literal, Untaken::ByNone))?;
        match &location.fault {
            None => Ok((index, location)),
            Some(why) => Err(Stop::closed(format!(
                "`{}`, which takes `{literal}`, is closed: {why}",
                location.directive.title()
            ))),
        }
    }

    fn unknown(&self, literal: &str, why: Untaken) -> Stop {
        let named = |index: usize| {
            let directive = self.all.get(index).map(|location| location.directive);
            directive.map_or_else(String::new, |one| format!("`{}` of line {}", one.title(), one.at.line))
        };
        let cause = match why {
            Untaken::ByNone => "no location is for it".to_owned(),
            Untaken::InPart(index) => format!("{} may take a part of such paths", named(index)),
            Untaken::Unreadable(index) => format!("the expression of {} cannot be read", named(index)),
        };
        Stop::closed(format!("which location takes `{literal}` is unknown: {cause}"))
    }

    fn taker(&self, literal: &str, whole: bool) -> Result<usize, Untaken> {
        if literal.starts_with('@') {
            let is_it = |location: &Location| location.place == LocationMatch::Named(literal.to_owned());
            return self.all.iter().position(is_it).ok_or(Untaken::ByNone);
        }
        let is_special = |location: &Location| !location.inside.is_empty() || location.fault.is_some();
        let has_special = self.all.iter().any(is_special);
        if whole && has_special {
            let taker = self.nested_taker(literal, &[]).map_err(Untaken::Unreadable)?;
            return taker.ok_or(Untaken::ByNone);
        }
        let meets = |location: &Location| self.may_have_below(location, literal);
        let in_part = |location: &Location| is_special(location) && meets(location);
        if let Some(special) = self.all.iter().position(in_part) {
            return Err(Untaken::InPart(special));
        }
        if has_special {
            // The others are elsewhere.
            let outer = |location: &&Location| location.inside.is_empty();
            let numbers =
                (0..self.all.len()).filter(|number| self.all.get(*number).as_ref().is_some_and(outer));
            let numbers: Vec<usize> = numbers.collect();
            let places: Vec<&LocationMatch> =
                numbers.iter().filter_map(|number| Some(&self.all.get(*number)?.place)).collect();
            let number = |index: usize| numbers.get(index).copied().unwrap_or_default();
            return taker(&places, literal, whole).map(number).map_err(|why| match why {
                Untaken::ByNone => Untaken::ByNone,
                Untaken::InPart(index) => Untaken::InPart(number(index)),
                Untaken::Unreadable(index) => Untaken::Unreadable(number(index)),
            });
        }
        let places: Vec<&LocationMatch> = self.all.iter().map(|location| &location.place).collect();
        taker(&places, literal, whole)
    }
}

impl Locations<'_> {
    /// Whether a path that begins with `literal` may come to the location around this one.
    fn may_have_below(&self, location: &Location, literal: &str) -> bool {
        let outer = location.inside.first().and_then(|outer| self.all.get(*outer)).unwrap_or(location);
        match &outer.place {
            LocationMatch::Exact(path) => path.starts_with(literal),
            LocationMatch::Prefix { path, .. } => {
                path.starts_with(literal) || literal.starts_with(path.as_str())
            }
            LocationMatch::Regex(_) => true,
            LocationMatch::Named(_) => false,
        }
    }

    /// The location of a path on this level or inside of it; the error is one whose expression cannot be read.
    pub(crate) fn nested_taker(&self, path: &str, inside: &[usize]) -> Result<Option<usize>, usize> {
        let level = || self.all.iter().enumerate().filter(|(_, location)| location.inside == inside);
        let mut best: Option<(usize, &str, bool)> = None;
        for (index, location) in level() {
            match &location.place {
                LocationMatch::Exact(own) if own == path => return Ok(Some(index)),
                LocationMatch::Prefix { path: own, ends }
                    if path.starts_with(own.as_str())
                        && best.is_none_or(|(_, longest, _)| own.len() > longest.len()) =>
                {
                    best = Some((index, own, *ends));
                }
                _ => {}
            }
        }
        let inner = match best {
            Some((index, ..)) => {
                let deeper: Vec<usize> = inside.iter().copied().chain([index]).collect();
                self.nested_taker(path, &deeper)?
            }
            None => None,
        };
        let is_regex = |index: usize| {
            self.all.get(index).is_some_and(|location| {
                matches!(location.place, LocationMatch::Regex(_) | LocationMatch::Exact(_))
            })
        };
        if inner.is_some_and(is_regex) || best.is_some_and(|(_, _, ends)| ends) {
            return Ok(inner.or(best.map(|(index, ..)| index)));
        }
        for (index, location) in level() {
            if let LocationMatch::Regex(pattern) = &location.place
                && patterns::takes(pattern, path).ok_or(index)?
            {
                return Ok(Some(index));
            }
        }
        Ok(inner.or(best.map(|(index, ..)| index)))
    }
}

/// An empty prefix takes the paths that a slash does.
fn of_all_paths(place: LocationMatch) -> (LocationMatch, bool) {
    match place {
        LocationMatch::Prefix { path, ends } if path.is_empty() => {
            (LocationMatch::Prefix { path: "/".to_owned(), ends }, true)
        }
        place => (place, false),
    }
}

fn is_root(directive: &Directive) -> bool {
    directive.name == "location"
        && matches!(place(directive), Some(LocationMatch::Prefix { path, .. }) if path == "/")
}

/// An expression that is not known takes all paths that come so far: nginx might give them to it.
fn known(place: LocationMatch) -> (LocationMatch, Option<String>) {
    match &place {
        LocationMatch::Regex(pattern) => match patterns::known(pattern) {
            Ok(()) => (place, None),
            Err(why) => (LocationMatch::Regex(String::new()), Some(why)),
        },
        _ => (place, None),
    }
}

/// Our paths end with a star, nginx's may hold one.
fn uri_is_pattern(place: &LocationMatch) -> bool {
    matches!(place, LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. } if path.contains('*'))
}

/// The path that nginx sends on to that of a location: `/a` to `/a/` where only the latter is one, and proxies.
pub(super) fn bare<'l>(locations: &Locations, location: &'l Location) -> Option<&'l str> {
    let (LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. }) = &location.place else {
        return None;
    };
    let bare = path.strip_suffix('/').filter(|bare| !bare.is_empty())?;
    let proxies = ["proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"];
    let hands_on = location.directive.block.iter().any(|inner| proxies.contains(&inner.name.as_str()));
    (hands_on && location.fault.is_none() && !locations.has_beside(location, bare)).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::parse::parse;

    #[test]
    fn nested_locations_and_their_order() {
        let text = "server {
          location /a/ { location /a/b/c/ { } location ~ x$ { } location ^~ /a/z/ { } }
          location /a/b/ { }
          location ~ y$ { }
        }";
        let all = parse(text, None).expect("a server");
        let locations = Locations::of(&all[0], &Chain::new(&[]));
        let titles: Vec<String> = locations.all.iter().map(|one| one.directive.title()).collect();
        assert_eq!(titles[1], "location /a/b/c/");
        assert!(locations.all[1].fault.is_some(), "/a/b/ takes its paths");
        let regexes = locations.regexes();
        assert_eq!(titles[regexes[0]], "location ~ x$", "the inner one first");
        assert_eq!(locations.tried_below(&locations.all[regexes[0]]), ["/a/*"]);
        assert_eq!(locations.tried_below(&locations.all[regexes[1]]), ["/*", "/a/*", "/a/b/*", "/a/z/*"]);
    }
}
