//! What is made from the list of plugins: the index in docs/plugins/README.md and the defaults in conf/config.yaml.

use std::fs;

use tidegate_config::reference::{Starter, starter};
use tidegate_plugin_api::PluginDef;
use tidegate_plugins::registry::{GROUPS, on_by_default};

use super::{CHINESE, ENGLISH, is_outdated, page, root};

const BEGIN: &str = "<!-- plugins -->\n";
const END: &str = "<!-- end of plugins -->";

#[test]
fn the_index_has_every_plugin() {
    let path = root().join("docs/plugins/README.md");
    let text = fs::read_to_string(&path).expect("the index");
    let (before, rest) = text.split_once(BEGIN).expect("the index says where it begins");
    let (_, after) = rest.split_once(END).expect("the index says where it ends");
    let sections: Vec<String> = GROUPS.iter().map(|(name, plugins)| section(name, plugins)).collect();
    let fresh = format!("{before}{BEGIN}{}\n{END}{after}", sections.join("\n"));
    assert!(!is_outdated(&path, &text, &fresh), "the index is out of date: run this test with UPDATE_DOCS=1");
}

/// The tables of all plugins of APISIX, in both languages.
#[test]
fn the_tables_of_apisix_agree_with_the_registry() {
    let own = ["app-key", "proxy-redirect", "sla", "static-files"];
    for (file, absent) in [("README.md", "no: "), ("README.zh-CN.md", "没有：")] {
        let text = fs::read_to_string(root().join("docs/plugins").join(file)).expect("the index");
        let (_, tables) = text.split_once("<!-- apisix -->").expect("the tables begin");
        let (tables, _) = tables.split_once("<!-- end of apisix -->").expect("the tables end");
        for def in GROUPS.iter().flat_map(|(_, plugins)| *plugins) {
            let is_listed = tables.contains(&format!("| [{}](", def.name));
            assert_eq!(is_listed, !own.contains(&def.name), "{file}: {}", def.name);
        }
        for row in tables.lines().filter(|row| row.contains(absent)) {
            let name = row.trim_start_matches("| ").split(' ').next().unwrap_or_default();
            let is_here = GROUPS.iter().flat_map(|(_, plugins)| *plugins).any(|def| def.name == name);
            assert!(!is_here, "{file}: {name} is here");
        }
    }
}

fn section(group: &str, plugins: &[&PluginDef]) -> String {
    let (first, rest) = group.split_at(1);
    let lines: String = plugins.iter().map(|def| line(def)).collect();
    format!("### {}{rest}\n\n{lines}", first.to_uppercase())
}

fn line(def: &PluginDef) -> String {
    let name = def.name;
    let translation = if page(name, &CHINESE).exists() {
        format!(" ([中文]({name}{}))", CHINESE.ending)
    } else {
        String::new()
    };
    let off = if def.on_by_default { "" } else { " (off by default)" };
    let text = fs::read_to_string(page(name, &ENGLISH)).unwrap_or_default();
    format!("- [{name}]({name}{}){translation}{off}: {}\n", ENGLISH.ending, first_sentence(&text))
}

/// Of the first paragraph that is not a title or a link to a translation.
fn first_sentence(page: &str) -> String {
    let paragraphs = page.split("\n\n").map(str::trim);
    let mut prose = paragraphs.filter(|text| !text.starts_with('#') && !text.starts_with("[中文]"));
    let paragraph = prose.next().unwrap_or_default().replace('\n', " ");
    let first = paragraph.split_once(". ").map_or(paragraph.as_str(), |(first, _)| first);
    format!("{}.", first.trim_end_matches(['.', ':']))
}

#[test]
fn the_configuration_shows_what_is_on_by_default() {
    let path = root().join("conf/config.yaml");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let fresh = starter(Starter::Embedded, &[], &on_by_default());
    assert!(
        !is_outdated(&path, &text, &fresh),
        "conf/config.yaml differs from the keys and plugins: run this test with UPDATE_DOCS=1"
    );
}
