//! Sharing, keeping and bounding of lookups, with answers that the test gives.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::*;

type Given = Result<Answer, Failure>;

/// Lookups wait until the test answers them, in the order in which they came.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<VecDeque<oneshot::Sender<Given>>>>);

impl NameServers for Scripted {
    fn look_up(&self, _: Arc<str>) -> Lookup {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().push_back(sender);
        Box::pin(async { receiver.await.unwrap_or_else(|_| failed(0)) })
    }
}

impl Scripted {
    /// Answers the next lookup, once there is one.
    async fn answer(&self, given: Given) {
        loop {
            let next = self.0.lock().pop_front();
            match next {
                Some(sender) => {
                    let _ = sender.send(given);
                    return;
                }
                None => tokio::task::yield_now().await,
            }
        }
    }
}

fn found(last: u8, seconds: u64) -> Given {
    let addresses = vec![IpAddr::from([10, 0, 0, last])];
    Ok(Answer { addresses, valid_for: Duration::from_secs(seconds) })
}

fn failed(keeps_seconds: u64) -> Given {
    Err(Failure { reason: "no answer in time".to_owned(), keeps_for: Duration::from_secs(keeps_seconds) })
}

fn names(servers: &Scripted) -> &'static Names {
    Box::leak(Box::new(Names::new(servers.clone(), Handle::current(), 2)))
}

fn last_byte(found: &Found) -> Result<u8, &str> {
    match found {
        Ok(addresses) => match addresses.first() {
            Some(IpAddr::V4(address)) => Ok(address.octets()[3]),
            _ => Err("no address of IPv4"),
        },
        Err(reason) => Err(reason),
    }
}

#[tokio::test]
async fn requests_for_a_name_share_a_lookup_and_its_answer() {
    let servers = Scripted::default();
    let names = names(&servers);
    let (one, other, ()) =
        tokio::join!(names.ask("a.test"), names.ask("a.test"), servers.answer(found(1, 60)));
    assert_eq!((last_byte(&one), last_byte(&other)), (Ok(1), Ok(1)));
    assert_eq!(last_byte(&names.ask("a.test").await), Ok(1));
    assert!(servers.0.lock().is_empty(), "one lookup for three requests");
}

#[tokio::test]
async fn more_lookups_than_there_may_be_are_refused_and_counted() {
    let servers = Scripted::default();
    let names = names(&servers);
    let both = async { tokio::join!(names.ask("a.test"), names.ask("b.test")) };
    let third = async {
        while servers.0.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
        let refused = names.ask("c.test").await;
        servers.answer(found(1, 60)).await;
        servers.answer(failed(0)).await;
        refused
    };
    let ((one, other), third) = tokio::join!(both, third);
    assert_eq!((last_byte(&one), last_byte(&other)), (Ok(1), Err("no answer in time")));
    assert!(third.is_err_and(|reason| reason.contains("while 2 other names are")));
    assert_eq!(names.refused.load(Ordering::Relaxed), 1);
    let (again, ()) = tokio::join!(names.ask("c.test"), servers.answer(found(3, 60)));
    assert_eq!(last_byte(&again), Ok(3), "those before have ended");
}

#[tokio::test]
async fn a_failure_keeps_the_addresses_from_before_for_a_while() {
    let servers = Scripted::default();
    let names = names(&servers);
    let (first, ()) = tokio::join!(names.ask("a.test"), servers.answer(found(1, 0)));
    assert_eq!(last_byte(&first), Ok(1));
    let expire = || names.entries.lock().values_mut().for_each(|entry| entry.until = Instant::now());
    expire();
    let (kept, ()) = tokio::join!(names.ask("a.test"), servers.answer(failed(3600)));
    assert_eq!(last_byte(&kept), Ok(1));
    expire();
    // No request waits for them to fail again.
    assert_eq!(last_byte(&names.ask("a.test").await), Ok(1));
    servers.answer(failed(0)).await;
    while names.entries.lock().values().any(|entry| entry.pending.is_some()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(last_byte(&names.ask("a.test").await), Err("no answer in time"));
}
