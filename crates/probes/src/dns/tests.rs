//! The keeping of answers, on paused time with answers from a script.

use std::{collections::VecDeque, net::Ipv4Addr};

use super::*;

struct Script(Mutex<VecDeque<Result<ResolvedName, LookupError>>>);

impl Lookup for Script {
    fn lookup<'a>(
        &'a self,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<ResolvedName, LookupError>> + Send + 'a>> {
        let next = self.0.lock().unwrap().pop_front();
        Box::pin(async move {
            match next {
                Some(result) => result,
                None => std::future::pending().await,
            }
        })
    }
}

fn answer(last: &[u8], seconds: u64) -> Result<ResolvedName, LookupError> {
    let addresses = last.iter().map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, *last))).collect();
    Ok(ResolvedName { addresses, valid_for: Duration::from_secs(seconds) })
}

fn failed(gone: bool) -> Result<ResolvedName, LookupError> {
    Err(LookupError { reason: "timed out".to_owned(), gone })
}

fn domains(script: Vec<Result<ResolvedName, LookupError>>) -> Domains {
    Domains::new(Handle::current(), Arc::new(Script(Mutex::new(script.into()))))
}

fn last_bytes(domains: &Domains) -> Vec<u8> {
    let addresses = domains.addresses("a.test");
    let bytes = addresses.iter().map(|address| match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(_) => 0,
    });
    bytes.collect()
}

#[tokio::test(start_paused = true)]
async fn answers_are_renewed_when_they_expire() {
    let domains = domains(vec![answer(&[2, 1], 30), answer(&[1, 2], 0), answer(&[3], 60)]);
    let mut changes = domains.changes();
    let started = tokio::time::Instant::now();
    domains.want(["a.test"]);
    domains.wait_until_resolved().await;
    assert_eq!(last_bytes(&domains), [1, 2]);
    changes.changed().await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!(last_bytes(&domains), [3], "the rotated answer was not a change");
    assert_eq!(started.elapsed(), Duration::from_secs(31), "a TTL of 0 counts as one second");
}

#[tokio::test(start_paused = true)]
async fn a_failure_keeps_the_last_answer() {
    let domains = domains(vec![answer(&[1], 10), failed(false), answer(&[], 10), answer(&[2], 10)]);
    domains.want(["a.test"]);
    domains.wait_until_resolved().await;
    let mut attempts = domains.shared.attempts.subscribe();
    attempts.changed().await.unwrap();
    assert_eq!((last_bytes(&domains), domains.error("a.test")), (vec![1], Some("timed out".to_owned())));
    attempts.changed().await.unwrap();
    assert_eq!(last_bytes(&domains), [1]);
    assert_eq!(domains.error("a.test").as_deref(), Some("no addresses found for a.test"));
    attempts.changed().await.unwrap();
    assert_eq!((last_bytes(&domains), domains.error("a.test")), (vec![2], None));
}

#[tokio::test(start_paused = true)]
async fn only_wanted_names_are_kept() {
    let domains = domains(vec![answer(&[1], 10), answer(&[2], 10)]);
    domains.want(["a.test"]);
    domains.wait_until_resolved().await;
    domains.want(["a.test"]);
    assert_eq!(last_bytes(&domains), [1], "a name that stays keeps its answer");
    domains.want([]);
    domains.wait_until_resolved().await;
    assert!(domains.addresses("a.test").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_gone_keeps_its_answer_for_half_a_minute_and_a_day_without_dns() {
    for (gone, seconds) in [(true, 30), (false, 24 * 3600)] {
        let mut script = vec![answer(&[1], 10)];
        script.extend((0..50_000).map(|_| failed(gone)));
        let domains = domains(script);
        let mut changes = domains.changes();
        domains.want(["a.test"]);
        changes.changed().await.unwrap();
        let answered = tokio::time::Instant::now();
        changes.changed().await.unwrap();
        assert!(domains.addresses("a.test").is_empty());
        // The first failure comes 10 s after the answer.
        assert_eq!(answered.elapsed(), Duration::from_secs(10 + seconds), "gone: {gone}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_has_a_bounded_number_of_addresses() {
    let domains = domains(vec![answer(&(1..=100).collect::<Vec<u8>>(), 10)]);
    domains.want(["a.test"]);
    domains.wait_until_resolved().await;
    assert_eq!(last_bytes(&domains), (1..=64).collect::<Vec<u8>>());
}
