//! What of policy is not as written, by the endpoints that it is about.
//!
//! Worked out when somebody asks, from the objects that have problems to the endpoints that they have a say about: nothing is kept between
//! two questions, and where nothing is wrong it costs nothing.

use std::collections::BTreeMap;

use calico_cmd::control::EndpointProblems;
use calico_core::calc::{Graph, Problem};
use calico_core::resource::ResourceKey;

/// Most endpoints to name, several times what a node holds, and most problems of each: with texts of this length the status stays far below
/// the longest line of the control socket.
const ENDPOINTS: usize = 512;
const PROBLEMS: usize = 4;
/// Longest text of a problem in characters. All of it stands among the diagnostics.
const TEXT: usize = 160;

/// What is wrong with one object.
#[derive(Debug, Default)]
struct Ailment {
    count: usize,
    /// The first few.
    texts: Vec<String>,
}

impl Ailment {
    fn add(&mut self, count: usize, text: impl FnOnce() -> String) {
        self.count += count;
        if self.texts.len() < PROBLEMS {
            self.texts.push(text());
        }
    }
}

/// The first endpoints with problems, and how many there are in all. Faults are of objects that could not be read.
pub(super) fn endpoints(graph: &Graph, faults: &BTreeMap<ResourceKey, String>) -> (Vec<EndpointProblems>, usize) {
    let ailments = ailments(graph, faults);
    let mut endpoints: BTreeMap<&ResourceKey, Vec<&Ailment>> = BTreeMap::new();
    for (key, ailment) in &ailments {
        for endpoint in graph.endpoints_under(key) {
            endpoints.entry(endpoint).or_default().push(ailment);
        }
    }
    let count = endpoints.len();
    (endpoints.into_iter().take(ENDPOINTS).map(|(key, ailments)| report(key, &ailments)).collect(), count)
}

fn ailments<'a>(graph: &'a Graph, faults: &'a BTreeMap<ResourceKey, String>) -> BTreeMap<&'a ResourceKey, Ailment> {
    let mut ailments: BTreeMap<&ResourceKey, Ailment> = BTreeMap::new();
    for (key, problem) in graph.diagnostics() {
        // It stands for others.
        let count = if let Problem::More(others) = problem { *others } else { 1 };
        ailments.entry(key).or_default().add(count, || short(key, &problem.to_string()));
    }
    for (key, reason) in faults {
        ailments.entry(key).or_default().add(1, || short(key, reason));
    }
    ailments
}

/// One problem of each object before the second of any.
fn report(key: &ResourceKey, ailments: &[&Ailment]) -> EndpointProblems {
    let ranks = (0..PROBLEMS).flat_map(|rank| ailments.iter().filter_map(move |ailment| ailment.texts.get(rank)));
    EndpointProblems {
        endpoint: key.to_string(),
        count: ailments.iter().map(|ailment| ailment.count).sum(),
        first: ranks.take(PROBLEMS).cloned().collect(),
    }
}

fn short(key: &ResourceKey, text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{key}: {}…", text.get(..end).unwrap_or_default()),
        None => format!("{key}: {text}"),
    }
}
