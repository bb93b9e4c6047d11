//! Stream routes: TCP and UDP below HTTP, beside real servers and clients.

mod balancing;
mod cutting;
mod guards;
mod limits;
mod mqtt;
mod parking;
mod plugins;
mod protocols;
mod rounds;
mod secure;
mod sessions;
mod splicing;
mod udp;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use tidegate_testkit::{
    PATIENCE, free_port,
    gateway::{EMBEDDED, Gateway, YAML_PROVIDER},
};

/// A gateway with stream routes, and where it listens for sessions.
struct Ports {
    gateway: Gateway,
    tcp: SocketAddr,
    other: SocketAddr,
    tls: SocketAddr,
    udp: SocketAddr,
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// `apisix`: further lines of that section. In `resources` `@TCP@` and its neighbours become ports.
fn start(apisix: &str, nginx: &str, resources: &str) -> Ports {
    start_with(YAML_PROVIDER, apisix, nginx, Some(resources))
}

/// With the Admin API.
fn start_embedded(nginx: &str) -> Ports {
    start_with(EMBEDDED, "", nginx, None)
}

fn start_with(base: &str, apisix: &str, nginx: &str, resources: Option<&str>) -> Ports {
    let [tcp, other, tls, udp] = std::array::from_fn(|_| free_port());
    let listening = format!(
        "apisix:\n  proxy_mode: http&stream\n  stream_proxy:\n    tcp: [\"127.0.0.1:{tcp}\", \"127.0.0.1:{other}\", \
         {{addr: \"127.0.0.1:{tls}\", tls: true}}]\n    udp: [\"127.0.0.1:{udp}\"]\n  {apisix}\n"
    );
    let config = base
        .replacen("apisix:\n", &listening, 1)
        .replacen("nginx_config:\n", &format!("stream_plugins: [ip-restriction, limit-conn, mqtt-proxy, prometheus, syslog, traffic-split]\nxrpc: {{protocols: [{{name: redis}}, {{name: dubbo}}]}}\nnginx_config:\n  stream: {{{nginx}}}\n"), 1);
    let put = |text: &str| {
        text.replace("@TCP@", &tcp.to_string())
            .replace("@OTHER@", &other.to_string())
            .replace("@TLS@", &tls.to_string())
            .replace("@UDP@", &udp.to_string())
    };
    let gateway = Gateway::start(&config, resources.map(put).as_deref());
    Ports { gateway, tcp: local(tcp), other: local(other), tls: local(tls), udp: local(udp) }
}

/// A server that greets with its name, and then sends back what it gets, until the client has ended.
fn named(name: &'static str) -> SocketAddr {
    serve(move |mut stream| {
        let _ = stream.write_all(name.as_bytes());
        echo(stream);
    })
}

/// A server that sends back what it gets.
fn echoing() -> SocketAddr {
    serve(echo)
}

fn echo(mut stream: TcpStream) {
    let mut room = [0; 64 << 10];
    while let Ok(count @ 1..) = stream.read(&mut room) {
        if stream.write_all(&room[..count]).is_err() {
            return;
        }
    }
}

fn serve(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let serve = std::sync::Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream
}

/// Sends, ends, and reads to the end.
fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = connect(address);
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whether the connection is closed without an answer.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Reads so many bytes.
fn read(stream: &mut TcpStream, count: usize) -> String {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).expect("an answer");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The port of an address that refuses connections.
fn refusing() -> u16 {
    free_port()
}
