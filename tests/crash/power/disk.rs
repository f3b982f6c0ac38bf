//! A disk under the store's folder: what is on it for sure, and what is only on its way there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::journal::Event;
use crate::env::Random;
use crate::points::full;

/// What a disk writes at once.
const SECTOR: usize = 512;

/// Up to this many open changes every subset of them is an image of its own.
const ALL_SUBSETS: usize = 6;

/// How many subsets are drawn where there are more, and how many of them have a torn write.
const DRAWN: usize = 8;
const TORN: usize = 3;

type Inode = usize;

/// A change that no sync has made last yet.
#[derive(Clone)]
enum Change {
    Write { inode: Inode, at: usize, bytes: Vec<u8> },
    Truncate { inode: Inode, length: usize },
    Name { name: String, inode: Inode },
    NoName { name: String },
}

impl Change {
    fn inode(&self) -> Option<Inode> {
        match self {
            Change::Write { inode, .. } | Change::Truncate { inode, .. } => Some(*inode),
            Change::Name { .. } | Change::NoName { .. } => None,
        }
    }
}

/// Files and their names.
#[derive(Clone, Default)]
struct Files {
    names: BTreeMap<String, Inode>,
    contents: Vec<Vec<u8>>,
}

/// The store's folder on a disk.
pub(super) struct Disk {
    folder: PathBuf,
    /// As programs see it.
    seen: Files,
    /// As it is on the disk for sure.
    lasting: Files,
    /// Whether the folder itself has come to the disk.
    folder_lasts: bool,
    open: Vec<(u64, Change)>,
    changes: u64,
    syncs: u64,
}

/// Which of the open changes reached the disk; the changes are those of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Image {
    /// What it is made of, which tells equal ones: how many syncs there were, and which changes since.
    key: (u64, Vec<u64>, Option<(u64, u64)>),
    /// Whether the folder is there at all.
    folder: bool,
}

impl Disk {
    pub(super) fn new(folder: PathBuf) -> Disk {
        Disk {
            folder,
            seen: Files::default(),
            lasting: Files::default(),
            folder_lasts: false,
            open: Vec::new(),
            changes: 0,
            syncs: 0,
        }
    }

    pub(super) fn happens(&mut self, event: &Event) {
        match event {
            Event::Open { path } => {
                let name = self.name(path);
                if !self.seen.names.contains_key(&name) {
                    self.seen.contents.push(Vec::new());
                    self.lasting.contents.push(Vec::new());
                    let inode = self.seen.contents.len() - 1;
                    self.change(Change::Name { name, inode });
                }
            }
            Event::Write { path, at, bytes } => {
                let inode = self.inode(path);
                let at = at.unwrap_or(self.seen.contents[inode].len());
                self.change(Change::Write { inode, at, bytes: bytes.clone() });
            }
            Event::Truncate { path, length } => {
                let inode = self.inode(path);
                self.change(Change::Truncate { inode, length: *length });
            }
            Event::Punch { path, from, length } => {
                let inode = self.inode(path);
                let until = (from + length).min(self.seen.contents[inode].len());
                self.change(Change::Write { inode, at: *from, bytes: vec![0; until.saturating_sub(*from)] });
            }
            Event::Rename { from, to } => {
                let inode = self.inode(from);
                self.change(Change::NoName { name: self.name(from) });
                self.change(Change::Name { name: self.name(to), inode });
            }
            Event::Unlink { path } => self.change(Change::NoName { name: self.name(path) }),
            Event::Sync { path } => self.sync(path),
            Event::MakeFolder { .. } | Event::Spawn | Event::Other => {}
        }
    }

    fn name(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.folder).unwrap_or_else(|_| panic!("{} is elsewhere", path.display()));
        inside.to_string_lossy().into_owned()
    }

    fn inode(&self, path: &Path) -> Inode {
        let name = self.name(path);
        *self.seen.names.get(&name).unwrap_or_else(|| panic!("{name} was not seen to be made"))
    }

    fn change(&mut self, change: Change) {
        // Neither the shared memory nor the locks outlive a reboot.
        let passing = |name: &str| name.ends_with("-shm");
        if let Some(inode) = change.inode()
            && self.seen.names.iter().any(|(name, of)| *of == inode && passing(name))
        {
            return;
        }
        self.seen.apply(&change, None);
        self.changes += 1;
        self.open.push((self.changes, change));
    }

    fn sync(&mut self, path: &Path) {
        self.syncs += 1;
        if path == self.folder {
            self.come_to_last(|change| change.inode().is_none());
        } else if path.starts_with(&self.folder) {
            let inode = self.inode(path);
            self.come_to_last(|change| change.inode() == Some(inode));
        } else if Some(path) == self.folder.parent() {
            self.folder_lasts = true;
        }
    }

    fn come_to_last(&mut self, which: impl Fn(&Change) -> bool) {
        for (_, change) in self.open.iter().filter(|(_, change)| which(change)) {
            self.lasting.apply(change, None);
        }
        self.open.retain(|(_, change)| !which(change));
    }

    /// The images that a power cut could leave now.
    pub(super) fn images(&self, seed: u64) -> Vec<Image> {
        let count = self.open.len();
        let mut random = Random::new(seed, "image", count);
        let mut subsets: Vec<Vec<bool>> = vec![vec![false; count], vec![true; count]];
        if count <= ALL_SUBSETS {
            subsets.extend(
                (1..(1_usize << count).saturating_sub(1)).map(|bits| (0..count).map(|n| bits >> n & 1 == 1).collect()),
            );
        } else {
            for _ in 0..DRAWN {
                // Many or few of them: evenly drawn ones would nearly all be a half.
                let share = 1 + random.below(15);
                subsets.push((0..count).map(|_| random.below(16) < share).collect());
            }
            // The last ones are what a commit ends with: each of them alone missing.
            subsets.extend((0..count).rev().take(4).map(|missing| (0..count).map(|n| n != missing).collect()));
        }
        let chosen = |subset: &[bool]| -> Vec<u64> {
            self.open.iter().zip(subset).filter(|(_, taken)| **taken).map(|((number, _), _)| *number).collect()
        };
        let mut images: Vec<Image> = Vec::new();
        for subset in &subsets {
            images.push(Image { key: (self.syncs, chosen(subset), None), folder: true });
        }
        if count > 0 {
            for n in 0..if full() { TORN * 2 } else { TORN } {
                let all = chosen(&subsets[if n == 0 { 1 } else { random.below(subsets.len()) }]);
                if let Some(torn) = all.get(random.below(all.len().max(1))) {
                    let sectors = random.below(1 << 30) as u64;
                    images.push(Image { key: (self.syncs, all.clone(), Some((*torn, sectors))), folder: true });
                }
            }
        }
        if !self.folder_lasts {
            images.push(Image { key: (self.syncs, Vec::new(), None), folder: false });
        }
        images
    }

    /// The files of an image, by name; none where even their folder is missing.
    pub(super) fn files(&self, image: &Image) -> Option<Vec<(String, Vec<u8>)>> {
        if !image.folder {
            return None;
        }
        let (_, chosen, torn) = &image.key;
        let mut files = self.lasting.clone();
        for (number, change) in self.open.iter().filter(|(number, _)| chosen.contains(number)) {
            let sectors = torn.filter(|(torn, _)| torn == number).map(|(_, sectors)| sectors);
            files.apply(change, sectors);
        }
        Some(files.names.iter().map(|(name, inode)| (name.clone(), files.contents[*inode].clone())).collect())
    }
}

impl Files {
    /// Makes a change; `sectors`: the bits say which parts of a write come true.
    fn apply(&mut self, change: &Change, sectors: Option<u64>) {
        match change {
            Change::Write { inode, at, bytes } => {
                let content = &mut self.contents[*inode];
                if content.len() < at + bytes.len() {
                    content.resize(at + bytes.len(), 0);
                }
                for (n, byte) in bytes.iter().enumerate() {
                    let sector = (at + n) / SECTOR - at / SECTOR;
                    if sectors.is_none_or(|bits| bits >> (sector % 30) & 1 == 1) {
                        content[at + n] = *byte;
                    }
                }
            }
            Change::Truncate { inode, length } => self.contents[*inode].resize(*length, 0),
            Change::Name { name, inode } => drop(self.names.insert(name.clone(), *inode)),
            Change::NoName { name } => drop(self.names.remove(name)),
        }
    }
}
