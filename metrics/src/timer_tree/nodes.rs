use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::Work;

/// The nodes of a tree by index; the root is the first.
#[derive(Clone, Debug)]
pub(super) struct Nodes(Vec<Node>);

/// A node's index.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeId(usize);

#[derive(Clone, Debug, Default)]
struct Node {
    total_secs: f64,
    count: u64,
    is_parallel: bool,
    children: IndexMap<String, NodeId>,
}

impl Nodes {
    pub(super) const ROOT: NodeId = NodeId(0);

    pub(super) fn new() -> Nodes {
        Nodes(vec![Node::default()])
    }

    /// Whether there is only the root.
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    /// The child of this name, made on first use.
    pub(super) fn child(&mut self, parent: NodeId, name: &str) -> NodeId {
        if let Some(&child) = self.0[parent.0].children.get(name) {
            return child;
        }
        let child = NodeId(self.0.len());
        self.0.push(Node::default());
        self.0[parent.0].children.insert(name.to_owned(), child);
        child
    }

    /// Counts one finished scope.
    pub(super) fn add(&mut self, node: NodeId, secs: f64) {
        self.0[node.0].total_secs += secs;
        self.0[node.0].count += 1;
    }

    pub(super) fn set(&mut self, node: NodeId, total_secs: f64, count: u64) {
        self.0[node.0].total_secs = total_secs;
        self.0[node.0].count = count;
    }

    /// Adds node `theirs` of `other` and its subtree to node `own`.
    pub(super) fn merge(&mut self, own: NodeId, other: &Nodes, theirs: NodeId, work: Work) {
        let from = &other.0[theirs.0];
        let into = &mut self.0[own.0];
        into.total_secs += from.total_secs;
        into.count += from.count;
        into.is_parallel |= work == Work::Parallel;
        self.merge_children(own, other, theirs, work);
    }

    /// Adds the children of node `theirs` of `other` to those of node `own`.
    pub(super) fn merge_children(&mut self, own: NodeId, other: &Nodes, theirs: NodeId, work: Work) {
        for (name, &their_child) in &other.0[theirs.0].children {
            let child = self.child(own, name);
            self.merge(child, other, their_child, work);
        }
    }

    /// Writes `total`, `count`, `is_parallel`, `self` and `children` of a node.
    pub(super) fn write(&self, node: NodeId, into: &mut Map<String, Value>) {
        let node = &self.0[node.0];
        let in_children: f64 = node.children.values().map(|child| self.0[child.0].total_secs).sum();
        into.insert("total".to_owned(), node.total_secs.into());
        into.insert("count".to_owned(), node.count.into());
        if node.is_parallel {
            into.insert("is_parallel".to_owned(), true.into());
        }
        into.insert("self".to_owned(), (node.total_secs - in_children).max(0.0).into());
        if !node.children.is_empty() {
            let mut children = Map::new();
            for (name, &child) in &node.children {
                let mut written = Map::new();
                self.write(child, &mut written);
                children.insert(name.clone(), written.into());
            }
            into.insert("children".to_owned(), children.into());
        }
    }
}
