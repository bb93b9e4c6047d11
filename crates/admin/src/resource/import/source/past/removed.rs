//! What was taken away by hand, and would be there again under another name.

use tidegate_model::Kind;
use tidegate_store::history::{Difference, Entry, HistoryError, Query, Version};

use super::{
    super::{
        identity::identities,
        marks::{SOURCE, label},
        outlook::{Changed, Coming, Key, Was, named},
        place::Place,
    },
    Asked, by_whom,
};

const ENTRIES_AT_ONCE: usize = 500;

impl Asked<'_> {
    /// Of all that comes, what the newest change of it by hand took away.
    pub(super) fn removed(&self, mut coming: Coming) -> Result<Vec<Changed>, HistoryError> {
        let mut removed = Vec::new();
        let mut skip = 0;
        loop {
            let page =
                self.history.entries(&Query { object: None, since: 0, skip, take: ENTRIES_AT_ONCE })?;
            for entry in page.entries.iter().filter(|entry| !self.is_import(entry) && may_remove(entry)) {
                let mut routes = Vec::new();
                self.differences(entry, &mut |difference| {
                    removed.extend(revoked(&difference, entry, &mut coming));
                    routes.extend(deleted_route(&difference, &coming, self.source));
                    true
                })?;
                for (place, gone, is_labelled) in routes {
                    if is_labelled || self.was_imported(&gone)? {
                        let keys = coming.places.remove(&place).unwrap_or_default();
                        removed.extend(keys.into_iter().map(|key| reopened(key, &gone, entry)));
                    }
                }
            }
            let is_last = page.entries.len() < ENTRIES_AT_ONCE;
            if is_last || (coming.identities.is_empty() && coming.places.is_empty()) {
                return Ok(removed);
            }
            skip += ENTRIES_AT_ONCE;
        }
    }
}

/// By the objects that the entry itself names; of one that names some only, anything may be.
fn may_remove(entry: &Entry) -> bool {
    let is_asked_about =
        |kind: &Kind| matches!(kind, Kind::Consumer | Kind::Credential | Kind::Route | Kind::StreamRoute);
    entry.changes > entry.first.len() as u64 || entry.first.iter().any(|(kind, ..)| is_asked_about(kind))
}

/// A key that the object had, and has no more.
fn revoked(difference: &Difference, entry: &Entry, coming: &mut Coming) -> Vec<Changed> {
    let of = |version: &Option<Version>| {
        version.as_ref().map(|version| identities(difference.kind, &version.value)).unwrap_or_default()
    };
    let after = of(&difference.after);
    let gone = of(&difference.before).into_iter().filter(|identity| !after.contains(identity));
    gone.filter_map(|identity| {
        let key = coming.identities.remove(&identity)?;
        let plugin = identity.split('\n').next().unwrap_or_default();
        let from = named(&(difference.kind, difference.id.clone()));
        let why = format!("the {plugin} that it has was taken from {from} since");
        Some(Changed { by: Some(by_whom(entry)), was: Was::Renamed, ..Changed::new(key, &why) })
    })
    .collect()
}

/// A route that was deleted and whose place one that comes has; and whether its label says that an import wrote it.
fn deleted_route(difference: &Difference, coming: &Coming, source: &str) -> Option<(Place, Key, bool)> {
    let before = difference.before.as_ref().filter(|_| difference.after.is_none())?;
    let place = Place::of(difference.kind, &before.value)?;
    if !coming.places.contains_key(&place) {
        return None;
    }
    let is_labelled = label(&before.value, SOURCE) == Some(source);
    Some((place, (difference.kind, difference.id.clone()), is_labelled))
}

fn reopened(key: Key, gone: &Key, entry: &Entry) -> Changed {
    let why = format!("it takes the requests of {}, which was deleted since", named(gone));
    Changed { by: Some(by_whom(entry)), was: Was::Renamed, ..Changed::new(key, &why) }
}
