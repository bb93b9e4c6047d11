//! `--stages 10s:100,30s:1000`: the rate over time.
//!
//! As k6's ramping arrival rate: within a stage the rate goes in a straight line from that of the stage before (0 at the
//! beginning) to its own. A stage of no length is a jump, so `0s:100,30s:100` holds 100 from the start.

use std::time::Duration;

/// A part of a run during which the rate changes evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Until the rate is reached.
    pub length: Duration,
    /// Requests per second at its end.
    pub rate: f64,
}

/// The number of requests that are due by each moment, and the moment of each request.
#[derive(Clone, Debug)]
pub struct Ramp {
    pieces: Vec<Piece>,
    /// The piece of the last moment that was asked for; requests are asked for in order.
    at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Seconds and requests before it.
    begin: f64,
    before: f64,
    seconds: f64,
    from: f64,
    to: f64,
}

impl Piece {
    fn requests(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds
    }
}

impl Ramp {
    /// The stages, one after the other, from a rate of 0.
    pub fn of(stages: &[Stage]) -> Ramp {
        let (mut pieces, mut begin, mut before, mut from) = (Vec::new(), 0.0, 0.0, 0.0);
        for stage in stages {
            let piece = Piece { begin, before, seconds: stage.length.as_secs_f64(), from, to: stage.rate };
            (begin, before, from) = (begin + piece.seconds, before + piece.requests(), stage.rate);
            if piece.seconds > 0.0 {
                pieces.push(piece);
            }
        }
        Ramp { pieces, at: 0 }
    }

    /// Requests in all.
    pub fn total(&self) -> f64 {
        self.pieces.iter().map(Piece::requests).sum()
    }

    /// Nanoseconds until request `number`, from 0, is due; `u64::MAX` for those that the stages have no room for.
    pub fn moment(&mut self, number: f64) -> u64 {
        while let Some(piece) = self.pieces.get(self.at) {
            let inside = number - piece.before;
            if inside < piece.requests() {
                // The area under the line up to `t` is from*t + growth*t^2/2; in this form it needs no division by a
                // growth of 0.
                let growth = (piece.to - piece.from) / piece.seconds;
                let root = (piece.from * piece.from + 2.0 * growth * inside).max(0.0).sqrt();
                let seconds = if inside > 0.0 { 2.0 * inside / (piece.from + root) } else { 0.0 };
                return ((piece.begin + seconds) * 1e9) as u64;
            }
            self.at += 1;
        }
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_requests() {
        let stage = |seconds: f64, rate: f64| Stage { length: Duration::from_secs_f64(seconds), rate };
        // 50 in a ramp, 100 at an even rate, a jump and 400, a pause, 50 downwards.
        let stages = [
            stage(1.0, 100.0),
            stage(1.0, 100.0),
            stage(0.0, 400.0),
            stage(1.0, 400.0),
            stage(0.0, 0.0),
            stage(1.0, 0.0),
            stage(0.0, 100.0),
            stage(1.0, 0.0),
        ];
        let mut ramp = Ramp::of(&stages);
        assert_eq!(ramp.total(), 600.0);
        let check = |ramp: &mut Ramp, number: f64, seconds: f64| {
            let found = ramp.moment(number) as f64 / 1e9;
            assert!((found - seconds).abs() < 1e-6, "{number}: {found} for {seconds}");
        };
        check(&mut ramp, 0.0, 0.0);
        check(&mut ramp, 12.5, 0.5);
        check(&mut ramp, 50.0, 1.0);
        check(&mut ramp, 100.0, 1.5);
        check(&mut ramp, 150.0, 2.0);
        check(&mut ramp, 350.0, 2.5);
        check(&mut ramp, 550.0, 4.0);
        check(&mut ramp, 587.5, 4.5);
        assert_eq!(ramp.moment(600.0), u64::MAX);
    }
}
