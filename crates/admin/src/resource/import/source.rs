//! `source=NAME`: an import of another gateway's file, which may come again.
//!
//! What an import writes has two labels, its source and a digest of the rest. What was changed since differs from its digest, and
//! is overwritten only when that is asked for: a guard may have been put on it by hand. So is what no import of this source
//! wrote. What an earlier import wrote and the file does not have is refused too, since it may answer requests without the new
//! guards. Kinds without labels, and what was deleted, are in the history; where there is none, a difference counts as a
//! change by hand.

mod identity;
mod keeping;
mod marks;
mod outlook;
mod past;
mod place;
mod refusal;
mod renames;

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use tidegate_model::{Kind, Object};
use tidegate_store::State;

use self::{
    identity::identities,
    marks::{DIGEST, SOURCE, Seal, bare, is_labelled, label, marked},
    outlook::{Changed, Coming, Key, Outlook, named},
    place::Place,
};
use super::plan::{Items, overwritten, removed};
use crate::{
    AdminApi,
    at_length::at_length,
    message::{Request, Response},
    resource::{checks::is_readable, transaction::Wanted},
};

const LONGEST_NAME: usize = 32;

/// What becomes of what was changed since the last import, and of what that wrote and this one does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Earlier {
    Refuse,
    Replace,
    Keep,
}

/// An import that names where its file is from.
pub(super) struct Source {
    name: String,
    earlier: Earlier,
}

impl Source {
    /// `None`: the import is one of this gateway's own form.
    pub(super) fn of(request: &Request) -> Result<Option<Source>, Response> {
        let refuse = |message: &str| Err(Response::error(400, message));
        let earlier = match request.argument("earlier").as_deref() {
            None | Some("refuse") => Earlier::Refuse,
            Some("replace") => Earlier::Replace,
            Some("keep") => Earlier::Keep,
            Some(_) => return refuse("invalid argument earlier: should be refuse, replace or keep"),
        };
        let Some(name) = request.argument("source") else {
            return match request.argument("earlier") {
                Some(_) => refuse("argument earlier needs source"),
                None => Ok(None),
            };
        };
        let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(good) {
            return refuse("invalid argument source: should be 1 to 32 of a-z, 0-9 and -");
        }
        Ok(Some(Source { name, earlier }))
    }

    /// As the history shows it, and as [`past`] finds it there again.
    pub(super) fn history_note(&self) -> String {
        format!("import of {}", self.name)
    }

    /// What to write, and what is kept although the file differs.
    pub(super) async fn plan(
        &self,
        api: &AdminApi,
        state: &State,
        items: &Items,
    ) -> Result<(Vec<Wanted>, Kept), Response> {
        let catalog = api.plugins();
        let seal = Seal { keyring: api.settings.keyring.as_deref(), catalog: catalog.as_ref() };
        let mut outlook = at_length(|| self.compare(&seal, state, items));
        let missing = outlook.missing.clone();
        past::complete(api, &self.name, &self.history_note(), &mut outlook).await?;
        let renamed = at_length(|| renames::take(&seal, state, items, &missing, &mut outlook));
        for (kind, id) in &renamed {
            outlook.wanted.extend(removed(state, items, *kind, id));
        }
        let kept = match self.earlier {
            Earlier::Refuse if outlook.changed.is_empty() && outlook.left.is_empty() => Kept::default(),
            Earlier::Refuse => {
                let Outlook { changed, left, touched, .. } = &outlook;
                return Err(refusal::refuse(&self.name, changed, left, touched));
            }
            Earlier::Replace => {
                for (kind, id) in &outlook.left {
                    outlook.wanted.extend(removed(state, items, *kind, id));
                }
                Kept::default()
            }
            Earlier::Keep => at_length(|| self.keep(&seal, state, items, &mut outlook))?,
        };
        let mut wanted = outlook.wanted;
        wanted.sort_by(|left, right| (left.kind, &left.id).cmp(&(right.kind, &right.id)));
        Ok((wanted, kept))
    }

    /// Leaves what was changed and what the file does not have, where that opens nothing.
    fn keep(
        &self,
        seal: &Seal<'_>,
        state: &State,
        items: &Items,
        outlook: &mut Outlook,
    ) -> Result<Kept, Response> {
        let (mut rewritten, mut refused) = (Vec::new(), Vec::new());
        for changed in &outlook.changed {
            match keeping::kept(seal, &self.name, state, items, changed) {
                Ok(None) => {}
                Ok(Some(value)) => rewritten.push(keeping::rewritten(&changed.key, value)),
                Err(why) => refused.push((changed.key.clone(), why)),
            }
        }
        let stay: HashSet<&Key> = outlook.changed.iter().map(|changed| &changed.key).collect();
        outlook.wanted.retain(|wanted| !stay.contains(&(wanted.kind, wanted.id.clone())));
        outlook.wanted.extend(rewritten);
        refused.extend(keeping::beside(&outlook.left, &outlook.touched, state, &outlook.wanted));
        if !refused.is_empty() {
            return Err(refusal::cannot_keep(&self.name, &refused));
        }
        Ok(Kept {
            changed: outlook.changed.iter().map(|changed| named(&changed.key)).collect(),
            left: outlook.left.iter().map(named).collect(),
        })
    }

    fn compare(&self, seal: &Seal<'_>, state: &State, items: &Items) -> Outlook {
        let mut outlook = Outlook::default();
        for ((kind, id), value) in items {
            let key = (*kind, id.clone());
            let value = marked(seal, &key, &self.name, value);
            let current = state.get(*kind, id);
            match current {
                None => outlook.missing.push(key.clone()),
                Some(object) => match self.standing(seal, object, &value) {
                    Standing::Ours => {}
                    Standing::Doubtful => outlook.doubtful.push(key.clone()),
                    Standing::Changed(why) => outlook.changed.push(Changed::new(key.clone(), why)),
                    Standing::Unlabelled(why) => {
                        outlook.changed.push(Changed::new(key.clone(), why));
                        outlook.unlabelled.push(key.clone());
                    }
                },
            }
            if let Some(value) = overwritten(*kind, &value, current) {
                let (kind, id) = key;
                outlook.wanted.push(Wanted {
                    kind,
                    id,
                    value: Some(Arc::new(value)),
                    ttl_seconds: None,
                    sealed: None,
                });
            }
        }
        let coming = Coming::of(items, &outlook.missing);
        for object in state.all() {
            let key = (object.kind, object.id.clone());
            if items.contains_key(&key) || object.kind == Kind::GraphqlCostDecoration {
                continue;
            }
            if !is_labelled(object.kind) {
                outlook.others.push(key);
            } else if label(&object.value(), SOURCE) == Some(self.name.as_str()) {
                let value = object.value();
                let is_its = |digest: &str| seal.digests(&key, &value).iter().any(|own| own == digest);
                if label(&value, DIGEST).is_some_and(|digest| !is_its(digest)) {
                    outlook.touched.insert(key.clone());
                }
                outlook.left.push(key);
            } else if coming.has_place_of(object.kind, &object.value()) {
                outlook.others.push(key);
            }
        }
        outlook.coming = coming.without_present(state, &self.name);
        outlook.changed.sort_by(|left, right| left.key.cmp(&right.key));
        // What a person has changed is named first.
        let touched = &outlook.touched;
        outlook
            .left
            .sort_by(|one, other| (!touched.contains(one), one).cmp(&(!touched.contains(other), other)));
        outlook
    }

    /// Whether the import may write this value over the object.
    fn standing(&self, seal: &Seal<'_>, object: &Object, wanted: &Value) -> Standing {
        let current = object.value();
        if !is_readable(object) {
            return Standing::Changed("it cannot be read");
        }
        if bare(object.kind, &current) == bare(object.kind, wanted) {
            return Standing::Ours;
        }
        if !is_labelled(object.kind) {
            return Standing::Doubtful;
        }
        match (label(&current, SOURCE), label(&current, DIGEST)) {
            (Some(source), Some(digest)) if source == self.name => {
                let key = (object.kind, object.id.clone());
                let same = seal.digests(&key, &current).iter().any(|own| own == digest);
                if !same {
                    Standing::Changed("changed since the last import")
                } else if seal.secrets_are_covered() || seal.secrets_are_equal(&key, &current, wanted) {
                    Standing::Ours
                } else {
                    Standing::Changed(
                        "its secrets differ, and without own keys in data_encryption.keyring nothing shows whether they were changed by hand",
                    )
                }
            }
            (Some(source), None) if source == self.name => {
                Standing::Unlabelled("imported before changes were recorded")
            }
            _ => Standing::Unlabelled("not written by an earlier import"),
        }
    }
}

/// The names of what stays although the file differs.
#[derive(Default)]
pub(super) struct Kept {
    /// Changed by hand.
    pub changed: Vec<String>,
    /// Not in the file.
    pub left: Vec<String>,
}

impl Coming {
    fn of(items: &Items, missing: &[Key]) -> Coming {
        let mut coming = Coming::default();
        for ((kind, id), value) in items {
            let own = identities(*kind, value).into_iter();
            coming.identities.extend(own.map(|identity| (identity, (*kind, id.clone()))));
        }
        for key in missing {
            let place = items.get(key).and_then(|value| Place::of(key.0, value));
            if let Some(place) = place {
                coming.places.entry(place).or_default().push(key.clone());
            }
        }
        coming
    }

    fn has_place_of(&self, kind: Kind, value: &Value) -> bool {
        !self.places.is_empty()
            && Place::of(kind, value).is_some_and(|place| self.places.contains_key(&place))
    }

    /// Without what is there now.
    fn without_present(mut self, state: &State, source: &str) -> Coming {
        for object in state.all() {
            let asks = match object.kind {
                Kind::Consumer | Kind::Credential => !self.identities.is_empty(),
                Kind::Route | Kind::StreamRoute => !self.places.is_empty(),
                _ => false,
            };
            if !asks {
                continue;
            }
            let value = object.value();
            for identity in identities(object.kind, &value) {
                self.identities.remove(&identity);
            }
            let place = Place::of(object.kind, &value).filter(|_| label(&value, SOURCE) == Some(source));
            place.iter().for_each(|place| _ = self.places.remove(place));
        }
        self
    }
}

enum Standing {
    Ours,
    Doubtful,
    Changed(&'static str),
    /// Changed, and no label tells what an import wrote.
    Unlabelled(&'static str),
}
