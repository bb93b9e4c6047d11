//! Parks both ends of a session, and takes them back.

use super::{established::Ends, parking::Parked, silence::Outcome};
use crate::{stall, stream::Stream, worker::Worker};

/// Parks both ends if it can. What comes wakes the task that waits with the timer of this slot.
pub(super) fn park(worker: &'static Worker, slot: u64, ends: &mut Ends) -> Outcome {
    match ends {
        Ends::Parked(_) => return Outcome::Parked,
        Ends::Open(Stream::Plain(_), Stream::Plain(_)) => {}
        Ends::Open(..) | Ends::Lost => return Outcome::Unable,
    }
    let parking = &worker.parking;
    let instance = parking.instance(|instance| {
        // A session that ended meanwhile has left its slot: the one that has it now finds nothing.
        let task = async move { instance.serve(|slot| worker.deadlines.wake(slot)).await };
        tokio::task::spawn_local(stall::watched(worker, "silent sessions", task));
    });
    let Some(instance) = instance else { return Outcome::Unable };
    if !parking.take_turn(worker.deadlines.now_ms()) {
        return Outcome::NotNow;
    }
    let Ends::Open(Stream::Plain(client), Stream::Plain(node)) = std::mem::replace(ends, Ends::Lost) else {
        return Outcome::Unable;
    };
    let Some(parked) = Parked::new(client, node) else { return Outcome::Unable };
    if parked.watch(instance, slot).is_ok() {
        *ends = Ends::Parked(parked);
        return Outcome::Parked;
    }
    *ends = parked.leave(instance).map_or(Ends::Lost, opened);
    Outcome::Unable
}

/// Takes them back if something has come; whether they are not parked any more.
pub(super) fn unpark(worker: &'static Worker, ends: &mut Ends) -> bool {
    match ends {
        Ends::Parked(parked) if !parked.has_news() => return false,
        Ends::Parked(_) => {}
        Ends::Open(..) | Ends::Lost => return true,
    }
    if let Ends::Parked(parked) = std::mem::replace(ends, Ends::Lost)
        && let Some(instance) = worker.parking.instance(drop)
    {
        *ends = parked.leave(instance).map_or(Ends::Lost, opened);
    }
    true
}

fn opened((client, node): (tokio::net::TcpStream, tokio::net::TcpStream)) -> Ends {
    Ends::Open(Stream::Plain(client), Stream::Plain(node))
}
