//! Which object or collection a path names.

use tidegate_model::Kind;

/// The object or collection that a path names.
#[derive(Clone)]
pub(crate) struct Target {
    pub kind: Kind,
    /// The consumer of credentials, the service of decorations, the manager of a secret.
    pub owner: Option<String>,
    pub id: Option<String>,
    /// What is left of the path: the place inside of the object that a `PATCH` is about.
    pub(crate) sub_path: String,
}

impl Target {
    /// From the path's segments below the prefix; `None` for a name that is not a resource.
    pub(crate) fn parse(segments: &[&str]) -> Option<Target> {
        let text = |position: usize| segments.get(position).map(|segment| (*segment).to_owned());
        let rest = |from: usize| segments.get(from..).unwrap_or_default().join("/");
        let nested = match (segments.first(), segments.get(2)) {
            (Some(&"consumers"), Some(&"credentials")) => Some(Kind::Credential),
            (Some(&"services"), Some(&"graphql_cost_decorations")) => Some(Kind::GraphqlCostDecoration),
            _ => None,
        };
        if let Some(kind) = nested {
            return Some(Target { kind, owner: text(1), id: text(3), sub_path: rest(4) });
        }
        let kind = kind_of(segments.first()?)?;
        Some(match kind {
            Kind::Secret => Target { kind, owner: text(1), id: text(2), sub_path: rest(3) },
            Kind::Credential | Kind::GraphqlCostDecoration => {
                Target { kind, owner: None, id: text(1), sub_path: rest(2) }
            }
            _ => Target { kind, owner: None, id: text(1), sub_path: rest(2) },
        })
    }

    /// From an object in the store.
    pub(crate) fn of(kind: Kind, store_id: &str) -> Target {
        let nested = |name: &str| store_id.split_once(name);
        let (owner, id) = match kind {
            Kind::Credential => nested("/credentials/"),
            Kind::GraphqlCostDecoration => nested("/graphql_cost_decorations/"),
            Kind::Secret => nested("/"),
            _ => None,
        }
        .map_or((None, store_id), |(owner, id)| (Some(owner.to_owned()), id));
        Target { kind, owner, id: Some(id.to_owned()), sub_path: String::new() }
    }

    /// The id in the store of the object that is called `id` here.
    pub(crate) fn store_id(&self, id: &str) -> String {
        let owner = self.owner.as_deref().unwrap_or_default();
        match self.kind {
            Kind::Credential => format!("{owner}/credentials/{id}"),
            Kind::GraphqlCostDecoration => format!("{owner}/graphql_cost_decorations/{id}"),
            Kind::Secret => format!("{owner}/{id}"),
            _ => id.to_owned(),
        }
    }

    /// Consumers are named by `username`, metadata by their plugin: neither gets an `id` from the path.
    pub(crate) fn has_id(&self) -> bool {
        !matches!(self.kind, Kind::Consumer | Kind::PluginMetadata)
    }

    pub(crate) fn refuses(&self, method: &str) -> bool {
        match self.kind {
            Kind::Consumer | Kind::Credential | Kind::PluginMetadata => matches!(method, "POST" | "PATCH"),
            Kind::GlobalRule | Kind::PluginConfig | Kind::ConsumerGroup | Kind::Secret => method == "POST",
            Kind::Proto | Kind::StreamRoute => method == "PATCH",
            _ => false,
        }
    }
}

/// The kind by its collection's name.
pub(crate) fn kind_of(collection: &str) -> Option<Kind> {
    match collection {
        "credentials" => Some(Kind::Credential),
        "graphql_cost_decorations" => Some(Kind::GraphqlCostDecoration),
        _ => Kind::ALL.into_iter().find(|kind| {
            !matches!(kind, Kind::Credential | Kind::GraphqlCostDecoration) && kind.directory() == collection
        }),
    }
}
