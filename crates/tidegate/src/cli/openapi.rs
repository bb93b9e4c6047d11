//! `tidegate openapi`: the APIs as a document, for generators of clients and for other tools.

use clap::Args;
use tidegate_admin::openapi::{Offers, document};

use super::stdout;

#[derive(Args)]
pub(super) struct Arguments {
    /// Describe the Admin API of API-driven standalone mode, with the whole configuration at /configs
    #[arg(long)]
    api_driven: bool,
}

/// Of every plugin that is on by default; the running gateway has the document with those that it has enabled.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let names: Vec<String> =
        tidegate_plugins::registry::on_by_default().into_iter().map(|name| (*name).to_owned()).collect();
    let catalog = crate::boot::catalog(Some(&names))?;
    let offers = if arguments.api_driven { Offers::Configurations } else { Offers::Resources };
    let text = serde_json::to_string_pretty(&document(&catalog, offers))?;
    stdout::line(&text);
    Ok(())
}
