//! Priorities of routes as Kong from version 3 on computes them.
//!
//! They are numbers of 64 bits: the kinds of conditions, plain hosts, headers, expressions and their priority, the length of the
//! path. The default router shifts all but the bits for plain hosts and expressions by 32 bits at most, so that these two come
//! first; `router_flavor: traditional` and `route_match_calculation: strict` go by the kinds. Versions differ in whether
//! `sources` are a kind.

/// What decides the order of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub kinds: usize,
    pub has_sources: bool,
    pub is_plain: bool,
    pub headers: usize,
    pub is_regex: bool,
    pub regex_priority: i64,
}

/// One for each version and setting; the highest is asked first. Without the length, which counts among equals in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Priorities([u64; 4]);

const PLAIN: u64 = 1 << 60;
const REGEX: u64 = 1 << 51;
const EXPRESSION: u64 = 0xff << 56;

impl Priorities {
    pub(crate) fn of(weights: Weights) -> Self {
        let with = Weights { kinds: weights.kinds + usize::from(weights.has_sources), ..weights };
        Priorities([exact(weights), exact(with), default(weights), default(with)])
    }

    pub(crate) fn of_expression(priority: i64) -> Self {
        Priorities([EXPRESSION | priority.cast_unsigned(); 4])
    }

    /// Whether one of the two comes first somewhere, and not everywhere.
    pub(crate) fn disagree(&self, other: &Self) -> bool {
        let mut orders = self.0.iter().zip(&other.0).map(|(one, other)| one.cmp(other));
        let first = orders.next();
        !orders.all(|order| Some(order) == first)
    }
}

fn exact(weights: Weights) -> u64 {
    let Weights { kinds, is_plain, headers, is_regex, regex_priority, .. } = weights;
    let regex_priority = regex_priority.clamp(i32::MIN.into(), i32::MAX.into()) - i64::from(i32::MIN);
    let regex_priority = if is_regex { regex_priority.cast_unsigned() << 19 } else { 0 };
    flags(is_plain, is_regex) | (kinds.min(7) as u64) << 61 | (headers.min(255) as u64) << 52 | regex_priority
}

/// `bit.lshift` of a number takes the count modulo 32, and its result is a signed number of 32 bits.
fn default(weights: Weights) -> u64 {
    let Weights { kinds, is_plain, headers, is_regex, regex_priority, .. } = weights;
    let shifted = |number: i64, count: u32| {
        #[allow(clippy::cast_possible_truncation)]
        let low = number.cast_unsigned() as u32;
        i64::from(low.wrapping_shl(count).cast_signed()).cast_unsigned()
    };
    let small = |number: usize| i64::try_from(number.min(255)).unwrap_or(255);
    flags(is_plain, is_regex)
        | shifted(small(kinds), 61)
        | shifted(small(headers), 52)
        | shifted(if is_regex { regex_priority } else { 0 }, 19)
}

fn flags(is_plain: bool, is_regex: bool) -> u64 {
    (if is_plain { PLAIN } else { 0 }) | (if is_regex { REGEX } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Weights = Weights {
        kinds: 1,
        has_sources: false,
        is_plain: false,
        headers: 0,
        is_regex: false,
        regex_priority: 0,
    };

    /// As LuaJIT computes them.
    #[test]
    fn priorities_of_the_default_router() {
        for (weights, wanted) in [
            (Weights { is_regex: true, ..NONE }, 0x0008_0000_2000_0000),
            (Weights { kinds: 2, ..NONE }, 0x4000_0000),
            (Weights { is_plain: true, ..NONE }, 0x1000_0000_2000_0000),
            (Weights { kinds: 4, headers: 1, ..NONE }, 0xffff_ffff_8010_0000),
            (Weights { is_regex: true, regex_priority: -1, ..NONE }, 0xffff_ffff_fff8_0000),
        ] {
            assert_eq!(default(weights), wanted, "{weights:?}");
        }
    }

    #[test]
    fn orders_that_differ() {
        let one = |weights| Priorities::of(weights);
        let regex = one(Weights { is_regex: true, ..NONE });
        assert!(regex.disagree(&one(Weights { kinds: 2, ..NONE })));
        assert!(!regex.disagree(&one(Weights { kinds: 2, is_regex: true, ..NONE })));
        assert!(!regex.disagree(&one(NONE)));
        assert!(regex.disagree(&one(Weights { is_regex: true, regex_priority: -1, ..NONE })));
        assert!(!regex.disagree(&one(Weights { is_regex: true, regex_priority: 1, ..NONE })));
        assert!(one(NONE).disagree(&one(Weights { has_sources: true, ..NONE })));
    }
}
