//! The files of a directory, as operations leave them.
use super::{How, Op, Place};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file, directory or symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inode {
    /// A regular file.
    File {
        /// For each byte the number of the operation that wrote it; 0 for none.
        bytes: Arc<Vec<u8>>,
        /// Its extended attributes, each with the number of the operation that set it.
        attributes: BTreeMap<String, u8>,
    },
    /// A directory.
    Directory,
    /// A symbolic link with this text.
    Symlink(String),
}

/// The files of a workload's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The number of an inode is that of the operation that created it.
    names: BTreeMap<String, u8>,
    inodes: BTreeMap<u8, Inode>,
}

/// The directory that a path is in, if that is not the workload's.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

impl Tree {
    /// All names, with the numbers of their inodes.
    pub fn names(&self) -> impl Iterator<Item = (&str, u8)> {
        self.names.iter().map(|(name, &number)| (name.as_str(), number))
    }

    /// The number of the inode that a path names.
    pub fn number(&self, path: &str) -> Option<u8> {
        self.names.get(path).copied()
    }

    /// An inode that has a name.
    pub fn inode(&self, number: u8) -> Option<&Inode> {
        self.inodes.get(&number)
    }

    /// The names of an inode.
    pub fn names_of(&self, number: u8) -> impl Iterator<Item = &str> {
        self.names().filter(move |&(_, of)| of == number).map(|(name, _)| name)
    }

    /// Carries out the operation with this number.
    ///
    /// # Errors
    /// Why it would fail.
    pub fn apply(&mut self, number: u8, op: &Op) -> Result<(), String> {
        match op {
            Op::Create(path) => {
                let file = Inode::File { bytes: Arc::default(), attributes: BTreeMap::default() };
                self.add(path, number, file)
            }
            Op::Mkdir(path) => self.add(path, number, Inode::Directory),
            Op::Symlink(text, path) => self.add(path, number, Inode::Symlink(text.clone())),
            Op::Rmdir(path) => self.rmdir(path),
            Op::Unlink(path) => self.unlink(path),
            Op::Write(to, how) => self.write(to, *how, number),
            Op::Truncate(path, len) => self.bytes(path).map(|bytes| bytes.resize(*len as usize, 0)),
            Op::Allocate(of) => self.bytes(&of.path).map(|bytes| {
                let end = (of.offset + of.len) as usize;
                bytes.resize(end.max(bytes.len()), 0);
            }),
            Op::Punch(of) => self.bytes(&of.path).map(|bytes| {
                let end = ((of.offset + of.len) as usize).min(bytes.len());
                let first = (of.offset as usize).min(end);
                bytes[first..end].fill(0);
            }),
            Op::Rename(from, to) => self.rename(from, to),
            Op::Link(from, to) => {
                let inode = self.file(from)?;
                self.vacant(to)?;
                self.names.insert(to.clone(), inode);
                Ok(())
            }
            Op::SetXattr(path, name) => {
                let inode = self.file(path)?;
                let Some(Inode::File { attributes, .. }) = self.inodes.get_mut(&inode) else {
                    unreachable!("it is a file")
                };
                attributes.insert(name.clone(), number);
                Ok(())
            }
            Op::Fsync(path) => match self.number(path).and_then(|number| self.inode(number)) {
                Some(Inode::File { .. } | Inode::Directory) => Ok(()),
                _ => Err(format!("no file or directory `{path}`")),
            },
            Op::Fdatasync(path) => self.file(path).map(drop),
            Op::Sync | Op::Syncfs | Op::Refused(_) => Ok(()),
        }
    }

    fn vacant(&self, path: &str) -> Result<(), String> {
        if self.names.contains_key(path) {
            return Err(format!("`{path}` exists"));
        }
        match parent(path).map(|parent| (parent, self.number(parent))) {
            None => Ok(()),
            Some((_, Some(number))) if self.inode(number) == Some(&Inode::Directory) => Ok(()),
            Some((parent, _)) => Err(format!("no directory `{parent}`")),
        }
    }

    fn add(&mut self, path: &str, number: u8, inode: Inode) -> Result<(), String> {
        self.vacant(path)?;
        self.names.insert(path.to_owned(), number);
        self.inodes.insert(number, inode);
        Ok(())
    }

    /// The number of the file that a path names.
    fn file(&self, path: &str) -> Result<u8, String> {
        let number = self.number(path);
        let is_file = |number| matches!(self.inode(number), Some(Inode::File { .. }));
        number.filter(|&number| is_file(number)).ok_or_else(|| format!("no file `{path}`"))
    }

    fn bytes(&mut self, path: &str) -> Result<&mut Vec<u8>, String> {
        let number = self.file(path)?;
        match self.inodes.get_mut(&number) {
            Some(Inode::File { bytes, .. }) => Ok(Arc::make_mut(bytes)),
            _ => unreachable!("it is a file"),
        }
    }

    fn write(&mut self, to: &Place, how: How, number: u8) -> Result<(), String> {
        let bytes = self.bytes(&to.path)?;
        let (first, end) = (to.offset as usize, (to.offset + to.len) as usize);
        if how == How::Mapped && end > bytes.len() {
            return Err(format!(
                "found a mapping of {end} bytes, expected at most {}",
                bytes.len()
            ));
        }
        bytes.resize(end.max(bytes.len()), 0);
        bytes[first..end].fill(number);
        Ok(())
    }

    /// The number of the directory that a path names.
    fn directory(&self, path: &str) -> Result<u8, String> {
        let number = self.number(path);
        let is_directory = |number| self.inode(number) == Some(&Inode::Directory);
        number
            .filter(|&number| is_directory(number))
            .ok_or_else(|| format!("no directory `{path}`"))
    }

    fn rmdir(&mut self, path: &str) -> Result<(), String> {
        let number = self.directory(path)?;
        if let Some((name, _)) = self.names().find(|(name, _)| parent(name) == Some(path)) {
            return Err(format!("`{name}` is in it"));
        }
        self.names.remove(path);
        self.inodes.remove(&number);
        Ok(())
    }

    fn unlink(&mut self, path: &str) -> Result<(), String> {
        match self.number(path).filter(|&number| self.inode(number) != Some(&Inode::Directory)) {
            Some(_) => {
                self.forget(path);
                Ok(())
            }
            None => Err(format!("no file or symbolic link `{path}`")),
        }
    }

    /// Removes a name, and an inode with its last one.
    fn forget(&mut self, path: &str) {
        if let Some(number) = self.names.remove(path)
            && self.names_of(number).next().is_none()
        {
            self.inodes.remove(&number);
        }
    }

    /// Names below a directory change with its own.
    fn move_directory(&mut self, from: &str, to: &str) -> Result<(), String> {
        let within = |name: &str| name.strip_prefix(from).is_some_and(|rest| rest.starts_with('/'));
        if within(to) {
            return Err(format!("`{to}` would be in itself"));
        }
        self.vacant(to)?;
        let moved = |name: &str| name == from || within(name);
        let names = std::mem::take(&mut self.names).into_iter();
        self.names = names
            .map(|(name, number)| match moved(&name) {
                true => (format!("{to}{}", &name[from.len()..]), number),
                false => (name, number),
            })
            .collect();
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        if self.number(from).and_then(|number| self.inode(number)) == Some(&Inode::Directory) {
            return self.move_directory(from, to);
        }
        let number = self.file(from)?;
        match self.number(to) {
            // The same file: rename(2) does nothing.
            Some(replaced) if replaced == number => return Ok(()),
            Some(_) => {
                self.file(to)?;
                self.forget(to);
            }
            None => self.vacant(to)?,
        }
        self.names.remove(from);
        self.names.insert(to.to_owned(), number);
        Ok(())
    }
}
