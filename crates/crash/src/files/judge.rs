//! Whether files are among those that may be there after a loss of power.
//!
//! A mark says that the operation with a number, which makes others durable, has returned. What comes after it may
//! have happened, in any order and in part, up to the next one of the kind:
//!
//! - A name is as in one of the states from when it was last durable on. After `fsync` and `fdatasync` of a file those
//!   are its names and the directories above it, after `fsync` of a directory the names in it, after `sync` all.
//! - A byte of a file is as in one of the states since the file's data were durable, or zero where the file was
//!   shorter in one of them. Its size is between the smallest and the largest of these states.
//! - A file has no more names at the same time than in one of these states, so a rename is atomic; and it has one if it
//!   has had one in all of them.
//! - A name that no operation has made is not there.
use super::tree::parent;
use super::{Inode, Op, Tree, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Longest extended attribute of a workload, in bytes.
pub(crate) const ATTRIBUTE: usize = 24;

/// A file, directory or symbolic link that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File {
        /// The same for all names of a file.
        inode: u64,
        /// Its data.
        data: Vec<u8>,
        /// Its extended attributes without `user.`.
        attributes: BTreeMap<String, Vec<u8>>,
    },
    /// A directory.
    Directory,
    /// A symbolic link with this text.
    Symlink(String),
    /// A device, socket or FIFO.
    Other,
}

/// The files that were found below a directory, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found(pub BTreeMap<String, Entry>);

impl Found {
    /// Reads all files below a directory.
    ///
    /// # Errors
    /// One cannot be read: its path and why.
    pub fn read(directory: &Path) -> Result<Found, String> {
        let mut found = Found::default();
        let mut left = vec![String::new()];
        while let Some(below) = left.pop() {
            let at = directory.join(&below);
            let error = |error: io::Error| format!("{}: {error}", at.display());
            for entry in fs::read_dir(&at).map_err(error)? {
                let name = entry.map_err(error)?.file_name();
                let name = name.to_string_lossy();
                let path =
                    if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
                let at = directory.join(&path);
                let entry = read(&at).map_err(|error| format!("{}: {error}", at.display()))?;
                if entry == Entry::Directory {
                    left.push(path.clone());
                }
                found.0.insert(path, entry);
            }
        }
        Ok(found)
    }
}

fn read(path: &Path) -> io::Result<Entry> {
    let metadata = path.symlink_metadata()?;
    let kind = metadata.file_type();
    Ok(if kind.is_dir() {
        Entry::Directory
    } else if kind.is_symlink() {
        Entry::Symlink(fs::read_link(path)?.to_string_lossy().into_owned())
    } else if kind.is_file() {
        Entry::File { inode: metadata.ino(), data: fs::read(path)?, attributes: attributes(path)? }
    } else {
        Entry::Other
    })
}

fn attributes(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut list = vec![0; 4096];
    let len = match rustix::fs::listxattr(path, &mut list[..]) {
        // Where there are none, none are missing but those that the workload has set.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    let mut found = BTreeMap::new();
    for name in list[..len].split(|&byte| byte == 0) {
        let name = String::from_utf8_lossy(name);
        let Some(own) = name.strip_prefix("user.") else { continue };
        let mut value = vec![0; 4096];
        let len = rustix::fs::getxattr(path, &*name, &mut value[..])?;
        value.truncate(len);
        found.insert(own.to_owned(), value);
    }
    Ok(found)
}

/// Since which state something is durable: numbers of operations.
#[derive(Default)]
struct Durable {
    /// All names that there ever are.
    names: BTreeMap<String, usize>,
    /// Data of files, by the numbers of their inodes.
    data: BTreeMap<u8, usize>,
    /// Their extended attributes.
    attributes: BTreeMap<u8, usize>,
}

impl Durable {
    /// After the operation `returned` has returned.
    fn new(workload: &Workload, returned: usize) -> Self {
        let mut durable = Durable::default();
        for tree in workload.states() {
            for (name, _) in tree.names() {
                durable.names.insert(name.to_owned(), 0);
            }
        }
        for (number, op) in (1..=returned).zip(workload.ops()) {
            durable.add(number, op, &workload.states()[number]);
        }
        durable
    }

    fn add(&mut self, number: usize, op: &Op, tree: &Tree) {
        match op {
            Op::Sync | Op::Syncfs => {
                self.names.values_mut().for_each(|since| *since = number);
                let inodes: BTreeSet<u8> = tree.names().map(|(_, inode)| inode).collect();
                for inode in inodes {
                    self.data.insert(inode, number);
                    self.attributes.insert(inode, number);
                }
            }
            Op::Fsync(path) | Op::Fdatasync(path) => {
                let inode = tree.number(path).expect("a workload syncs files that exist");
                if tree.inode(inode) == Some(&Inode::Directory) {
                    let within =
                        self.names.iter_mut().filter(|(name, _)| parent(name) == Some(path));
                    within.for_each(|(_, since)| *since = number);
                } else {
                    self.data.insert(inode, number);
                    if matches!(op, Op::Fsync(_)) {
                        self.attributes.insert(inode, number);
                    }
                }
                for name in tree.names_of(inode) {
                    let mut above = Some(name);
                    while let Some(name) = above {
                        self.names.insert(name.to_owned(), number);
                        above = parent(name);
                    }
                }
            }
            _ => {}
        }
    }
}

/// What may be there.
struct Allowed<'a> {
    workload: &'a Workload,
    durable: Durable,
    /// The last state that may be there in part.
    end: usize,
}

impl Allowed<'_> {
    fn states(&self, since: usize) -> &[Tree] {
        &self.workload.states()[since..=self.end]
    }

    /// The states that a file's data may be of: those in which it exists.
    fn files(&self, inode: u8, since: Option<&usize>) -> impl Iterator<Item = &Inode> {
        let since = since.copied().unwrap_or(usize::from(inode));
        self.states(since.min(self.end)).iter().filter_map(move |tree| tree.inode(inode))
    }

    /// The inodes that a name may be of, and whether it may be missing.
    fn of_name(&self, name: &str) -> (BTreeSet<u8>, bool) {
        let states = self.states(self.durable.names[name]);
        let found = states.iter().filter_map(|tree| tree.number(name)).collect();
        (found, states.iter().any(|tree| tree.number(name).is_none()))
    }

    /// Whether an inode may be as `entry` is.
    fn fits(&self, inode: u8, entry: &Entry) -> Result<(), String> {
        let kind = self.workload.states()[usize::from(inode)].inode(inode);
        match (kind.expect("it was created"), entry) {
            (Inode::File { .. }, Entry::File { data, attributes, .. }) => {
                self.data_fits(inode, data)?;
                self.attributes_fit(inode, attributes)
            }
            (Inode::Directory, Entry::Directory) => Ok(()),
            (Inode::Symlink(text), Entry::Symlink(found)) if text == found => Ok(()),
            (kind, _) => Err(format!("found {}, expected {}", entry.kind(), kind.kind())),
        }
    }

    fn data_fits(&self, inode: u8, data: &[u8]) -> Result<(), String> {
        let files = self.files(inode, self.durable.data.get(&inode));
        let versions: Vec<&[u8]> = files.filter_map(Inode::bytes).collect();
        let sizes = size_range(&versions);
        if !sizes.contains(&data.len()) {
            return Err(format!("found {} bytes, expected {}", data.len(), in_words(&sizes)));
        }
        for (offset, &byte) in data.iter().enumerate() {
            let writers = versions.iter().map(|bytes| bytes.get(offset).copied().unwrap_or(0));
            if !writers.clone().any(|writer| self.workload.byte(writer, offset) == byte) {
                let of: BTreeSet<u8> = writers.collect();
                let expected: Vec<String> = of.into_iter().map(writer).collect();
                return Err(format!(
                    "byte {offset}: found {}, expected {}",
                    self.whose(offset, data),
                    expected.join(" or ")
                ));
            }
        }
        Ok(())
    }

    /// What the data from `offset` on are of, if that is an operation of this workload.
    fn whose(&self, offset: usize, data: &[u8]) -> String {
        let some = &data[offset..data.len().min(offset + 8)];
        let of = |&number: &u8| {
            let is = |(at, &byte)| self.workload.byte(number, offset + at) == byte;
            some.iter().enumerate().all(is)
        };
        let numbers = 0..=self.workload.ops().len() as u8;
        numbers.into_iter().find(of).map_or_else(|| "other data".to_owned(), writer)
    }

    fn attributes_fit(&self, inode: u8, found: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let files = self.files(inode, self.durable.attributes.get(&inode));
        let versions: Vec<&BTreeMap<String, u8>> = files.filter_map(Inode::attributes).collect();
        let names = versions.iter().flat_map(|version| version.keys()).chain(found.keys());
        for name in names.collect::<BTreeSet<_>>() {
            let data = |number: &u8| self.workload.data(*number, 0, ATTRIBUTE);
            let is = found.get(name);
            if !versions.iter().any(|version| version.get(name).map(data).as_ref() == is) {
                let found = if is.is_some() { "another value" } else { "none" };
                return Err(format!("extended attribute user.{name}: found {found}"));
            }
        }
        Ok(())
    }

    /// The names that exist are of files that may be there.
    fn names(&self, found: &Found) -> Result<(), String> {
        for (name, entry) in &found.0 {
            if !self.durable.names.contains_key(name) {
                return Err(format!(
                    "{name}: found {}, expected nothing of that name",
                    entry.kind()
                ));
            }
            let (inodes, _) = self.of_name(name);
            let mut errors = Vec::new();
            if !inodes
                .iter()
                .any(|&inode| self.fits(inode, entry).map_err(|e| errors.push(e)).is_ok())
            {
                let why = errors.pop().unwrap_or_else(|| {
                    format!(
                        "found {}, expected nothing: it was removed or never there",
                        entry.kind()
                    )
                });
                return Err(format!("{name}: {why}"));
            }
        }
        let names = self.durable.names.keys();
        for name in names.filter(|&name| !found.0.contains_key(name)) {
            if !self.of_name(name).1 {
                return Err(format!("{name}: it is not there"));
            }
        }
        Ok(())
    }

    /// Files have as many names as they may have.
    fn links(&self, found: &Found) -> Result<(), String> {
        let mut groups: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for (name, entry) in &found.0 {
            if let Entry::File { inode, .. } = entry {
                groups.entry(*inode).or_default().push(name);
            }
        }
        let mut there = BTreeSet::new();
        for names in groups.values() {
            let entry = &found.0[names[0]];
            let may_be = |inode: &u8| {
                names.iter().all(|name| self.of_name(name).0.contains(inode))
                    && self.fits(*inode, entry).is_ok()
                    && names.len() <= self.most_names(*inode, names)
            };
            let of: Vec<u8> = self.of_name(names[0]).0.into_iter().filter(may_be).collect();
            if of.is_empty() {
                return Err(format!("{}: found names of one file", names.join(" and ")));
            }
            there.extend(of);
        }
        let files: BTreeSet<u8> =
            self.workload.states().iter().flat_map(Tree::names).map(|(_, inode)| inode).collect();
        for inode in files {
            if self.must_exist(inode) && !there.contains(&inode) {
                let creator = &self.workload.ops()[usize::from(inode) - 1];
                return Err(format!("the file of `{creator}` has none of its names"));
            }
        }
        Ok(())
    }

    /// The most names that a file has at the same time, of the states that one of `names` may be of.
    fn most_names(&self, inode: u8, names: &[&str]) -> usize {
        let since = names.iter().map(|&name| self.durable.names[name]).min().unwrap_or(0);
        self.states(since).iter().map(|tree| tree.names_of(inode).count()).max().unwrap_or(0)
    }

    /// Whether a regular file has to have a name: one was durable, and it has had one ever since.
    fn must_exist(&self, inode: u8) -> bool {
        let named =
            self.durable.names.iter().filter(|&(name, &since)| {
                self.workload.states()[since].number(name) == Some(inode)
            });
        let since = named.map(|(_, &since)| since).max();
        since.is_some_and(|since| {
            let is_file = |tree: &Tree| matches!(tree.inode(inode), Some(Inode::File { .. }));
            self.states(since).iter().all(is_file)
        })
    }
}

fn writer(number: u8) -> String {
    match number {
        0 => "zeroes".to_owned(),
        number => format!("what operation {number} wrote"),
    }
}

fn size_range(versions: &[&[u8]]) -> RangeInclusive<usize> {
    let sizes = || versions.iter().map(|bytes| bytes.len());
    sizes().min().unwrap_or(0)..=sizes().max().unwrap_or(0)
}

fn in_words(sizes: &RangeInclusive<usize>) -> String {
    match (sizes.start(), sizes.end()) {
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

impl Entry {
    fn kind(&self) -> &'static str {
        match self {
            Entry::File { .. } => "a file",
            Entry::Directory => "a directory",
            Entry::Symlink(_) => "a symbolic link",
            Entry::Other => "a special file",
        }
    }
}

impl Inode {
    fn kind(&self) -> &'static str {
        match self {
            Inode::File { .. } => "a file",
            Inode::Directory => "a directory",
            Inode::Symlink(_) => "a symbolic link with another text",
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Inode::File { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// The size of a file.
    pub(crate) fn len(&self) -> Option<u32> {
        self.bytes().map(|bytes| bytes.len() as u32)
    }

    fn attributes(&self) -> Option<&BTreeMap<String, u8>> {
        match self {
            Inode::File { attributes, .. } => Some(attributes),
            _ => None,
        }
    }
}

/// Judges the files of a workload whose operation `returned` had returned before the loss of power; 0 if only its
/// directory was durable. The directory itself has to be there.
///
/// # Errors
/// What may not be so.
pub fn judge(workload: &Workload, returned: usize, found: &Found) -> Result<(), String> {
    let next = workload.ops().iter().skip(returned).position(Op::persists);
    let end = next.map_or(workload.ops().len(), |next| returned + next + 1);
    let allowed = Allowed { workload, durable: Durable::new(workload, returned), end };
    allowed.names(found)?;
    allowed.links(found)
}

/// Judges the directories of workloads that were played in this order below a directory, by the marks that came before
/// the loss of power.
///
/// # Errors
/// The workload, and what may not be so.
pub fn judge_all<'a>(
    workloads: impl IntoIterator<Item = &'a Workload>,
    directory: &Path,
    marks: &BTreeMap<String, usize>,
) -> Result<(), String> {
    for workload in workloads {
        let at = directory.join(workload.name());
        match marks.get(workload.name()) {
            Some(&returned) => {
                let found = Found::read(&at)?;
                judge(workload, returned, &found).map_err(|why| {
                    format!("{}, after operation {returned}: {why}", workload.name())
                })?;
            }
            None if at.symlink_metadata().is_err() => {}
            None => {
                let found = Found::read(&at)?;
                if let Some(name) = found.0.keys().next() {
                    return Err(format!(
                        "{}/{name}: its directory was not durable",
                        workload.name()
                    ));
                }
            }
        }
    }
    Ok(())
}
