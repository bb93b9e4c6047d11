//! Files that change while the gateway runs.

use serde_json::json;
use tidegate_testkit::eventually;

use super::kit::{Fixture, get, write};

fn says(word: &str) -> String {
    format!(
        "local words = require('my.words')\n\
         local _M = {{version = 1, priority = 1, name = 'x', schema = {{type = 'object'}}}}\n\
         function _M.access() return 200, '{word} ' .. words.word end\n\
         return _M"
    )
}

#[test]
fn a_reload_loads_files_again_and_keeps_what_works() {
    let (first, second) = (says("first"), says("second"));
    let word = ("my/words.lua", "return {word = 'one'}");
    let objects = json!({"routes": [{"id": 1, "uri": "/a", "plugins": {"my-word": {}}}]});
    let fixture = Fixture::start(&[("apisix/plugins/my-word.lua", &first), word], &["my-word"], "", &objects);
    let said = || get(&fixture.gateway, "/a").body_text();
    assert_eq!(said(), "first one");
    let (ok, text) = fixture.gateway.verb("reload");
    assert!(ok && text.contains("reloaded"), "{text}");

    write(fixture.folder.path(), &[("apisix/plugins/my-word.lua", &second)]);
    assert_eq!(said(), "first one", "nothing changes before the reload");
    let (ok, text) = fixture.gateway.verb("reload");
    assert!(ok, "{text}");
    assert_eq!(said(), "second one");
    // What a plugin requires counts as well.
    write(fixture.folder.path(), &[("my/words.lua", "return {word = 'two'}")]);
    let (ok, text) = fixture.gateway.verb("reload");
    assert!(ok, "{text}");
    eventually("the module is new", || said() == "second two");

    write(fixture.folder.path(), &[("apisix/plugins/my-word.lua", "return {")]);
    for verb in ["reload", "upgrade"] {
        let (ok, text) = fixture.gateway.verb(verb);
        assert!(
            !ok && text.contains("plugin my-word cannot be loaded") && text.contains("my-word.lua:1: "),
            "{verb}: {text}"
        );
        assert_eq!(said(), "second two", "{verb}");
    }
    write(fixture.folder.path(), &[("apisix/plugins/my-word.lua", &first)]);
    let (ok, text) = fixture.gateway.verb("upgrade");
    assert!(ok, "{text}");
    assert_eq!(said(), "first two");
}

#[test]
fn the_admin_api_reloads_files() {
    let (first, second) = (says("first"), says("second"));
    let word = ("my/words.lua", "return {word = 'one'}");
    let fixture = Fixture::with_admin(&[("apisix/plugins/my-word.lua", &first), word], &["my-word"], "");
    let route = json!({"uri": "/a", "plugins": {"my-word": {}}});
    assert_eq!(fixture.gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string()).0, 201);
    eventually("the route is there", || get(&fixture.gateway, "/a").body_text() == "first one");
    write(fixture.folder.path(), &[("apisix/plugins/my-word.lua", &second)]);
    let (status, text) = fixture.gateway.admin("PUT", "/apisix/admin/plugins/reload", "");
    assert_eq!((status, text.as_str()), (200, "done"));
    eventually("the file is new", || get(&fixture.gateway, "/a").body_text() == "second one");
}

#[test]
fn a_file_that_no_list_names_is_pointed_to() {
    let text = "return {version = 0.1, priority = 1, name = 'my-tag', schema = {type = 'object'}}";
    let files = [("apisix/plugins/my-tag.lua", text)];
    let fixture = Fixture::with_admin(&files, &["key-auth"], "");
    let put = |name: &str| {
        let body = format!(r#"{{"uri": "/a", "plugins": {{"{name}": {{}}}}}}"#);
        fixture.gateway.admin("PUT", "/apisix/admin/routes/1", &body)
    };
    let (status, answer) = put("my-tag");
    assert!(status == 400 && answer.contains("it has a file in apisix.extra_lua_path"), "{answer}");
    for absent in ["my-other", "../plugins/my-tag"] {
        let (status, answer) = put(absent);
        assert!(status == 400 && !answer.contains("extra_lua_path"), "{answer}");
    }
}
