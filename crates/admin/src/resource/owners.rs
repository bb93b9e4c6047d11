//! Consumers and services at a revision of the past: a credential or decoration of then is where its owner was then.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use tidegate_model::{Kind, Object};
use tidegate_store::{
    State,
    history::{HistoryError, Past, Point},
};

use super::{
    asking,
    transaction::{ATTEMPTS, busy},
};
use crate::{AdminApi, message::Response};

/// The default has none.
#[derive(Default)]
pub(super) struct Owners {
    state: State,
    /// What was different then; `None`: it was not there.
    then: HashMap<(Kind, Arc<str>), Option<Arc<Value>>>,
}

impl Owners {
    /// Consumers and services as they were. What the history does not lead back to has no owner.
    pub(super) async fn at(api: &AdminApi, point: Point) -> Result<Owners, Response> {
        for _ in 0..ATTEMPTS {
            let wanted = point.clone();
            let past = match asking::ask_raw(api, move |past| past.past(&wanted)).await? {
                Ok(past) => past,
                Err(error @ HistoryError::Store(_)) => return Err(asking::failed(&error)),
                Err(_) => return Ok(Owners::default()),
            };
            let mut visible = api.store.watch();
            let _ =
                tokio::time::timeout(asking::VISIBLE_PATIENCE, visible.wait_for(|at| *at >= past.base)).await;
            let mut state = State::default();
            api.store.read(&mut |current| state = current.clone());
            if state.revision == past.base {
                return Ok(Owners::of(&past, state));
            }
        }
        Err(busy())
    }

    /// `state` is the one that `past` leads back from.
    pub(super) fn of(past: &Past, state: State) -> Owners {
        let owners = past.objects.iter().filter(|(kind, ..)| matches!(kind, Kind::Consumer | Kind::Service));
        let then = owners.map(|(kind, id, version)| {
            ((*kind, id.clone()), version.as_ref().map(|version| version.value.clone()))
        });
        Owners { state, then: then.collect() }
    }

    pub(super) fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>> {
        match self.then.get(&(kind, Arc::from(id))) {
            Some(then) => then.clone(),
            None => self.state.get(kind, id).map(Object::value),
        }
    }
}
