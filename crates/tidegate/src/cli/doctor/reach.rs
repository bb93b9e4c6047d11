//! Names and services: whether they answer, and how soon.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use tidegate_clients::verbatim::Excess;

use super::check::Check;
use crate::cli::exchange::{Bounds, exchange};

/// Nothing is waited for longer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Requests and writes wait for these answers.
const SLOW: Duration = Duration::from_millis(50);
/// Names are resolved ahead of requests.
const SLOW_NAME: Duration = Duration::from_millis(500);

pub(super) fn name(host: &str) -> Check {
    let label = "name";
    let (sender, receiver) = mpsc::channel();
    let wanted = (host.to_owned(), 0);
    let begun = Instant::now();
    // A resolver of the system cannot be interrupted; the thread ends with the process at the latest.
    thread::spawn(move || sender.send(wanted.to_socket_addrs().map(Iterator::count)));
    let remedy = "correct the name in the upstream's nodes, or /etc/resolv.conf or apisix.dns_resolver";
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(count)) if count > 0 => {
            let seen = format!("{host} has {count} addresses, after {}", shown(begun.elapsed()));
            slow(
                label,
                seen,
                begun.elapsed(),
                SLOW_NAME,
                "see which server of /etc/resolv.conf does not answer",
            )
        }
        Ok(Ok(_)) => Check::bad(label, format!("{host} has no address"), remedy),
        Ok(Err(error)) => Check::bad(label, format!("{host} does not resolve: {error}"), remedy),
        Err(_) => Check::bad(label, format!("{host} does not resolve within {}", shown(PATIENCE)), remedy),
    }
}

pub(super) fn redis(host: &str, port: u16) -> Check {
    let place = format!("{host}:{port}");
    let begun = Instant::now();
    let asked = connect(&place).and_then(|mut stream| {
        stream.write_all(b"PING\r\n")?;
        let mut first = [0; 5];
        stream.read_exact(&mut first)?;
        Ok(first)
    });
    let remedy = "start it, or correct redis_host and redis_port of the plugin";
    match asked {
        // Without a password it answers an error, which is an answer.
        Ok([b'+' | b'-', ..]) => {
            let time = begun.elapsed();
            let seen = format!("{place} answers after {}", shown(time));
            slow(
                "Redis",
                seen,
                time,
                SLOW,
                "a limit waits for each answer: use a nearer one, or sync_interval",
            )
        }
        Ok(_) => Check::bad("Redis", format!("what answers at {place} is not Redis"), remedy),
        Err(error) => Check::bad("Redis", format!("{place} does not answer: {}", in_words(&error)), remedy),
    }
}

/// Of a socket with a time limit.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("nothing came within {}", shown(PATIENCE))
        }
        _ => error.to_string(),
    }
}

/// `http://127.0.0.1:2379`
pub(super) fn etcd(url: &str) -> Check {
    let remedy = "start it, or correct deployment.etcd.host";
    let (scheme, place) = url.split_once("://").unwrap_or(("http", url));
    let place = place.trim_end_matches('/');
    let begun = Instant::now();
    if scheme == "https" {
        return match connect(place) {
            Ok(_) => {
                Check::good("etcd", format!("{place} takes connections, after {}", shown(begun.elapsed())))
            }
            Err(error) => Check::bad("etcd", format!("{place} does not answer: {error}"), remedy),
        };
    }
    let bounds = Bounds { wait: PATIENCE, body_bytes: 4096, excess: Excess::Cut };
    let request = format!("GET /version HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n");
    match exchange(place, "GET", request.as_bytes(), bounds) {
        Ok(answer) if answer.head.status == 200 => {
            let time = begun.elapsed();
            let seen = format!("{place} answers after {}", shown(time));
            slow("etcd", seen, time, SLOW, "each write waits for it: see its disk (fsync) and the network")
        }
        Ok(answer) => {
            Check::bad("etcd", format!("{place} answers {}: is it etcd?", answer.head.status), remedy)
        }
        Err(error) => Check::bad("etcd", format!("{place} does not answer: {error}"), remedy),
    }
}

fn connect(place: &str) -> io::Result<TcpStream> {
    let address =
        place.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("the name has no address"))?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn slow(name: &str, seen: String, time: Duration, limit: Duration, remedy: &str) -> Check {
    if time <= limit { Check::good(name, seen) } else { Check::bad(name, seen, remedy) }
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
