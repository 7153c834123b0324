//! Computes the files after a loss of power: all synced changes, and any sectors of the other changes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use crate::chance::Chance;

/// The bytes that a disk writes at once.
pub(crate) const SECTOR: usize = 512;

/// The files of a directory, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image(BTreeMap<String, Vec<u8>>);

impl FromIterator<(String, Vec<u8>)> for Image {
    fn from_iter<T: IntoIterator<Item = (String, Vec<u8>)>>(files: T) -> Self {
        Self(files.into_iter().collect())
    }
}

impl Image {
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The bytes of the file `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The same files, with these bytes in the file `name`.
    #[must_use]
    pub fn with(&self, name: &str, bytes: Vec<u8>) -> Self {
        let mut files = self.0.clone();
        files.insert(name.to_owned(), bytes);
        Self(files)
    }

    /// Writes the files into `directory`, and removes all other files there.
    ///
    /// # Panics
    ///
    /// Where that fails.
    pub fn lay(&self, directory: &Path) {
        for file in fs::read_dir(directory).expect("the directory is there") {
            let path = file.expect("an entry of the directory").path();
            fs::remove_file(path).expect("a file that is there");
        }
        for (name, bytes) in &self.0 {
            fs::write(directory.join(name), bytes).expect("room in the directory");
        }
    }
}

/// An operation on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new file got a name.
    Create {
        /// The file.
        file: u64,
        /// Its name.
        name: String,
    },
    /// Bytes were written.
    Write {
        /// The file.
        file: u64,
        /// The offset of the bytes.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The file was cut.
    Truncate {
        /// The file.
        file: u64,
        /// Its new length.
        size: u64,
    },
    /// All earlier changes of the file are durable now.
    Sync {
        /// The file.
        file: u64,
        /// Whether all earlier changes of names are durable now, too.
        directory: bool,
    },
    /// A sync failed. Earlier changes of the file that are not durable yet may be lost for good.
    SyncFailed {
        /// The file.
        file: u64,
    },
    /// A name was deleted.
    Delete {
        /// The name.
        name: String,
        /// Whether all changes of names are durable now.
        directory: bool,
    },
    /// The store acknowledged the step of this number.
    Acknowledged(usize),
}

/// The operations on a directory, in order, and its files before them.
#[derive(Clone, Debug)]
pub struct Recording {
    base: Image,
    /// The numbers of the files of `base`, by name.
    numbers: HashMap<String, u64>,
    pub(crate) ops: Vec<Op>,
}

/// A change that is not durable yet.
struct Pending {
    number: usize,
    change: Change,
    /// Whether a sync has failed since. The next successful sync does not make such a change durable.
    doomed: bool,
}

enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

/// The pending changes that survive a loss of power.
enum Survival {
    /// Each sector independently, with this percentage.
    Percent(usize),
    /// All changes before this operation, some sectors of its own, and none after it.
    Until(usize),
    /// All changes before this operation, so many of its first sectors, and none after it.
    Within(usize, usize),
}

impl Recording {
    pub(crate) fn of(base: Image, numbers: HashMap<String, u64>) -> Self {
        Self {
            base,
            numbers,
            ops: Vec::new(),
        }
    }

    /// The number of operations. Power may be lost before the first and after each of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The highest offset up to which a file was written.
    #[must_use]
    pub fn end(&self) -> usize {
        let ends = self.ops.iter().map(|op| match op {
            Op::Write { offset, bytes, .. } => index(*offset) + bytes.len(),
            _ => 0,
        });
        ends.max().unwrap_or_default()
    }

    /// The number of the last step that was acknowledged within the first `count` operations.
    #[must_use]
    pub fn acknowledged(&self, count: usize) -> Option<usize> {
        self.ops[..count].iter().rev().find_map(|op| match op {
            Op::Acknowledged(number) => Some(*number),
            _ => None,
        })
    }

    /// The numbers of all steps that were acknowledged within the first `count` operations, in order.
    pub fn all_acknowledged(&self, count: usize) -> impl Iterator<Item = usize> {
        self.ops[..count].iter().filter_map(|op| match op {
            Op::Acknowledged(number) => Some(*number),
            _ => None,
        })
    }

    /// The number of successful syncs.
    #[must_use]
    pub fn syncs(&self) -> usize {
        let is_sync = |op: &&Op| matches!(op, Op::Sync { .. });
        self.ops.iter().filter(is_sync).count()
    }

    /// The recording of a faulty store that acknowledges each step before the sync that makes it durable.
    #[must_use]
    pub fn with_early_words(mut self) -> Self {
        for at in 1..self.ops.len() {
            if !matches!(self.ops[at], Op::Acknowledged(_)) {
                continue;
            }
            let mut place = at;
            while place > 0 && !matches!(self.ops[place - 1], Op::Acknowledged(_)) {
                place -= 1;
                if matches!(self.ops[place], Op::Sync { .. }) {
                    let word = self.ops.remove(at);
                    self.ops.insert(place, word);
                    break;
                }
            }
        }
        self
    }

    /// The files after a loss of power, for a disk that writes in order: behind the first `sectors` sectors of operation
    /// `at`. None where the operation has fewer.
    #[must_use]
    pub fn stopped(&self, at: usize, sectors: usize, chance: &mut Chance) -> Option<Image> {
        let most = match &self.ops[at] {
            Op::Write { offset, bytes, .. } => {
                (index(*offset) + bytes.len()).div_ceil(SECTOR) - index(*offset) / SECTOR
            }
            _ => 1,
        };
        if sectors > most {
            return None;
        }
        let mut remains = Remains::of(&self.base, &self.numbers);
        for (number, op) in self.ops[..=at].iter().enumerate() {
            remains.take(number, op, chance);
        }
        Some(remains.survive(&Survival::Within(at, sectors), chance))
    }

    /// The files after a loss of power behind the first `count` operations.
    #[must_use]
    pub fn cut(&self, count: usize, chance: &mut Chance) -> Image {
        let mut remains = Remains::of(&self.base, &self.numbers);
        for (number, op) in self.ops[..count].iter().enumerate() {
            remains.take(number, op, chance);
        }
        let survival = match chance.below(7) {
            0 => Survival::Percent(0),
            1 => Survival::Percent(100),
            2 => Survival::Percent(10),
            3 => Survival::Percent(90),
            4 => Survival::Until(count.saturating_sub(chance.below(20))),
            _ => Survival::Percent(50),
        };
        remains.survive(&survival, chance)
    }
}

/// The durable and the pending changes.
struct Remains {
    files: BTreeMap<u64, (Vec<u8>, Vec<Pending>)>,
    names: BTreeMap<String, u64>,
    /// Changes of names that are not durable yet: the operation, the name, and the new file or None for a deletion.
    renamed: Vec<(usize, String, Option<u64>)>,
}

impl Remains {
    fn of(base: &Image, numbers: &HashMap<String, u64>) -> Self {
        let (mut files, mut names) = (BTreeMap::new(), BTreeMap::new());
        for (name, bytes) in &base.0 {
            let number = numbers[name];
            names.insert(name.clone(), number);
            files.insert(number, (bytes.clone(), Vec::new()));
        }
        Self {
            files,
            names,
            renamed: Vec::new(),
        }
    }

    fn take(&mut self, number: usize, op: &Op, chance: &mut Chance) {
        let mut add = |file: &u64, change: Change| {
            let pending = Pending {
                number,
                change,
                doomed: false,
            };
            self.files.entry(*file).or_default().1.push(pending);
        };
        match op {
            Op::Create { file, name } => {
                self.files.entry(*file).or_default();
                self.renamed.push((number, name.clone(), Some(*file)));
            }
            Op::Write {
                file,
                offset,
                bytes,
            } => add(file, Change::Write(index(*offset), bytes.clone())),
            Op::Truncate { file, size } => add(file, Change::Cut(index(*size))),
            Op::Sync { file, directory } => {
                let (bytes, pending) = self.files.entry(*file).or_default();
                for each in pending.drain(..) {
                    let percent = if each.doomed { 50 } else { 100 };
                    apply(bytes, &each, &Survival::Percent(percent), chance);
                }
                if *directory {
                    self.rename(&Survival::Percent(100), chance);
                }
            }
            Op::SyncFailed { file } => {
                let (_, pending) = self.files.entry(*file).or_default();
                for each in pending {
                    each.doomed = true;
                }
            }
            Op::Delete { name, directory } => {
                self.renamed.push((number, name.clone(), None));
                if *directory {
                    self.rename(&Survival::Percent(100), chance);
                }
            }
            Op::Acknowledged(_) => {}
        }
    }

    fn rename(&mut self, survival: &Survival, chance: &mut Chance) {
        for (number, name, file) in self.renamed.drain(..) {
            if !survives(survival, number, 0, chance) {
                continue;
            }
            match file {
                Some(file) => self.names.insert(name, file),
                None => self.names.remove(&name),
            };
        }
    }

    fn survive(mut self, survival: &Survival, chance: &mut Chance) -> Image {
        self.rename(survival, chance);
        let mut image = BTreeMap::new();
        for (name, file) in self.names {
            let (mut bytes, pending) = self.files.remove(&file).unwrap_or_default();
            for each in &pending {
                apply(&mut bytes, each, survival, chance);
            }
            image.insert(name, bytes);
        }
        Image(image)
    }
}

/// Whether sector `sector` of the change `number` survives.
fn survives(survival: &Survival, number: usize, sector: usize, chance: &mut Chance) -> bool {
    match survival {
        Survival::Percent(percent) => chance.percent(*percent),
        Survival::Until(last) => number < *last || (number == *last && chance.percent(50)),
        Survival::Within(last, sectors) => number < *last || (number == *last && sector < *sectors),
    }
}

fn apply(bytes: &mut Vec<u8>, pending: &Pending, survival: &Survival, chance: &mut Chance) {
    match &pending.change {
        Change::Cut(size) => {
            if survives(survival, pending.number, 0, chance) {
                bytes.resize(*size, 0);
            }
        }
        Change::Write(offset, written) => {
            let (mut done, mut sector) = (0, 0);
            while done < written.len() {
                let at = offset + done;
                let length = (SECTOR - at % SECTOR).min(written.len() - done);
                if survives(survival, pending.number, sector, chance) {
                    if bytes.len() < at + length {
                        bytes.resize(at + length, 0);
                    }
                    bytes[at..at + length].copy_from_slice(&written[done..done + length]);
                }
                done += length;
                sector += 1;
            }
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("files of tests are small")
}
