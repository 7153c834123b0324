//! Writes and reads an index as a file: its rows, and the links between them. All links are checked before they are
//! used.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::frame;
use crate::hnsw::graph::{TREE, target};
use crate::hnsw::index::Hnsw;
use crate::hnsw::params::HnswParams;
use crate::hnsw::tree;
use crate::space::base::{Bytes, Space, corrupt};
use siltstone_core::Result;

const NAME: [u8; 8] = *b"SILTHNSW";
/// Bytes of the storage's name.
const STORAGE: usize = 8;
const NOWHERE: u32 = u32::MAX;

// The marks of rows: with a node, removed, equal to the row of a node, and removed while equal ones have its node.
const ROW: u8 = 0;
const REMOVED: u8 = 1;
const TWIN: u8 = 2;
const NODE: u8 = 3;

/// The name of the storage in a file, so that it can be opened with the right type.
///
/// # Errors
///
/// The errors of [`Hnsw::from_bytes`].
pub fn storage_of(file: &[u8]) -> Result<String> {
    let name = frame::open(NAME, file)?.array::<STORAGE>()?;
    let name = name.iter().take_while(|&&byte| byte != 0);
    Ok(name.map(|&byte| char::from(byte)).collect())
}

impl<S: Space> Hnsw<S> {
    /// The index as a file. Removed rows are not in it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = self.writer.lock();
        writer.unlink(&self.space, &self.graph);
        let mut file = frame::begin(NAME);
        let mut storage = S::NAME.as_bytes().to_vec();
        storage.resize(STORAGE, 0);
        file.extend(storage);
        let params = self.graph.params;
        let rows = self.graph.published();
        for number in [
            self.dimension,
            params.m(),
            params.ef_construction(),
            params.ef_search(),
            params.max_layer(),
        ] {
            put(&mut file, u32::try_from(number).unwrap_or(u32::MAX));
        }
        file.extend(params.seed().to_le_bytes());
        put(&mut file, rows);
        let twins = self.twins.read();
        for id in 0..rows {
            let removed = self.removed.contains(id);
            let has_node = twins.of_node.contains_key(&id);
            if let Some(&node) = twins.of.get(&id) {
                file.push(TWIN);
                put(&mut file, node);
            } else if removed && !has_node {
                file.push(REMOVED);
            } else {
                file.push(if removed { NODE } else { ROW });
                self.space.encode(id, &mut file);
            }
        }
        put(&mut file, self.graph.entry().map_or(NOWHERE, |(id, _)| id));
        for id in (0..rows).filter(|&id| !self.graph.is_hidden(id)) {
            for layer in 0..=params.layer(id) {
                let links: Vec<u32> = self.graph.slots(id, layer).links().collect();
                put(&mut file, u32::try_from(links.len()).unwrap_or(u32::MAX));
                for link in links {
                    put(&mut file, link);
                }
            }
        }
        frame::end(file)
    }

    /// Reads an index that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// `StoreOpen` for another kind of file, `StoreVersion` for another version, `StoreCorrupt` for a damaged file:
    /// another storage, a link to a missing node, a node that no tree link leads to.
    pub fn from_bytes(file: &[u8]) -> Result<Self> {
        let storage = storage_of(file)?;
        if storage != S::NAME {
            return Err(corrupt(&format!(
                "its rows are {storage:?}, not {:?}",
                S::NAME
            )));
        }
        let mut file = frame::open(NAME, file)?;
        file.take(STORAGE)?;
        let index = Self::read_header(&mut file)?;
        index.read_rows(&mut file)?;
        index.read_links(&mut file)?;
        if !file.0.is_empty() {
            return Err(corrupt("something stands behind its links"));
        }
        index.check_tree()?;
        Ok(index)
    }

    fn read_header(file: &mut Bytes<'_>) -> Result<Self> {
        let mut number = || file.u32().map(|number| number as usize);
        let (dimension, m) = (number()?, number()?);
        let (ef_construction, ef_search, max_layer) = (number()?, number()?, number()?);
        let seed = file.u64()?;
        HnswParams::new(m, ef_construction, ef_search, max_layer, seed)
            .and_then(|params| Self::new(dimension, params))
            .map_err(|error| corrupt(&error.to_string()))
    }

    fn read_rows(&self, file: &mut Bytes<'_>) -> Result<()> {
        let mut writer = self.writer.lock();
        for _ in 0..file.u32()? {
            let [mark] = file.array()?;
            let (mut node, mut numbers) = (None, Vec::new());
            let item = match mark {
                ROW | NODE => S::decode(self.dimension, file)?,
                REMOVED => S::zeros(self.dimension),
                TWIN => {
                    let equal = file.u32()?;
                    if !self.is_linked(equal) {
                        return Err(corrupt(&format!("a row has the node {equal}")));
                    }
                    node = Some(equal);
                    self.space.encode(equal, &mut numbers);
                    S::decode(self.dimension, &mut Bytes(&numbers))?
                }
                other => return Err(corrupt(&format!("a row is marked {other}"))),
            };
            let (id, _) = self.push(&mut writer, std::borrow::Borrow::borrow(&item))?;
            if matches!(mark, REMOVED | NODE) {
                self.removed.insert(id);
                self.silent.insert(id);
            } else {
                self.remaining.fetch_add(1, Ordering::Relaxed);
            }
            if mark == NODE {
                self.twins.write().of_node.insert(id, Vec::new());
            }
            if let Some(node) = node {
                self.join(node, id);
            }
            self.graph.publish(id + 1);
        }
        if self.twins.read().of_node.values().any(Vec::is_empty) {
            return Err(corrupt("a node has no row"));
        }
        Ok(())
    }

    fn read_links(&self, file: &mut Bytes<'_>) -> Result<()> {
        let params = self.graph.params;
        let entry = file.u32()?;
        let highest = self.linked().map(|id| params.layer(id)).max();
        let fits = self.is_linked(entry) && highest == Some(params.layer(entry));
        if !fits && (entry, highest) != (NOWHERE, None) {
            return Err(corrupt("its entry point is not on the highest layer"));
        }
        for id in self.linked() {
            for layer in 0..=params.layer(id) {
                let count = file.u32()? as usize;
                if count > self.graph.m_max(layer) {
                    return Err(corrupt(&format!(
                        "node {id} has {count} links on layer {layer}"
                    )));
                }
                let links = (0..count)
                    .map(|_| file.u32())
                    .collect::<Result<Vec<u32>>>()?;
                self.check_links(id, layer, &links)?;
                self.graph.slots(id, layer).rewrite(&links);
            }
        }
        self.graph.enter_at((entry != NOWHERE).then_some(entry));
        Ok(())
    }

    fn check_links(&self, id: u32, layer: usize, links: &[u32]) -> Result<()> {
        let mut seen = HashSet::from([id]);
        for &link in links {
            let node = target(link);
            let is_of_tree = link & TREE != 0;
            let wrong = !self.is_linked(node)
                || self.graph.params.layer(node) < layer
                || (is_of_tree && layer > 0)
                || !seen.insert(node);
            if wrong {
                return Err(corrupt(&format!(
                    "node {id} has a link to {node} on layer {layer}"
                )));
            }
        }
        Ok(())
    }

    /// Checks that the marked links are a tree over all nodes, so that every node can be reached.
    fn check_tree(&self) -> Result<()> {
        let Some((root, _)) = self.graph.entry() else {
            return Ok(());
        };
        let (mut seen, mut waiting) = (HashSet::from([root]), vec![root]);
        let mut marks = 0;
        while let Some(id) = waiting.pop() {
            let partners: Vec<u32> = tree::partners(&self.graph, id).collect();
            marks += partners.len();
            let both_ways = partners.iter().all(|&other| {
                let link = self.graph.slots(other, 0).find(id);
                link.is_some_and(|link| link.load(Ordering::Relaxed) & TREE != 0)
            });
            if !both_ways || partners.len() > self.graph.params.m() {
                return Err(corrupt(&format!(
                    "the tree links of node {id} are no pairs"
                )));
            }
            waiting.extend(partners.into_iter().filter(|&id| seen.insert(id)));
        }
        let nodes = self.linked().count();
        if seen.len() != nodes || marks != 2 * (nodes - 1) {
            return Err(corrupt("its tree links are no tree over its nodes"));
        }
        Ok(())
    }

    fn is_linked(&self, id: u32) -> bool {
        id < self.graph.published() && !self.graph.is_hidden(id)
    }

    fn linked(&self) -> impl Iterator<Item = u32> {
        (0..self.graph.published()).filter(|&id| !self.graph.is_hidden(id))
    }
}

fn put(file: &mut Vec<u8>, number: u32) {
    file.extend(number.to_le_bytes());
}
