//! Logs names that cannot be resolved, once when the failure begins and once when it ends, and names with too many
//! addresses.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tidegate_probes::{Lookup, LookupError, MOST_ADDRESSES, ResolvedName};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// The shortest time between two lines about a name that keeps failing and recovering.
const AGAIN: Duration = Duration::from_secs(60);
/// When the resolver is down every name fails: ten lines in ten seconds.
static LIMITER: Limiter = Limiter::new(10, 10_000);

/// For a name that has never resolved.
const REMEDY: &str =
    "; correct the name, or set apisix.dns_resolver to a server that knows it; until then 503 is answered";

/// The names in use, who uses them, and which of them fail.
#[derive(Default)]
pub(super) struct Failures(Mutex<BTreeMap<Arc<str>, Name>>);

#[derive(Default)]
struct Name {
    users: String,
    failing: bool,
    resolved: bool,
    /// It has more addresses than are used.
    crowded: bool,
    told: Option<Instant>,
}

impl Failures {
    pub(super) fn want(&self, users: BTreeMap<Arc<str>, String>) {
        let mut names = self.names();
        names.retain(|name, _| users.contains_key(name));
        for (name, users) in users {
            names.entry(name).or_default().users = users;
        }
    }

    /// The lines for the log that an answer is worth.
    fn heard(
        &self,
        name: &str,
        result: &Result<ResolvedName, LookupError>,
        now: Instant,
    ) -> Option<(Level, String)> {
        let mut names = self.names();
        let known = names.get_mut(name)?;
        let error = match result {
            Ok(answer) if answer.addresses.is_empty() => {
                &LookupError { reason: "the name has no address".to_owned(), gone: true }
            }
            Ok(answer) => {
                let crowded = answer.addresses.len() > MOST_ADDRESSES;
                if crowded && !std::mem::replace(&mut known.crowded, crowded) {
                    known.resolved = true;
                    let (all, users) = (answer.addresses.len(), &known.users);
                    let text = format!(
                        "{name}, used by {users}, has {all} addresses; the lowest {MOST_ADDRESSES} are used"
                    );
                    return Some((Level::Warn, text));
                }
                known.crowded = crowded;
                known.resolved = true;
                let was_told = std::mem::take(&mut known.failing);
                return was_told.then(|| (Level::Notice, format!("{name} resolves again")));
            }
            Err(error) => error,
        };
        let lately = known.told.is_some_and(|told| now.duration_since(told) < AGAIN);
        if known.failing || lately {
            return None;
        }
        known.failing = true;
        known.told = Some(now);
        let kept = match known.resolved {
            true => format!("; its last addresses are used for {} s more", error.keeps_for().as_secs()),
            false => REMEDY.to_owned(),
        };
        Some((
            Level::Error,
            format!("failed to resolve {name}, used by {}: {}{kept}", known.users, error.reason),
        ))
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A resolver whose failures are logged.
pub(super) struct Reporting {
    pub lookup: Arc<dyn Lookup>,
    pub failures: Arc<Failures>,
}

impl Lookup for Reporting {
    fn lookup<'a>(
        &'a self,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<ResolvedName, LookupError>> + Send + 'a>> {
        Box::pin(async move {
            let result = self.lookup.lookup(name).await;
            if let Some((level, text)) = self.failures.heard(name, &result, Instant::now()) {
                match LIMITER.pass() {
                    Some(0) => error_log::log(level, format_args!("{text}")),
                    Some(more) => error_log::log(level, format_args!("{text} ({more} more were not logged)")),
                    None => {}
                }
            }
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_its_end_too() {
        let failures = Failures::default();
        failures.want(BTreeMap::from([(Arc::from("a.test"), "upstreams/1".to_owned())]));
        let start = Instant::now();
        let reason = "A records asked of 127.0.0.1:53: no such name (NXDOMAIN)";
        let failed = || Err(LookupError { reason: reason.to_owned(), gone: true });
        let good = || Ok(ResolvedName { addresses: vec![[127, 0, 0, 1].into()], valid_for: AGAIN });
        let told = |result: Result<ResolvedName, LookupError>, after_s: u64| {
            failures.heard("a.test", &result, start + Duration::from_secs(after_s)).map(|(_, text)| text)
        };
        let line = "failed to resolve a.test, used by upstreams/1: \
                    A records asked of 127.0.0.1:53: no such name (NXDOMAIN)";
        assert_eq!(told(failed(), 0), Some(format!("{line}{REMEDY}")));
        assert_eq!(told(failed(), 2), None);
        assert_eq!(told(good(), 4).as_deref(), Some("a.test resolves again"));
        assert_eq!(told(good(), 5), None);
        assert_eq!(told(failed(), 6), None, "told a moment ago");
        assert_eq!(told(failed(), 70), Some(format!("{line}; its last addresses are used for 30 s more")));
    }
}
