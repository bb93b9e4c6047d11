//! Gives each request an id in a header, upstream and, if wanted, back to the client.

use std::{
    cell::OnceCell,
    rc::Rc,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use smallvec::SmallVec;
use tidegate_model::header_text::Text;
use tidegate_model::random::random_below;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step};
use tidegate_protocol::FieldName;

use crate::common::{
    conf::{self, typed},
    uuid::{self, random_u128},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "request-id",
    version: 0.1,
    priority: 12015,
    guards: false,
    schema: include_str!("request_id.json"),
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER),
    headers: &[("header_name", Text::Name)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct RequestId {
    #[serde(deserialize_with = "shared")]
    header_name: Arc<FieldName>,
    include_in_response: bool,
    algorithm: Algorithm,
    range_id: RangeId,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Algorithm {
    Uuid,
    Nanoid,
    RangeId,
    Ksuid,
    #[serde(rename = "uuidv7")]
    UuidV7,
}

#[derive(Deserialize)]
struct RangeId {
    length: usize,
    char_set: String,
}

/// Ids longer than this are cut: the header must fit a head.
const MAX_LENGTH: usize = 4096;

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<FieldName>, D::Error> {
    conf::field_name(deserializer).map(Arc::new)
}

/// The id of this request under a header's name, for the response.
struct Given(SmallVec<[(Arc<FieldName>, Id); 1]>);

enum Id {
    Made(Rc<str>),
    OfClient(Box<[u8]>),
}

impl Id {
    fn bytes(&self) -> &[u8] {
        match self {
            Id::Made(text) => text.as_bytes(),
            Id::OfClient(bytes) => bytes,
        }
    }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<RequestId>(conf)?))
}

impl Plugin for RequestId {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let (id, text) = match request.head.headers.get_named(&self.header_name).filter(|id| !id.is_empty()) {
            Some(id) => (Id::OfClient(id.into()), String::from_utf8_lossy(id).into()),
            None => {
                let id = self.new_id();
                request.assert_named(&self.header_name, [id.as_bytes()]);
                (Id::Made(id.clone()), id)
            }
        };
        request.id = OnceCell::from(text);
        if self.include_in_response {
            let given = request.extensions.get_or_insert_with(|| Given(SmallVec::new()));
            given.0.push((self.header_name.clone(), id));
        }
        Step::Next
    }

    fn header_filter(&self, request: &mut Request) {
        if !self.include_in_response
            || request.response.headers.get_named(&self.header_name).is_some_and(|id| !id.is_empty())
        {
            return;
        }
        let given = request.extensions.get::<Given>();
        let is_own = |(name, _): &&(Arc<FieldName>, Id)| name.text() == self.header_name.text();
        let id = given.and_then(|given| given.0.iter().rfind(is_own));
        if let Some((_, id)) = id {
            let bytes = id.bytes();
            request.response.headers.set_named(&self.header_name, |out| out.extend_from_slice(bytes));
        }
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::Continues
    }
}

impl RequestId {
    fn new_id(&self) -> Rc<str> {
        match self.algorithm {
            Algorithm::Uuid => uuid::v4().as_str().into(),
            Algorithm::UuidV7 => uuid::v7(since_epoch()).as_str().into(),
            Algorithm::Nanoid => pick(NANOID, 21).into(),
            Algorithm::RangeId => {
                // Bytes, as in APISIX: a character beyond ASCII in the set would be torn apart, so it is left out.
                let set: Vec<u8> = self.range_id.char_set.bytes().filter(u8::is_ascii).collect();
                pick(&set, self.range_id.length.min(MAX_LENGTH)).into()
            }
            Algorithm::Ksuid => {
                let seconds = since_epoch().as_secs().saturating_sub(KSUID_EPOCH_SECONDS) as u32;
                ksuid(seconds, random_u128()).into()
            }
        }
    }
}

const NANOID: &[u8] = b"-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

const KSUID_EPOCH_SECONDS: u64 = 1_400_000_000;

fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn pick(set: &[u8], length: usize) -> String {
    let one = |_| {
        let index = random_below(set.len());
        char::from(set.get(index).copied().unwrap_or(b'0'))
    };
    (0..length).map(one).collect()
}

/// 20 bytes (time and randomness) as 27 digits of base 62.
fn ksuid(seconds: u32, random: u128) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut number =
        [seconds, (random >> 96) as u32, (random >> 64) as u32, (random >> 32) as u32, random as u32];
    let mut text = [b'0'; 27];
    for digit in text.iter_mut().rev() {
        let mut remainder = 0u64;
        for limb in &mut number {
            let value = remainder << 32 | u64::from(*limb);
            *limb = (value / 62) as u32;
            remainder = value % 62;
        }
        *digit = DIGITS.get(remainder as usize).copied().unwrap_or(b'0');
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_ids() {
        assert_eq!(ksuid(0, 0), "000000000000000000000000000");
        // The largest KSUID, from its specification.
        assert_eq!(ksuid(u32::MAX, u128::MAX), "aWgEPTl1tmebfsQzFP4bxwgy80V");
        assert_eq!(pick(NANOID, 21).len(), 21);
    }
}
