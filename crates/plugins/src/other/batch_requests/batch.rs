//! What a client asks for: the body of its request.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_plugin_api::document::Allowance;

#[derive(Deserialize)]
pub(super) struct Batch {
    pub query: Option<Map<String, Value>>,
    pub headers: Option<Map<String, Value>>,
    /// Milliseconds that one step of one request (connect, send, receive) may take.
    pub timeout: u64,
    pub pipeline: Vec<Item>,
    /// `headers`, ready to be sent.
    #[serde(skip)]
    pub common: Vec<(String, Vec<u8>)>,
    /// The memory that the batch takes.
    #[serde(skip)]
    pub held: Option<Allowance>,
}

#[derive(Deserialize)]
pub(super) struct Item {
    pub version: f64,
    pub method: String,
    pub path: String,
    pub query: Option<Map<String, Value>>,
    pub headers: Option<Map<String, Value>>,
    pub body: Option<String>,
}
