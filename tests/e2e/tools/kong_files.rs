//! What an import makes of Kong's files: which are refused, what variables stand for, what the verdict counts.

use std::{fs, process::Command};

use tidegate_testkit::gateway::binary;

pub(crate) fn import(arguments: &[&str], text: &str, variables: &[(&str, &str)]) -> (bool, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kong.yaml");
    fs::write(&file, text).expect("written");
    fs::write(folder.path().join("env"), "# of a test\nexport DECK_PORT=9\nDECK_KEY=\"from the file\"\n")
        .expect("written");
    let mut command = Command::new(binary());
    command.args(["import", "kong"]).arg(&file).args(arguments).current_dir(folder.path());
    let output = command.envs(variables.iter().copied()).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_missing_can_be_allowed() {
    let text = "_format_version: '3.0'\nservices: [{name: s, url: 'http://127.0.0.1:9', plugins: [{name: my-auth}], routes: [{name: r, paths: [/]}]}]\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(
        objects.contains("closed by import (r)")
            && report.contains("0 of 1 routes behave as in Kong; 1 is closed"),
        "{report}"
    );
    let (_, objects, report) = import(&["--allow-missing", "my-auth"], text, &[]);
    assert!(
        !objects.contains("closed by import") && report.contains("not supported: plugin my-auth"),
        "{report}"
    );
}

#[test]
fn variables_come_from_the_environment_or_a_file() {
    let text = "_format_version: '3.0'\nservices: [{name: s, host: h, port: '${{ env \"DECK_PORT\" }}'}]\n\
                consumers: [{username: u, keyauth_credentials: [{key: '${{ env \"DECK_KEY\" }}'}, {key: '{vault://env/my-key}'}]}]\n";
    let (fine, _, report) = import(&[], text, &[]);
    assert!(!fine && report.contains("kong.yaml:2:") && report.contains("DECK_PORT is not set"), "{report}");
    let (fine, objects, report) = import(&[], text, &[("DECK_PORT", "8"), ("DECK_KEY", "a: [b")]);
    assert!(fine && objects.contains("a: [b") && objects.contains("$ENV://MY_KEY"), "{objects}{report}");
    let (fine, objects, report) = import(&["--env-file", "env"], text, &[]);
    assert!(fine && objects.contains("from the file"), "{objects}{report}");
    let filtered = text.replace("\"DECK_PORT\"", "\"DECK_PORT\" | toInt");
    let (fine, objects, report) = import(&["--env-file", "env"], &filtered, &[]);
    assert!(fine, "{objects}{report}");
    let versions = text.replace("'3.0'", "'${{ env \"DECK_VERSION\" }}'");
    let (fine, _, report) = import(&["--env-file", "env"], &versions, &[("DECK_VERSION", "3.0")]);
    assert!(fine, "{report}");
    let quoted = text.replace("'${{ env \"DECK_KEY\" }}'", "\"${{ env \"DECK_KEY\" }}, whole\"");
    let (fine, objects, report) = import(&["--env-file", "env"], &quoted, &[]);
    assert!(fine && objects.contains("from the file, whole"), "{objects}{report}");
    let named = text.to_owned() + "vaults: [{name: env, prefix: mine, config: {prefix: some_}}]\n";
    let (fine, objects, report) = import(&["--env-file", "env"], &named.replace("//env/", "//mine/"), &[]);
    assert!(fine && objects.contains("$ENV://SOME_MY_KEY"), "{objects}{report}");
    let (fine, _, report) = import(&[], &text.replace("DECK_PORT", "PATH"), &[]);
    assert!(!fine && report.contains("DECK_NAME"), "{report}");
}

/// Kong refuses such a file; the guard in it must not be left out.
#[test]
fn plugins_that_are_no_list_are_refused() {
    let text = "_format_version: '3.0'\nservices:\n- name: s\n  url: http://127.0.0.1:1\n  routes:\n  - name: r\n    paths: [/a]\n    \
                plugins: {name: key-auth}\n";
    let (fine, _, said) = import(&[], text, &[]);
    assert!(!fine && said.contains("8:5: plugins is not a list"), "{said}");
}

#[test]
fn several_workspaces_are_refused() {
    let one = "_format_version: '3.0'\nservices: [{name: s, host: h, ws_id: a, _comment: mine}]\n";
    let (fine, _, report) = import(&["--strict"], one, &[]);
    assert!(fine, "{report}");
    let (fine, _, report) = import(&[], &format!("{one}plugins: [{{name: cors, ws_id: b}}]\n"), &[]);
    assert!(!fine && report.contains("several workspaces"), "{report}");
}

/// A chain of filters is not a plugin, whatever its name.
#[test]
fn a_filter_chain_named_like_a_plugin_closes() {
    let text = "_format_version: '3.0'\nservices: [{name: s, host: h, routes: [{name: r, paths: [/]}]}]\n\
                filter_chains: [{name: cors, filters: [{name: guard}]}, {name: key-auth, filters: [{name: x}]}]\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(
        objects.contains("closed by import (r)") && report.contains("plugin filter chain cors"),
        "{report}"
    );
}

/// Two consumers are never one here: the second one is nobody.
#[test]
fn names_that_become_one_do_not_merge() {
    let text = "_format_version: '3.0'\nconsumers:\n- {username: a b, keyauth_credentials: [{key: first}]}\n\
                - {username: a_b, keyauth_credentials: [{key: second}]}\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(objects.contains("first") && !objects.contains("second"), "{objects}");
    assert!(report.contains("kong.yaml:4: closed: consumer a_b: another consumer is a_b here"), "{report}");
}

/// What counts once only is refused where it is there twice, with both places.
#[test]
fn what_is_there_twice_is_refused() {
    let service = |name: &str, route: &str| {
        format!("- {{name: {name}, host: h, routes: [{{name: {route}, paths: [/{route}]}}]}}\n")
    };
    let services = |more: &str| format!("_format_version: '3.0'\nservices:\n{}{more}", service("s", "r"));
    let consumers = |one: &str, other: &str| services(&format!("consumers:\n- {{{one}}}\n- {{{other}}}\n"));
    let plugins = |one: &str, other: &str| services(&format!("plugins:\n- {{{one}}}\n- {{{other}}}\n"));
    for (text, wanted) in [
        // Keys of a mapping: the last one would count.
        (
            "_format_version: '3.0'\nservices:\n- name: s\n  plugins: [{name: key-auth}]\n  host: h\n  plugins: []\n"
                .to_owned(),
            "kong.yaml:6:3: key \"plugins\" is given twice, first at 4:3",
        ),
        (services("services: []\n"), "kong.yaml:4:1: key \"services\" is given twice, first at 2:1"),
        (
            services("plugins: [{name: key-auth, config: {key_in_query: false, key_in_query: true}}]\n"),
            "key \"key_in_query\" is given twice",
        ),
        // Names of entities.
        (services(&service("s", "other")), "kong.yaml:4:10: duplicate service \"s\", first at 3:10"),
        (services(&service("other", "r")), "duplicate route \"r\", first at 3:"),
        (services("routes:\n- {name: r, service: s}\n"), "kong.yaml:5:10: duplicate route \"r\", first at 3:"),
        (services("upstreams:\n- name: u\n- name: u\n"), "kong.yaml:6:9: duplicate upstream \"u\", first at 5:9"),
        (services("upstreams:\n- {name: u, targets: [{target: 'a:1'}, {target: 'a:1'}]}\n"), "target \"a:1\""),
        (consumers("username: a", "username: a"), "kong.yaml:6:14: duplicate consumer \"a\", first at 5:14"),
        (consumers("username: a, custom_id: i", "username: b, custom_id: i"), "duplicate consumer \"i\""),
        (services("consumer_groups:\n- name: g\n- name: g\n"), "duplicate consumer group \"g\""),
        (
            consumers("username: a, keyauth_credentials: [{key: x}]", "username: b, keyauth_credentials: [{key: x}]"),
            "duplicate key of key-auth, first at 5:",
        ),
        (
            consumers(
                "username: a, basicauth_credentials: [{username: x, password: p}]",
                "username: b, basicauth_credentials: [{username: x, password: q}]",
            ),
            "duplicate user of basic-auth \"x\"",
        ),
        // Of two plugins at one place the first one would count.
        (
            plugins("name: ip-restriction, config: {deny: [10.0.0.1]}", "name: ip-restriction, config: {deny: [10.0.0.2]}"),
            "kong.yaml:6:3: duplicate plugin ip-restriction of the file, first at 5:3",
        ),
        (
            plugins("name: acl, service: s, config: {deny: [a]}", "name: acl, service: {name: s}, config: {deny: [b]}"),
            "duplicate plugin acl of s",
        ),
    ] {
        let (fine, objects, report) = import(&[], &text, &[]);
        assert!(!fine && objects.is_empty() && report.contains(wanted), "{text}\n{wanted}\n{report}");
        assert!(!report.contains("\"x\"") || wanted.contains("\"x\""), "a key is a secret: {report}");
    }
    // One name is fine for entities of different kinds, and one plugin at different places.
    let fine = consumers("username: s", "username: r, plugins: [{name: key-auth}]")
        + "plugins: [{name: key-auth}, {name: key-auth, service: s}, {name: key-auth, route: r}]\n";
    let (fine, _, report) = import(&[], &fine, &[]);
    assert!(fine, "{report}");
}

/// The verdict counts routes, each once, and tells apart which answer as in Kong, which differ, and which are closed.
#[test]
fn the_verdict_counts_what_differs() {
    let text = "_format_version: '3.0'\nservices:\n\
                - name: s\n  host: h\n  routes:\n\
                \x20 - {name: same, paths: [/a, /b, /c]}\n\
                \x20 - {name: near, paths: [/d, /e], plugins: [{name: bot-detection}]}\n\
                \x20 - {name: shut, paths: [/f, /g], plugins: [{name: ldap-auth}]}\n\
                \x20 - {name: moved, paths: [/h], protocols: [https]}\n\
                \x20 - {name: keyed, paths: [/i], plugins: [{name: key-auth}]}\n";
    let verdict = |text: &str| {
        let (fine, _, report) = import(&[], text, &[]);
        assert!(fine, "{report}");
        let line = report.lines().find(|line| line.contains("routes behave as in Kong")).expect("a verdict");
        let (file, verdict) = line.split_once(": ").expect("the file's name");
        verdict.replace(" routes behave as in Kong", "").replace(file, "@")
    };
    assert_eq!(verdict(text), "2 of 5; 2 answer differently: @:7, @:9; 1 is closed: @:8");
    // What is approximated for a service holds for all of its routes, and consumers for those that ask who they are.
    let service = text.replace("  host: h\n", "  host: u\n  tls_verify_depth: 1\n");
    assert_eq!(verdict(&service), "0 of 5; 4 answer differently: @:7, @:8, @:10, @:11; 1 is closed: @:9");
    let consumers = format!("{text}consumers:\n- {{username: a b, keyauth_credentials: [{{key: k}}]}}\n");
    assert_eq!(verdict(&consumers), "1 of 5; 3 answer differently: @:7, @:9, @:10; 1 is closed: @:8");
    let everywhere = format!("{text}plugins: [{{name: grpc-web}}]\n");
    assert!(verdict(&everywhere).starts_with("0 of 5; 4 answer differently"), "{}", verdict(&everywhere));
}

/// What one value of the field was answered with is not for clients with another.
#[test]
fn answers_are_cached_by_the_fields_that_they_vary_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kong.yaml");
    let text = "_format_version: '3.0'\nservices:\n- {name: s, url: 'http://127.0.0.1:1', routes: [{name: r, paths: [/a], plugins: [{name: proxy-cache, config: {strategy: memory, vary_headers: [X-A]}}]}]}\n";
    fs::write(&file, text).expect("written");
    let output = Command::new(binary()).args(["import", "kong"]).arg(&file).output().expect("it runs");
    let (written, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(written.contains("$http_x_a") && written.contains("$request_uri"), "{written}");
    assert!(!said.contains("vary_headers"), "{said}");
}

/// Settings of plugins that guard nothing, and still say who may see what.
#[test]
fn what_narrows_a_plugin_without_guards_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kong.yaml");
    let convert = |plugin: &str| {
        let text = format!(
            "_format_version: '3.0'\nservices:\n- {{name: s, url: 'http://127.0.0.1:1', routes: [{{name: r, paths: [/a], plugins: [{plugin}]}}]}}\n"
        );
        fs::write(&file, text).expect("written");
        let output = Command::new(binary()).args(["import", "kong"]).arg(&file).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    let (written, _) = convert("{name: proxy-cache, config: {strategy: memory, content_type: [text/plain]}}");
    for name in ["cache_bypass", "no_cache", "$http_cookie", "$http_authorization"] {
        assert!(written.contains(name), "{name}: {written}");
    }
    // A pattern of Kong matches the whole origin.
    let (written, _) = convert(r"{name: cors, config: {origins: ['https://[a-z]+\.a\.test', 'b.test']}}");
    assert!(written.contains(r"^(?:https://[a-z]+\.a\.test)$"), "{written}");
    assert!(written.contains(r"://(?:b\.test)(?::[0-9]+)?$"), "{written}");
    for logger in
        ["http-log, config: {http_endpoint: 'http://127.0.0.1:1'", "file-log, config: {path: /tmp/x"]
    {
        let custom = "custom_fields_by_lua: {request.headers.authorization: 'return nil'}";
        let (written, said) = convert(&format!("{{name: {logger}, {custom}}}}}"));
        assert!(!written.contains("logger") && said.contains("nothing is logged"), "{written} {said}");
    }
}
