//! Nanoseconds per lookup at several sizes, and how long a router takes to build.
//!
//! A mix of what configurations hold: exact paths, prefixes, hosts; each lookup is another route, so that caches
//! are not kinder than in production. Run with `cargo bench -p tidegate-routing`.

#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::{
    hint::black_box,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Instant,
};

use tidegate_routing::{HostPattern, MatchInput, Methods, Mode, Operand, RouteSpec, Router, Variables};

struct Request {
    host: String,
    path: String,
}

impl Variables for Request {
    type Name = ();

    fn get<'a>(&'a self, _: &()) -> Operand<'a> {
        Operand::Nil
    }
}

impl MatchInput for Request {
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn host(&self) -> Option<&[u8]> {
        Some(self.host.as_bytes())
    }

    fn host_with_port(&self) -> Option<&[u8]> {
        self.host()
    }

    fn method(&self) -> Methods {
        Methods::of("GET")
    }

    fn remote_addr(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }

    fn filter(&self, _: u32) -> bool {
        true
    }
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Exact,
    Prefix,
    Host,
    Parameter,
}

fn specs(shape: Shape, count: u32) -> Vec<Arc<RouteSpec<()>>> {
    (0..count)
        .map(|number| {
            let uri = match shape {
                Shape::Exact => format!("/api/v1/service-{number}/items"),
                Shape::Prefix => format!("/api/v1/service-{number}/*"),
                Shape::Host => "/api/*".to_owned(),
                Shape::Parameter => format!("/api/v1/service-{number}/:id"),
            };
            let mut spec = RouteSpec::new(number, format!("{number:07}").into(), vec![uri.into()]);
            if matches!(shape, Shape::Host) {
                spec.hosts = vec![HostPattern::new(&format!("host-{number}.example.com"))];
            }
            Arc::new(spec)
        })
        .collect()
}

fn requests(shape: Shape, count: u32) -> Vec<Request> {
    let mut state = 0x9e37_79b9u32;
    (0..4096)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = ((u64::from(state) * u64::from(count)) >> 32) as u32;
            let host = format!("host-{number}.example.com");
            let path = match shape {
                Shape::Host => "/api/items".to_owned(),
                _ => format!("/api/v1/service-{number}/items"),
            };
            Request { host, path }
        })
        .collect()
}

fn main() {
    for shape in [Shape::Exact, Shape::Prefix, Shape::Host, Shape::Parameter] {
        let mode = match shape {
            Shape::Parameter => Mode::UriWithParameter,
            _ => Mode::HostUri,
        };
        for count in [10, 1_000, 50_000, 100_000] {
            let specs = specs(shape, count);
            let started = Instant::now();
            let router = Router::build(mode, specs.iter().cloned());
            let build = started.elapsed();
            let requests = requests(shape, count);
            let rounds = 100;
            let started = Instant::now();
            for _ in 0..rounds {
                for request in &requests {
                    black_box(router.find(black_box(request)));
                }
            }
            let lookup = started.elapsed().as_nanos() as f64 / f64::from(rounds) / requests.len() as f64;
            let shape = format!("{shape:?}").to_lowercase();
            println!("{shape:<10} {count:>7} routes: {lookup:>6.1} ns/lookup, build {build:>9.2?}");
        }
    }
}
