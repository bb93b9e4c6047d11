//! Planes on processes of their own: one that is asked to change things, one that serves.

use std::net::TcpStream;

use tidegate_testkit::{Etcd, Gateway, eventually};

use super::{config, mock, status};

#[test]
fn a_control_plane_writes_and_a_data_plane_serves() {
    let etcd = Etcd::start();
    let role = |name: &str| {
        config(&etcd.url())
            .replace("role: traditional", &format!("role: {name}"))
            .replace("role_traditional:", &format!("role_{name}:"))
    };
    let data = Gateway::start(&role("data_plane"), None);
    assert_eq!(etcd.get("/apisix/routes/"), "", "a data plane writes nothing");
    let control = Gateway::start_unready(&role("control_plane"), None);
    let (code, answer) = control.admin("PUT", "/apisix/admin/routes/1", &mock("/one", 201));
    assert_eq!(code, 201, "{answer}");
    eventually("the data plane serves it", || status(&data, "/one") == 201);
    assert_eq!(etcd.get("/apisix/routes/"), "init_dir");
    assert!(TcpStream::connect(control.http).is_err(), "a control plane has no traffic");
    assert!(TcpStream::connect(data.admin).is_err(), "a data plane has no Admin API");
}
