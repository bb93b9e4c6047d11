//! The console in a real browser: its scripts and styles load under its own Content-Security-Policy, and draw what they should.
//! `make ui-test` has the rest, and needs Node.

use std::process::{Command, Stdio};

use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Client, Gateway};

const BROWSER: &str = "chromium";

fn is_installed() -> bool {
    let mut command = Command::new(BROWSER);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The document as it is once its scripts have run.
fn drawn(url: &str, language: &str) -> String {
    let profile = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(BROWSER);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=10000",
        "--dump-dom",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--accept-lang={language}")).arg(url).stderr(Stdio::null());
    String::from_utf8_lossy(&command.output().expect("it runs").stdout).into_owned()
}

#[test]
fn a_browser_shows_the_console() {
    if !is_installed() {
        eprintln!("skipped: {BROWSER} is not installed");
        return;
    }
    let gateway = Gateway::start(EMBEDDED, None);
    let base = format!("http://{}/ui/", gateway.admin);
    for (language, title) in [("en-US", "Sign in"), ("zh-CN", "登录")] {
        let document = drawn(&base, language);
        assert!(document.contains("id=\"key\"") && document.contains(title), "{language}: {document}");
    }
    // A deep link asks to sign in first.
    let document = drawn(&format!("{base}routes/orders"), "en-US");
    assert!(document.contains("id=\"key\""), "{document}");
    // What the page loads is there, and nothing else is asked for.
    let mut client = Client::connect(gateway.admin).expect("a connection");
    let page = client.get("localhost", "/ui/").expect("an answer");
    assert!(
        page.header("Content-Security-Policy")
            .is_some_and(|policy| policy.contains("frame-ancestors 'none'"))
    );
}
