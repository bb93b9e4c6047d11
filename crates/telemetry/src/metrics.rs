//! Metric shards: counters, gauges and histograms that cost a worker one hash lookup per request.
//!
//! ```text
//! worker 1: Shard --- block ---+                      (cells: atomics only this worker writes)
//! worker 2: Shard --- block ---+--> Registry::render  (control thread: relaxed loads, sums, text)
//! ```
//!
//! A [`Group`] declares series that are always touched together, such as everything one finished request
//! adds to. All of them live in one [`Block`], found with one lookup. Blocks whose labels differ only in
//! ways a family does not show (a latency histogram has no status code) are summed when rendered.
//!
//! APISIX keeps metrics in one shared zone behind one lock and renders on a request worker; a scrape of many
//! series then stalls traffic (apisix#5604, #7211, #7353). This design exists so that cannot happen.

mod block;
mod budget;
mod form;
mod group;
mod http;
mod registry;
mod series;
mod shard;
mod taken;
mod text;

pub use block::{Block, Labels};
pub use form::{Form, Format};
pub use group::Group;
pub use http::{ExtraLabels, HTTP_FAMILIES, HttpMetrics, HttpSample, label_position};
pub use registry::Registry;
pub use shard::Shard;
pub use taken::{HTTP_LATENCY_BUCKETS_MS, TakenRequests};
pub use text::{Kind, TextWriter};
