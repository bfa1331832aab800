//! Which zones are which file, and how files are named and numbered.
//!
//! Conventional zones, or runs of contiguous ones, come first, then sequential zones, each in the
//! order of their sectors. Name, node and inode number of a file never change.
use zonal_blk::{Sector, Zone, ZoneKind, ZoneNo};

/// The node of the root directory, `FUSE_ROOT_ID`.
pub const ROOT: u64 = 1;
const CNV: u64 = 2;
const SEQ: u64 = 3;
/// The node of the first file.
const FIRST: u64 = 16;

/// A file of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNo(pub usize);

/// The zones of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub kind: ZoneKind,
    pub first: ZoneNo,
    pub zones: u32,
    pub start: Sector,
    /// Capacity in bytes.
    pub capacity: u64,
}

/// A directory or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Root,
    Dir(ZoneKind),
    File(FileNo),
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Inode number.
    pub ino: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its name.
    pub name: String,
}

/// The files, by number.
#[derive(Debug)]
pub(super) struct Tree {
    pub extents: Vec<Extent>,
    conventional: usize,
    zones: u64,
}

impl Tree {
    /// The files of a device with these zones.
    pub fn new(zones: &[Zone], aggregate: bool) -> Self {
        let mut extents: Vec<Extent> = Vec::new();
        for (kind, joins) in
            [(ZoneKind::Conventional, aggregate), (ZoneKind::SequentialRequired, false)]
        {
            for (number, zone) in (0..).zip(zones).filter(|(_, zone)| zone.kind == kind) {
                let capacity = zone.capacity.to_bytes().0;
                if joins
                    && let Some(last) = extents.last_mut()
                    && last.start + Sector(last.capacity >> 9) == zone.start
                {
                    last.zones += 1;
                    last.capacity += capacity;
                    continue;
                }
                let first = ZoneNo(number);
                extents.push(Extent { kind, first, zones: 1, start: zone.start, capacity });
            }
        }
        let is_conventional = |extent: &&Extent| extent.kind == ZoneKind::Conventional;
        let conventional = extents.iter().filter(is_conventional).count();
        Tree { extents, conventional, zones: zones.len() as u64 }
    }

    /// The number of files in `cnv` or `seq`.
    pub fn count(&self, kind: ZoneKind) -> usize {
        match kind {
            ZoneKind::Conventional => self.conventional,
            ZoneKind::SequentialRequired => self.extents.len() - self.conventional,
        }
    }

    /// The node of a number.
    pub fn node(&self, number: u64) -> Option<Node> {
        let node = match number {
            ROOT => return Some(Node::Root),
            CNV => Node::Dir(ZoneKind::Conventional),
            SEQ => Node::Dir(ZoneKind::SequentialRequired),
            _ => {
                let file = usize::try_from(number.checked_sub(FIRST)?).ok()?;
                return (file < self.extents.len()).then_some(Node::File(FileNo(file)));
            }
        };
        self.exists(node).then_some(node)
    }

    /// `cnv` and `seq` exist if there are such zones.
    fn exists(&self, node: Node) -> bool {
        !matches!(node, Node::Dir(kind) if self.count(kind) == 0)
    }

    /// The number of a node.
    pub fn number(node: Node) -> u64 {
        match node {
            Node::Root => ROOT,
            Node::Dir(ZoneKind::Conventional) => CNV,
            Node::Dir(ZoneKind::SequentialRequired) => SEQ,
            Node::File(FileNo(file)) => FIRST + file as u64,
        }
    }

    /// The inode number of zonefs. A file has that of its first zone, counted from 1 since zonefs keeps
    /// its super block in a zone before them; the directories follow.
    pub fn ino(&self, node: Node) -> u64 {
        match node {
            Node::File(FileNo(file)) => u64::from(self.extents[file].first.0) + 1,
            Node::Root => self.zones + 1,
            Node::Dir(ZoneKind::Conventional) => self.zones + 2,
            Node::Dir(ZoneKind::SequentialRequired) => self.zones + 3,
        }
    }

    /// The node of a name in a directory.
    pub fn child(&self, parent: Node, name: &str) -> Option<Node> {
        match (parent, name) {
            (Node::Root, "cnv") => Some(Node::Dir(ZoneKind::Conventional)),
            (Node::Root, "seq") => Some(Node::Dir(ZoneKind::SequentialRequired)),
            (Node::Dir(kind), _) => {
                let number: usize = name.parse().ok()?;
                let is_canonical = name == number.to_string();
                (is_canonical && number < self.count(kind)).then(|| self.file(kind, number))
            }
            _ => None,
        }
        .filter(|&node| self.exists(node))
    }

    fn file(&self, kind: ZoneKind, number: usize) -> Node {
        let before = if kind == ZoneKind::Conventional { 0 } else { self.conventional };
        Node::File(FileNo(before + number))
    }

    /// The entries of a directory from the `from`th on, `.` and `..` first.
    pub fn entries(&self, dir: Node, from: usize) -> impl Iterator<Item = Entry> + '_ {
        let dots = [(dir, "."), (Node::Root, "..")].map(|(node, name)| (node, name.to_owned()));
        let dirs = [ZoneKind::Conventional, ZoneKind::SequentialRequired]
            .map(|kind| (Node::Dir(kind), Tree::dir_name(kind).to_owned()))
            .into_iter()
            .filter(move |&(node, _)| dir == Node::Root && self.exists(node));
        let files = match dir {
            Node::Dir(kind) => Some(kind),
            _ => None,
        };
        // Files are skipped by number: a large directory is read in many parts.
        let count = files.map_or(0, |kind| self.count(kind));
        let files = (from.saturating_sub(2).min(count)..count)
            .filter_map(move |number| Some((self.file(files?, number), number.to_string())));
        let named = dots.into_iter().chain(dirs).skip(from).chain(files);
        named.map(|(node, name)| Entry {
            ino: self.ino(node),
            is_dir: !matches!(node, Node::File(_)),
            name,
        })
    }

    /// `cnv` or `seq`.
    pub fn dir_name(kind: ZoneKind) -> &'static str {
        match kind {
            ZoneKind::Conventional => "cnv",
            ZoneKind::SequentialRequired => "seq",
        }
    }

    /// A file's path.
    pub fn name(&self, FileNo(file): FileNo) -> String {
        let kind = self.extents[file].kind;
        let number = if kind == ZoneKind::Conventional { file } else { file - self.conventional };
        format!("{}/{number}", Tree::dir_name(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::ZoneCondition;

    /// Zones of 8 sectors; `c` is conventional, `s` sequential.
    fn tree(kinds: &str, aggregate: bool) -> Tree {
        let zone = |(at, kind): (u64, char)| Zone {
            start: Sector(at * 8),
            len: Sector(8),
            capacity: Sector(if kind == 'c' { 8 } else { 6 }),
            wp: Sector(at * 8),
            kind: if kind == 'c' { ZoneKind::Conventional } else { ZoneKind::SequentialRequired },
            cond: ZoneCondition::Empty,
            attributes: zonal_blk::ZoneAttributes::NONE,
        };
        Tree::new(&(0..).zip(kinds.chars()).map(zone).collect::<Vec<_>>(), aggregate)
    }

    fn names(tree: &Tree, dir: Node, from: usize) -> Vec<String> {
        tree.entries(dir, from).map(|entry| entry.name).collect()
    }

    #[test]
    fn files_are_numbered_by_kind() {
        let tree = tree("cscs", false);
        let zones: Vec<u32> = tree.extents.iter().map(|extent| extent.first.0).collect();
        assert_eq!(zones, [0, 2, 1, 3]);
        let seq = tree.child(Node::Root, "seq").unwrap();
        assert_eq!(tree.child(seq, "1"), Some(Node::File(FileNo(3))));
        assert_eq!(tree.name(FileNo(3)), "seq/1");
        for wrong in ["2", "01", "+1", "-1", "", "x", "18446744073709551616"] {
            assert_eq!(tree.child(seq, wrong), None, "{wrong:?}");
        }
        for (number, ino) in [(ROOT, 5), (CNV, 6), (SEQ, 7), (FIRST, 1), (FIRST + 3, 4)] {
            let node = tree.node(number).unwrap();
            assert_eq!((Tree::number(node), tree.ino(node)), (number, ino));
        }
        for number in [0, 4, FIRST + 4, u64::MAX] {
            assert_eq!(tree.node(number), None);
        }
    }

    #[test]
    fn directory_without_zones_does_not_exist() {
        let tree = tree("ss", false);
        assert_eq!(names(&tree, Node::Root, 0), [".", "..", "seq"]);
        assert_eq!(tree.child(Node::Root, "cnv"), None);
        assert_eq!(tree.node(CNV), None);
    }

    #[test]
    fn directories_are_read_in_parts() {
        let tree = tree("ccssss", false);
        let seq = Node::Dir(ZoneKind::SequentialRequired);
        let all = names(&tree, seq, 0);
        assert_eq!(all, [".", "..", "0", "1", "2", "3"]);
        for from in 0..=all.len() + 1 {
            assert_eq!(names(&tree, seq, from), all[from.min(all.len())..]);
        }
        assert_eq!(names(&tree, Node::Root, 3), ["seq"]);
    }

    #[test]
    fn contiguous_conventional_zones_are_one_file_with_aggr_cnv() {
        let tree = tree("ccsccs", true);
        let of = |extent: &Extent| (extent.first.0, extent.zones, extent.capacity);
        let found: Vec<_> = tree.extents.iter().map(of).collect();
        assert_eq!(found, [(0, 2, 8192), (3, 2, 8192), (2, 1, 3072), (5, 1, 3072)]);
    }
}
