//! Compresses responses with Brotli for clients that take it.

use std::{io::Write, sync::Arc};

use ::brotli::{
    CompressorWriter,
    enc::{BrotliEncoderParams, backward_references::BrotliEncoderMode},
};
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BodyChunk, BuildContext, Phases, Plugin, PluginDef, Request};

use crate::common::{
    compression::{self, Eligible, memory::Lease},
    conf::typed,
    instance_state,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "brotli",
    version: 0.1,
    priority: 996,
    on_by_default: false,
    guards: false,
    schema: include_str!("brotli.json"),
    phases: Phases::HEADER_FILTER.and(Phases::BODY_FILTER),
    remarks: compression::remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    mode: u8,
    comp_level: i32,
    lgwin: i32,
    lgblock: i32,
    #[serde(flatten)]
    common: compression::Conf,
}

struct Brotli {
    parameters: BrotliEncoderParams,
    eligible: Eligible,
    /// What one compressor holds.
    bytes: usize,
}

/// Bytes compressed at once, so that others wait about a millisecond at most: 1.5 at level 11. Each piece is flushed,
/// which costs text 1 % of its size at 16 KiB, 5 % at 4 KiB, 15 % at 1 KiB.
fn step(level: i32) -> usize {
    match level {
        ..=8 => 16 << 10,
        9 => 4 << 10,
        10 => 2 << 10,
        _ => 1 << 10,
    }
}

/// What a compressor holds at most, by how the library chooses the sizes of its ring buffer, its commands and its tables.
fn context_bytes(parameters: &BrotliEncoderParams) -> usize {
    let window = parameters.lgwin.clamp(10, 24);
    let block = match (parameters.quality, parameters.lgblock) {
        (..=1, _) => window,
        (2..=3, _) => 14,
        (_, chosen @ 1..) => chosen.clamp(16, 24),
        (9.., _) => window.clamp(16, 18),
        _ => 16,
    };
    let ring = (2 << window.max(block)) + (1 << block);
    let commands = 16 << block;
    let tables = match parameters.quality {
        ..=1 => 1 << 18,
        2..=3 => 1 << 19,
        4 => 1 << 21,
        5 => 1 << 20,
        6 => 1 << 21,
        7 => 1 << 23,
        8 => 1 << 24,
        9 => 1 << 25,
        _ => (1 << 19) + (8 << window),
    };
    ring + commands + tables
}

/// `None` once the stream is finished.
struct Stream(Option<(CompressorWriter<Vec<u8>>, Lease)>);

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let mut parameters = BrotliEncoderParams {
        mode: match conf.mode {
            1 => BrotliEncoderMode::BROTLI_MODE_TEXT,
            2 => BrotliEncoderMode::BROTLI_MODE_FONT,
            _ => BrotliEncoderMode::BROTLI_MODE_GENERIC,
        },
        quality: conf.comp_level,
        lgblock: conf.lgblock,
        ..BrotliEncoderParams::default()
    };
    // 0 leaves the window to the library.
    if conf.lgwin > 0 {
        parameters.lgwin = conf.lgwin;
    }
    let bytes = context_bytes(&parameters);
    Ok(Arc::new(Brotli { parameters, bytes, eligible: Eligible::new(&conf.common) }))
}

impl Plugin for Brotli {
    fn header_filter(&self, request: &mut Request) {
        if !compression::client_accepts(request, "br", true) || !self.eligible.accepts(request) {
            return;
        }
        let Some(lease) = Lease::new(self.bytes) else { return };
        self.eligible.announce(request, "br");
        request.response.limit_body_step(step(self.parameters.quality));
        let writer = CompressorWriter::with_params(Vec::new(), 4096, &self.parameters);
        instance_state::set(request, self, Stream(Some((writer, lease))));
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        let Some(stream) = instance_state::get_mut::<_, Stream>(request, self) else { return };
        let Some((writer, _)) = &mut stream.0 else { return };
        let piece = std::mem::take(&mut chunk.data);
        // Writing to memory cannot fail.
        let _ = writer.write_all(&piece);
        if chunk.last {
            chunk.data = stream.0.take().map(|(writer, _)| writer.into_inner()).unwrap_or_default();
            return;
        }
        if !piece.is_empty() {
            let _ = writer.flush();
        }
        chunk.data = std::mem::take(writer.get_mut());
    }
}
