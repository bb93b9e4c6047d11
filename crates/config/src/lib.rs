//! config.yaml: how the process itself is set up.
//!
//! `load` reads it into `Settings`; `keys` is the table all checks, defaults and conf/config.yaml come from.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod admin_door;
mod admin_key;
pub mod bounded;
mod check;
pub mod environment;
pub mod keys;
mod legacy;
mod load;
mod merge;
mod places;
mod ports;
pub mod reference;
mod rules;
pub mod settings;
pub mod yaml;

pub use admin_key::random_key;
pub use load::{LoadError, Loaded, Source, load, load_with, standing_warnings};
pub use places::Places;
pub use rules::{PUBLISHED_KEYS, believes_all};
pub use settings::{Listener, Provider, Role, Settings};
pub use tidegate_model::schema::is_secret_reference;
pub use tidegate_model::units;
