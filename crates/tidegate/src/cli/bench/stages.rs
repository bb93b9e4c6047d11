//! `--stages 10s:100,30s:1000` and `--arrivals`.

use std::str::FromStr;

use clap::ValueEnum;
use tidegate_bench::plan::{
    Arrivals,
    stages::{Ramp, Stage},
};

use super::time::Time;

const FORM: &str = "expected TIME:RATE pairs separated by commas, such as 10s:100,30s:1000";

#[derive(Clone, Debug)]
pub(crate) struct Stages(pub Vec<Stage>);

impl FromStr for Stages {
    type Err = String;

    fn from_str(text: &str) -> Result<Stages, String> {
        let stages: Result<Vec<Stage>, String> = text.split(',').map(stage).collect();
        let stages = stages?;
        if Ramp::of(&stages).total() < 1.0 {
            return Err(format!("these stages send no request; {FORM}"));
        }
        Ok(Stages(stages))
    }
}

fn stage(text: &str) -> Result<Stage, String> {
    let (length, rate) = text.split_once(':').ok_or_else(|| format!("invalid stage {text:?}; {FORM}"))?;
    let length: Time = length.trim().parse().map_err(|why| format!("{text:?}: {why}; {FORM}"))?;
    let rate: f64 = rate.trim().parse().map_err(|_| format!("{text:?}: invalid rate {rate:?}; {FORM}"))?;
    if !rate.is_finite() || rate < 0.0 {
        return Err(format!("{text:?}: a rate is a number of requests per second, 0 or more; {FORM}"));
    }
    Ok(Stage { length: length.0, rate })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsName {
    Uniform,
    Poisson,
}

impl From<ArrivalsName> for Arrivals {
    fn from(name: ArrivalsName) -> Arrivals {
        match name {
            ArrivalsName::Uniform => Arrivals::Uniform,
            ArrivalsName::Poisson => Arrivals::Poisson,
        }
    }
}
