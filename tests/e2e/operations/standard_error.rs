//! A log that goes to a pipe which nobody reads, as under a container's runtime that hangs, holds up no request.

use std::{fs::OpenOptions, process::Command};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tidegate_testkit::{
    Gateway,
    gateway::{YAML_PROVIDER, binary},
};

/// More than a pipe takes, in lines that differ.
const LOGGING: &str = r##"routes:
  - id: logging
    uri: /logging
    plugins:
      serverless-pre-function:
        phase: access
        functions:
          - "return function() ngx.log(ngx.ERR, ngx.var.request_uri, string.rep('x', 4000)) ngx.exit(204) end"
"##;

#[test]
fn a_full_pipe_behind_standard_error_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("stderr");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
    // Open, and never read.
    let _unread = OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe");
    let config = YAML_PROVIDER.replace("nginx_config:", "nginx_config:\n  error_log: /dev/stderr");
    let mut gateway = Gateway::start_by(&config, Some(LOGGING), |prefix| {
        let mut command = Command::new("sh");
        command.arg("-c").arg("pipe=$1; shift; exec \"$@\" 2>>\"$pipe\"").arg("sh").arg(&pipe);
        command.arg(binary()).arg("run").arg("--prefix").arg(prefix);
        command
    });
    gateway.process.wait_for_port(gateway.http);
    let mut client = gateway.client();
    for number in 0..64 {
        let answer = client.get("h", &format!("/logging?{number}")).expect("an answer");
        assert_eq!(answer.status(), 204);
    }
    assert!(gateway.process.stop().success());
}
