//! What all places of a configuration share.

use std::collections::BTreeMap;

use super::{limits::Zones, parse::Directive};
use crate::input::Files;

pub(crate) struct Context<'a> {
    pub(super) groups: BTreeMap<&'a str, &'a Directive>,
    pub(super) zones: Zones,
    pub(super) files: &'a dyn Files,
}
