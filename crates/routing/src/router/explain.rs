//! Why a request goes where it goes: the lookup of a layer with a witness that records it.

use rustc_hash::FxHashSet;

use super::{
    Layer,
    index::{Found, Scope},
    lookup::MatchInput,
    witness::{Loss, Tried, Witness},
};

/// What became of a route that came into question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateResult {
    /// The request goes to it.
    Won,
    /// Would have served the request, but another one came first.
    Shadowed,
    /// It was asked, and one of its conditions failed.
    Lost(Loss),
}

/// A route whose path fits.
#[derive(Debug)]
pub struct Considered {
    /// The id the route was built with.
    pub route: u32,
    /// The pattern of `uris` by which it is a candidate.
    pub uri: Box<str>,
    /// The pattern of `hosts` by which it is a candidate, if hosts lead to paths.
    pub host: Option<Box<str>>,
    pub priority: i64,
    pub verdict: CandidateResult,
    /// For `Loss::Vars`: which of the clauses that must all hold does not, from 0.
    pub clause: Option<usize>,
}

#[derive(Debug, Default)]
pub struct Explained {
    /// In the order of trying; routes of other hosts come last.
    pub considered: Vec<Considered>,
    /// There were more than asked for.
    pub more: bool,
}

struct Recorder {
    explained: Explained,
    limit: usize,
    won: bool,
    scopes: FxHashSet<Scope>,
    routes: FxHashSet<u32>,
}

impl<'r> Witness<'r> for Recorder {
    const LOOKS: bool = true;

    fn saw(&mut self, tried: Tried<'r, '_>) -> bool {
        self.scopes.insert(tried.scope);
        let verdict = match tried.judged {
            Ok(_) if self.won => CandidateResult::Shadowed,
            Ok(_) => CandidateResult::Won,
            Err(loss) => CandidateResult::Lost(*loss),
        };
        self.won |= verdict == CandidateResult::Won;
        // A second pattern of a recorded route adds nothing, unless it wins.
        if !self.routes.insert(tried.route) && verdict != CandidateResult::Won {
            return true;
        }
        if self.explained.considered.len() >= self.limit && verdict != CandidateResult::Won {
            self.explained.more = true;
            return !self.won;
        }
        let clause = if verdict == CandidateResult::Lost(Loss::Vars) { (tried.clause)() } else { None };
        self.explained.considered.push(Considered {
            route: tried.route,
            uri: tried.uri.into(),
            host: tried.host.map(Box::from),
            priority: tried.priority,
            verdict,
            clause,
        });
        true
    }
}

impl<N> Layer<N> {
    pub(super) fn explain<I: MatchInput<Name = N>>(&self, input: &I, limit: usize) -> Explained {
        let mut recorder = Recorder {
            explained: Explained::default(),
            limit,
            won: false,
            scopes: FxHashSet::default(),
            routes: FxHashSet::default(),
        };
        let _ = self.find_watched(input, &mut recorder);
        self.of_other_hosts(input, &mut recorder);
        recorder.explained
    }

    /// Where hosts lead to paths, a route of another host is never tried: it is found here, by its path alone.
    fn of_other_hosts<I: MatchInput<Name = N>>(&self, input: &I, recorder: &mut Recorder) {
        for number in (1u32..).take(self.hosts.patterns.len()) {
            let scope = Scope(number);
            if recorder.scopes.contains(&scope) {
                continue;
            }
            for Found { candidate, .. } in self.index.candidates(scope, input.path()) {
                let Some(route) = self.routes.get(candidate.route as usize) else { continue };
                let Some(uri) = route.uris.get(candidate.uri as usize) else { continue };
                if !recorder.routes.insert(route.id) {
                    continue;
                }
                if recorder.explained.considered.len() >= recorder.limit {
                    recorder.explained.more = true;
                    return;
                }
                recorder.explained.considered.push(Considered {
                    route: route.id,
                    uri: uri.clone(),
                    host: self.hosts.pattern(scope).map(Box::from),
                    priority: route.priority,
                    verdict: CandidateResult::Lost(Loss::Host),
                    clause: None,
                });
            }
        }
    }
}
