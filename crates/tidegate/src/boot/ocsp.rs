//! OCSP stapling: asks authorities whether certificates are revoked, and hands their answers to the handshakes.
//!
//! On the control runtime, ahead of time. A handshake takes what is there.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rustc_hash::{FxHashMap, FxHashSet};
use rustls_pki_types::CertificateDer;
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Outgoing};
use tidegate_plugin_api::certificates::{Pair, Stapling};
use tidegate_probes::ocsp::{self, Subject};
use tidegate_telemetry::error_log::{self, Level};
use tokio::{runtime::Runtime, task::JoinSet};

use super::control::Control;

/// After a failure.
const AGAIN: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 64 * 1024;
/// Questions under way: a silent authority does not hold up the others.
const AT_ONCE: usize = 8;
/// A response that says when it ends is renewed that long before.
const AHEAD: Duration = Duration::from_secs(300);

/// What is known of one certificate.
#[derive(Clone)]
struct Known {
    /// Of the last good answer.
    response: Option<Vec<u8>>,
    /// Since 1970; then the response is no longer shown.
    until: Option<Duration>,
    ask_at: Instant,
}

/// A certificate, and how its answers are treated.
type Key = (CertificateDer<'static>, Stapling);

#[derive(Default)]
struct Stapler {
    known: FxHashMap<Key, Known>,
    /// Certificates without an issuer beside them, which were reported.
    alone: FxHashSet<CertificateDer<'static>>,
}

/// Follows the configuration for as long as the process runs.
pub(super) fn watch(runtime: &Runtime, control: &Arc<Control>) {
    let control = control.clone();
    runtime.spawn(async move {
        let mut published = control.published.clone();
        let mut stapler = Stapler::default();
        loop {
            let snapshot = control.publisher.current();
            let certificates = snapshot.certificates.clone();
            // Not held while waiting: an old configuration should go.
            drop(snapshot);
            let pairs = certificates.stapled.iter().flat_map(|server| {
                let stapling = server.stapling;
                server.pairs.iter().filter_map(move |pair| Some((pair.clone(), stapling?)))
            });
            let next = stapler.round(&pairs.collect::<Vec<_>>()).await;
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                changed = published.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    });
}

fn now() -> Duration {
    Duration::from_secs(u64::try_from(super::expiry::now()).unwrap_or(0))
}

/// A certificate to ask about.
struct Due {
    key: Key,
    issuer: CertificateDer<'static>,
    previous: Option<Known>,
}

impl Stapler {
    /// Staples what is known, asks what is due; returns how long there is nothing to do.
    async fn round(&mut self, pairs: &[(Arc<Pair>, Stapling)]) -> Duration {
        self.staple(pairs);
        let mut running = JoinSet::new();
        for due in self.due(pairs) {
            if running.len() >= AT_ONCE {
                self.learn(running.join_next().await);
            }
            running.spawn(ask(due));
        }
        while let Some(answer) = running.join_next().await {
            self.learn(Some(answer));
        }
        self.staple(pairs);
        let in_use: FxHashSet<Key> = pairs
            .iter()
            .filter_map(|(pair, stapling)| Some((pair.key().cert.first()?.clone(), *stapling)))
            .collect();
        self.known.retain(|key, _| in_use.contains(key));
        let next =
            self.known.values().map(|known| known.ask_at.saturating_duration_since(Instant::now())).min();
        next.unwrap_or(Duration::from_secs(3600)).max(Duration::from_secs(1))
    }

    fn due(&mut self, pairs: &[(Arc<Pair>, Stapling)]) -> Vec<Due> {
        let mut due: Vec<Due> = Vec::new();
        for (pair, stapling) in pairs {
            let shown = pair.key();
            let [certificate, issuer, ..] = shown.cert.as_slice() else {
                let alone = shown.cert.first().cloned().unwrap_or_else(|| Vec::new().into());
                if self.alone.insert(alone) {
                    failed("cert has to be followed by the certificate of its issuer");
                }
                continue;
            };
            let key = (certificate.clone(), *stapling);
            let fresh = self.known.get(&key).is_some_and(|known| known.ask_at > Instant::now());
            if !fresh && !due.iter().any(|other| other.key == key) {
                let previous = self.known.get(&key).cloned();
                due.push(Due { key, issuer: issuer.clone(), previous });
            }
        }
        due
    }

    fn learn(&mut self, answer: Option<Result<(Key, Known), tokio::task::JoinError>>) {
        if let Some(Ok((key, known))) = answer {
            self.known.insert(key, known);
        }
    }

    /// Gives handshakes what is known and in date.
    fn staple(&self, pairs: &[(Arc<Pair>, Stapling)]) {
        for (pair, stapling) in pairs {
            let key = pair.key();
            let certificate = key.cert.first().cloned();
            let known = certificate.and_then(|certificate| self.known.get(&(certificate, *stapling)));
            let usable = known.filter(|known| known.until.is_none_or(|until| until >= now()));
            let response = usable.and_then(|known| known.response.clone());
            if key.ocsp != response {
                pair.staple(response);
            }
        }
    }
}

async fn ask(due: Due) -> (Key, Known) {
    let subject = Subject { certificate: &due.key.0, issuer: &due.issuer };
    let known = answer(subject, due.key.1, due.previous).await;
    (due.key, known)
}

async fn answer(subject: Subject<'_>, stapling: Stapling, previous: Option<Known>) -> Known {
    let (response, until) = previous.map_or((None, None), |known| (known.response, known.until));
    let kept = Known { response, until, ask_at: Instant::now() + AGAIN };
    let answer = match fetch(subject).await {
        Ok(answer) => answer,
        Err(reason) => {
            failed(&reason);
            return kept;
        }
    };
    match ocsp::verify_response(&answer, subject, now(), stapling.skip_verify) {
        Ok(judgement) => {
            let left = judgement.until.map(|until| until.saturating_sub(now() + AHEAD).max(AGAIN));
            let ttl = Duration::from_secs(stapling.cache_seconds);
            Known {
                response: Some(answer),
                until: judgement.until.filter(|_| !stapling.skip_verify),
                ask_at: Instant::now() + left.map_or(ttl, |left| left.min(ttl)),
            }
        }
        Err(reason) => {
            failed(&format!("failed to validate ocsp response: {reason}"));
            // The authority has answered: its earlier answer no longer holds.
            Known { response: None, until: None, ..kept }
        }
    }
}

fn failed(reason: &str) {
    error_log::log(Level::Error, format_args!("no ocsp response send: {reason}"));
}

async fn fetch(subject: Subject<'_>) -> Result<Vec<u8>, String> {
    let question = ocsp::ask(subject)?;
    let endpoint = Endpoint::parse(&question.url).map_err(|reason| format!("{}: {reason}", question.url))?;
    let options =
        ClientOptions { timeout: TIMEOUT, body: Body::Whole(MAX_ANSWER), ..ClientOptions::default() };
    let request = Outgoing::post(endpoint, "application/ocsp-request", question.body);
    let answer = http::send(request, &options)
        .await
        .map_err(|reason| format!("ocsp responder query failed: {reason}"))?;
    match answer.status {
        200 if answer.body.is_empty() => Err("ocsp responder returns empty body".to_owned()),
        200 => Ok(answer.body.to_vec()),
        status => Err(format!("ocsp responder returns bad http status code: {status}")),
    }
}
