//! What a route has beside its chain.

use std::sync::Arc;

use aws_lc_rs::digest;
use serde_json::Value;
use smallvec::SmallVec;
use tidegate_model::{Document, Object};

use crate::UpstreamHandle;

/// The pattern of the route that matched, and the values of its parameters.
#[derive(Default)]
pub struct Matched {
    /// `uri` or the entry of `uris`, as configured.
    pub uri: Box<str>,
    /// `host` or the entry of `hosts`; empty for a route of any host.
    pub host: Box<str>,
    /// Of `radixtree_uri_with_parameter`: names and raw values.
    pub parameters: SmallVec<[(Box<str>, Box<[u8]>); 0]>,
}

/// Where a route sends requests.
#[derive(Clone)]
pub enum RouteUpstream {
    /// None configured: a plugin must answer, else 503.
    None,
    /// `upstream_id` names nothing.
    Missing,
    /// Inline, by `upstream_id`, or the service's.
    Some(Arc<UpstreamHandle>),
}

/// The service that a route names.
pub struct RouteService {
    /// `$service_id`
    pub id: Arc<str>,
    /// `$service_name`
    pub name: Option<Arc<str>>,
    /// As configured; `None`: the service does not exist.
    pub document: Option<Document>,
    /// Of the service.
    pub birth: Option<Birth>,
}

/// Distinguishes an object from those that had its id before, also after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth([u8; 16]);

impl Birth {
    /// `counted`: the store gives each revision once. Elsewhere the time of creation is not known, and one with another
    /// document counts as another object.
    pub fn of(object: &Object, counted: bool) -> Birth {
        let mut digest = digest::Context::new(&digest::SHA256);
        if counted {
            digest.update(&object.created.to_le_bytes());
            // A store that was started afresh counts from the beginning.
            let value = object.value();
            let time = value.get("create_time").map(Value::to_string).unwrap_or_default();
            digest.update(time.as_bytes());
        } else {
            digest.update(object.document.text().as_bytes());
        }
        let (mut birth, digest) = ([0; 16], digest.finish());
        birth.iter_mut().zip(digest.as_ref()).for_each(|(byte, digested)| *byte = *digested);
        Birth(birth)
    }

    /// A digest, for keys of caches.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// `apisix.delete_uri_tail_slash` and its neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouterOptions {
    /// `/a/` is matched as `/a`.
    pub delete_uri_tail_slash: bool,
    /// Drops path parameters and resolves dots as servlet containers do:
    /// <https://apisix.apache.org/docs/apisix/router-radixtree/>.
    pub normalize_uri_like_servlet: bool,
    /// The path is matched as it came, so that `%2F` is not a slash.
    pub match_uri_encoded_slash: bool,
    /// `apisix.router.http` is `radixtree_uri_with_parameter`.
    pub uri_parameters: bool,
}
