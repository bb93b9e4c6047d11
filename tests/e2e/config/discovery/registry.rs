//! A registry that speaks HTTP and can be down: what the fakes of Nacos, Eureka and Kubernetes are made of.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_testkit::{Behaviour, Message, Step, Upstream};

/// Answers from a state that the test changes.
pub(super) struct Registry<S> {
    pub address: SocketAddr,
    state: Arc<Mutex<S>>,
    down: Arc<AtomicBool>,
    upstream: Upstream,
}

impl<S: Send + 'static> Registry<S> {
    /// `answer` makes status and body of a request.
    pub(super) fn start(
        state: S,
        answer: impl Fn(&mut S, &Message) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let state = Arc::new(Mutex::new(state));
        let down = Arc::new(AtomicBool::new(false));
        let (shared, is_down) = (state.clone(), down.clone());
        let step = Upstream::answer(move |request| {
            let (status, body) = answer(&mut shared.lock().unwrap_or_else(PoisonError::into_inner), request);
            let length = body.len();
            format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        });
        let upstream = Upstream::with(move |_| {
            let steps = if is_down.load(Ordering::SeqCst) { vec![Step::Reset] } else { vec![step.clone()] };
            Behaviour { read_body: true, steps }
        });
        Registry { address: upstream.address, state, down, upstream }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut S)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
        self.upstream.take();
    }

    /// Waits until it has been asked so often since the last change of `down`.
    pub(super) fn wait_for_requests(&self, count: usize) {
        self.upstream.wait_for(count);
    }
}

/// An argument of a request's query, decoded.
pub(super) fn argument(request: &Message, name: &str) -> Option<String> {
    let (_, query) = request.target().split_once('?')?;
    let (_, value) =
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    let mut decoded = Vec::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        let digits = [bytes.clone().next(), bytes.clone().nth(1)]
            .map(|it| char::from(it.unwrap_or(b' ')).to_digit(16));
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                decoded.push((high * 16 + low) as u8);
                bytes.nth(1);
            }
            _ => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).ok()
}
