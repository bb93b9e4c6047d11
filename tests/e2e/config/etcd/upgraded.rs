//! An upgrade with etcd: the store is nobody's to hand over, and both processes follow it while both live.

use tidegate_testkit::{Etcd, Gateway};

use super::{config, mock, status};

#[test]
fn both_processes_follow() {
    let etcd = Etcd::start();
    let mut gateway = Gateway::start(&config(&etcd.url()), None);
    gateway.process.wait_for_port(gateway.admin);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &mock("/a", 202)).0, 201);
    // This connection stays with the old process.
    let mut old = gateway.client();
    assert_eq!(old.get("h", "/a").expect("answers").status(), 202);
    let (done, text) = gateway.verb("upgrade");
    assert!(done, "{text}");
    assert_eq!(status(&gateway, "/a"), 202);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &mock("/a", 203)).0, 200);
    assert_eq!(status(&gateway, "/a"), 203);
    // It follows, too, a moment later; each of its answers but the last keeps the connection.
    let answer = old.get("h", "/a").expect("the old process answers");
    assert!(matches!(answer.status(), 202 | 203), "{answer:?}");
    drop(old);
    assert!(gateway.process.wait_for_exit().success());
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/3", &mock("/b", 204)).0, 201);
    assert_eq!(status(&gateway, "/b"), 204);
}
