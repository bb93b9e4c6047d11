//! What most runs do without: rates that change, weights, ways to the server. Decided before a run begins.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;

use super::stages::Stage;
use crate::Problem;

/// Places in the order of requests that weights may take.
const MAX_ORDER: u64 = 65_536;

/// What most runs leave at its default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The rate over time; `Plan::rate` is then its mean.
    pub stages: Vec<Stage>,
    /// When requests of a rate are due.
    pub arrivals: Arrivals,
    /// Numbers of the requests in the order in which they are asked; empty: one after the other.
    pub order: Arc<[u32]>,
    /// A socket to connect to in place of the addresses.
    pub unix: Option<PathBuf>,
    /// Redirects on the server are followed.
    pub follow: bool,
    /// Each connection keeps cookies.
    pub cookies: bool,
    /// Streams of server-sent events are held open.
    pub events: bool,
    /// The text message of WebSocket, whose echo is waited for; may hold placeholders.
    pub echo: Option<String>,
    /// The message of each call, framed; a run of gRPC.
    pub grpc: Option<Bytes>,
    /// Opens connections and sends one request on each before the clock of an open model starts.
    pub warm_up: bool,
    /// How answers are acknowledged; as a rule the system decides.
    pub acknowledgements: Option<Acknowledgements>,
}

impl Options {
    /// Whether clients do more than ask.
    pub(crate) fn lasting(&self) -> bool {
        self.events || self.echo.is_some() || self.follow || self.cookies
    }
}

/// How a control run has the system acknowledge what each connection receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgements {
    /// They wait for something to be sent, up to 40 ms.
    Delayed,
    /// At once (TCP_QUICKACK).
    Quick,
}

/// When requests of the open model are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At even distances.
    #[default]
    Uniform,
    /// Independent of each other, as those of many users are.
    Poisson,
}

/// The order in which requests with these weights are asked: each at even distances.
pub fn order(weights: &[u64]) -> Result<Arc<[u32]>, Problem> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor);
    if divisor == 0 || weights.iter().all(|weight| *weight == divisor) {
        return Ok(Arc::default());
    }
    let places: u64 = weights.iter().map(|weight| weight / divisor).sum();
    if places > MAX_ORDER {
        return Err(Problem::usage(format!(
            "the weights need a cycle of {places} requests, more than {MAX_ORDER}; choose rounder ones"
        )));
    }
    let mut all: Vec<(f64, u32)> = Vec::with_capacity(places as usize);
    for (request, weight) in weights.iter().enumerate() {
        let count = weight / divisor;
        all.extend((0..count).map(|at| ((at as f64 + 0.5) / count as f64, request as u32)));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    Ok(all.into_iter().map(|(_, request)| request).collect())
}

/// The request in this place of the endless order of so many.
pub(crate) fn request_at(order: &[u32], place: usize, requests: usize) -> usize {
    match place.checked_rem(order.len()) {
        Some(at) => order.get(at).map_or(0, |request| *request as usize),
        None => place % requests.max(1),
    }
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// How long all stages take.
pub fn length(stages: &[Stage]) -> Duration {
    stages.iter().map(|stage| stage.length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_spread() {
        assert!(order(&[2, 2, 2]).expect("good").is_empty());
        assert_eq!(*order(&[6, 2]).expect("good"), [0, 0, 1, 0]);
        let many = order(&[5, 3, 2]).expect("good");
        let count = |wanted: u32| many.iter().filter(|request| **request == wanted).count();
        assert_eq!([count(0), count(1), count(2)], [5, 3, 2]);
        assert!(order(&[100_000, 1]).is_err());
    }
}
