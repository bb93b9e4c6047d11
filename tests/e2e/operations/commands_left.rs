//! Commands of `tidegate upgrade` and the like whose client has left.

use std::io::Write;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, binary};

/// The client reported a timeout. An operator who then undid the change must not get the takeover after all.
#[test]
fn a_command_whose_client_has_left_is_not_carried_out() {
    let gateway = Gateway::start(EMBEDDED, None);
    let pid = gateway.pid();
    gateway.process.signal(Signal::STOP);
    let mut socket = UnixStream::connect(gateway.prefix().join("logs/tidegate.sock")).expect("a connection");
    let program = binary().display();
    let command = format!("{{\"command\":\"upgrade\",\"program\":\"{program}\",\"timeout_seconds\":5}}\n");
    socket.write_all(command.as_bytes()).expect("written");
    drop(socket);
    gateway.process.signal(Signal::CONT);
    gateway.wait_for_log("and left before it was read; nothing is done");
    assert_eq!(gateway.pid(), pid);
    // One that waits is answered.
    let (done, said) = gateway.verb("upgrade");
    assert!(done, "{said}");
    assert_ne!(gateway.pid(), pid);
}
