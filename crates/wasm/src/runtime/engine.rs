//! The engine that compiles modules, and the clock by which callbacks are interrupted. Both begin with the first plugin.

use std::{sync::OnceLock, thread, time::Duration};

use wasmtime::{Config, Engine};

/// So often a running callback looks at its time.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// Of the worker's stack, which is four times as large at least.
const STACK_BYTES: usize = 512 << 10;

/// The engine of the process.
pub(super) fn engine() -> Result<&'static Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    ENGINE.get_or_init(start).as_ref().map_err(String::clone)
}

fn start() -> Result<Engine, String> {
    let mut config = Config::new();
    config.epoch_interruption(true).max_wasm_stack(STACK_BYTES).wasm_memory64(false).wasm_multi_memory(false);
    let engine = Engine::new(&config).map_err(|error| format!("WebAssembly cannot run here: {error:#}"))?;
    let ticking = engine.clone();
    let clock = thread::Builder::new().name("wasm-clock".to_owned()).stack_size(64 << 10);
    let started = clock.spawn(move || {
        loop {
            thread::sleep(TICK);
            ticking.increment_epoch();
        }
    });
    started.map(|_| engine).map_err(|error| format!("the clock of WebAssembly does not start: {error}"))
}
