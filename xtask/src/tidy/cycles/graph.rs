//! [`Graph`]: uses between files or between crates, and the cycles of these uses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Edges between named nodes, each with an example of a used name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    edges: BTreeMap<String, BTreeMap<String, String>>,
}

impl Graph {
    /// Records that `from` uses `what`, which `to` defines. Ignores a node that uses itself.
    pub(crate) fn add(&mut self, from: &str, to: &str, what: &str) {
        if from != to {
            self.edges.entry(from.to_string()).or_default().entry(to.to_string()).or_insert_with(|| what.to_string());
        }
    }

    /// Removes an edge, and returns whether the edge existed.
    pub(crate) fn remove(&mut self, from: &str, to: &str) -> bool {
        self.edges.get_mut(from).is_some_and(|targets| targets.remove(to).is_some())
    }

    /// Returns a shortest cycle through each group of nodes that reach each other, as `a → b (what), b → a (what)`.
    pub(crate) fn cycles(&self) -> Vec<String> {
        let mut done = BTreeSet::new();
        let mut found = Vec::new();
        for node in self.edges.keys() {
            if done.contains(node.as_str()) {
                continue;
            }
            let Some(cycle) = self.shortest_cycle(node) else { continue };
            let reached = self.reached(node);
            let group: Vec<&str> =
                reached.into_iter().filter(|other| self.reached(other).contains(node.as_str())).collect();
            let size = group.len();
            done.extend(group);
            let more = if size > cycle.len() { format!(" (a group of {size} files)") } else { String::new() };
            found.push(format!("{}{more}", self.shown(&cycle)));
        }
        found
    }

    fn targets(&self, node: &str) -> impl Iterator<Item = &str> {
        self.edges.get(node).into_iter().flat_map(|targets| targets.keys().map(String::as_str))
    }

    /// Returns all nodes at the end of a path of at least one edge from `node`.
    fn reached(&self, node: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.targets(node).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.targets(next));
            }
        }
        reached
    }

    /// Returns the nodes of a shortest cycle through `node`, beginning with `node`.
    fn shortest_cycle<'g>(&'g self, node: &'g str) -> Option<Vec<&'g str>> {
        let mut before = BTreeMap::<&str, &str>::new();
        let mut open = VecDeque::from([node]);
        while let Some(at) = open.pop_front() {
            for next in self.targets(at) {
                if next == node {
                    let mut cycle = vec![at];
                    while let Some(previous) = before.get(cycle[cycle.len() - 1]) {
                        cycle.push(previous);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if !before.contains_key(next) {
                    before.insert(next, at);
                    open.push_back(next);
                }
            }
        }
        None
    }

    fn shown(&self, cycle: &[&str]) -> String {
        let next = cycle.iter().cycle().skip(1);
        let steps = cycle.iter().zip(next).map(|(from, to)| format!("{from} → {to} ({})", self.edges[*from][*to]));
        steps.collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn each_group_of_nodes_that_reach_each_other_has_one_shortest_cycle() {
    let mut graph = Graph::default();
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("b", "a"), ("d", "a"), ("d", "d"), ("e", "f"), ("f", "e")] {
        graph.add(from, to, "x");
    }
    let found = graph.cycles();
    assert_eq!(found, ["a → b (x), b → a (x) (a group of 3 files)", "e → f (x), f → e (x)"]);
    assert!(graph.remove("e", "f") && !graph.remove("e", "f"));
    assert!(graph.remove("a", "b"));
    assert_eq!(graph.cycles(), [""; 0]);
}
