use std::fmt;

use super::{Info, InfoError, InfoTree, Leaf, LeafValue, Reduction};
use crate::ids::PolicyId;

/// A tree to merge.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) info: &'a Info,
    pub(super) weight: f64,
}

/// Merges trees of one policy.
pub(super) struct Merge<'a> {
    policy: &'a PolicyId,
    structure: Structure,
    /// The total weight, if means are weighted.
    total_weight: Option<f64>,
    path: Vec<Part<'a>>,
}

enum Structure {
    /// All entries must have the same tree.
    Equal,
    /// Merges a leaf over the entries that have it.
    Union,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Merge<'a> {
    /// All entries have equal weight, in this merge and the next: a mean of means.
    pub(super) fn unweighted(policy: &'a PolicyId) -> Merge<'a> {
        Merge { policy, structure: Structure::Equal, total_weight: None, path: Vec::new() }
    }

    /// Entries have weights that sum to `total`.
    pub(super) fn weighted(policy: &'a PolicyId, total: f64) -> Merge<'a> {
        Merge { policy, structure: Structure::Equal, total_weight: Some(total), path: Vec::new() }
    }

    /// As `weighted`, for entries of different updates, whose trees may differ.
    pub(super) fn reports(policy: &'a PolicyId, total: f64) -> Merge<'a> {
        Merge { policy, structure: Structure::Union, total_weight: Some(total), path: Vec::new() }
    }

    pub(super) fn reduce(&mut self, entries: &[Entry<'a>]) -> Result<Info, InfoError> {
        match entries.first().map(|first| first.info) {
            None => Ok(Info::None),
            Some(Info::Tree(first)) => self.reduce_trees(first, entries).map(Info::Tree),
            Some(Info::List(first)) => self.reduce_lists(first, entries).map(Info::List),
            Some(Info::None) => self.check_leaves(Info::None.kind(), entries).map(|()| Info::None),
            Some(first @ Info::Leaf(_)) => {
                self.check_leaves(first.kind(), entries)?;
                self.reduce_leaves(entries).map(Info::Leaf)
            }
        }
    }

    fn reduce_trees(&mut self, first: &'a InfoTree, entries: &[Entry<'a>]) -> Result<InfoTree, InfoError> {
        let mut keys: Vec<&'a str> = first.keys().map(String::as_str).collect();
        let mut trees = Vec::with_capacity(entries.len());
        for entry in entries {
            let Info::Tree(children) = entry.info else {
                return Err(self.structure_error("a tree", entry.info.kind()));
            };
            for key in children.keys().filter(|key| !first.contains_key(*key)) {
                match self.structure {
                    Structure::Equal => return Err(self.structure_error("no such key", &format!("`{key}`"))),
                    Structure::Union if keys.contains(&key.as_str()) => {}
                    Structure::Union => keys.push(key),
                }
            }
            trees.push((children, entry.weight));
        }
        let mut merged = InfoTree::with_capacity(keys.len());
        for key in keys {
            let having: Vec<Entry<'a>> = trees
                .iter()
                .filter_map(|&(children, weight)| Some(Entry { info: children.get(key)?, weight }))
                .collect();
            if matches!(self.structure, Structure::Equal) && having.len() < entries.len() {
                return Err(self.structure_error(&format!("`{key}`"), "no such key"));
            }
            merged.insert(key.to_owned(), self.below(Part::Key(key), &having)?);
        }
        Ok(merged)
    }

    fn reduce_lists(&mut self, first: &'a [Info], entries: &[Entry<'a>]) -> Result<Vec<Info>, InfoError> {
        let mut lists = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.info {
                Info::List(items) if items.len() == first.len() => lists.push((items, entry.weight)),
                Info::List(items) => {
                    let [expected, got] = [first.len(), items.len()].map(|n| format!("a list of {n}"));
                    return Err(self.structure_error(&expected, &got));
                }
                other => return Err(self.structure_error("a list", other.kind())),
            }
        }
        (0..first.len())
            .map(|index| {
                let items: Vec<Entry<'a>> =
                    lists.iter().map(|&(items, weight)| Entry { info: &items[index], weight }).collect();
                self.below(Part::Index(index), &items)
            })
            .collect()
    }

    fn below(&mut self, part: Part<'a>, entries: &[Entry<'a>]) -> Result<Info, InfoError> {
        self.path.push(part);
        let merged = self.reduce(entries);
        self.path.pop();
        merged
    }

    /// A leaf merges with a missing one, but not with a tree or a list.
    fn check_leaves(&self, expected: &str, entries: &[Entry<'_>]) -> Result<(), InfoError> {
        let inner = entries.iter().find(|entry| matches!(entry.info, Info::Tree(_) | Info::List(_)));
        inner.map_or(Ok(()), |entry| Err(self.structure_error(expected, entry.info.kind())))
    }

    fn reduce_leaves(&self, entries: &[Entry<'a>]) -> Result<Leaf, InfoError> {
        let leaves: Vec<(&Leaf, f64)> = entries
            .iter()
            .filter_map(|entry| match entry.info {
                Info::Leaf(leaf) => Some((leaf, entry.weight)),
                // A missing value after a present one is ignored, as NaN is.
                Info::None | Info::Tree(_) | Info::List(_) => None,
            })
            .collect();
        let explicit = leaves.iter().map(|(leaf, _)| leaf.rule()).find(|rule| *rule != Reduction::ByName);
        let (value, share) = match explicit.unwrap_or_else(|| self.rule_of_name()) {
            Reduction::Concat => (self.concat(&leaves)?, 1.0),
            Reduction::Last => (leaves.last().map_or(f64::NAN.into(), |(leaf, _)| leaf.value().clone()), 1.0),
            Reduction::Sum => (self.fold_numbers(&leaves, |a, b| a + b)?, 1.0),
            Reduction::Min => (self.fold_numbers(&leaves, f64::min)?, 1.0),
            Reduction::Max => (self.fold_numbers(&leaves, f64::max)?, 1.0),
            Reduction::Mean | Reduction::ByName => self.mean(&leaves)?,
        };
        let mut merged = Leaf::new(value, explicit.unwrap_or_default());
        merged.share = share;
        Ok(merged)
    }

    /// RLlib's guess from the path.
    fn rule_of_name(&self) -> Reduction {
        match *self.path {
            [Part::Key("td_error")] => Reduction::Concat,
            [.., Part::Key(key)] if key.starts_with("min_") => Reduction::Min,
            [.., Part::Key(key)] if key.starts_with("max_") => Reduction::Max,
            _ => Reduction::Mean,
        }
    }

    /// The mean, and the share of the total weight behind it.
    fn mean(&self, leaves: &[(&Leaf, f64)]) -> Result<(LeafValue, f64), InfoError> {
        self.check_equal_shapes(leaves)?;
        let (mut plain, mut weighted) = (Average::default(), Average::default());
        for (leaf, weight) in leaves {
            let values = leaf.value().values();
            let numbers = values.iter().filter(|value| !value.is_nan());
            let (sum, count) = numbers.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            if count > 0.0 {
                plain.add(sum, count);
                // By element, so that an array half of NaN has half the weight.
                let weight = weight * leaf.share / values.len() as f64;
                weighted.add(sum * weight, count * weight);
            }
        }
        Ok(match self.total_weight {
            // Without any weight, the plain mean.
            Some(total) if weighted.weight > 0.0 => (weighted.mean(), weighted.weight / total),
            Some(_) => (plain.mean(), 0.0),
            None => (plain.mean(), 1.0),
        })
    }

    fn fold_numbers(&self, leaves: &[(&Leaf, f64)], fold: fn(f64, f64) -> f64) -> Result<LeafValue, InfoError> {
        self.check_equal_shapes(leaves)?;
        let values = leaves.iter().flat_map(|(leaf, _)| leaf.value().values()).copied();
        Ok(values.filter(|value| !value.is_nan()).reduce(fold).unwrap_or(f64::NAN).into())
    }

    fn concat(&self, leaves: &[(&Leaf, f64)]) -> Result<LeafValue, InfoError> {
        let as_rows = |leaf: &Leaf| match leaf.value().shape() {
            [] => (1, Vec::new()),
            [rows, inner @ ..] => (*rows, inner.to_vec()),
        };
        let mut n_rows = 0;
        let mut all_values = Vec::new();
        let mut first_inner = None;
        for (leaf, _) in leaves {
            let (rows, inner) = as_rows(leaf);
            if *first_inner.get_or_insert_with(|| inner.clone()) != inner {
                return Err(self.shape_error(leaves, leaf));
            }
            n_rows += rows;
            all_values.extend_from_slice(leaf.value().values());
        }
        let mut shape = vec![n_rows];
        shape.extend(first_inner.unwrap_or_default());
        LeafValue::array(shape, all_values)
    }

    fn check_equal_shapes(&self, leaves: &[(&Leaf, f64)]) -> Result<(), InfoError> {
        let shape = |leaf: &Leaf| leaf.value().shape().to_vec();
        let first = leaves.first().map(|(leaf, _)| shape(leaf)).unwrap_or_default();
        let odd = leaves.iter().find(|(leaf, _)| leaf.value().shape() != first);
        odd.map_or(Ok(()), |(leaf, _)| Err(self.shape_error(leaves, leaf)))
    }

    fn shape_error(&self, leaves: &[(&Leaf, f64)], odd: &Leaf) -> InfoError {
        InfoError::Shape {
            policy: self.policy.clone(),
            path: self.path_text(),
            expected: leaves.first().map(|(leaf, _)| leaf.value().shape().to_vec()).unwrap_or_default(),
            got: odd.value().shape().to_vec(),
        }
    }

    fn structure_error(&self, expected: &str, got: &str) -> InfoError {
        InfoError::Structure {
            policy: self.policy.clone(),
            path: self.path_text(),
            expected: expected.to_owned(),
            got: got.to_owned(),
        }
    }

    fn path_text(&self) -> String {
        self.path.iter().map(Part::to_string).collect::<Vec<_>>().join(".")
    }
}

#[derive(Default)]
struct Average {
    sum: f64,
    weight: f64,
}

impl Average {
    fn add(&mut self, sum: f64, weight: f64) {
        self.sum += sum;
        self.weight += weight;
    }

    /// NaN without any.
    fn mean(&self) -> LeafValue {
        (self.sum / self.weight).into()
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Key(key) => f.write_str(key),
            Part::Index(index) => index.fmt(f),
        }
    }
}

pub(super) fn check_weight(rows: f64) -> Result<(), InfoError> {
    if rows.is_finite() && rows >= 0.0 { Ok(()) } else { Err(InfoError::Weight { rows }) }
}
