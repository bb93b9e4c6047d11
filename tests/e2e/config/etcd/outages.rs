//! etcd is killed, started again, compacted and cut off while requests run: none fails, and after its return the
//! gateways catch up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidegate_testkit::{Client, Etcd, Gateway, Relay, eventually, servers};

use super::{config, metric, mock, status};

const ROUNDS: usize = 20;
/// From the return of etcd to the newest configuration in effect.
const CATCH_UP: Duration = Duration::from_secs(5);

#[test]
fn outages_cost_no_request() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let mut etcd = Etcd::start();
    let relay = Relay::to(etcd.address);
    let route = format!(
        r#"{{"uri":"/traffic","upstream":{{"type":"roundrobin","nodes":{{"{}":1}}}}}}"#,
        upstream.address
    );
    etcd.put("/apisix/routes/traffic", &route);
    let gateway = Gateway::start(&config(&format!("http://{}", relay.address)), None);
    let traffic = Traffic::start(&gateway);
    let mut worst = Duration::ZERO;
    for round in 0..ROUNDS {
        let path = format!("/round{round}");
        let key = format!("/apisix/routes/{}", round % 3);
        // What changes while the gateway cannot see it.
        match round % 4 {
            0 => {
                etcd.kill();
                etcd.restart();
                etcd.put(&key, &mock(&path, 201));
            }
            1 => {
                relay.partition();
                etcd.put(&key, &mock(&path, 201));
                relay.heal();
            }
            2 => {
                relay.partition();
                etcd.put(&key, &mock(&path, 201));
                etcd.put("/apisix/gen_id", "1");
                etcd.compact();
                etcd.kill();
                etcd.restart();
                relay.heal();
            }
            _ => {
                etcd.put(&key, &mock(&path, 201));
                etcd.compact();
            }
        }
        let caught_up = eventually("the change takes effect", || status(&gateway, &path) == 201);
        worst = worst.max(caught_up);
    }
    let requests = traffic.end();
    println!("{ROUNDS} outages: caught up within {worst:?}; {requests} requests, none failed");
    assert!(worst < CATCH_UP, "{worst:?}\n{}", gateway.error_log());
    assert!(requests > 1000, "only {requests} requests ran");
}

#[test]
fn a_long_partition_is_noticed_and_survived() {
    let etcd = Etcd::start();
    let relay = Relay::to(etcd.address);
    etcd.put("/apisix/routes/before", &mock("/before", 201));
    let gateway = Gateway::start(&config(&format!("http://{}", relay.address)), None);
    eventually("the gateway says that etcd is there", || metric(&gateway, "apisix_etcd_reachable") == "1");
    relay.partition();
    // A write under way ends with the connection, long before its own time limit.
    let start = Instant::now();
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/lost", &mock("/lost", 201));
    assert!(code == 503 && answer.contains("read the object again"), "{code} {answer}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    // Nobody closed anything: only silence tells.
    eventually("the gateway says that etcd is away", || metric(&gateway, "apisix_etcd_reachable") == "0");
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/x", &mock("/x", 201));
    assert_eq!(code, 503, "{answer}");
    assert!(answer.contains("has no healthy etcd endpoint available"), "{answer}");
    etcd.put("/apisix/routes/after", &mock("/after", 201));
    etcd.compact();
    assert_eq!(status(&gateway, "/before"), 201);
    relay.heal();
    let took = eventually("what changed meanwhile takes effect", || status(&gateway, "/after") == 201);
    println!("after a long partition: caught up within {took:?}");
    assert!(took < CATCH_UP, "{took:?}");
    assert_eq!(metric(&gateway, "apisix_etcd_reachable"), "1");
    assert_eq!(status(&gateway, "/x"), 404, "a write that was refused has no effect");
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/x", &mock("/x", 201)).0, 201);
}

#[test]
fn members_of_a_cluster_die_one_after_the_other() {
    let mut cluster = Etcd::start_cluster(3);
    let hosts: Vec<String> = cluster.iter().map(|member| format!("'{}'", member.url())).collect();
    let gateway = Gateway::start(&config(&hosts.join(", ")), None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &mock("/traffic", 200)).0, 201);
    let traffic = Traffic::start(&gateway);
    let mut worst = Duration::ZERO;
    for (round, victim) in [0, 1, 2, 0, 1].into_iter().enumerate() {
        cluster[victim].kill();
        let path = format!("/round{round}");
        let put = || gateway.admin("PUT", "/apisix/admin/routes/2", &mock(&path, 201)).0 < 300;
        worst = worst.max(eventually("a write through the members that are left", put));
        assert_eq!(status(&gateway, &path), 201);
        cluster[victim].restart();
    }
    let requests = traffic.end();
    println!("members killed: writes again within {worst:?}; {requests} requests, none failed");
}

#[test]
fn a_cluster_that_lost_its_data_takes_nothing_away() {
    let mut etcd = Etcd::start();
    etcd.put("/apisix/routes/1", &mock("/one", 201));
    let gateway = Gateway::start(&config(&etcd.url()), None);
    etcd.kill();
    etcd.lose_data();
    etcd.restart();
    eventually("the loss is logged", || gateway.error_log().contains("the cluster is new"));
    assert_eq!(status(&gateway, "/one"), 201);
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/2", &mock("/two", 201));
    assert!(code == 503 && answer.contains("restore its data"), "{code} {answer}");
    // A restored cluster counts from the start; its revisions are below those known.
    etcd.put("/apisix/routes/2", &mock("/two", 202));
    eventually("the restored configuration takes effect", || status(&gateway, "/two") == 202);
    assert_eq!(status(&gateway, "/one"), 404);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/3", &mock("/three", 201)).0, 201);
    assert_eq!(status(&gateway, "/three"), 201);
}

/// A member that is killed can come back without its newest writes and give their revisions to others. The gateway stands
/// at such a number, so that no number tells it.
#[test]
fn revisions_that_are_used_twice_leave_nothing_stale() {
    for compacted in [false, true] {
        let mut etcd = Etcd::start();
        etcd.put("/apisix/routes/deleted", &mock("/deleted", 201));
        etcd.put("/apisix/routes/changed", &mock("/changed", 201));
        let gateway = Gateway::start(&config(&etcd.url()), None);
        eventually("both take effect", || {
            status(&gateway, "/deleted") == 201 && status(&gateway, "/changed") == 201
        });
        let kept = etcd.copy_data();
        // What etcd will have forgotten.
        etcd.control(&["del", "/apisix/routes/deleted"]);
        etcd.put("/apisix/routes/changed", &mock("/changed", 202));
        etcd.put("/apisix/routes/lost", &mock("/lost", 201));
        eventually("the writes take effect", || status(&gateway, "/lost") == 201);
        assert_eq!(status(&gateway, "/deleted"), 404);
        gateway.process.signal(Signal::STOP);
        etcd.kill();
        etcd.restore_data(kept.path());
        etcd.restart();
        // The same numbers again, for other writes; `changed` gets the revision that it had.
        etcd.put("/apisix/routes/other", &mock("/other", 201));
        etcd.put("/apisix/routes/changed", &mock("/changed", 203));
        etcd.put("/apisix/routes/third", &mock("/third", 201));
        if compacted {
            etcd.compact();
        }
        gateway.process.signal(Signal::CONT);
        eventually("the new writes take effect", || status(&gateway, "/other") == 201);
        for (path, expected) in [("/deleted", 201), ("/changed", 203), ("/lost", 404), ("/third", 201)] {
            assert_eq!(status(&gateway, path), expected, "{path}, compacted: {compacted}");
        }
        etcd.put("/apisix/routes/next", &mock("/next", 201));
        eventually("the watch goes on", || status(&gateway, "/next") == 201);
    }
}

/// delete, put, compact, kill -9, restart, with the gateway stopped or away meanwhile.
#[test]
fn unclean_restarts_leave_nothing_stale() {
    let mut etcd = Etcd::start();
    let mut gateway = Gateway::start(&config(&etcd.url()), None);
    for round in 0..6 {
        let (path, away) = (format!("/round{round}"), round % 3 == 0);
        etcd.put("/apisix/routes/deleted", &mock("/deleted", 201));
        eventually("the route takes effect", || status(&gateway, "/deleted") == 201);
        if away {
            gateway.process.stop();
        } else {
            gateway.process.signal(Signal::STOP);
        }
        etcd.put("/apisix/routes/1", &mock(&path, 201));
        etcd.control(&["del", "/apisix/routes/deleted"]);
        if round % 2 == 0 {
            etcd.put("/apisix/routes/2", &mock(&path, 202));
            etcd.control(&["del", "/apisix/routes/2"]);
        }
        etcd.compact();
        etcd.kill();
        etcd.restart();
        if away {
            gateway.restart();
        } else {
            gateway.process.signal(Signal::CONT);
        }
        eventually("the route takes effect", || status(&gateway, &path) == 201);
        eventually("the deletion takes effect", || status(&gateway, "/deleted") == 404);
    }
}

/// Requests one after the other, until told to end.
struct Traffic {
    ending: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Traffic {
    fn start(gateway: &Gateway) -> Self {
        let (ending, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (end, count, address) = (Arc::clone(&ending), Arc::clone(&requests), gateway.http);
        let thread = thread::spawn(move || {
            let mut client = Client::connect(address).expect("connects");
            let start = Instant::now();
            while !end.load(SeqCst) {
                // New connections meet the outage as well.
                if count.fetch_add(1, SeqCst) % 500 == 499 {
                    client = Client::connect(address).expect("connects");
                }
                let answer = client
                    .get("h", "/traffic")
                    .unwrap_or_else(|error| panic!("{error} after {:?}", start.elapsed()));
                assert_eq!(answer.status(), 200, "after {:?}", start.elapsed());
            }
        });
        Traffic { ending, requests, thread }
    }

    fn end(self) -> usize {
        self.ending.store(true, SeqCst);
        self.thread.join().expect("no request failed");
        self.requests.load(SeqCst)
    }
}
