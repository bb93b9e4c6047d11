//! Compresses responses with gzip for clients that take it.

use std::{io::Write, sync::Arc};

use flate2::{Compression, write::GzEncoder};
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BodyChunk, BuildContext, Phases, Plugin, PluginDef, Request};

use crate::common::{
    compression::{self, Eligible, memory::Lease},
    conf::typed,
    instance_state,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "gzip",
    version: 0.1,
    priority: 995,
    guards: false,
    schema: include_str!("gzip.json"),
    phases: Phases::HEADER_FILTER.and(Phases::BODY_FILTER),
    remarks: compression::remarks,
    build,
    ..PluginDef::DEFAULT
};

/// Bytes compressed at once. At level 9, some 25 MB/s of text, that is two thirds of a millisecond.
const STEP: usize = 16 << 10;

/// What a compressor holds: its window, its tables, and what it gathers.
const CONTEXT_BYTES: usize = 448 << 10;

#[derive(Deserialize)]
struct Conf {
    comp_level: u32,
    #[serde(flatten)]
    common: compression::Conf,
}

struct Gzip {
    level: u32,
    eligible: Eligible,
}

struct Stream {
    /// `None` once the stream is finished.
    encoder: Option<(GzEncoder<Vec<u8>>, Lease)>,
    /// The length was not known, or `proxy-buffering` says so: pieces may be far apart and must not wait for more.
    flush: bool,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    // `buffers` is nginx's memory layout; nothing here corresponds to it.
    Ok(Arc::new(Gzip { level: conf.comp_level, eligible: Eligible::new(&conf.common) }))
}

impl Plugin for Gzip {
    fn header_filter(&self, request: &mut Request) {
        // nginx's conditions: a few statuses, and no request that came through another proxy.
        let takes = matches!(request.response.status, 200 | 403 | 404)
            && !request.head.headers.contains("Via")
            && compression::client_accepts(request, "gzip", false)
            && self.eligible.accepts(request);
        if !takes {
            return;
        }
        let flush = request.edits.unbuffered_answer
            || request.response.headers.known(tidegate_protocol::HeaderId::ContentLength).is_none();
        let Some(lease) = Lease::new(CONTEXT_BYTES) else { return };
        self.eligible.announce(request, "gzip");
        request.response.limit_body_step(STEP);
        let encoder = GzEncoder::new(Vec::new(), Compression::new(self.level));
        instance_state::set(request, self, Stream { encoder: Some((encoder, lease)), flush });
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        let Some(stream) = instance_state::get_mut::<_, Stream>(request, self) else { return };
        let Some((encoder, _)) = &mut stream.encoder else { return };
        let piece = std::mem::take(&mut chunk.data);
        // Writing to memory cannot fail.
        let _ = encoder.write_all(&piece);
        if chunk.last {
            let _ = encoder.try_finish();
        } else if stream.flush && !piece.is_empty() {
            let _ = encoder.flush();
        }
        chunk.data = std::mem::take(encoder.get_mut());
        if chunk.last {
            stream.encoder = None;
        }
    }
}
