//! `source=NAME`: an import of another gateway's file, which may come again.
//!
//! What an import writes has two labels, its source and a digest of the rest. What was changed since differs from its digest, and
//! is overwritten only when that is asked for: a guard may have been put on it by hand. So is what no import of this source
//! wrote. What an earlier import wrote and the file does not have is refused too, since it may answer requests without the new
//! guards. Kinds without labels, and what was deleted, are in the history; where there is none, a difference counts as a
//! change by hand.

mod marks;
mod outlook;
mod past;
mod refusal;

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;
use tidegate_model::{Kind, Object};
use tidegate_store::State;

use self::{
    marks::{DIGEST, SOURCE, Seal, bare, is_labelled, label, marked},
    outlook::{Changed, Key, Outlook, named},
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

    /// What to write, and the names of what is kept although the file differs.
    pub(super) async fn plan(
        &self,
        api: &AdminApi,
        state: &State,
        items: &Items,
    ) -> Result<(Vec<Wanted>, Vec<String>), Response> {
        let catalog = api.plugins();
        let seal = Seal { keyring: api.settings.keyring.as_deref(), catalog: catalog.as_ref() };
        let mut outlook = at_length(|| self.compare(&seal, state, items));
        past::complete(api, &self.history_note(), &mut outlook).await?;
        let Outlook { mut wanted, changed, left, touched, .. } = outlook;
        let mut kept = Vec::new();
        match self.earlier {
            Earlier::Refuse if changed.is_empty() && left.is_empty() => {}
            Earlier::Refuse => return Err(refusal::refuse(&self.name, &changed, &left, &touched)),
            Earlier::Replace => {
                for (kind, id) in &left {
                    wanted.extend(removed(state, items, *kind, id));
                }
            }
            Earlier::Keep => {
                let stay: HashSet<&Key> = changed.iter().map(|changed| &changed.key).collect();
                wanted.retain(|wanted| !stay.contains(&(wanted.kind, wanted.id.clone())));
                kept.extend(changed.iter().map(|changed| named(&changed.key)));
            }
        }
        wanted.sort_by(|left, right| (left.kind, &left.id).cmp(&(right.kind, &right.id)));
        Ok((wanted, kept))
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
                    Standing::Changed(why) => {
                        outlook.changed.push(Changed::new(key.clone(), why));
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
            }
        }
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
                Standing::Changed("imported before changes were recorded")
            }
            _ => Standing::Changed("not written by an earlier import"),
        }
    }
}

enum Standing {
    Ours,
    Doubtful,
    Changed(&'static str),
}
