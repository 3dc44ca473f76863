//! Files and folders in memory, and what is left of them when power is lost.
//!
//! Stricter than file systems in use: what is in a file survives when the file was synced, and its name when its folder was.
//! Of what was not synced, chance decides: page by page in a file, and up to some change, in their order, in a folder.

use std::collections::BTreeMap;
use std::time::SystemTime;

use fastrand::Rng;

use crate::bytes::Bytes;

pub const ROOT: u64 = 1;

/// A file or a folder.
#[derive(Debug)]
pub struct Node {
    pub content: Content,
    /// Permission bits.
    pub mode: u16,
    pub owner: u32,
    pub group: u32,
    pub changed: SystemTime,
}

#[derive(Debug)]
pub enum Content {
    File(Bytes),
    Folder(Folder),
}

#[derive(Debug, Default)]
pub struct Folder {
    names: BTreeMap<String, u64>,
    /// Changes since the last sync, oldest first: what one operation replaced, by name.
    unsynced: Vec<Vec<(String, Option<u64>)>>,
}

impl Folder {
    pub fn names(&self) -> &BTreeMap<String, u64> {
        &self.names
    }

    /// Carries out one operation: each name gets a node, or is removed.
    fn change(&mut self, changes: &[(&str, Option<u64>)]) {
        let replaced = changes.iter().map(|&(name, node)| {
            let before = match node {
                Some(node) => self.names.insert(name.to_owned(), node),
                None => self.names.remove(name),
            };
            (name.to_owned(), before)
        });
        let replaced = replaced.collect();
        self.unsynced.push(replaced);
    }

    /// Undoes the latest changes. Returns the names that are concerned.
    fn lose_power(&mut self, random: &mut Rng) -> Vec<String> {
        let kept = random.usize(0..=self.unsynced.len());
        let mut lost = Vec::new();
        for replaced in self.unsynced.drain(..).skip(kept).rev() {
            for (name, node) in replaced.into_iter().rev() {
                lost.push(name.clone());
                match node {
                    Some(node) => self.names.insert(name, node),
                    None => self.names.remove(&name),
                };
            }
        }
        lost
    }
}

/// Why an operation is refused, as the errors of the system are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    Exists,
    NotAFolder,
    IsAFolder,
    NotEmpty,
    /// Moves from folder to folder are not in the model.
    OtherFolder,
}

#[derive(Debug)]
pub struct Disk {
    nodes: BTreeMap<u64, Node>,
    next: u64,
}

impl Disk {
    /// An empty folder, of this owner and group.
    pub fn new(owner: u32, group: u32) -> Self {
        let root = Node {
            content: Content::Folder(Folder::default()),
            mode: 0o755,
            owner,
            group,
            changed: SystemTime::now(),
        };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
        }
    }

    pub fn node(&self, number: u64) -> Result<&Node, Refusal> {
        self.nodes.get(&number).ok_or(Refusal::NotFound)
    }

    pub fn node_mut(&mut self, number: u64) -> Result<&mut Node, Refusal> {
        self.nodes.get_mut(&number).ok_or(Refusal::NotFound)
    }

    pub fn folder(&self, number: u64) -> Result<&Folder, Refusal> {
        match &self.node(number)?.content {
            Content::Folder(folder) => Ok(folder),
            Content::File(_) => Err(Refusal::NotAFolder),
        }
    }

    pub fn file(&self, number: u64) -> Result<&Bytes, Refusal> {
        match &self.node(number)?.content {
            Content::File(bytes) => Ok(bytes),
            Content::Folder(_) => Err(Refusal::IsAFolder),
        }
    }

    pub fn file_mut(&mut self, number: u64) -> Result<&mut Bytes, Refusal> {
        let node = self.node_mut(number)?;
        node.changed = SystemTime::now();
        match &mut node.content {
            Content::File(bytes) => Ok(bytes),
            Content::Folder(_) => Err(Refusal::IsAFolder),
        }
    }

    pub fn find(&self, folder: u64, name: &str) -> Result<u64, Refusal> {
        self.folder(folder)?
            .names
            .get(name)
            .copied()
            .ok_or(Refusal::NotFound)
    }

    /// Makes a file or a folder. Returns its number.
    pub fn make(&mut self, folder: u64, name: &str, node: Node) -> Result<u64, Refusal> {
        if self.find(folder, name).is_ok() {
            return Err(Refusal::Exists);
        }
        let number = self.next;
        self.change(folder, &[(name, Some(number))])?;
        self.next += 1;
        self.nodes.insert(number, node);
        Ok(number)
    }

    /// Removes a name. What is open stays, and so does what a loss of power brings back.
    pub fn remove_file(&mut self, folder: u64, name: &str) -> Result<(), Refusal> {
        self.file(self.find(folder, name)?)?;
        self.change(folder, &[(name, None)])
    }

    pub fn remove_folder(&mut self, folder: u64, name: &str) -> Result<(), Refusal> {
        if !self.folder(self.find(folder, name)?)?.names.is_empty() {
            return Err(Refusal::NotEmpty);
        }
        self.change(folder, &[(name, None)])
    }

    /// Gives a file or folder another name, in one step. What had that name is replaced.
    pub fn rename(&mut self, from: (u64, &str), to: (u64, &str)) -> Result<(), Refusal> {
        let moved = self.find(from.0, from.1)?;
        if from.0 != to.0 {
            return Err(Refusal::OtherFolder);
        }
        if from.1 == to.1 {
            return Ok(());
        }
        if let Ok(replaced) = self.find(to.0, to.1) {
            match (&self.node(moved)?.content, &self.node(replaced)?.content) {
                (Content::Folder(_), Content::File(_)) => return Err(Refusal::NotAFolder),
                (Content::File(_), Content::Folder(_)) => return Err(Refusal::IsAFolder),
                (Content::Folder(_), Content::Folder(there)) if !there.names.is_empty() => {
                    return Err(Refusal::NotEmpty);
                }
                _ => {}
            }
        }
        self.change(to.0, &[(from.1, None), (to.1, Some(moved))])
    }

    pub fn sync(&mut self, number: u64) -> Result<(), Refusal> {
        match &mut self.node_mut(number)?.content {
            Content::File(bytes) => bytes.sync(),
            Content::Folder(folder) => folder.unsynced.clear(),
        }
        Ok(())
    }

    /// Loses power: `random` decides what is left of all that was not synced. Everything must be closed. Returns the names
    /// that were made, removed or changed in vain.
    pub fn lose_power(&mut self, random: &mut Rng) -> Vec<String> {
        let mut lost = Vec::new();
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        // The same choices for the same seed.
        numbers.sort_unstable();
        for number in numbers {
            match self.nodes.get_mut(&number).map(|node| &mut node.content) {
                Some(Content::File(bytes)) => bytes.lose_power(random),
                Some(Content::Folder(folder)) => lost.append(&mut folder.lose_power(random)),
                None => {}
            }
        }
        self.forget_unnamed();
        lost
    }

    fn change(&mut self, folder: u64, changes: &[(&str, Option<u64>)]) -> Result<(), Refusal> {
        let node = self.node_mut(folder)?;
        node.changed = SystemTime::now();
        match &mut node.content {
            Content::Folder(folder) => folder.change(changes),
            Content::File(_) => return Err(Refusal::NotAFolder),
        }
        Ok(())
    }

    /// Drops what no folder names any more.
    fn forget_unnamed(&mut self) {
        let mut named = BTreeMap::new();
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            let Some(node) = self.nodes.remove(&number) else {
                continue;
            };
            if let Content::Folder(folder) = &node.content {
                open.extend(folder.names.values());
            }
            named.insert(number, node);
        }
        self.nodes = named;
    }
}

#[cfg(test)]
mod tests;
