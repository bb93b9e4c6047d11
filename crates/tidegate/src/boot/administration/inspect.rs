//! This process, as `/v1/profile` and `/v1/heap` show it.

use std::{
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use serde_json::Value;
use tidegate_admin::{Inspect, NoProfile, ProfileForm};
use tidegate_profiler::{Form, Refused};
use tidegate_store::BoxFuture;
use tokio::sync::oneshot;

pub(super) struct OwnProcess;

impl Inspect for OwnProcess {
    fn profile(&self, seconds: u64, form: ProfileForm) -> BoxFuture<'_, Result<Vec<u8>, NoProfile>> {
        Box::pin(async move {
            // Dropped with this future, when the client leaves: the profile ends.
            let (_stays, left) = channel();
            let (answer, answered) = oneshot::channel();
            let length = Duration::from_secs(seconds);
            let sample = move || drop(answer.send(take(length, form, &left)));
            thread::Builder::new()
                .name("profiler".to_owned())
                .spawn(sample)
                .map_err(|error| NoProfile::Failed(format!("no thread for it: {error}")))?;
            answered.await.unwrap_or_else(|_| Err(NoProfile::Failed("see the error log".to_owned())))
        })
    }

    fn heap(&self) -> Value {
        super::super::memory::statistics()
    }
}

fn take(length: Duration, form: ProfileForm, left: &Receiver<()>) -> Result<Vec<u8>, NoProfile> {
    let form = match form {
        ProfileForm::Pprof => Form::Pprof,
        ProfileForm::Folded => Form::Folded,
    };
    tidegate_profiler::take(length, form, left).map_err(|refused| match refused {
        Refused::Busy => NoProfile::Busy,
        // It is not read.
        Refused::Left => NoProfile::Failed("the client left".to_owned()),
        Refused::Failed(reason) => NoProfile::Failed(reason),
    })
}
