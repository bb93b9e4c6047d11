//! Declares which series share a block, and where in the block each keeps its cells.

use std::sync::Arc;
use std::time::Duration;

use super::budget::Budget;
use super::text::Kind;

/// Label sets of a group before further ones share the overflow block.
pub(crate) const DEFAULT_SERIES_LIMIT: usize = 20_000;

/// A counter's place in a block.
#[derive(Clone, Copy, Debug)]
pub struct CounterCell(pub(super) usize);

/// A histogram's place in a block: one cell per bucket, one for what exceeds all bounds, one for the sum.
#[derive(Clone, Debug)]
pub struct HistogramCell {
    pub(super) first: usize,
    /// Upper bounds in the unit of the observed value.
    pub(super) bounds: Arc<[u64]>,
}

/// A declared group of series; cheap to clone, made with [`super::Registry::group`].
#[derive(Clone, Debug)]
pub struct Group(pub(super) Arc<GroupSpec>);

impl Group {
    pub(super) fn same(&self, other: &Group) -> bool {
        self.0.id == other.0.id
    }
}

#[derive(Debug)]
pub(super) struct GroupSpec {
    pub id: usize,
    pub(crate) label_names: Vec<String>,
    pub members: Vec<Member>,
    pub cells: usize,
    pub budget: Budget,
    /// Zero: series stay for the life of the process, as APISIX does by default.
    pub expire: Duration,
}

/// One series of a block.
#[derive(Debug)]
pub(super) struct Member {
    pub family: FamilySpec,
    /// The family's number in the group.
    pub number: usize,
    /// Label pairs that are the same for every block, such as `type="request"`.
    pub fixed: Vec<(String, String)>,
    /// Which of the group's labels this series shows, by position.
    pub shown: Vec<usize>,
    pub(crate) first_cell: usize,
}

impl Member {
    /// The bytes of one of its series on the page, given the bytes of the label names and values.
    pub(crate) fn bytes_on_the_page(&self, labels: usize) -> usize {
        /// `=`, quotes and commas.
        const AROUND_A_LABEL: usize = 4;
        /// The prefix and the end of the name, the bound of a bucket, the number.
        const OF_A_LINE: usize = 48;
        let lines = match self.family.kind {
            Kind::Counter | Kind::Gauge => 1,
            Kind::Histogram => self.family.bounds.len() + 3,
        };
        let fixed: usize = self.fixed.iter().map(|(name, value)| name.len() + value.len()).sum();
        let around = AROUND_A_LABEL * (self.fixed.len() + self.shown.len());
        lines * (OF_A_LINE + self.family.name.len() + fixed + around + labels)
    }
}

#[derive(Clone, Debug)]
pub(super) struct FamilySpec {
    pub name: String,
    pub help: String,
    pub kind: Kind,
    /// Histogram bounds as shown (`le`), and how many observed units one shown unit has.
    pub bounds: Vec<u64>,
    pub(crate) scale: u64,
}

impl FamilySpec {
    pub(super) fn cells(&self) -> usize {
        match self.kind {
            Kind::Counter | Kind::Gauge => 1,
            Kind::Histogram => self.bounds.len() + 2,
        }
    }
}

/// Collects the members of a group before it is registered.
#[derive(Debug)]
pub struct GroupBuilder {
    spec: GroupSpec,
}

impl GroupBuilder {
    /// A group whose blocks are distinguished by these labels, in this order.
    pub fn new<S: Into<String>>(label_names: impl IntoIterator<Item = S>) -> Self {
        GroupBuilder {
            spec: GroupSpec {
                id: 0,
                label_names: label_names.into_iter().map(Into::into).collect(),
                members: Vec::new(),
                cells: 0,
                budget: Budget::new(DEFAULT_SERIES_LIMIT),
                expire: Duration::ZERO,
            },
        }
    }

    /// Most label sets, over all workers.
    #[must_use]
    pub(crate) fn series_limit(mut self, label_sets: usize) -> Self {
        self.spec.budget = Budget::new(label_sets);
        self
    }

    /// Drops a series that was not touched for this long; zero keeps it.
    #[must_use]
    pub fn expire(mut self, after: Duration) -> Self {
        self.spec.expire = after;
        self
    }

    /// Adds a counter. `shown` names group labels; names the group does not have are ignored.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        fixed: &[(&str, &str)],
        shown: &[String],
    ) -> CounterCell {
        CounterCell(self.member(family(name, help, Kind::Counter), fixed, shown))
    }

    /// Adds a histogram. Values are observed in units `scale` times smaller than the bounds: bounds in
    /// milliseconds and a scale of 1000 take microseconds.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        fixed: &[(&str, &str)],
        shown: &[String],
        buckets: (&[u64], u64),
    ) -> HistogramCell {
        let (bounds, scale) = buckets;
        let scale = scale.max(1);
        let spec = FamilySpec { bounds: bounds.to_vec(), scale, ..family(name, help, Kind::Histogram) };
        let first = self.member(spec, fixed, shown);
        HistogramCell { first, bounds: bounds.iter().map(|bound| bound.saturating_mul(scale)).collect() }
    }

    pub(super) fn finish(mut self, id: usize) -> Group {
        self.spec.id = id;
        Group(Arc::new(self.spec))
    }

    fn member(&mut self, family: FamilySpec, fixed: &[(&str, &str)], shown: &[String]) -> usize {
        let first_cell = self.spec.cells;
        self.spec.cells += family.cells();
        let position = |name: &String| self.spec.label_names.iter().position(|known| known == name);
        let members = &self.spec.members;
        let known = members.iter().find(|member| member.family.name == family.name);
        let next = members.iter().map(|member| member.number + 1).max().unwrap_or(0);
        let number = known.map_or(next, |member| member.number);
        self.spec.members.push(Member {
            family,
            number,
            fixed: fixed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            shown: shown.iter().filter_map(position).collect(),
            first_cell,
        });
        first_cell
    }
}

fn family(name: &str, help: &str, kind: Kind) -> FamilySpec {
    FamilySpec { name: name.to_owned(), help: help.to_owned(), kind, bounds: Vec::new(), scale: 1 }
}
