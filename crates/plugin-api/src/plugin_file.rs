//! What is asked of a plugin's declaration, or of the user's file that it stands for.

use std::sync::Arc;

use serde_json::Value;

use crate::{BuildContext, Handler, Plugin, PluginDef, Request, Step, definition::ConsumerKey};

impl Handler {
    /// Answers a request for its URI.
    pub fn answer<'a>(&self, request: &'a mut Request) -> Step<'a> {
        match self {
            Handler::Function(function) => function(request),
            Handler::File(file, number) => file.answer(*number, request),
        }
    }
}

impl PluginDef {
    /// Makes an instance of a configuration that passed schema and check. The error names what does not fit.
    pub fn instance(&'static self, conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
        match self.file {
            Some(file) => file.build(self, conf, context),
            None => (self.build)(conf, context),
        }
    }

    /// Whether consumers have configurations of it by which they are found.
    pub fn identifies(&self) -> bool {
        self.consumer.is_some() || self.file.is_some_and(|file| file.consumer().is_some())
    }

    /// How a consumer with that configuration is found; `None` where it [`PluginDef::identifies`] no client.
    pub fn consumer_key(&self, conf: &Value) -> Option<Result<ConsumerKey, String>> {
        match (self.consumer, self.file) {
            (Some(consumer), _) => Some(consumer(conf)),
            (None, Some(file)) => file.consumer().map(|consumer| Ok(consumer(conf, self))),
            (None, None) => None,
        }
    }
}
