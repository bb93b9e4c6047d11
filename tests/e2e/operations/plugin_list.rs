//! `PUT /apisix/admin/plugins/reload`: the list of plugins in config.yaml is read again, as `tidegate reload` does.

use std::fs;

use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Client, Gateway, eventually};

#[test]
fn the_list_of_plugins_is_read_again() {
    let config = format!("{EMBEDDED}plugins: [mocking, key-auth]\n");
    let gateway = Gateway::start(&config, None);
    let file = gateway.prefix().join("conf/config.yaml");
    let write = |list: &str| {
        let text = fs::read_to_string(&file).expect("readable");
        let kept: String = text
            .lines()
            .filter(|line| !line.starts_with("plugins:"))
            .map(|line| format!("{line}\n"))
            .collect();
        fs::write(&file, format!("{kept}plugins: {list}\n")).expect("written");
    };
    let list = || gateway.admin("GET", "/apisix/admin/plugins/list", "").1.trim().to_owned();
    let reload = || gateway.admin("PUT", "/apisix/admin/plugins/reload", "");
    assert_eq!(list(), r#"["mocking","key-auth"]"#);
    write("[mocking]");
    assert_eq!(reload(), (200, "done".to_owned()));
    eventually("the list is another one", || list() == r#"["mocking"]"#);
    write("[[");
    let (status, text) = reload();
    assert!(status == 503 && text.contains("config.yaml"), "{status} {text}");
    assert_eq!(list(), r#"["mocking"]"#);
    // An editor that has emptied the file is about to write it.
    let written = fs::read_to_string(&file).expect("readable");
    fs::write(&file, "# nothing yet\n").expect("written");
    let (status, text) = reload();
    assert!(status == 503 && text.contains("config.yaml is empty or missing"), "{status} {text}");
    assert_eq!(list(), r#"["mocking"]"#);
    fs::write(&file, written).expect("written");
    // The same by the Control API.
    write("[mocking, key-auth]");
    let mut control = Client::connect(gateway.control).expect("connects");
    let asked = "PUT /v1/plugins/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(control.request(asked).expect("an answer").status(), 200);
    eventually("the list is the old one", || list() == r#"["mocking","key-auth"]"#);
}
