//! Warns while no certificate is for the name of `apisix.ssl.fallback_sni`: clients that send no server name are refused then.
//!
//! That a certificate for it cannot be used is said of its own object.

use std::sync::Arc;

use tidegate_config::{Role, Settings, settings::is_server_name};
use tidegate_plugin_api::certificates::Certificates;
use tokio::runtime::Runtime;

use super::{control::Control, notices};

const KEY: &str = "apisix.ssl.fallback_sni";

/// At the start, and in a trial.
pub(super) fn check(settings: &Settings, control: &Control) {
    if let Some(text) = Wanted::of(settings).and_then(|wanted| wanted.remark(control)) {
        notices::warn(&text);
    }
}

/// At each change that takes the certificate away.
pub(super) fn watch(settings: &Settings, runtime: &Runtime, control: &Arc<Control>) {
    let Some(wanted) = Wanted::of(settings) else { return };
    let control = control.clone();
    let mut is_missing = wanted.remark(&control).is_some();
    runtime.spawn(async move {
        let mut published = control.published.clone();
        while published.changed().await.is_ok() {
            let remark = wanted.remark(&control);
            if let Some(text) = remark.as_ref().filter(|_| !is_missing) {
                notices::warn(text);
            }
            is_missing = remark.is_some();
        }
    });
}

/// The name that handshakes without one are taken to have.
struct Wanted {
    name: String,
    message: String,
}

impl Wanted {
    /// `None` where it has no effect, or is not a host name: the check of config.yaml says so.
    fn of(settings: &Settings) -> Option<Wanted> {
        let name = settings.apisix.tls.fallback_sni.as_ref()?;
        if !settings.ends_tls() || !is_server_name(name) || settings.role == Role::ControlPlane {
            return None;
        }
        let text = format!(
            "{KEY}: no certificate is for {name}, so clients that send no server name are refused; \
             add an ssls object with this name, or name one that has a certificate"
        );
        Some(Wanted { name: name.to_ascii_lowercase(), message: settings.places.message(KEY, &text) })
    }

    fn remark(&self, control: &Control) -> Option<String> {
        self.is_missing(&control.publisher.current().certificates).then(|| self.message.clone())
    }

    fn is_missing(&self, certificates: &Certificates) -> bool {
        certificates.find(&self.name).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_cannot_be_used_is_not_missing() {
        let wanted = Wanted { name: "a.test".to_owned(), message: String::new() };
        let mut certificates = Certificates::default();
        assert!(wanted.is_missing(&certificates));
        certificates.add_unusable("b.test", &Arc::from("b"), false);
        assert!(wanted.is_missing(&certificates));
        certificates.add_unusable("*.test", &Arc::from("a"), false);
        assert!(!wanted.is_missing(&certificates));
    }
}
