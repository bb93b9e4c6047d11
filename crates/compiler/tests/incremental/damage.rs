//! Objects that cannot be used: as a provider marks them, and as they are where they have not been checked.

use serde_json::{Value, json};
use tidegate_model::{Document, Fault, Kind, Object};

use crate::dice::Dice;

/// What happens to a stored object.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    /// The text could not be read, and nothing of it is known.
    Lost,
    /// As [`Damage::Lost`], but which requests it is for is known.
    LostButPlace,
    /// The schema refuses it.
    Refused,
    /// A newer version of it could not be read.
    Unread,
    /// A field has a value that does not fit; with whether its provider has noticed.
    Field(&'static str, Value, bool),
    /// It has a field that its kind does not have, and its provider has noticed.
    Misspelled(&'static str, Value),
}

impl Damage {
    /// Whether the object is unusable from now on for certain. The compiler alone knows fewer rules than a schema.
    pub(crate) fn shuts(&self) -> bool {
        !matches!(self, Damage::Unread | Damage::Field(_, _, false))
    }

    pub(crate) fn of(dice: &mut Dice, kind: Kind) -> Damage {
        let fields: &[&'static str] = match kind {
            Kind::Route => &[
                "uri",
                "uris",
                "host",
                "hosts",
                "methods",
                "priority",
                "vars",
                "remote_addr",
                "plugins",
                "upstream",
                "service_id",
                "status",
                "timeout",
            ],
            Kind::Service => &["hosts", "plugins", "upstream", "upstream_id"],
            Kind::Upstream => &["type", "nodes", "scheme", "checks", "tls", "timeout"],
            Kind::Ssl => &["sni", "snis", "cert", "key", "client", "status"],
            Kind::Consumer => &["plugins", "group_id", "labels"],
            _ => &["plugins"],
        };
        match dice.of(8) {
            0 => Damage::Lost,
            1 => Damage::LostButPlace,
            2 => Damage::Refused,
            3 => Damage::Unread,
            4 => {
                let name = dice.pick(&["Host", "uries", "plugns", "snis_", "client_"]);
                Damage::Misspelled(name, dice.pick(&[json!(1), json!(["/d", "d.test"]), json!({"/e": 1})]))
            }
            _ => {
                let values = [json!(5), json!(["/x", 5]), json!({"5": []}), json!("")];
                Damage::Field(dice.pick(fields), dice.pick(&values), dice.once_in(2))
            }
        }
    }

    pub(crate) fn applied_to(&self, object: &Object) -> Object {
        let mut damaged = object.clone();
        let fault = |in_text: bool, place: Option<Document>| {
            Some(Box::new(Fault { reason: "damaged".into(), in_text, place }))
        };
        match self {
            Damage::Lost => {
                damaged.document = Document::new(&json!({}));
                damaged.fault = fault(true, None);
            }
            Damage::LostButPlace => {
                damaged.document = Document::new(&json!({}));
                // Of what is lost already, nothing is found again.
                damaged.fault = fault(true, (!object.is_lost()).then(|| place(object)));
            }
            Damage::Refused => damaged.fault = fault(false, None),
            Damage::Unread => damaged.unread = Some("a newer version cannot be read".into()),
            Damage::Field(name, value, is_noticed) => {
                damaged.document = Document::new(&with(object, name, value));
                damaged.fault = if *is_noticed { fault(false, None) } else { damaged.fault };
            }
            Damage::Misspelled(name, value) => {
                damaged.document = Document::new(&with(object, name, value));
                damaged.fault = fault(false, None);
            }
        }
        damaged
    }
}

fn with(object: &Object, name: &str, value: &Value) -> Value {
    let mut changed = (*object.value()).clone();
    if let Some(fields) = changed.as_object_mut() {
        fields.insert(name.to_owned(), value.clone());
    }
    changed
}

/// What providers keep of an object that they cannot read: the fields that say which requests it is for.
fn place(object: &Object) -> Document {
    const FIELDS: [&str; 13] = [
        "uri",
        "uris",
        "host",
        "hosts",
        "remote_addr",
        "remote_addrs",
        "methods",
        "vars",
        "filter_func",
        "priority",
        "status",
        "service_id",
        "plugin_config_id",
    ];
    let mut kept = (*object.place()).clone();
    if let Some(fields) = kept.as_object_mut() {
        fields.retain(|name, _| FIELDS.contains(&name.as_str()));
    }
    Document::new(&kept)
}
