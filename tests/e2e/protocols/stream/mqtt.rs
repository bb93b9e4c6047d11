//! Clients of MQTT and a real broker behind plugin mqtt-proxy, while the gateway is replaced by a new process.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use tidegate_testkit::servers;

use super::start_embedded;

/// Clients of the library paho-mqtt, in one process.
struct Clients {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Clients {
    fn new(address: SocketAddr) -> Clients {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/protocols/stream/mqtt_clients.py");
        // Of Debian, which has the library.
        let mut command = Command::new("/usr/bin/python3");
        command.args([script, &address.port().to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python3");
        let (orders, answers) =
            (process.stdin.take().expect("stdin"), process.stdout.take().expect("stdout"));
        Clients { process, orders, answers: BufReader::new(answers) }
    }

    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("it runs");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        line.trim().to_owned()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// None of `count` clients may lose its connection or a message before the drain ends.
fn upgrade_under(count: usize) {
    let broker = servers::mosquitto();
    let ports = start_embedded("");
    let route = format!(
        r#"{{"server_port":{},"plugins":{{"mqtt-proxy":{{"protocol_level":4}}}},"upstream":{{"type":"chash","hash_on":"vars","key":"mqtt_client_id","nodes":{{"{}":1}}}}}}"#,
        ports.tcp.port(),
        broker.address
    );
    assert_eq!(ports.gateway.admin("PUT", "/apisix/admin/stream_routes/mqtt", &route).0, 201);
    let mut clients = Clients::new(ports.tcp);
    assert_eq!(clients.ask(&format!("more {count}")), format!("connected {count}"));
    assert_eq!(clients.ask("round"), "round 0 0");
    std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| ports.gateway.verb("upgrade"));
        let mut rounds = 0;
        while !upgrade.is_finished() || rounds == 0 {
            assert_eq!(clients.ask("round"), "round 0 0", "meanwhile");
            rounds += 1;
        }
        let (done, said) = upgrade.join().expect("it ends");
        assert!(done, "{said}");
    });
    let more = count / 10;
    assert_eq!(clients.ask(&format!("more {more}")), format!("connected {}", count + more));
    assert_eq!(clients.ask("round"), "round 0 0", "old and new ones");
}

#[test]
fn clients_of_mqtt_stay_through_an_upgrade() {
    upgrade_under(50);
}

#[test]
#[ignore = "a minute: 5,000 clients; `make test-all` runs it"]
fn five_thousand_clients_of_mqtt_stay_through_an_upgrade() {
    upgrade_under(5000);
}
