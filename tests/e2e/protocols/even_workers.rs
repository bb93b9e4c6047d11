//! Connections are spread evenly over the workers, however the kernel's hash has them, and stay so when workers drain.

use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Client, Gateway, eventually};

const ROUTE: &str = r#"{"uri":"/a","plugins":{"mocking":{"response_example":"x"}}}"#;

/// Open connections of each worker.
fn open(gateway: &Gateway) -> Vec<usize> {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("h", "/apisix/prometheus/metrics").expect("a page").body_text();
    let lines = page.lines().filter(|line| line.starts_with("apisix_worker_connections{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
}

#[test]
fn few_connections_differ_by_one_and_many_by_a_twentieth() {
    for workers in [2, 4, 8] {
        let config = EMBEDDED.replace("worker_processes: 1", &format!("worker_processes: {workers}"));
        let gateway = Gateway::start(&config, None);
        assert!(gateway.admin("PUT", "/apisix/admin/routes/1", ROUTE).0 < 300);
        eventually("the connection that waited for the port ends", || {
            open(&gateway).iter().sum::<usize>() == 0
        });
        let mut clients: Vec<Client> = Vec::new();
        for (count, allowed) in [(16, 1), (1000, 1000 / workers / 20)] {
            while clients.len() < count {
                clients.push(gateway.client());
            }
            for client in &mut clients {
                assert_eq!(client.get("h", "/a").expect("an answer").status(), 200);
            }
            let open = open(&gateway);
            let (most, least) = (open.iter().max(), open.iter().min());
            assert_eq!((open.len(), open.iter().sum::<usize>()), (workers, count), "{open:?}");
            assert!(most.expect("workers") - least.expect("workers") <= allowed, "{open:?}");
        }
        // All are served to their end.
        let (good, said) = gateway.verb("reload");
        assert!(good, "{said}");
        for client in &mut clients {
            assert_eq!(client.get("h", "/a").expect("an answer during the reload").status(), 200);
        }
    }
}
