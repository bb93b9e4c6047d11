//! Documents from a URL: fetched when the first request needs one, and again in the background once they are old. An old one is
//! used as long as no new one can be had.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tidegate_clients::http::{self, ClientOptions, Endpoint, Outgoing};
use tidegate_plugin_api::{aside, host};
use tidegate_telemetry::error_log::{self, Level};
use tokio::sync::Mutex as Turn;

use super::spec::Spec;

/// After a failure nothing is asked for so long.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Remote {
    pub(super) endpoint: Endpoint,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) options: ClientOptions,
    pub(super) lifetime: Duration,
    pub(super) state: Mutex<State>,
    /// One request asks, the others wait for its answer.
    pub(super) turn: Turn<()>,
}

#[derive(Clone, Default)]
pub(super) struct State {
    spec: Option<Arc<Spec>>,
    /// When it was asked for last, and why that failed.
    asked: Option<Instant>,
    failed: Option<String>,
}

impl Remote {
    pub(super) async fn spec(self: &Arc<Remote>) -> Result<Arc<Spec>, String> {
        let state = self.state.lock().clone();
        let Some(spec) = state.spec else { return self.first().await };
        let pause = if state.failed.is_some() { PAUSE.min(self.lifetime) } else { self.lifetime };
        if state.asked.is_none_or(|asked| asked.elapsed() > pause) {
            self.renew();
        }
        Ok(spec)
    }

    async fn first(&self) -> Result<Arc<Spec>, String> {
        let _turn = self.turn.lock().await;
        let state = self.state.lock().clone();
        if let Some(spec) = state.spec {
            return Ok(spec);
        }
        if let (Some(asked), Some(reason)) = (state.asked, state.failed)
            && asked.elapsed() < PAUSE
        {
            return Err(reason);
        }
        let fetched = self.fetch().await;
        self.keep(&fetched);
        fetched
    }

    /// Without waiting for it.
    fn renew(self: &Arc<Remote>) {
        let Some(host) = host() else { return };
        self.state.lock().asked = Some(Instant::now());
        let remote = self.clone();
        host.background.spawn(async move {
            let fetched = remote.fetch().await;
            if let Err(reason) = &fetched {
                error_log::log(Level::Error, format_args!("oas-validator keeps its document: {reason}"));
            }
            remote.keep(&fetched);
        });
    }

    fn keep(&self, fetched: &Result<Arc<Spec>, String>) {
        let mut state = self.state.lock();
        state.asked = Some(Instant::now());
        match fetched {
            Ok(spec) => (state.spec, state.failed) = (Some(spec.clone()), None),
            Err(reason) => state.failed = Some(reason.clone()),
        }
    }

    async fn fetch(&self) -> Result<Arc<Spec>, String> {
        let mut outgoing = Outgoing::get(self.endpoint.clone());
        outgoing.headers.clone_from(&self.headers);
        let sent = http::send(outgoing, &self.options).await;
        let answer = sent.map_err(|error| format!("failed to fetch spec from URL: {error}"))?;
        if answer.status != 200 {
            return Err(format!("spec URL returned status {}", answer.status));
        }
        let read = aside::run(aside::Whose::Ours, move || Spec::parse(&answer.body)).await;
        let read = read.unwrap_or_else(|aside::Undone| Err("it was not read".to_owned()));
        read.map(Arc::new)
            .map_err(|reason| format!("failed to compile openapi spec fetched from URL: {reason}"))
    }
}
