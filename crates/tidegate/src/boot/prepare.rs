//! Everything that has to be had before the first request, in the order in which it can be missing.
//!
//! `run` serves with what [`prepare`] returns; `test` drops it. There is no second way to find out whether a
//! configuration works, so the two cannot disagree. What a trial must not do, because it only asks, [`Purpose`] says.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use tidegate_config::Settings;
use tidegate_plugin_api::Catalog;
use tokio::{net::TcpListener, runtime::Runtime};

use super::{
    administration::Apis,
    control::{self, Control},
    data_plane, fallback_name,
    logs::Logs,
    metrics::Metrics,
    notices, plugin_files,
    process::{StopCompiler, install_host, start_plugins},
    provider::{self, Provider},
    purpose::Purpose,
    server_info,
    sockets::Sockets,
    status,
};

pub(super) struct Prepared {
    pub logs: Logs,
    pub runtime: Runtime,
    pub catalog: Arc<Catalog>,
    pub metrics: Arc<Metrics>,
    pub provider: Arc<Provider>,
    pub control: Arc<Control>,
    pub compiler: StopCompiler,
    pub apis: Arc<Apis>,
    pub proxy: tidegate_proxy::Settings,
    pub listeners: tidegate_proxy::Listeners,
    /// Why HTTPS is not served, where that is not asked for.
    pub without_tls: Option<String>,
    /// Where the Control API listens.
    pub control_api: Option<SocketAddr>,
    pub status: Option<TcpListener>,
}

/// `warnings`: of config.yaml, to be logged as soon as there is a log.
pub(super) fn prepare(
    settings: &Settings,
    sockets: &Sockets,
    purpose: &Purpose,
    warnings: &[String],
) -> anyhow::Result<Prepared> {
    // Before there is another thread.
    tidegate_proxy::ask_for_short_slices();
    let logs = Logs::open(settings)?;
    warnings.iter().for_each(|warning| notices::warn(warning));
    let runtime = control::runtime()?;
    let catalog = Arc::new(super::catalogs::catalog(Some(&settings.plugins))?);
    let metrics = Arc::new(Metrics::new(settings));
    install_host(settings, &runtime, &catalog, &metrics, &logs);
    let broken = plugin_files::add(settings, &catalog, matches!(purpose, Purpose::Serve(Some(_))))?;
    start_plugins(settings, &catalog)?;
    let provider = provider::open(settings, &catalog, &runtime, purpose)?;
    let control =
        control::start(settings, &runtime, &catalog, &provider, matches!(purpose, Purpose::Trial(_)))?;
    let compiler = StopCompiler(control.clone());
    fallback_name::check(settings, &control);
    if let Purpose::Trial(trial) = purpose {
        // Problems that were reported for a file already are among them.
        trial.problems.fetch_max(control.rejected.borrow().len(), Ordering::Relaxed);
        trial.problems.fetch_add(broken, Ordering::Relaxed);
        provider.store().read(&mut |state| trial.objects.store(state.all().count(), Ordering::Relaxed));
    }
    if let Purpose::Serve(_) = purpose {
        server_info::report(settings, &catalog, &provider);
    }
    let apis = Apis::new(settings, &catalog, &provider, &control, &logs)?;
    let proxy = data_plane::settings(settings, &logs, &apis)?;
    let listeners = sockets.open_data_plane(&proxy).map_err(|error| taken(settings, &proxy, &error))?;
    let without_tls = without_tls(&listeners);
    let (control_api, status) = {
        let _entered = runtime.enter();
        let control_api = apis.listen(settings, &runtime, sockets)?;
        metrics.listen(settings, &runtime, sockets)?;
        (control_api, status::bind(settings, sockets)?)
    };
    Ok(Prepared {
        logs,
        runtime,
        catalog,
        metrics,
        provider,
        control,
        compiler,
        apis,
        proxy,
        listeners,
        without_tls,
        control_api,
        status,
    })
}

/// An address that cannot be listened at, with the key that wants it.
fn taken(settings: &Settings, proxy: &tidegate_proxy::Settings, error: &std::io::Error) -> anyhow::Error {
    let text = error.to_string();
    let named = |listen: &&tidegate_proxy::settings::Listen| {
        text.contains(&format!("listen on {}: ", listen.address))
    };
    let key = proxy.listen.iter().find(named).map(|listen| match (listen.proxy_protocol, listen.tls) {
        _ if listen.is_udp() => "apisix.stream_proxy.udp",
        _ if listen.stream.is_some() => "apisix.stream_proxy.tcp",
        (false, false) => "apisix.node_listen",
        (false, true) => "apisix.ssl.listen",
        (true, false) => "apisix.proxy_protocol.listen_http_port",
        (true, true) => "apisix.proxy_protocol.listen_https_port",
    });
    match key {
        Some(key) => anyhow::anyhow!("{}", settings.places.message(key, &format!("{text} ({key})"))),
        None => anyhow::anyhow!("cannot open the data plane: {text}"),
    }
}

/// Says which of the default ports for HTTPS are left out, and why.
fn without_tls(listeners: &tidegate_proxy::Listeners) -> Option<String> {
    if listeners.left_out.is_empty() {
        return None;
    }
    let problem =
        format!("{}; set apisix.ssl.listen, or apisix.ssl.enable: false", listeners.left_out.join("; "));
    notices::warn(&format!("HTTPS is not served: {problem}"));
    Some(problem)
}
