//! Passwords: argon2id, few at a time, away from the threads that answer.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use tidegate_model::random::fill_secret;
use tokio::sync::Semaphore;

use crate::message::Response;

/// Each takes 19 MiB and some 50 ms of a core.
const AT_A_TIME: usize = 2;

/// Requests that wait for a turn, those whose turn it is included.
const MOST_WAITING: usize = 16;

/// What OWASP recommends for argon2id: KiB, rounds, lanes.
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);

/// The most that a record may ask for: records come from a store that others may write to.
const MOST_COST: (u32, u32, u32) = (64 * 1024, 10, 4);

const SHORTEST: usize = 12;
pub(crate) const LONGEST: usize = 1024;

/// Why a text cannot be a password.
pub(crate) fn fault(text: &str) -> Option<&'static str> {
    if !(SHORTEST..=LONGEST).contains(&text.len()) {
        return Some("should have 12 to 1024 bytes");
    }
    text.trim().is_empty().then_some("should not be of spaces only")
}

pub(crate) struct Passwords {
    turn: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Passwords { turn: places(AT_A_TIME), waiting: places(MOST_WAITING) }
    }
}

impl Passwords {
    /// Runs `work`, which hashes, when it is its turn. A client that leaves keeps its turn until the work is done.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Response> {
        let busy = || {
            let response = Response::error(503, "too many people are signing in; try again");
            response.with_header("Retry-After", "1")
        };
        let Ok(waiting) = self.waiting.clone().try_acquire_owned() else { return Err(busy()) };
        let Ok(turn) = self.turn.clone().acquire_owned().await else { return Err(busy()) };
        let done = tokio::task::spawn_blocking(move || {
            let _held = (waiting, turn);
            work()
        });
        done.await.map_err(|_| Response::error(503, "the password could not be checked; see the error log"))
    }
}

/// The part of a record that a password is compared with.
pub(crate) fn hash(password: &str) -> Result<Value, String> {
    let mut salt = [0; 16];
    fill_secret(&mut salt).map_err(|error| format!("no random numbers: {error}"))?;
    let hash = derive(password, &salt, COST).ok_or("the password cannot be hashed")?;
    let (memory, rounds, lanes) = COST;
    Ok(json!({
        "type": "argon2id", "m": memory, "t": rounds, "p": lanes,
        "salt": BASE64URL_NOPAD.encode(&salt), "hash": BASE64URL_NOPAD.encode(&hash),
    }))
}

/// Without a record it takes as long, and is false.
pub(crate) fn verify(password: &str, record: Option<&Value>) -> bool {
    let known = record.and_then(read);
    let (cost, salt, wanted) = known.clone().unwrap_or((COST, vec![0; 16], vec![0; 32]));
    let Some(hash) = derive(password, &salt, cost) else { return false };
    verify_slices_are_equal(&hash, &wanted).is_ok() && known.is_some()
}

type Known = ((u32, u32, u32), Vec<u8>, Vec<u8>);

fn read(record: &Value) -> Option<Known> {
    let number = |name: &str| u32::try_from(record.get(name)?.as_u64()?).ok();
    let bytes = |name: &str| BASE64URL_NOPAD.decode(record.get(name)?.as_str()?.as_bytes()).ok();
    let cost = (number("m")?, number("t")?, number("p")?);
    let is_bearable = cost.0 <= MOST_COST.0 && cost.1 <= MOST_COST.1 && cost.2 <= MOST_COST.2;
    let is_known = record.get("type")? == "argon2id" && is_bearable;
    let (salt, hash) = (bytes("salt")?, bytes("hash")?);
    (is_known && hash.len() == 32).then_some((cost, salt, hash))
}

fn derive(password: &str, salt: &[u8], (memory, rounds, lanes): (u32, u32, u32)) -> Option<[u8; 32]> {
    let params = Params::new(memory, rounds, lanes, Some(32)).ok()?;
    let mut hash = [0; 32];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(password.as_bytes(), salt, &mut hash).ok()?;
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_kept_as_hashes() {
        let (one, two) = (hash("correct horse").expect("hashed"), hash("correct horse").expect("hashed"));
        assert_ne!(one, two, "each has a salt of its own");
        assert!(!one.to_string().contains("horse"));
        assert!(verify("correct horse", Some(&one)) && verify("correct horse", Some(&two)));
        assert!(!verify("correct horsf", Some(&one)) && !verify("", Some(&one)) && !verify("x", None));
        let mut costly = one;
        costly["m"] = json!(4_000_000);
        assert!(!verify("correct horse", Some(&costly)), "a record cannot take all memory");
        assert!(!verify("correct horse", Some(&json!({"type": "argon2id"}))));
    }
}
