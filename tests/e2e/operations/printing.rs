//! Verbs whose output goes nowhere: to a full disk, or to a reader that has seen enough.

use std::fs::{self, OpenOptions};
use std::process::{Command, Stdio};

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, binary};

const VERBS: [&[&str]; 17] = [
    &["--help"],
    &["--version"],
    &["routes", "--help"],
    &["version"],
    &["openapi"],
    &["completions", "bash"],
    &["routes"],
    &["test"],
    &["explain", "GET", "/"],
    &["config", "export"],
    &["config", "history"],
    &["config", "diff", "@FILE@"],
    &["config", "import", "@FILE@"],
    &["config", "checkpoint", "one"],
    &["import", "apisix", "@FILE@"],
    &["proxy", "--to", "http://127.0.0.1:1", "--print"],
    &["doctor", "@FILE@"],
];

#[test]
fn verbs_say_that_their_output_is_lost() {
    let gateway = Gateway::start(EMBEDDED, None);
    let file = gateway.prefix().join("file.yaml");
    fs::write(&file, "routes: [{id: 1, uri: /a, upstream: {nodes: {'127.0.0.1:1': 1}}}]\n#END\n")
        .expect("written");
    let command = |words: &[&str]| {
        let mut command = Command::new(binary());
        command.args(words.iter().map(|word| match *word {
            "@FILE@" => file.as_os_str(),
            word => word.as_ref(),
        }));
        command.arg("--prefix").arg(gateway.prefix()).stdin(Stdio::null()).stderr(Stdio::piped());
        command
    };
    for words in VERBS {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let output = command(words).stdout(full).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // As diff(1): 1 means a difference.
        let code = if words.contains(&"diff") { 2 } else { 1 };
        assert!(
            output.status.code() == Some(code) && said.contains("cannot write to standard output: "),
            "{words:?}: {:?} {said}",
            output.status
        );

        let mut usual = command(words);
        let usual = usual.stdout(Stdio::null()).status().expect("runs");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = command(words).stdout(writer).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == usual.code()
                && !said.contains("standard output")
                && !said.contains("panicked"),
            "{words:?}: {:?} {said}",
            output.status
        );
    }
}
