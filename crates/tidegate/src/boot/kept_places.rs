//! Where objects stand in the file that they come from, read once for all messages about one revision.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::Kind;
use tidegate_store::{ObjectPlaces, Store};

pub(super) struct KeptPlaces {
    store: Arc<dyn Store>,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    revision: u64,
    /// `None`: the objects come from no file.
    places: Option<ObjectPlaces>,
}

impl KeptPlaces {
    pub(super) fn of(store: Arc<dyn Store>) -> KeptPlaces {
        KeptPlaces { store, kept: Mutex::default() }
    }

    /// The beginning of a message about an object: `FILE:LINE:COLUMN: `.
    pub(super) fn prefix(&self, kind: Kind, id: &str, message: &str) -> String {
        let mut revision = 0;
        self.store.read(&mut |state| revision = state.revision);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.revision != revision) {
            *kept = Some(Kept { revision, places: self.store.places() });
        }
        let places = kept.as_ref().and_then(|kept| kept.places.as_ref());
        places.map(|places| places(kind, id, message)).unwrap_or_default()
    }

    /// Gives the memory of the file back.
    pub(super) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
