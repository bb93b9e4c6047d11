//! The life of a running gateway: signals, commands, and the change to a successor.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use tidegate_config::Settings;
use tidegate_model::Rejected;
use tidegate_plugin_api::Catalog;
use tidegate_proxy::Workers;
use tidegate_telemetry::error_log::{self, Level};

use super::{
    commands::{Command, CommandReply, Reply, Unusable},
    control::Control,
    ending,
    handover::successor::{Program, Successor, SuccessorMessage},
    logs::{self, Logs},
    lost_config, lost_keys, notify, open_sessions,
    pid_file::{self, PidFile},
    plugin_files, preflight,
    provider::Provider,
    reload,
    renewal::Renewal,
    signals::{Event, Signals},
    sockets::Sockets,
    stay,
};

/// How long a successor that was asked for by a signal may take until it serves.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A reload waits so long for what it has read.
const COMPILE_LIMIT: Duration = Duration::from_secs(10);

/// How the process was started, and how a successor is.
pub(crate) struct Origin {
    /// As it was called: a link stays one.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Reads config.yaml again.
    pub load: Box<dyn Fn() -> anyhow::Result<Settings>>,
}

pub(crate) struct Serving<'a> {
    pub signals: &'a Signals,
    pub logs: &'a Logs,
    pub workers: &'a Arc<Workers>,
    pub provider: &'a Arc<Provider>,
    pub(super) control: &'a Arc<Control>,
    pub catalog: &'a Arc<Catalog>,
    pub sockets: &'a Sockets,
    pub pid_file: &'a mut PidFile,
    pub origin: &'a Origin,
    /// config.yaml as applied.
    pub config: Value,
    /// Signals that come after a successor has taken over are for that one, too.
    pub stay: bool,
    pub stage: Stage,
    pub renewal: Renewal,
}

pub(crate) enum Stage {
    Alone,
    /// A new process is on its way; the client that requested it waits.
    Starting(Box<Successor>, Reply),
    /// That process serves; this one drains.
    HandedOver(u32),
    Draining,
}

impl Serving<'_> {
    /// Until the process should end.
    pub(crate) fn run(&mut self) {
        loop {
            let event = self.signals.next(self.patience());
            if let (Stage::HandedOver(_), Some(event), true) = (&self.stage, &event, self.stay)
                && let Ok(Some(pid)) = pid_file::running(self.pid_file.path())
            {
                stay::pass_on(pid, event);
                if matches!(event, Event::Reload | Event::Upgrade) {
                    continue;
                }
            }
            match event {
                Some(Event::Reopen) => self.logs.reopen(),
                Some(Event::Reload) => self.reload(START_LIMIT, false, Reply::default()),
                Some(Event::Upgrade) => {
                    let program = self.origin.program.clone();
                    self.upgrade_with_its_objects(program, START_LIMIT, false, Reply::default());
                }
                Some(Event::Command(command, reply)) => self.command(command, reply),
                Some(Event::Successor(pid, word)) => self.successor(pid, word),
                Some(Event::Stuck(count)) => self.renewal.stuck(count),
                Some(Event::Quit) => self.end(Workers::drain),
                Some(Event::Stop) => self.end(Workers::stop),
                None => self.look_at_clock(),
            }
            if self.workers.finished() && self.stage.may_end() && self.sockets.is_quiet() {
                return;
            }
        }
    }

    /// `None`: nothing happens without an event.
    fn patience(&self) -> Option<Duration> {
        match &self.stage {
            Stage::Alone => self.renewal.patience(),
            Stage::Starting(successor, _) => {
                Some(successor.deadline.saturating_duration_since(Instant::now()))
            }
            // A draining process ends by itself once the last connection is closed.
            Stage::HandedOver(_) | Stage::Draining => Some(Duration::from_millis(20)),
        }
    }

    fn look_at_clock(&mut self) {
        if let Stage::Starting(successor, _) = &mut self.stage
            && Instant::now() >= successor.deadline
        {
            successor.reason.get_or_insert("it was not ready in time and was killed".to_owned());
            // Its end comes as any other; should it not, this is tried again.
            successor.deadline = Instant::now() + START_LIMIT;
            successor.kill();
        }
        if matches!(self.stage, Stage::Alone) && self.renewal.is_due() {
            error_log::log(Level::Warn, format_args!("workers are stuck: a new process takes over"));
            self.renewal.tried();
            self.upgrade((self.origin.program.clone(), true), START_LIMIT, false, Reply::default());
        }
    }

    fn end(&mut self, how: fn(&Workers)) {
        if !matches!(self.stage, Stage::HandedOver(_)) {
            ending::begin();
        }
        how(self.workers);
        match std::mem::replace(&mut self.stage, Stage::Draining) {
            Stage::Starting(successor, reply) => {
                successor.kill();
                notify::stopping();
                reply.send(&CommandReply::Failed("the gateway is stopping".to_owned()));
            }
            Stage::HandedOver(pid) => self.stage = Stage::HandedOver(pid),
            Stage::Alone | Stage::Draining => notify::stopping(),
        }
    }

    fn command(&mut self, command: Command, reply: Reply) {
        match command {
            Command::Upgrade { program, timeout_seconds, force, config } => match self.other_file(config) {
                Some(why) => refused(&why, reply),
                None => {
                    let limit = Duration::from_secs(timeout_seconds);
                    self.upgrade_with_its_objects(program, limit, force, reply);
                }
            },
            Command::Reload { timeout_seconds, force, config } => match self.other_file(config) {
                Some(why) => refused(&why, reply),
                None => self.reload(Duration::from_secs(timeout_seconds), force, reply),
            },
            Command::Undecryptable { keyring } => {
                let lost = lost_keys::lost(self.provider, &keyring.0, self.catalog);
                let lost =
                    lost.and_then(|lost| serde_json::to_string(&lost).map_err(|error| error.to_string()));
                reply.send(&lost.map_or_else(CommandReply::Failed, CommandReply::Done));
            }
            Command::Rejected => {
                let objects = self.control.rejected.borrow().clone();
                let list: Vec<Unusable> = objects.iter().map(unusable).collect();
                let list = serde_json::to_string(&list).map_err(|error| error.to_string());
                reply.send(&list.map_or_else(CommandReply::Failed, CommandReply::Done));
            }
            Command::Ignored => {
                let list = serde_json::to_string(&self.provider.ignored()).map_err(|error| error.to_string());
                reply.send(&list.map_or_else(CommandReply::Failed, CommandReply::Done));
            }
            Command::WholeBackup => {
                let provider = Arc::clone(self.provider);
                std::thread::spawn(move || match provider.whole_backup() {
                    Ok(bytes) => reply.send_bytes(&bytes),
                    Err(reason) => reply.send(&CommandReply::Failed(reason)),
                });
            }
            Command::Connections { id, route, client, end } => {
                let selection = tidegate_proxy::sessions::Selection { id, route, client };
                let answered = open_sessions::answer(&selection, end, &*self.provider.store());
                reply.send(&answered.map_or_else(CommandReply::Failed, CommandReply::Done));
            }
            Command::Backup => {
                let provider = Arc::clone(self.provider);
                // Signals do not wait for the disk.
                std::thread::spawn(move || {
                    reply.send(&match provider.backup() {
                        Ok(path) => CommandReply::Done(path.display().to_string()),
                        Err(reason) => CommandReply::Failed(reason),
                    });
                });
            }
        }
    }

    /// What can be applied to this process is; for the rest a successor with the same program takes over.
    fn reload(&mut self, limit: Duration, force: bool, reply: Reply) {
        if let Err(reason) = self.stage.refuse() {
            return refused(&reason, reply);
        }
        let settings = match (self.origin.load)() {
            Ok(settings) => settings,
            Err(error) => return refused(&format!("config.yaml is not used: {error:#}"), reply),
        };
        let changed = reload::changed_keys(&self.config, &settings.raw);
        if let Some(why) = self.lost_configuration(&settings) {
            return refused(why, reply);
        }
        if let Some(fault) = preflight::new_absent_plugin(&self.config, &settings) {
            return refused(&format!("config.yaml is not used: {fault}"), reply);
        }
        if let Some(fault) = self.undecryptable(&settings, force) {
            return refused(&format!("config.yaml is not used: {fault}"), reply);
        }
        let needs_successor: Vec<&str> =
            changed.iter().map(String::as_str).filter(|key| !reload::is_live(key)).collect();
        let files_changed = !plugin_files::unchanged(&settings);
        if files_changed {
            error_log::log(Level::Notice, format_args!("files of plugins changed: a new process takes over"));
        } else if !needs_successor.is_empty() {
            error_log::log(
                Level::Notice,
                format_args!(
                    "config.yaml changed ({}): a new process takes over",
                    needs_successor.join(", ")
                ),
            );
        }
        if files_changed || !needs_successor.is_empty() {
            return self.upgrade((self.origin.program.clone(), true), limit, force, reply);
        }
        error_log::set_level(logs::level(settings.nginx.error_log_level));
        self.config = settings.raw;
        self.logs.reopen();
        if let Some(problem) = self.provider.read_if_changed() {
            // The store has logged it.
            return reply
                .send(&CommandReply::Failed(format!("{problem}; the last good configuration stays")));
        }
        error_log::log(Level::Notice, format_args!("resource files reloaded"));
        self.answer_when_compiled(reply);
    }

    /// What the file makes unusable is known when it is compiled, which signals do not wait for.
    fn answer_when_compiled(&self, reply: Reply) {
        let mut revision = 0;
        self.provider.store().read(&mut |state| revision = state.revision);
        let mut published = self.control.published.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let compiled = published.wait_for(|published| *published >= revision);
            // Past that it follows all the same.
            let _ = runtime.map(|runtime| {
                runtime.block_on(async { tokio::time::timeout(COMPILE_LIMIT, compiled).await.is_ok() })
            });
            reply.send(&CommandReply::Done("reloaded".to_owned()));
        });
    }

    /// Refused where the new process could not decrypt what this one serves. What it cannot read it says itself.
    fn upgrade_with_its_objects(&mut self, program: PathBuf, limit: Duration, force: bool, reply: Reply) {
        let settings = (self.origin.load)().ok();
        if let Some(why) = settings.as_ref().and_then(|settings| self.lost_configuration(settings)) {
            return refused(why, reply);
        }
        match settings.and_then(|settings| self.undecryptable(&settings, force)) {
            Some(fault) => refused(&fault, reply),
            None => self.upgrade((program, false), limit, force, reply),
        }
    }

    /// An editor may be about to write the file. The defaults listen on other ports, know no key and have no guards.
    fn lost_configuration(&self, settings: &Settings) -> Option<&'static str> {
        let is_lost =
            settings.places.is_empty() && !reload::changed_keys(&self.config, &settings.raw).is_empty();
        is_lost.then_some(
            "config.yaml is empty or missing, and the running settings stay; restore it, or write {} into it and restart to use the \
             defaults",
        )
    }

    /// Why a command that names another config.yaml than this gateway was started with is not for it.
    fn other_file(&self, named: Option<PathBuf>) -> Option<String> {
        let named = named?;
        let own = (self.origin.load)().ok()?.files.config;
        let real = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
        (real(&named) != real(&own)).then(|| {
            format!(
                "the gateway reads {} and not {}; write to that file, or stop the gateway and start it with this one",
                own.display(),
                named.display()
            )
        })
    }

    fn undecryptable(&self, settings: &Settings, force: bool) -> Option<String> {
        if force {
            return None;
        }
        lost_keys::refusal(self.provider, &self.config, settings, self.catalog)
    }

    /// `program`: its file, and whether that is this program.
    fn upgrade(&mut self, (file, is_this): (PathBuf, bool), limit: Duration, force: bool, reply: Reply) {
        if let Err(reason) = self.stage.refuse() {
            return refused(&reason, reply);
        }
        let settings = (self.origin.load)().ok().filter(|_| !force);
        let without_objects =
            settings.and_then(|settings| lost_config::other_store(self.provider, &self.config, &settings));
        notify::reloading();
        let program = Program { file, is_this, arguments: self.origin.arguments.clone() };
        let events = self.signals.event_sender();
        let handed = self.sockets.all(self.workers).and_then(|sockets| Ok((sockets, self.pid_file.file()?)));
        let started = handed.map_err(anyhow::Error::from).and_then(|(sockets, pid_file)| {
            let deadline = Instant::now() + limit;
            Successor::start(&program, pid_file, &sockets, deadline, move |pid, word| {
                events.send(Event::Successor(pid, word));
            })
        });
        match started {
            Ok(mut successor) => {
                successor.without_objects = without_objects;
                let text = format!("process {} of {} takes over", successor.pid, program.file.display());
                error_log::log(Level::Notice, format_args!("{text}"));
                self.stage = Stage::Starting(Box::new(successor), reply);
            }
            Err(error) => {
                notify::still_ready();
                refused(&format!("{error:#}"), reply);
            }
        }
    }

    fn successor(&mut self, pid: u32, word: SuccessorMessage) {
        // The end of one that has long served, or was killed because this process ends.
        let Stage::Starting(successor, _) = &mut self.stage else { return };
        if successor.pid != pid {
            return;
        }
        let said = match word {
            SuccessorMessage::WantsStore => match self.provider.release() {
                Ok(document) => successor.store_released(document.as_ref()).map_err(anyhow::Error::from),
                Err(error) => Err(error.into()),
            },
            SuccessorMessage::Prepared { version, left, objects } => {
                (successor.version, successor.left) = (version, left);
                match successor.without_objects.take().filter(|_| objects == Some(0)) {
                    Some(why) => Err(anyhow::Error::msg(why)),
                    None => successor.serve().map_err(anyhow::Error::from),
                }
            }
            SuccessorMessage::Serving => return self.hand_over(),
            SuccessorMessage::Failed(reason) => {
                successor.reason.get_or_insert(reason);
                Ok(())
            }
            SuccessorMessage::Ended(how) => return self.resume_serving(&how),
        };
        if let Err(error) = said {
            successor.reason.get_or_insert(format!("{error:#}"));
            successor.kill();
        }
    }

    fn hand_over(&mut self) {
        let Stage::Starting(successor, reply) = std::mem::replace(&mut self.stage, Stage::Draining) else {
            return;
        };
        let (pid, version) = (successor.pid, successor.version.clone());
        self.stage = Stage::HandedOver(pid);
        self.workers.hand_over(successor.left.clone());
        self.sockets.close();
        successor.announce_predecessor_ended();
        let keeps_sockets = self.workers.lost_threads() > 0;
        if let Err(error) = self.pid_file.hand_over(keeps_sockets) {
            error_log::log(Level::Warn, format_args!("cannot write the pid file for this process: {error}"));
        }
        notify::replaced_by(pid);
        let text = format!("process {pid} (version {version}) serves, process {} drains", std::process::id());
        error_log::log(Level::Notice, format_args!("{text}"));
        reply.send(&CommandReply::Done(text));
    }

    /// The new process has ended before it served.
    fn resume_serving(&mut self, how: &str) {
        let Stage::Starting(successor, reply) = std::mem::replace(&mut self.stage, Stage::Alone) else {
            return;
        };
        if let Err(error) = self.provider.resume() {
            error_log::log(Level::Alert, format_args!("the configuration can no longer be changed: {error}"));
        }
        notify::still_ready();
        let reason = successor.reason.unwrap_or_else(|| {
            format!("it {how} before it was ready; it wrote to the same output as this gateway")
        });
        refused(&format!("process {} did not take over: {reason}", successor.pid), reply);
    }
}

fn unusable(rejected: &Rejected) -> Unusable {
    Unusable {
        object: format!("{}/{}", rejected.kind.directory(), rejected.id),
        reason: rejected.reason.clone(),
    }
}

impl Stage {
    fn may_end(&self) -> bool {
        matches!(self, Stage::HandedOver(_) | Stage::Draining)
    }

    /// Why no successor can be started now.
    fn refuse(&self) -> Result<(), String> {
        match self {
            Stage::Alone => Ok(()),
            Stage::Starting(successor, _) => {
                Err(format!("process {} is about to take over; try again when it has", successor.pid))
            }
            Stage::HandedOver(pid) => Err(format!("process {pid} has taken over; use that one")),
            Stage::Draining => Err("the gateway is ending".to_owned()),
        }
    }
}

/// This process continues unchanged.
fn refused(reason: &str, reply: Reply) {
    error_log::log(Level::Error, format_args!("{reason}; nothing changed"));
    reply.send(&CommandReply::Failed(reason.to_owned()));
}
