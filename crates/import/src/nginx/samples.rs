//! Requests that the locations of a file suggest, for asking nginx and the gateway alike.

use regex_syntax::hir::{Class, Hir, HirKind};
use tidegate_protocol::uri::encode_path;

use super::{listen::Names, locations::Locations, parse::Directive, patterns, places::LocationMatch};
use crate::imported::Sample;

/// Of one file.
const MAX_SAMPLES: usize = 5_000;

/// Of a server that routes lead to.
pub(super) fn of(server: &Directive, locations: &Locations, samples: &mut Vec<Sample>) {
    let names = Names::of(server);
    let host = match names.hosts.iter().find(|host| *host != "_") {
        Some(host) => host.replace("*.", "x."),
        None if names.patterns().next().is_none() => "localhost".to_owned(),
        // No name is known that the expression matches.
        None => return,
    };
    let mut add = |at: &crate::At, target: String| {
        let sample = Sample { at: at.clone(), host: host.clone(), target };
        if samples.len() < MAX_SAMPLES && !samples.contains(&sample) {
            samples.push(sample);
        }
    };
    add(&server.at, "/".to_owned());
    add(&server.at, "/no-such-path".to_owned());
    for location in &locations.all {
        let at = &location.directive.at;
        match &location.place {
            LocationMatch::Exact(path) => add(at, escaped(path)),
            LocationMatch::Prefix { path, .. } => {
                add(at, escaped(path));
                add(at, format!("{}x", escaped(path)));
                if let Some(bare) = path.strip_suffix('/').filter(|bare| !bare.is_empty()) {
                    add(at, escaped(bare));
                }
            }
            LocationMatch::Regex(pattern) => {
                if let Some(path) = matching(pattern) {
                    add(at, escaped(&path));
                }
            }
            LocationMatch::Named(_) => {}
        }
    }
}

/// As a request's target has it.
fn escaped(path: &str) -> String {
    let mut target = Vec::new();
    encode_path(path.as_bytes(), &mut target);
    String::from_utf8_lossy(&target).into_owned()
}

/// A path that an expression matches.
fn matching(pattern: &str) -> Option<String> {
    let regex = patterns::compile(pattern)?;
    let hir = regex_syntax::parse(regex.as_str()).ok()?;
    let mut text = String::new();
    write(&hir, &mut text)?;
    let path = if text.starts_with('/') { text } else { format!("/x{text}") };
    regex.is_match(&path).then_some(path)
}

fn write(hir: &Hir, text: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => {
            let has =
                |wanted: char| class.iter().any(|range| (range.start()..=range.end()).contains(&wanted));
            let usual = ['x', 'X', '1', '/', '.', '-'];
            text.push(
                usual.into_iter().find(|one| has(*one)).or_else(|| Some(class.iter().next()?.start()))?,
            );
        }
        HirKind::Class(Class::Bytes(_)) => return None,
        HirKind::Repetition(repetition) => {
            let often = repetition.min.max(u32::from(repetition.max != Some(0))).min(64);
            (0..often).try_for_each(|_| write(&repetition.sub, text))?;
        }
        HirKind::Capture(capture) => write(&capture.sub, text)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, text))?,
        HirKind::Alternation(ways) => write(ways.first()?, text)?,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_suggest_a_path() {
        for (pattern, wanted) in [
            (r"\.php$", "/x.php"),
            (r"^/api/v\d+/", "/api/v1/"),
            (r"(?i)\.(gif|jpe?g)$", "/x.gif"),
            (r"^/(a|b)/[^/]+$", "/a/x"),
        ] {
            assert_eq!(
                matching(pattern).map(|path| path.to_lowercase()).as_deref(),
                Some(wanted),
                "{pattern}"
            );
        }
        assert_eq!(matching("^/(?!x)"), None);
        assert_eq!(escaped("/a b?"), "/a%20b%3F");
    }
}
