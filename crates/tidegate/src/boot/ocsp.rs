//! OCSP stapling: asks authorities whether certificates are revoked, and hands their answers to the handshakes.
//!
//! On the control runtime, ahead of time. A handshake takes what is there.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use control::ocsp::{self, Subject};
use plugin::certificates::{Pair, Stapling};
use plugins::common::http_client::{self, ClientOptions, Endpoint, Outgoing};
use rustc_hash::{FxHashMap, FxHashSet};
use rustls_pki_types::CertificateDer;
use telemetry::error_log::{self, Level};
use tokio::runtime::Runtime;

use super::control::Control;

/// After a failure.
const AGAIN: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 64 * 1024;
/// A response that says when it ends is renewed that long before.
const AHEAD: Duration = Duration::from_secs(300);

/// What is known of one certificate, by its DER.
struct Known {
    /// Of the last good answer.
    response: Option<Vec<u8>>,
    /// Since 1970; then the response is no longer shown.
    until: Option<Duration>,
    ask_at: Instant,
    stapling: Stapling,
}

#[derive(Default)]
struct Stapler {
    known: FxHashMap<CertificateDer<'static>, Known>,
    /// Certificates without an issuer beside them, which were reported.
    alone: FxHashSet<CertificateDer<'static>>,
}

/// Follows the configuration for as long as the process runs.
pub fn watch(runtime: &Runtime, control: &Arc<Control>) {
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

impl Stapler {
    /// Staples what is known, asks what is due; returns how long there is nothing to do.
    async fn round(&mut self, pairs: &[(Arc<Pair>, Stapling)]) -> Duration {
        let mut in_use = FxHashSet::default();
        let mut next = Duration::from_secs(3600);
        for (pair, stapling) in pairs {
            let key = pair.key();
            let [certificate, issuer, ..] = key.cert.as_slice() else {
                let alone = key.cert.first().cloned().unwrap_or_else(|| Vec::new().into());
                if self.alone.insert(alone) {
                    failed("cert has to be followed by the certificate of its issuer");
                }
                continue;
            };
            in_use.insert(certificate.clone());
            let known = self.known.get(certificate);
            let due = known.is_none_or(|known| known.ask_at <= Instant::now() || known.stapling != *stapling);
            if due {
                let previous = self.known.remove(certificate).filter(|known| known.stapling == *stapling);
                let known = ask(Subject { certificate, issuer }, *stapling, previous).await;
                self.known.insert(certificate.clone(), known);
            }
            if let Some(known) = self.known.get(certificate) {
                let ended = known.until.is_some_and(|until| until < now());
                let response = known.response.clone().filter(|_| !ended);
                if key.ocsp != response {
                    pair.staple(response);
                }
                next = next.min(known.ask_at.saturating_duration_since(Instant::now()));
            }
        }
        self.known.retain(|certificate, _| in_use.contains(certificate));
        next.max(Duration::from_secs(1))
    }
}

async fn ask(subject: Subject<'_>, stapling: Stapling, previous: Option<Known>) -> Known {
    let (response, until) = previous.map_or((None, None), |known| (known.response, known.until));
    let kept = Known { response, until, ask_at: Instant::now() + AGAIN, stapling };
    let answer = match fetch(subject).await {
        Ok(answer) => answer,
        Err(reason) => {
            failed(&reason);
            return kept;
        }
    };
    match ocsp::judge(&answer, subject, now(), stapling.skip_verify) {
        Ok(judgement) => {
            let left = judgement.until.map(|until| until.saturating_sub(now() + AHEAD).max(AGAIN));
            let ttl = Duration::from_secs(stapling.cache_seconds);
            Known {
                response: Some(answer),
                until: judgement.until.filter(|_| !stapling.skip_verify),
                ask_at: Instant::now() + left.map_or(ttl, |left| left.min(ttl)),
                stapling,
            }
        }
        Err(reason) => {
            failed(&format!("failed to validate ocsp response: {reason}"));
            // The authority has spoken: what it said before is no longer true.
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
        ClientOptions { timeout: TIMEOUT, max_response_bytes: MAX_ANSWER, ..ClientOptions::default() };
    let request = Outgoing::post(endpoint, "application/ocsp-request", question.body);
    let answer = http_client::send(request, &options)
        .await
        .map_err(|reason| format!("ocsp responder query failed: {reason}"))?;
    match answer.status {
        200 if answer.body.is_empty() => Err("ocsp responder returns empty body".to_owned()),
        200 => Ok(answer.body.to_vec()),
        status => Err(format!("ocsp responder returns bad http status code: {status}")),
    }
}
