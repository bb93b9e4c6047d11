//! Warns in the error log before certificates of `ssl` resources end.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustc_hash::FxHashSet;
use tidegate_plugin_api::certificates::Expiry;
use tidegate_telemetry::error_log::{self, Level};
use tokio::runtime::Runtime;

use super::control::Control;

const DAY: i64 = 24 * 3600;
/// A warning when so many days are left, and one when none is.
const DAYS: [i64; 3] = [30, 7, 1];
const EVERY: Duration = Duration::from_secs(3600);

/// Looks once an hour, and at each new configuration.
pub(super) fn watch(runtime: &Runtime, control: &Arc<Control>) {
    let control = control.clone();
    runtime.spawn(async move {
        let mut published = control.published.clone();
        let mut warned = FxHashSet::default();
        loop {
            warn_of_expiry(&control.publisher.current().certificates.expiries, &mut warned);
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                changed = published.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    });
}

pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// One line for each certificate and step, however often it is looked at.
fn warn_of_expiry(expiries: &[Expiry], warned: &mut FxHashSet<(Expiry, i64)>) {
    let mut current = FxHashSet::default();
    for expiry in expiries {
        let left = expiry.expires - now();
        let Some(step) = step(left) else { continue };
        let said = (expiry.clone(), step);
        if !warned.contains(&said) {
            let level = if left <= 0 { Level::Error } else { Level::Warn };
            error_log::log(level, format_args!("{}", sentence(expiry, left)));
        }
        current.insert(said);
    }
    // Certificates that are gone are forgotten.
    *warned = current;
}

/// The smallest number of days that covers what is left; 0 for nothing left.
fn step(left: i64) -> Option<i64> {
    if left <= 0 {
        return Some(0);
    }
    DAYS.into_iter().rev().find(|days| left <= days * DAY)
}

fn sentence(expiry: &Expiry, left: i64) -> String {
    let Expiry { id, name, pair, .. } = expiry;
    let field = if *pair == 0 { "cert".to_owned() } else { format!("certs[{pair}]") };
    let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
    match left {
        ..=0 => format!("ssls/{id}{name}: {field} has expired: replace it"),
        _ => format!("ssls/{id}{name}: {field} expires in {} days: replace it", (left + DAY - 1) / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_once() {
        for (left, expected) in [
            (31 * DAY, None),
            (30 * DAY, Some(30)),
            (8 * DAY, Some(30)),
            (DAY + 1, Some(7)),
            (5, Some(1)),
            (-1, Some(0)),
        ] {
            assert_eq!(step(left), expected, "{left}");
        }
        let expiry = Expiry { id: "1".into(), name: "a.test".into(), pair: 0, expires: now() + 3 * DAY };
        let mut warned = FxHashSet::default();
        warn_of_expiry(std::slice::from_ref(&expiry), &mut warned);
        assert!(warned.contains(&(expiry.clone(), 7)));
        assert_eq!(sentence(&expiry, 3 * DAY), "ssls/1 (a.test): cert expires in 3 days: replace it");
        warn_of_expiry(&[], &mut warned);
        assert!(warned.is_empty());
    }
}
