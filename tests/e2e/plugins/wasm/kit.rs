//! A gateway with modules in WebAssembly, and modules written as text.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};
use tidegate_testkit::{
    Gateway, Message, Upstream,
    gateway::{EMBEDDED, YAML_PROVIDER},
};

/// What a module imports.
const IMPORTS: &str = r#"
(import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
(import "env" "proxy_get_property" (func $property (param i32 i32 i32 i32) (result i32)))
(import "env" "proxy_set_property" (func $set_property (param i32 i32 i32 i32) (result i32)))
(import "env" "proxy_get_buffer_bytes" (func $buffer (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_set_buffer_bytes" (func $set_buffer (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_get_header_map_value" (func $header (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_replace_header_map_value" (func $set_header (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_add_header_map_value" (func $add_header (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_remove_header_map_value" (func $remove_header (param i32 i32 i32) (result i32)))
(import "env" "proxy_get_header_map_pairs" (func $pairs (param i32 i32 i32) (result i32)))
(import "env" "proxy_set_header_map_pairs" (func $set_pairs (param i32 i32 i32) (result i32)))
(import "env" "proxy_send_local_response" (func $reply (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_continue_stream" (func $continue (param i32) (result i32)))
(import "env" "proxy_close_stream" (func $close (param i32) (result i32)))
(import "env" "proxy_set_effective_context" (func $effective (param i32) (result i32)))
(import "env" "proxy_set_tick_period_milliseconds" (func $tick (param i32) (result i32)))
(import "env" "proxy_http_call" (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_get_shared_data" (func $get_shared (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_set_shared_data" (func $set_shared (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_register_shared_queue" (func $register (param i32 i32 i32) (result i32)))
(import "env" "proxy_resolve_shared_queue" (func $resolve (param i32 i32 i32 i32 i32) (result i32)))
(import "env" "proxy_enqueue_shared_queue" (func $enqueue (param i32 i32 i32) (result i32)))
(import "env" "proxy_dequeue_shared_queue" (func $dequeue (param i32 i32 i32) (result i32)))
(import "env" "proxy_define_metric" (func $define (param i32 i32 i32 i32) (result i32)))
(import "env" "proxy_increment_metric" (func $increment (param i32 i64) (result i32)))
(import "env" "proxy_record_metric" (func $record (param i32 i64) (result i32)))
(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
"#;

/// Memory is given from the third page on, and from there again once the pages end. What functions return goes to 0 (where) and 4 (how
/// long), numbers to 8.
const ALLOCATOR: &str = r#"
(memory (export "memory") 32)
(global $free (mut i32) (i32.const 131072))
(func (export "proxy_on_memory_allocate") (param $size i32) (result i32) (local $at i32)
  (if (i32.gt_u (i32.add (global.get $free) (local.get $size)) (i32.const 2097152))
    (then (global.set $free (i32.const 131072))))
  (local.set $at (global.get $free))
  (global.set $free (i32.and (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 7)) (i32.const -8)))
  (local.get $at))
(func $at (result i32) (i32.load (i32.const 0)))
(func $size (result i32) (i32.load (i32.const 4)))
(func $number (result i32) (i32.load (i32.const 8)))
(func $fail_unless (param i32) (if (i32.eqz (local.get 0)) (then unreachable)))
(func $ok (param i32) (if (local.get 0) (then unreachable)))
"#;

/// Texts begin here.
const TEXTS: usize = 1024;

#[derive(Default)]
pub(super) struct Module {
    texts: Vec<u8>,
    functions: String,
    version: Option<&'static str>,
}

impl Module {
    /// Its place and length, as two arguments.
    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) -> String {
        let text = text.as_ref();
        let at = TEXTS + self.texts.len();
        self.texts.extend_from_slice(text);
        format!("(i32.const {at}) (i32.const {})", text.len())
    }

    /// Fields as the interface has them.
    pub(super) fn fields(&mut self, fields: &[(&str, &str)]) -> String {
        let mut bytes = (fields.len() as u32).to_le_bytes().to_vec();
        for (name, value) in fields {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
        }
        for (name, value) in fields {
            bytes.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        self.text(bytes)
    }

    /// A callback of `count` numbers, `$0` and so on; all but `answer` is what it does.
    pub(super) fn on(mut self, name: &str, count: usize, answer: Option<u32>, body: &str) -> Self {
        let parameters = "i32 ".repeat(count);
        let (result, answer) = match answer {
            Some(answer) => ("(result i32)", format!("(i32.const {answer})")),
            None => ("", String::new()),
        };
        writeln!(self.functions, "(func (export \"{name}\") (param {parameters}) {result} {body} {answer})")
            .expect("a text");
        self
    }

    /// Other parts of the module, as they are.
    pub(super) fn with(mut self, part: &str) -> Self {
        self.functions.push_str(part);
        self
    }

    pub(super) fn speaking(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }

    pub(super) fn build(self) -> Vec<u8> {
        let data: String = self.texts.iter().map(|byte| format!("\\{byte:02x}")).collect();
        let version = self.version.unwrap_or("proxy_abi_version_0_2_1");
        let text = format!(
            "(module {IMPORTS} {ALLOCATOR} (func (export \"{version}\")) (data (i32.const {TEXTS}) \"{data}\") {})",
            self.functions
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

pub(super) struct Fixture {
    pub(super) gateway: Gateway,
    pub(super) upstream: Upstream,
    pub(super) folder: tempfile::TempDir,
}

/// config.yaml with these plugins; priorities fall. `more` is of each of them.
fn config(base: &str, folder: &Path, plugins: &[&str], more: &str, section: &str) -> String {
    let list: String = (0..)
        .zip(plugins)
        .map(|(at, name)| {
            let file = folder.join(format!("{name}.wasm"));
            format!("  - {{name: {name}, priority: {}, file: {}{more}}}\n", 1500 - at, file.display())
        })
        .collect();
    format!("{base}wasm:\n{section}  plugins:\n{list}")
}

impl Fixture {
    /// Each plugin has a route `/NAME` with the configuration `NAME`.
    pub(super) fn start(modules: Vec<(&str, Vec<u8>)>, more: &str) -> Fixture {
        Fixture::start_with(modules, more, "", Upstream::service(|_| (200, "hello".to_owned())))
    }

    pub(super) fn start_with(
        modules: Vec<(&str, Vec<u8>)>,
        more: &str,
        section: &str,
        upstream: Upstream,
    ) -> Fixture {
        let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
        let mut routes = vec![json!({"id": "plain", "uri": "/plain", "upstream": node})];
        routes.extend(modules.iter().map(|(name, _)| {
            let plugins = json!({*name: {"conf": name}});
            json!({"id": name, "uri": format!("/{name}*"), "plugins": plugins, "upstream": node})
        }));
        let objects = json!({"routes": routes});
        let (folder, names) = files(&modules);
        let config = config(YAML_PROVIDER, folder.path(), &names, more, section);
        let gateway = Gateway::start(&config, Some(&objects.to_string()));
        Fixture { gateway, upstream, folder }
    }

    /// With the Admin API and without routes.
    pub(super) fn with_admin(modules: Vec<(&str, Vec<u8>)>, more: &str) -> Fixture {
        let (folder, names) = files(&modules);
        let config = config(EMBEDDED, folder.path(), &names, more, "");
        let upstream = Upstream::service(|_| (200, "hello".to_owned()));
        Fixture { gateway: Gateway::start(&config, None), upstream, folder }
    }

    pub(super) fn write(&self, name: &str, module: &[u8]) {
        fs::write(self.folder.path().join(format!("{name}.wasm")), module).expect("a file");
    }

    pub(super) fn node(&self) -> Value {
        json!({"type": "roundrobin", "nodes": {self.upstream.address.to_string(): 1}})
    }

    pub(super) fn get(&self, path: &str) -> Message {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"))
    }

    pub(super) fn send(&self, text: &str) -> Message {
        self.gateway.client().request(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}

fn files<'a>(modules: &[(&'a str, Vec<u8>)]) -> (tempfile::TempDir, Vec<&'a str>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, module) in modules {
        if !module.is_empty() {
            fs::write(folder.path().join(format!("{name}.wasm")), module).expect("a file");
        }
    }
    (folder, modules.iter().map(|(name, _)| *name).collect())
}
