//! A configuration that has grown change by change is the one that is built from scratch: after many random changes to objects
//! of all kinds, to addresses, nodes, secrets and the list of plugins, both are described, and the descriptions have to be equal.
//!
//! `TIDEGATE_MODEL_RUNS=5000` makes more sequences of changes, `TIDEGATE_MODEL_SEED=17` begins with that seed. A failure prints
//! its seed and the changes that are needed for it.

#![allow(clippy::expect_used)]

#[path = "incremental/damage.rs"]
mod damage;
#[path = "incremental/describe.rs"]
mod describe;
#[path = "incremental/dice.rs"]
mod dice;

#[path = "incremental/faults.rs"]
mod faults;
#[path = "incremental/found.rs"]
mod found;
#[path = "incremental/keys.rs"]
mod keys;
#[path = "incremental/objects.rs"]
mod objects;
#[path = "incremental/probe.rs"]
mod probe;
#[path = "incremental/state.rs"]
mod state;
#[path = "incremental/steps.rs"]
mod steps;
#[path = "incremental/world.rs"]
mod world;

use proptest::{
    collection::vec,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

use tidegate_telemetry::error_log::{self, Level};

use self::{
    state::{Mode, State},
    steps::Step,
};

/// Sequences of changes, where the environment does not say.
const RUNS: u64 = 100;
/// Changes of one sequence, at most.
const STEPS: usize = 50;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn grown_configurations_are_those_built_from_scratch() {
    // What cannot be used is compared, not read.
    error_log::set_level(Level::Emergency);
    let first = number_of("TIDEGATE_MODEL_SEED").unwrap_or(0);
    let runs = number_of("TIDEGATE_MODEL_RUNS").unwrap_or(RUNS);
    for seed in first..first + runs {
        run(seed);
    }
}

fn run(seed: u64) {
    let mode = Mode::of(seed);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let changes = vec(steps::step(mode.is_wild), 1..STEPS);
    let outcome =
        runner.run(&changes, |changes| State::new(mode).follow(&changes).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, changes)) => {
            let changes: Vec<String> = changes.iter().map(Step::to_string).collect();
            panic!("seed {seed}, {mode:?}, after\n{}\n{reason}", changes.join("\n"));
        }
        Err(error) => panic!("seed {seed}: {error}"),
    }
}
