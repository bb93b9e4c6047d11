//! Plugins that remake the answers of the gateway itself, before anything else sees them.

use std::{rc::Rc, sync::Arc};

use crate::{Reply, Request};

/// Remakes an answer that the gateway or one of its plugins makes, and that no upstream gave.
pub trait Remaker: Send + Sync {
    /// Gets the answer that is about to be sent, and returns the one that is.
    fn remake(&self, request: &mut Request, reply: Reply) -> Reply;
}

/// In the order in which they were added.
struct Remakers(Rc<Vec<Arc<dyn Remaker>>>);

impl Request {
    /// An answer that the gateway makes from now on is remade.
    pub fn remake_with(&mut self, remaker: Arc<dyn Remaker>) {
        let Remakers(all) = self.extensions.get_or_insert_with(|| Remakers(Rc::default()));
        Rc::make_mut(all).push(remaker);
    }

    /// The answer as those that were added remake it.
    pub fn remade(&mut self, reply: Reply) -> Reply {
        let Some(Remakers(all)) = self.extensions.get::<Remakers>() else { return reply };
        let all = all.clone();
        all.iter().fold(reply, |reply, remaker| remaker.remake(self, reply))
    }
}
