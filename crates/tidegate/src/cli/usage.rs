//! A value on the command line that cannot be used: exit code 2, as for those that the parser of arguments refuses.

use std::{fmt, net::SocketAddr, process::ExitCode, time::Duration};

use tidegate_model::units;

use super::stdout;

/// The exit code.
pub(super) const EXIT_CODE: u8 = 2;

#[derive(Debug)]
pub(super) struct Unusable(pub String);

impl std::error::Error for Unusable {}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Prints what the parser of arguments says: its fault on standard error, help and version on standard output.
pub(super) fn explain(said: &clap::Error) -> ExitCode {
    let printed = said.print();
    if !said.use_stderr() {
        stdout::keep_problem(printed);
    }
    ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(EXIT_CODE))
}

/// Where a verb listens that is not for other machines unless asked: `8080`, `127.0.0.1:8080`, `[::1]:8080`,
/// `localhost:8080`; a port alone is one of 127.0.0.1.
pub(super) fn local_address(text: &str) -> Result<SocketAddr, Unusable> {
    let full = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None if text.contains(':') => text.to_owned(),
        None => format!("127.0.0.1:{text}"),
    };
    let address: Option<SocketAddr> = full.parse().ok();
    address.ok_or_else(|| {
        Unusable(format!("--listen {text}: give a port, or an address and a port such as 127.0.0.1:8080"))
    })
}

/// `500ms`, `2s`
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text).ok_or_else(|| "give a time such as 500ms or 2s".to_owned())
}

/// `1500`, `64k`, `10m`
pub(super) fn size(text: &str) -> Result<u64, String> {
    units::size(text).ok_or_else(|| "give a size in bytes, or such as 64k or 10m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_local() {
        for (text, expected) in [
            ("8080", Some("127.0.0.1:8080")),
            ("localhost:8080", Some("127.0.0.1:8080")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("", None),
            ("70000", None),
            ("::1:8080", None),
            ("example.com:80", None),
            ("127.0.0.1", None),
        ] {
            let found = local_address(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
