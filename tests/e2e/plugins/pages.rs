//! The examples of docs/plugins, run as a reader would after `tidegate echo`: the `sh` block's commands against the Admin API, then each `$`
//! command of the `console` block, whose output must contain the lines shown below it, in their order. `...` in a line
//! stands for anything. Other blocks of these pages are run by [`crate::pages`], with the guides.
//!
//! `UPDATE_DOCS=1` writes the output below commands that show none yet. `PAGES=key-auth,cors` runs these pages only.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tidegate_testkit::free_port;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway, binary, workspace_root};
use tidegate_testkit::process::Process;

use crate::pages::transcript::{Shown, missing, shown};

/// Lines of a request as `tidegate echo` shows it that are the same on every page.
const USUAL: [&str; 5] = ["Host: ", "User-Agent: ", "Accept: ", "X-Real-IP: ", "X-Forwarded-"];

/// Header fields of answers that differ from run to run, or say nothing about the plugin.
const UNTOLD: [&str; 7] =
    ["date", "server", "connection", "content-type", "content-length", "transfer-encoding", "keep-alive"];

#[test]
fn examples_do_what_the_pages_show() {
    let mut names = names();
    let config = format!("{EMBEDDED}plugins: [{}]\n", names.join(", "));
    if let Ok(wanted) = std::env::var("PAGES") {
        names.retain(|name| wanted.split(',').any(|one| one == name));
        assert!(!names.is_empty(), "PAGES={wanted}: docs/plugins has no such page");
    }
    let (upstream, other) = (Echo::start(), Echo::start());
    let gateway = Gateway::start(&config, None);
    // Its port opens after the proxy's; this waits for it.
    gateway.admin("GET", "/apisix/admin/routes", "");
    let shell = Shell { gateway: &gateway, upstream: &upstream, other: &other };
    let mut wrong = Vec::new();
    for name in &names {
        let page = workspace_root().join(format!("docs/plugins/{name}.md"));
        if let Err(reason) = run_page(&page, &shell) {
            wrong.push(format!("{}: {reason}", page.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Plugins of streams alone: their pages are run by [`crate::pages`], with ports of their own.
pub(crate) const OF_STREAMS: [&str; 1] = ["mqtt-proxy"];

/// The plugins of HTTP that have pages. Translations have the same examples (`crates/plugins/tests/pages`).
fn names() -> Vec<String> {
    let entries = fs::read_dir(workspace_root().join("docs/plugins")).expect("docs/plugins");
    let files = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.strip_suffix(".md")?.to_owned())).collect();
    names.retain(|name| name != "README" && !name.contains('.') && !OF_STREAMS.contains(&name.as_str()));
    names.sort();
    names
}

fn run_page(path: &Path, shell: &Shell) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (_, example) = text.split_once("\n## Example\n").ok_or("no example")?;
    let setup = block(example, "sh").ok_or("no sh block in the example")?;
    let console = block(example, "console").ok_or("no console block in the example")?;
    let script = format!("set -e\ncurl() {{ command curl -sS --fail-with-body \"$@\"; }}\n{setup}");
    let (output, fine) = shell.run(&script);
    if !fine {
        return Err(format!("the configuration is refused:\n{output}"));
    }
    let result = run_console(path, &text, console, shell);
    // The next page starts from nothing. What is referred to was written first and goes last.
    let paths = setup.split(":9180").skip(1).filter_map(|rest| rest.split_whitespace().next());
    for path in paths.collect::<Vec<_>>().into_iter().rev() {
        let (status, body) = shell.gateway.admin("DELETE", path, "");
        assert_eq!(status, 200, "DELETE {path}: {body}");
    }
    result
}

fn run_console(path: &Path, text: &str, console: &str, shell: &Shell) -> Result<(), String> {
    let mut fresh = String::new();
    for Shown { command, lines } in shown(console) {
        let (output, _) = shell.run(&format!("curl() {{ command curl -sS -m 10 \"$@\"; }}\n{command}"));
        fresh += &format!("$ {command}\n");
        if lines.is_empty() && std::env::var_os("UPDATE_DOCS").is_some() {
            fresh += &told(&output);
            continue;
        }
        if lines.is_empty() {
            return Err(format!("{command} shows no output: run this test with UPDATE_DOCS=1"));
        }
        if let Some(line) = missing(&lines, &output) {
            return Err(format!("{command}\nhas no line `{line}`, or not there, in its output:\n{output}"));
        }
        fresh.extend(lines.iter().map(|line| format!("{line}\n")));
    }
    if fresh != console && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, text.replace(console, &fresh)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The text inside the first fence of a language.
fn block<'a>(text: &'a str, language: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("```{language}\n"))?;
    Some(rest.split_once("```").map_or(rest, |(block, _)| block))
}

/// What a page shows of an output: status, telling header fields, body unless it is an error page.
fn told(output: &str) -> String {
    let mut shown = String::new();
    let mut head = output.starts_with("HTTP/");
    for line in output.lines().map(str::trim_end) {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if line == "<html>" {
            break;
        }
        if line.is_empty() {
            shown += if head { "\n" } else { "" };
            head = false;
        } else if !(head && UNTOLD.contains(&name.as_str())
            || !head && USUAL.iter().any(|one| line.starts_with(one)))
        {
            shown += &format!("{line}\n");
        }
    }
    shown.trim_end().to_owned() + "\n"
}

struct Shell<'a> {
    gateway: &'a Gateway,
    upstream: &'a Echo,
    other: &'a Echo,
}

impl Shell<'_> {
    /// Both outputs of a script, with the ports of this run in place of the documented ones.
    fn run(&self, script: &str) -> (String, bool) {
        let ports = [
            (":9080", self.gateway.http.port()),
            (":9090", self.gateway.control.port()),
            (":9180", self.gateway.admin.port()),
            (":9091", self.gateway.metrics.port()),
            (":1980", self.upstream.port),
            (":1981", self.other.port),
        ];
        let with_ports = |text: String, (known, port): &(&str, u16)| text.replace(known, &format!(":{port}"));
        let output = Command::new("timeout")
            .args(["20", "bash", "-c", &ports.iter().fold(script.to_owned(), with_ports)])
            .env("ADMIN_KEY", ADMIN_KEY)
            .current_dir(self.gateway.prefix())
            .output()
            .expect("bash runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let back = |text: String, (known, port): &(&str, u16)| text.replace(&format!(":{port}"), known);
        (ports.iter().fold(text, back), output.status.success())
    }
}

/// `tidegate echo`, the upstream of the examples.
struct Echo {
    port: u16,
    _process: Process,
}

impl Echo {
    fn start() -> Echo {
        let port = free_port();
        let mut command = Command::new(binary());
        let mut process = Process::start("tidegate echo", command.args(["echo", "-p", &port.to_string()]));
        process.wait_for_port(SocketAddr::from(([127, 0, 0, 1], port)));
        Echo { port, _process: process }
    }
}
