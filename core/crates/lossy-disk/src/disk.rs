//! Files and directories in memory, with a model of their contents after a power loss.
//!
//! The model is stricter than common file systems: the content of a file survives if the file was synced, and its name
//! if its directory was. The fate of unsynced changes is random: page by page in a file, and a prefix of the changes in
//! a directory. A move from one directory to another is atomic, as in the journal of a common file system: it survives in
//! both directories or in neither, and a sync of either makes it durable.

use std::collections::BTreeMap;
use std::time::SystemTime;

use fastrand::Rng;

use crate::bytes::Bytes;

pub const ROOT: u64 = 1;

/// File or directory.
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
    Directory(Directory),
}

#[derive(Debug, Default)]
pub struct Directory {
    names: BTreeMap<String, u64>,
    /// Changes since the last sync, oldest first.
    unsynced: Vec<Change>,
}

/// A change of a directory that a power loss may undo.
#[derive(Debug)]
struct Change {
    /// The entries that it replaced, by name.
    replaced: Vec<(String, Option<u64>)>,
    /// A move to another directory, or from it.
    shared: Option<Shared>,
}

/// The other half of a move between directories.
#[derive(Clone, Copy, Debug)]
struct Shared {
    directory: u64,
    /// Number of the move, the same in both directories.
    number: u64,
}

impl Directory {
    pub fn names(&self) -> &BTreeMap<String, u64> {
        &self.names
    }

    /// Carry out one operation: each name is assigned a node, or removed.
    fn change(&mut self, changes: &[(&str, Option<u64>)], shared: Option<Shared>) {
        let replaced = changes.iter().map(|&(name, node)| {
            let before = match node {
                Some(node) => self.names.insert(name.to_owned(), node),
                None => self.names.remove(name),
            };
            (name.to_owned(), before)
        });
        let replaced = replaced.collect();
        self.unsynced.push(Change { replaced, shared });
    }

    /// Position of a move among the unsynced changes.
    fn position(&self, number: u64) -> Option<usize> {
        let is_it = |change: &Change| change.shared.is_some_and(|shared| shared.number == number);
        self.unsynced.iter().position(is_it)
    }

    /// Undo all changes but the first ones. Returns the names concerned.
    fn lose_power(&mut self, kept: usize) -> Vec<String> {
        let mut lost = Vec::new();
        for change in self.unsynced.drain(..).skip(kept).rev() {
            for (name, node) in change.replaced.into_iter().rev() {
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

/// Reason why an operation is refused, named like the errors of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
}

#[derive(Debug)]
pub struct Disk {
    nodes: BTreeMap<u64, Node>,
    /// Number of the next node or move.
    next: u64,
}

impl Disk {
    /// Create an empty root directory with this owner and group.
    pub fn new(owner: u32, group: u32) -> Self {
        let root = Node {
            content: Content::Directory(Directory::default()),
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

    pub fn directory(&self, number: u64) -> Result<&Directory, Refusal> {
        match &self.node(number)?.content {
            Content::Directory(directory) => Ok(directory),
            Content::File(_) => Err(Refusal::NotADirectory),
        }
    }

    pub fn file(&self, number: u64) -> Result<&Bytes, Refusal> {
        match &self.node(number)?.content {
            Content::File(bytes) => Ok(bytes),
            Content::Directory(_) => Err(Refusal::IsADirectory),
        }
    }

    pub fn file_mut(&mut self, number: u64) -> Result<&mut Bytes, Refusal> {
        let node = self.node_mut(number)?;
        node.changed = SystemTime::now();
        match &mut node.content {
            Content::File(bytes) => Ok(bytes),
            Content::Directory(_) => Err(Refusal::IsADirectory),
        }
    }

    pub fn find(&self, directory: u64, name: &str) -> Result<u64, Refusal> {
        self.directory(directory)?
            .names
            .get(name)
            .copied()
            .ok_or(Refusal::NotFound)
    }

    /// Create a file or a directory. Returns its number.
    pub fn make(&mut self, directory: u64, name: &str, node: Node) -> Result<u64, Refusal> {
        if self.find(directory, name).is_ok() {
            return Err(Refusal::Exists);
        }
        let number = self.next;
        self.change(directory, &[(name, Some(number))])?;
        self.next += 1;
        self.nodes.insert(number, node);
        Ok(number)
    }

    /// Remove a name. Open files remain, and so do those that a power loss would restore.
    pub fn remove_file(&mut self, directory: u64, name: &str) -> Result<(), Refusal> {
        self.file(self.find(directory, name)?)?;
        self.change(directory, &[(name, None)])
    }

    pub fn remove_directory(&mut self, directory: u64, name: &str) -> Result<(), Refusal> {
        if !self
            .directory(self.find(directory, name)?)?
            .names
            .is_empty()
        {
            return Err(Refusal::NotEmpty);
        }
        self.change(directory, &[(name, None)])
    }

    /// Rename a file or directory atomically. An existing target is replaced.
    pub fn rename(&mut self, from: (u64, &str), to: (u64, &str)) -> Result<(), Refusal> {
        let moved = self.find(from.0, from.1)?;
        if from == to {
            return Ok(());
        }
        if let Ok(replaced) = self.find(to.0, to.1) {
            match (&self.node(moved)?.content, &self.node(replaced)?.content) {
                (Content::Directory(_), Content::File(_)) => return Err(Refusal::NotADirectory),
                (Content::File(_), Content::Directory(_)) => return Err(Refusal::IsADirectory),
                (Content::Directory(_), Content::Directory(there)) if !there.names.is_empty() => {
                    return Err(Refusal::NotEmpty);
                }
                _ => {}
            }
        }
        if from.0 == to.0 {
            return self.change(to.0, &[(from.1, None), (to.1, Some(moved))]);
        }
        let number = self.next;
        self.next += 1;
        let mut change_half = |half: (u64, &str), other: u64, node| {
            let shared = Some(Shared {
                directory: other,
                number,
            });
            self.changed_directory(half.0)
                .map(|directory| directory.change(&[(half.1, node)], shared))
        };
        change_half(to, from.0, Some(moved))?;
        change_half(from, to.0, None)
    }

    pub fn sync(&mut self, number: u64) -> Result<(), Refusal> {
        match &mut self.node_mut(number)?.content {
            Content::File(bytes) => bytes.sync(),
            Content::Directory(directory) => {
                let synced = std::mem::take(&mut directory.unsynced);
                self.sync_shared(synced);
            }
        }
        Ok(())
    }

    /// Make the other halves of moves durable that became so, each with all changes before it in its directory.
    fn sync_shared(&mut self, synced: Vec<Change>) {
        let mut left = synced;
        while let Some(change) = left.pop() {
            if let Some(shared) = change.shared
                && let Some(other) = self.directory_mut(shared.directory)
                && let Some(position) = other.position(shared.number)
            {
                left.extend(other.unsynced.drain(..=position));
            }
        }
    }

    /// Lose power: `random` decides what remains of unsynced changes. All files must be closed. Returns the names whose
    /// creation, removal or change was lost.
    pub fn lose_power(&mut self, random: &mut Rng) -> Vec<String> {
        let mut lost = Vec::new();
        let kept = self.choose_kept(random);
        // A map without random order, so that the same seed makes the same choices.
        for (number, node) in &mut self.nodes {
            match &mut node.content {
                Content::File(bytes) => bytes.lose_power(random),
                Content::Directory(directory) => {
                    lost.append(&mut directory.lose_power(kept[number]));
                }
            }
        }
        self.forget_unnamed();
        lost
    }

    /// Choose how many changes of each directory survive, so that a move survives in both directories or in neither.
    fn choose_kept(&self, random: &mut Rng) -> BTreeMap<u64, usize> {
        let directories = || {
            let all = self.nodes.iter();
            all.filter_map(|(number, node)| match &node.content {
                Content::Directory(directory) => Some((*number, directory)),
                Content::File(_) => None,
            })
        };
        let chosen = directories().map(|(number, found)| {
            let kept = random.usize(0..=found.unsynced.len());
            (number, kept)
        });
        let mut kept: BTreeMap<u64, usize> = chosen.collect();
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for (number, found) in directories() {
                let undone = found.unsynced.iter().skip(kept[&number]);
                for shared in undone.filter_map(|change| change.shared) {
                    let position = (self.directory(shared.directory).ok())
                        .and_then(|other| other.position(shared.number));
                    if let Some((position, other)) = position.zip(kept.get_mut(&shared.directory))
                        && position < *other
                    {
                        *other = position;
                        is_settled = false;
                    }
                }
            }
        }
        kept
    }

    fn directory_mut(&mut self, number: u64) -> Option<&mut Directory> {
        match &mut self.nodes.get_mut(&number)?.content {
            Content::Directory(directory) => Some(directory),
            Content::File(_) => None,
        }
    }

    /// Return a directory whose names are about to change.
    fn changed_directory(&mut self, number: u64) -> Result<&mut Directory, Refusal> {
        let node = self.node_mut(number)?;
        node.changed = SystemTime::now();
        match &mut node.content {
            Content::Directory(directory) => Ok(directory),
            Content::File(_) => Err(Refusal::NotADirectory),
        }
    }

    fn change(&mut self, directory: u64, changes: &[(&str, Option<u64>)]) -> Result<(), Refusal> {
        self.changed_directory(directory)?.change(changes, None);
        Ok(())
    }

    /// Drop the nodes that no directory names any more.
    fn forget_unnamed(&mut self) {
        let mut named = BTreeMap::new();
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            let Some(node) = self.nodes.remove(&number) else {
                continue;
            };
            if let Content::Directory(directory) = &node.content {
                open.extend(directory.names.values());
            }
            named.insert(number, node);
        }
        self.nodes = named;
    }
}

#[cfg(test)]
mod tests;
