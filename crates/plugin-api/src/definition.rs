//! What declarations of plugins are made of: phases, and what `build` gets.

use std::{any::Any, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_model::Kind;

use crate::UpstreamHandle;

/// The phases a plugin takes part in, as APISIX names them. A bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases(pub u16);

impl Phases {
    /// Takes part in none, as a plugin of metadata alone.
    pub const NONE: Phases = Phases(0);
    /// Takes part in each.
    pub const ALL: Phases = Phases(511);
    /// After matching; authentication belongs here.
    pub const REWRITE: Phases = Phases(1);
    /// After all plugins' `rewrite`, with the consumer known.
    pub const ACCESS: Phases = Phases(2);
    /// Before each attempt to reach a node.
    pub const BEFORE_PROXY: Phases = Phases(4);
    /// With the answer's head, before it is sent.
    pub const HEADER_FILTER: Phases = Phases(8);
    /// With each piece of the answer's body.
    pub const BODY_FILTER: Phases = Phases(16);
    /// After the answer.
    pub const LOG: Phases = Phases(32);
    /// Counts only beside `ACCESS`. APISIX has no such phase: see [`crate::Plugin::stored`].
    pub const STORED: Phases = Phases(64);
    /// APISIX has no such phase: see [`crate::Plugin::received`].
    pub const RECEIVED: Phases = Phases(128);
    /// APISIX has no such phase: see [`crate::Plugin::departing`].
    pub const DEPARTING: Phases = Phases(256);
    /// How many phases there are.
    pub(crate) const COUNT: usize = 9;

    /// Each phase, in the order of its bit.
    pub(crate) fn each() -> impl Iterator<Item = Phases> {
        (0..Self::COUNT).map(|number| Phases(1 << number))
    }

    /// The number of a single phase; of other sets none.
    pub(crate) const fn number(self) -> Option<usize> {
        match self.0.is_power_of_two() {
            true => Some(self.0.trailing_zeros() as usize),
            false => None,
        }
    }

    /// Both sets together.
    pub const fn and(self, other: Phases) -> Phases {
        Phases(self.0 | other.0)
    }

    /// Whether all of `other` are in it.
    pub const fn contains(self, other: Phases) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a reason of `build` begins where the configuration passed its schema but does not fit: a number out of range.
pub const MISFIT: &str = "invalid configuration";

/// Reads a configuration that has passed its schema.
pub fn typed<T: DeserializeOwned>(conf: &Value) -> Result<T, String> {
    tidegate_model::typed(conf).map_err(|reason| format!("{MISFIT}: {reason}"))
}

/// Whose configuration an instance is built from.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Of the object that has the plugin.
    pub kind: Kind,
    /// Of the object that has the plugin.
    pub id: Arc<str>,
    /// The revision that wrote the owner: limits start over when it changes, as in APISIX.
    pub version: u64,
}

/// The inputs of `build` besides the configuration itself.
pub struct BuildContext<'a> {
    /// The object that has the plugin.
    pub owner: &'a Owner,
    /// The plugin's `plugin_metadata`, defaults filled in.
    pub metadata: Option<&'a Value>,
    /// The upstreams that [`crate::PluginDef::inline_upstreams`] found, ready for use and in its order.
    pub upstreams: &'a [Arc<UpstreamHandle>],
    /// The text of the `protos` resource that `proto_id` names.
    pub proto: Option<&'a str>,
}

/// A consumer's (or credential's) authentication data: the key it is found by, and its typed form.
pub struct ConsumerKey {
    /// Unique among the consumers of a plugin.
    pub key: String,
    /// Found again by [`crate::AuthEntry::data`].
    pub data: Box<dyn Any + Send + Sync>,
}
