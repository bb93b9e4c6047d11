//! What loggers of the table send to, over each protocol, and what has arrived there.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, thread};

use rustls::{ServerConnection, StreamOwned};
use serde_json::json;
use tidegate_testkit::Upstream;

use super::super::{error_log::broker::Broker, tls_config};
use super::Way;

/// A receiver of one logger, and what has arrived, in any form.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    text: Arc<Mutex<String>>,
    _server: Option<Upstream>,
}

impl Receiver {
    pub(super) fn start(way: Way) -> Receiver {
        let text = Arc::new(Mutex::new(String::new()));
        let arrived = text.clone();
        let add = move |bytes: &[u8]| {
            arrived.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(bytes));
        };
        match way {
            Way::Http => {
                let answer = json!({"version": {"number": "8.0.0"}, "errors": false, "code": 0,
                    "access_token": "token", "token_type": "Bearer", "expires_in": 3600});
                let answer = answer.to_string();
                let server = Upstream::service(move |message| {
                    add(&message.body);
                    (200, answer.clone())
                });
                Receiver { address: server.address, text, _server: Some(server) }
            }
            Way::Protobuf => {
                let server = Upstream::service(move |message| {
                    let (logs, _) = super::super::tencent::logs(&message.body);
                    add(json!(logs).to_string().as_bytes());
                    (200, String::new())
                });
                Receiver { address: server.address, text, _server: Some(server) }
            }
            Way::RocketMq => {
                let address = super::super::rocketmq::each(move |body| add(body.as_bytes()));
                Receiver { address, text, _server: None }
            }
            Way::Udp => {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
                let address = socket.local_addr().expect("an address");
                thread::spawn(move || {
                    let mut datagram = [0; 65_536];
                    while let Ok(length) = socket.recv(&mut datagram) {
                        add(&datagram[..length]);
                    }
                });
                Receiver { address, text, _server: None }
            }
            Way::Kafka => {
                let broker = Broker::start();
                let address = broker.address;
                broker.each(move |value| add(value.as_bytes()));
                Receiver { address, text, _server: None }
            }
            Way::Tcp | Way::Tls | Way::File => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let address = listener.local_addr().expect("an address");
                let tls = (way == Way::Tls).then(tls_config);
                thread::spawn(move || {
                    for socket in listener.incoming().map_while(Result::ok) {
                        let (add, tls) = (add.clone(), tls.clone());
                        thread::spawn(move || match tls {
                            None => read_all(socket, add),
                            Some(config) => {
                                let connection = ServerConnection::new(config).expect("a connection");
                                read_all(StreamOwned::new(connection, socket), add);
                            }
                        });
                    }
                });
                Receiver { address, text, _server: None }
            }
        }
    }

    /// What has come, here or in the file that has the port in its name.
    pub(super) fn text(&self, prefix: &Path) -> String {
        let file = prefix.join(format!("logs/entries-{}.log", self.address.port()));
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Some have the entries as texts in other JSON.
        (text + &fs::read_to_string(file).unwrap_or_default()).replace('\\', "")
    }
}

fn read_all(mut stream: impl Read, add: impl Fn(&[u8])) {
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        add(&piece[..length]);
    }
}
