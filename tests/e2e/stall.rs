//! The stall watch: a plugin that keeps its worker busy is counted and named.

use std::time::Instant;

use testkit::gateway::{Gateway, YAML_PROVIDER};
use testkit::{Client, PATIENCE};

const BUSY: &str = r##"routes:
  - id: busy
    uri: /busy
    plugins:
      serverless-pre-function:
        phase: access
        functions:
          - "return function() local t = os.clock() while os.clock() - t < 0.03 do end ngx.exit(204) end"
  - {id: quick, uri: /quick, plugins: {mocking: {response_status: 204, response_example: x}}}
#END
"##;

fn page(gateway: &Gateway) -> String {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text()
}

/// Of all workers together.
fn count(page: &str, name: &str) -> f64 {
    let lines =
        page.lines().filter(|line| line.starts_with(name) && line.as_bytes().get(name.len()) == Some(&b'{'));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

#[test]
fn a_plugin_that_computes_is_named() {
    let gateway = Gateway::start(YAML_PROVIDER, Some(BUSY));
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("h", "/busy").expect("an answer").status(), 204);
        assert_eq!(client.get("h", "/quick").expect("an answer").status(), 204);
    }
    // The page is rendered anew each second or so.
    let started = Instant::now();
    let page = loop {
        let page = page(&gateway);
        if count(&page, "apisix_worker_stall_seconds_count") >= 3.0 {
            break page;
        }
        assert!(started.elapsed() < PATIENCE, "three stalls are counted: {page}");
        std::thread::yield_now();
    };
    let total = count(&page, "apisix_worker_stall_seconds_sum");
    assert!(total >= 0.09, "30 ms three times: {total}");
    let log = gateway.error_log();
    let line = log.lines().find(|line| line.contains("access serverless-pre-function"));
    let line = line.unwrap_or_else(|| panic!("the plugin is named: {log}"));
    assert!(line.contains("was held up for") && line.contains("without a processor"), "{line}");
}
