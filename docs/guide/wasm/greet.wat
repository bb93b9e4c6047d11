;; A plugin in WebAssembly: puts its configuration into the response header x-greeting.
;; greet.wasm is made of it: wat2wasm greet.wat
(module
  (import "env" "proxy_get_buffer_bytes"
    (func $get_buffer (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_replace_header_map_value"
    (func $set_header (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "x-greeting")
  (global $free (mut i32) (i32.const 1024))

  (func (export "proxy_abi_version_0_2_1"))

  ;; The gateway puts here what it hands over. One thing is needed at a time.
  (func (export "proxy_on_memory_allocate") (param $size i32) (result i32)
    (if (i32.gt_u (local.get $size) (i32.const 60000)) (then unreachable))
    (global.get $free))

  (func (export "proxy_on_response_headers")
    (param $context i32) (param $count i32) (param $end i32) (result i32)
    ;; 7: the plugin's configuration, whose place and length go to 0 and 4.
    (if (call $get_buffer (i32.const 7) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 4))
      (then unreachable))
    ;; 2: the headers of the response.
    (if (call $set_header (i32.const 2) (i32.const 16) (i32.const 10)
          (i32.load (i32.const 0)) (i32.load (i32.const 4)))
      (then unreachable))
    ;; Goes on.
    (i32.const 0)))
