//! `tidegate bench doctor`: what spoils measurements, with the command that puts it right.

use std::{
    io::{IsTerminal, Write, stderr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use super::files;
use clap::Args;
use tidegate_bench::{
    Plan, Problem, Protocol,
    doctor::{self, Check, Involved},
    hold, interrupt, preflight,
    request::{Http1, Request, RequestSpec},
    target::Origin,
};
use tidegate_config::{Settings, Source};

/// Checks that found something.
const SOMETHING_BAD: u8 = 3;
const CONNECTIONS: usize = 32;

#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Also put load on this URL for a second, and see which side is busy
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// URL of the upstream behind the gateway, to see whether it is the limit
    #[arg(long, value_name = "URL", requires = "url")]
    upstream: Option<String>,
    /// Also check this config.yaml of the gateway
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder that paths in config.yaml are relative to
    #[arg(long, value_name = "DIR", default_value = ".")]
    prefix: PathBuf,
    /// Open this many connections to the URL, hold them, and report the memory per connection and what stopped it
    #[arg(long, value_name = "N", requires = "url")]
    connections: Option<usize>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    if let (Some(url), Some(wanted)) = (&arguments.url, arguments.connections) {
        return hold_connections(url, wanted);
    }
    let mut checks = doctor::system_checks();
    if let Some(file) = &arguments.config {
        checks.extend(configuration(file, &arguments.prefix)?);
    }
    if let Some(url) = &arguments.url {
        checks.extend(target(url, arguments.upstream.as_deref())?);
    }
    files::print(&doctor::render(&checks))?;
    let bad = checks.iter().any(|check| check.state == doctor::State::Bad);
    Ok(if bad { ExitCode::from(SOMETHING_BAD) } else { ExitCode::SUCCESS })
}

fn plan(url: &str) -> Result<Plan, Problem> {
    let (origin, path) = Origin::parse(url)?;
    if origin.tls {
        return Err(Problem::usage("doctor looks at http:// targets"));
    }
    Ok(Plan {
        addresses: origin.resolve()?,
        origin,
        requests: vec![RequestSpec { method: "GET".into(), path, headers: Vec::new(), body: None }],
        connections: CONNECTIONS,
        threads: 1,
        duration: Some(Duration::from_secs(1)),
        count: None,
        rate: None,
        protocol: Protocol::Http1(Http1 { version_10: false, keep_alive: true }),
        pipeline: 1,
        timeout: Duration::from_secs(5),
        tls: None,
        accepted_statuses: Vec::new(),
        options: Default::default(),
    })
}

fn target(url: &str, upstream: Option<&str>) -> Result<Vec<Check>, Problem> {
    let gateway = plan(url)?;
    preflight::check(&gateway)?;
    let address = |plan: &Plan| plan.addresses.first().copied();
    let mut involved: Vec<Involved> =
        address(&gateway).map(|address| Involved { role: "gateway", address }).into_iter().collect();
    if let Some(upstream) = upstream {
        let upstream = plan(upstream)?;
        involved.extend(address(&upstream).map(|address| Involved { role: "upstream", address }));
    }
    doctor::target_checks(gateway, &involved)
}

/// What the gateway's own configuration costs or hides.
fn configuration(file: &std::path::Path, prefix: &std::path::Path) -> Result<Vec<Check>, Problem> {
    let absolute = |path: &std::path::Path| {
        std::path::absolute(path).map_err(|error| Problem::usage(format!("{}: {error}", path.display())))
    };
    let source = Source {
        prefix: absolute(prefix)?,
        file: Some(absolute(file)?),
        listen: None,
        plugins: tidegate_plugins::registry::on_by_default(),
    };
    let loaded = tidegate_config::load(&source).map_err(|error| Problem::usage(error.to_string()))?;
    Ok(settings_checks(&loaded.settings))
}

fn settings_checks(settings: &Settings) -> Vec<Check> {
    let nginx = &settings.nginx;
    let level = format!("{:?}", nginx.error_log_level).to_lowercase();
    let loud = ["info", "debug"].contains(&level.as_str());
    vec![
        Check::condition(
            "access log",
            !nginx.access_log.enable,
            if nginx.access_log.enable { "on: a line is written for each request" } else { "off" },
            "nginx_config.http.enable_access_log: false, if the other side of the comparison writes none",
        ),
        Check::condition("error log level", !loud, level, "nginx_config.error_log_level: warn"),
        Check::condition(
            "keep-alive to upstream",
            nginx.upstream.connections >= 64 && nginx.upstream.requests >= 1000,
            format!(
                "{} idle connections are kept, {} requests on each",
                nginx.upstream.connections, nginx.upstream.requests
            ),
            "nginx_config.http.upstream: {keepalive: 320, keepalive_requests: 100000}",
        ),
        Check::condition(
            "gateway's connections",
            nginx.worker_connections >= 10_000 && nginx.worker_rlimit_nofile >= 20_000,
            format!(
                "{} connections and {} open files for each worker",
                nginx.worker_connections, nginx.worker_rlimit_nofile
            ),
            "nginx_config.event.worker_connections: 65536 and worker_rlimit_nofile: 131072",
        ),
    ]
}

fn hold_connections(url: &str, wanted: usize) -> Result<ExitCode, Problem> {
    let plan = plan(url)?;
    preflight::check(&plan)?;
    let spec = plan.requests.first().ok_or_else(|| Problem::usage("give a URL"))?;
    let form = Http1 { version_10: false, keep_alive: true };
    let request = Request::new(spec, &plan.origin.host_field(), form)?;
    let bytes = request.fixed().ok_or_else(|| Problem::usage("--connections needs a URL without {{...}}"))?;
    let address = *plan.addresses.first().ok_or_else(|| Problem::unreachable("the target has no address"))?;
    let stop = interrupt::flag()?;
    let shown = stderr().is_terminal();
    let held = hold::hold(address, bytes, wanted, &stop, |open| {
        if shown {
            let _ = write!(stderr(), "\r\x1b[2K{open} connections");
        }
    })?;
    if shown {
        let _ = write!(stderr(), "\r\x1b[2K");
    }
    files::print(&held.render())?;
    Ok(if held.opened == wanted { ExitCode::SUCCESS } else { ExitCode::from(SOMETHING_BAD) })
}
