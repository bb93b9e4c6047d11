//! Searches for patterns that may begin with `^`.

use crate::lua::pattern::{Fault, Found, Matcher};

/// What looks for the pattern, and whether it does so in one place only.
pub(super) fn matcher<'a>(subject: &'a [u8], pattern: &'a [u8]) -> (Matcher<'a>, bool) {
    let anchored = pattern.first() == Some(&b'^');
    (Matcher::new(subject, &pattern[usize::from(anchored)..]), anchored)
}

pub(super) fn first(matcher: &mut Matcher<'_>, anchored: bool, from: usize) -> Result<Option<Found>, Fault> {
    if !anchored {
        return matcher.search(from);
    }
    matcher.at(from).map(|end| end.map(|end| Found { start: from, end }))
}
