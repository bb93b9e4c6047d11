//! Request bodies that are masked before a log shows them.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_plugin_api::{Request, RequestBody, aside};

/// Makes a body fit to be shown. `None`: nothing of it is.
pub(crate) type Mask = Arc<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// A long body: it is masked where it is shown, on another thread. Who asks the request for its body finds none.
struct Waiting {
    body: Bytes,
    masks: Vec<Mask>,
}

/// Replaces the request's body, which has gone to the upstream by then, with a masked one.
pub(crate) fn mask(request: &mut Request, mask: Mask) {
    if let Some(waiting) = request.extensions.get_mut::<Waiting>() {
        waiting.masks.push(mask);
        return;
    }
    let RequestBody::Collected(body) = &mut request.body else { return };
    let body = std::mem::take(body);
    request.body = RequestBody::Empty;
    if body.len() > aside::SMALL {
        request.extensions.insert(Waiting { body, masks: vec![mask] });
    } else if let Some(masked) = mask(&body) {
        request.body = RequestBody::Collected(masked.into());
    }
}

/// What of a request's body is shown: so much of it, masked.
#[derive(Clone)]
pub(crate) struct Shown {
    body: Bytes,
    masks: Vec<Mask>,
    most: usize,
}

impl Shown {
    /// `None`: no body was read.
    pub(crate) fn of(request: &Request, most: usize) -> Option<Shown> {
        if let Some(Waiting { body, masks }) = request.extensions.get::<Waiting>() {
            return Some(Shown { body: body.clone(), masks: masks.clone(), most });
        }
        let RequestBody::Collected(body) = &request.body else { return None };
        let body = body.slice(..body.len().min(most));
        (!body.is_empty()).then_some(Shown { body, masks: Vec::new(), most })
    }

    /// Whether a worker may make its text.
    pub(crate) fn is_short(&self) -> bool {
        self.masks.is_empty() && self.body.len() <= aside::SMALL
    }

    /// Bytes that are read for it.
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    /// Takes long, unless it is short.
    pub(crate) fn read(self) -> Option<Bytes> {
        let mut body = self.body;
        for mask in &self.masks {
            body = mask(&body)?.into();
        }
        body.truncate(self.most);
        Some(body)
    }
}

/// Whether the request has a body that is masked where it is shown.
pub(crate) fn waits(request: &Request) -> bool {
    request.extensions.get::<Waiting>().is_some()
}
