//! What is made from the list of plugins: the indexes of docs/plugins and the defaults in conf/config.yaml.

use std::fs;

use tidegate_config::reference::{Starter, starter};
use tidegate_plugin_api::PluginDef;
use tidegate_plugins::registry::{GROUPS, on_by_default};

use super::{CHINESE, ENGLISH, Language, documented, is_outdated, page, root};

const BEGIN: &str = "<!-- plugins -->\n";
const END: &str = "<!-- end of plugins -->";

/// The index in one language.
struct Index {
    language: &'static Language,
    /// The page in the other language.
    other: (&'static str, &'static Language),
    off: &'static str,
    colon: &'static str,
    /// What ends a sentence, and what may stand at its end instead.
    full_stop: (&'static str, &'static str, &'static [char]),
}

const INDEXES: [Index; 2] = [
    Index {
        language: &ENGLISH,
        other: ("中文", &CHINESE),
        off: " (off by default)",
        colon: ": ",
        full_stop: (". ", ".", &['.', ':']),
    },
    Index {
        language: &CHINESE,
        other: ("English", &ENGLISH),
        off: "（默认关闭）",
        colon: "：",
        full_stop: ("。", "。", &['。', '：']),
    },
];

/// The groups of plugins in Chinese.
const CHINESE_GROUPS: [(&str, &str); 7] = [
    ("authentication", "身份认证"),
    ("traffic", "流量"),
    ("security", "安全"),
    ("transformation", "转换"),
    ("observability", "可观测性"),
    ("serverless", "Serverless"),
    ("other", "其他"),
];

#[test]
fn the_index_has_every_plugin() {
    for index in INDEXES {
        let path = root().join(format!("docs/plugins/README{}", index.language.ending));
        let text = fs::read_to_string(&path).expect("the index");
        let (before, rest) = text.split_once(BEGIN).expect("the index says where it begins");
        let (_, after) = rest.split_once(END).expect("the index says where it ends");
        let sections: Vec<String> =
            GROUPS.iter().map(|(name, plugins)| index.section(name, plugins)).collect();
        let fresh = format!("{before}{BEGIN}{}\n{END}{after}", sections.join("\n"));
        assert!(
            !is_outdated(&path, &text, &fresh),
            "{} is out of date: run this test with UPDATE_DOCS=1",
            path.display()
        );
    }
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
            let remedy = "a plugin of APISIX has a row there, another one is named in `own` of this test";
            assert_eq!(is_listed, !own.contains(&def.name), "{file}: {}: {remedy}", def.name);
        }
        assert!(
            documented().all(|def| own.contains(&def.name) || tables.contains(&format!("| [{}](", def.name)))
        );
        for row in tables.lines().filter(|row| row.contains(absent)) {
            let name = row.trim_start_matches("| ").split(' ').next().unwrap_or_default();
            let is_here = GROUPS.iter().flat_map(|(_, plugins)| *plugins).any(|def| def.name == name);
            assert!(!is_here, "{file}: {name} is here");
        }
    }
}

impl Index {
    fn section(&self, group: &str, plugins: &[&PluginDef]) -> String {
        let (first, rest) = group.split_at(1);
        let chinese = CHINESE_GROUPS.iter().find(|(name, _)| *name == group);
        let heading = match chinese.filter(|_| self.language.ending == CHINESE.ending) {
            Some((_, chinese)) => (*chinese).to_owned(),
            None => format!("{}{rest}", first.to_uppercase()),
        };
        let lines: String = plugins.iter().map(|def| self.line(def)).collect();
        format!("### {heading}\n\n{lines}")
    }

    fn line(&self, def: &PluginDef) -> String {
        let name = def.name;
        let (other, language) = self.other;
        let translation = if page(name, language).exists() {
            format!(" ([{other}]({name}{}))", language.ending)
        } else {
            String::new()
        };
        let off = if def.on_by_default { "" } else { self.off };
        let text = fs::read_to_string(page(name, self.language)).unwrap_or_default();
        let sentence = self.first_sentence(&text);
        format!("- [{name}]({name}{}){translation}{off}{}{sentence}\n", self.language.ending, self.colon)
    }

    /// Of the first paragraph that is not a title or a link to a translation.
    fn first_sentence(&self, page: &str) -> String {
        let (end, stop, instead) = self.full_stop;
        let paragraphs = page.split("\n\n").map(str::trim);
        let mut prose = paragraphs
            .filter(|text| !["#", "[中文]", "[English]"].iter().any(|start| text.starts_with(start)));
        let paragraph = prose.next().unwrap_or_default().replace('\n', self.between_lines());
        let first = paragraph.split_once(end).map_or(paragraph.as_str(), |(first, _)| first);
        format!("{}{stop}", first.trim_end_matches(instead))
    }

    /// Chinese has no spaces between sentences.
    fn between_lines(&self) -> &'static str {
        if self.language.ending == CHINESE.ending { "" } else { " " }
    }
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
