//! One request for a document at a time: callers that want it meanwhile wait for the same answer, good or bad.

use std::{collections::HashMap, future::Future, sync::Arc};

use parking_lot::Mutex;
use tidegate_plugin_api::hops;
use tokio::sync::OnceCell;

type Flight<T> = Arc<OnceCell<Result<T, String>>>;
pub(crate) type Flights<T> = Mutex<Option<HashMap<String, Flight<T>>>>;

/// When the client whose request makes the fetch leaves, the next one that waits makes its own.
pub(crate) async fn join<T: Clone>(
    flights: &Flights<T>,
    name: &str,
    fetch: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    // The one under way may be waiting for this very request.
    if hops::is_for_side_request() {
        return fetch.await;
    }
    let flight = flights.lock().get_or_insert_default().entry(name.to_owned()).or_default().clone();
    let _landing = Landing { flights, name, flight: &flight };
    flight.get_or_init(|| fetch).await.clone()
}

/// The last waiter to leave, or the first one with an answer, removes the flight from the list.
struct Landing<'a, T> {
    flights: &'a Flights<T>,
    name: &'a str,
    flight: &'a Flight<T>,
}

impl<T> Drop for Landing<'_, T> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        let Some(flights) = flights.as_mut() else { return };
        // The list's and ours.
        let is_over = self.flight.initialized() || Arc::strong_count(self.flight) <= 2;
        if is_over && flights.get(self.name).is_some_and(|listed| Arc::ptr_eq(listed, self.flight)) {
            flights.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn many_wait_for_one() {
        static FLIGHTS: Flights<u32> = Mutex::new(None);
        let fetched = Cell::new(0);
        let fetch = || async {
            fetched.set(fetched.get() + 1);
            tokio::task::yield_now().await;
            if fetched.get() == 1 { Err("away".to_owned()) } else { Ok(fetched.get()) }
        };
        let (one, other) = tokio::join!(join(&FLIGHTS, "a", fetch()), join(&FLIGHTS, "a", fetch()));
        assert_eq!((one, other, fetched.get()), (Err("away".to_owned()), Err("away".to_owned()), 1));
        assert_eq!(join(&FLIGHTS, "a", fetch()).await, Ok(2), "a failure is not kept");
        // One that is given up leaves nothing behind.
        let given_up =
            tokio::time::timeout(std::time::Duration::ZERO, join(&FLIGHTS, "b", std::future::pending()));
        assert!(given_up.await.is_err());
        assert!(FLIGHTS.lock().as_ref().is_some_and(HashMap::is_empty));
    }
}
