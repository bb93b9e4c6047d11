//! Finding and reading modules.

use std::fs;

use super::*;

fn names(modules: &Modules) -> Vec<&str> {
    let mut names: Vec<&str> = modules.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

#[test]
fn modules_are_found_by_templates_and_by_what_requires_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write(
        "a/apisix/plugins/one.lua",
        "local u = require('my.utils') local c = require \"apisix.core\" return {}",
    );
    write("b/my/utils/init.lua", "require('my.more')");
    write("b/my/more.lua", "-- require('my.comment')\nreturn 1");
    write("b/my/comment.lua", "return 1");
    write("b/apisix/core.lua", "return 'not this one'");
    write("b/apisix/plugins/large.lua", &" ".repeat(1 << 21));
    let path = LuaPath::parse("a/?.lua; b/?.lua;b/?/init.lua", folder.path()).expect("a path");
    let (modules, faults) =
        Modules::of_plugins(&path, &["one".to_owned(), "two".to_owned(), "large".to_owned()]);
    assert_eq!(names(&modules), ["apisix.plugins.one", "my.more", "my.utils"]);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].1.contains("large.lua: it has 2097152 bytes"), "{faults:?}");
    assert_eq!(modules.reached("apisix.plugins.one").len(), 3);
    assert!(path.plugin("one").is_some() && path.plugin("two").is_none());
}

#[test]
fn a_template_without_a_place_for_the_name_is_refused() {
    let reason = LuaPath::parse("/opt/lua", Path::new("/")).expect_err("refused");
    assert!(reason.contains("write /opt/lua/?.lua"), "{reason}");
    assert!(LuaPath::parse("", Path::new("/")).expect("a path").is_empty());
}
