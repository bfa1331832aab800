//! Where a namespace's fields are: the published layouts, and that of the product.
//!
//! Linux kept the format of the blocks in each path's structure (`nvme_ns`) and moved it to the head
//! (`nvme_ns_head`) in 2023. The series was measured before it ([`in_path`]), with the fields moved
//! ([`in_head`]), with those that every command reads in one cache line ([`cache_line`]), and with
//! commands made from the head without reading the path ([`cache_line::NamespaceHead`]). Fields are
//! in the order in which the structures declare them.
use std::collections::BTreeSet;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};
use zonal_blk::Sector;
use zonal_nvme::ns::{self, CommandFormat, Ids, NamespaceInfo, Protection};
use zonal_nvme::wire::opcode::Csi;

/// A field that making a read or write reads: its structure, its offset and its size in bytes.
type Access = (&'static str, usize, usize);

/// A layout to measure.
pub trait Layout: Send + Sync + Sized + 'static {
    /// What the published table calls it.
    const NAME: &'static str;

    fn new(info: &NamespaceInfo) -> Arc<Self>;

    /// Gathers what commands are made from.
    fn format(&self) -> CommandFormat;

    /// The fields that making a read or write reads.
    fn accesses() -> Vec<Access>;

    /// The number of cache lines that making a read or write reads, beside the request's.
    fn cache_lines() -> usize {
        let lines = |(name, offset, size): Access| {
            (offset / 64..=(offset + size - 1) / 64).map(move |line| (name, line))
        };
        Self::accesses().into_iter().flat_map(lines).collect::<BTreeSet<_>>().len()
    }
}

macro_rules! accesses {
    ($($structure:ident.$field:ident: $type:ty),* $(,)?) => {
        vec![$((stringify!($structure), offset_of!($structure, $field), size_of::<$type>())),*]
    };
}

impl Layout for ns::Namespace {
    const NAME: &'static str = "copy in the path";

    fn new(info: &NamespaceInfo) -> Arc<Self> {
        ns::NamespaceHead::new(info).path()
    }

    #[inline(always)]
    fn format(&self) -> CommandFormat {
        ns::Namespace::format(self)
    }

    fn accesses() -> Vec<Access> {
        vec![("Namespace", 0, size_of::<ns::Namespace>())]
    }
}

/// State of a path, which multipath reads before it chooses one.
#[derive(Default)]
#[repr(C)]
pub struct PathState {
    ana_state: AtomicU8,
    removing: AtomicU8,
    cntlid: u16,
    ana_group: u32,
}

/// Counters of a path. Every thread that sends a command writes them, so they have a cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub struct PathCounters {
    active: AtomicU64,
    sent: AtomicU64,
}

/// The baseline: the format in the path, the identifier in the head.
pub mod in_path {
    use super::*;

    #[repr(C, align(64))]
    pub struct NamespaceHead {
        ids: Ids,
        nsid: u32,
        csi: Csi,
        shared: bool,
        capacity: Sector,
        max_open: u32,
        max_active: u32,
    }

    #[repr(C, align(64))]
    pub struct Namespace {
        state: PathState,
        head: Arc<NamespaceHead>,
        lba_shift: u8,
        metadata: u16,
        pi_type: u8,
        pi_size: u8,
        guard: u8,
        extended: bool,
        write_granularity: u32,
        write_size: u32,
        zone_size: Sector,
        used: AtomicU64,
        counters: PathCounters,
    }

    impl Layout for Namespace {
        const NAME: &'static str = "baseline";

        fn new(info: &NamespaceInfo) -> Arc<Self> {
            let zones = info.zones;
            let head = Arc::new(NamespaceHead {
                ids: info.ids,
                nsid: info.nsid,
                csi: info.csi,
                shared: info.shared,
                capacity: info.capacity,
                max_open: zones.map_or(0, |zones| zones.max_open),
                max_active: zones.map_or(0, |zones| zones.max_active),
            });
            Arc::new(Namespace {
                state: PathState::default(),
                head,
                lba_shift: info.lba_shift,
                metadata: info.metadata,
                pi_type: info.pi_type,
                pi_size: info.pi_size,
                guard: info.guard,
                extended: info.extended,
                write_granularity: info.write_granularity,
                write_size: info.write_size,
                zone_size: zones.map_or(Sector(0), |zones| zones.size),
                used: AtomicU64::new(info.used),
                counters: PathCounters::default(),
            })
        }

        #[inline(always)]
        fn format(&self) -> CommandFormat {
            CommandFormat {
                nsid: self.head.nsid,
                protection: Protection::new(self.metadata, self.pi_type),
                lba_shift: self.lba_shift,
            }
        }

        fn accesses() -> Vec<Access> {
            accesses!(
                Namespace.head: Arc<NamespaceHead>, NamespaceHead.nsid: u32,
                Namespace.lba_shift: u8, Namespace.metadata: u16, Namespace.pi_type: u8,
            )
        }
    }
}

/// The change as published: the format moves to the head, after what was there.
pub mod in_head {
    use super::*;

    #[repr(C, align(64))]
    pub struct NamespaceHead {
        ids: Ids,
        nsid: u32,
        csi: Csi,
        shared: bool,
        capacity: Sector,
        max_open: u32,
        max_active: u32,
        /// The first of the fields that moved.
        lba_shift: u8,
        metadata: u16,
        pi_type: u8,
        pi_size: u8,
        guard: u8,
        extended: bool,
        write_granularity: u32,
        write_size: u32,
        zone_size: Sector,
        used: AtomicU64,
    }

    #[repr(C, align(64))]
    pub struct Namespace {
        state: PathState,
        head: Arc<NamespaceHead>,
        counters: PathCounters,
    }

    impl Layout for Namespace {
        const NAME: &'static str = "patched";

        fn new(info: &NamespaceInfo) -> Arc<Self> {
            let zones = info.zones;
            let head = Arc::new(NamespaceHead {
                ids: info.ids,
                nsid: info.nsid,
                csi: info.csi,
                shared: info.shared,
                capacity: info.capacity,
                max_open: zones.map_or(0, |zones| zones.max_open),
                max_active: zones.map_or(0, |zones| zones.max_active),
                lba_shift: info.lba_shift,
                metadata: info.metadata,
                pi_type: info.pi_type,
                pi_size: info.pi_size,
                guard: info.guard,
                extended: info.extended,
                write_granularity: info.write_granularity,
                write_size: info.write_size,
                zone_size: zones.map_or(Sector(0), |zones| zones.size),
                used: AtomicU64::new(info.used),
            });
            let (state, counters) = (PathState::default(), PathCounters::default());
            Arc::new(Namespace { state, head, counters })
        }

        #[inline(always)]
        fn format(&self) -> CommandFormat {
            CommandFormat {
                nsid: self.head.nsid,
                protection: Protection::new(self.head.metadata, self.head.pi_type),
                lba_shift: self.head.lba_shift,
            }
        }

        fn accesses() -> Vec<Access> {
            accesses!(
                Namespace.head: Arc<NamespaceHead>, NamespaceHead.nsid: u32,
                NamespaceHead.lba_shift: u8, NamespaceHead.metadata: u16,
                NamespaceHead.pi_type: u8,
            )
        }
    }
}

/// The change, rearranged: what every command reads is one cache line of the head.
pub mod cache_line {
    use super::*;

    #[repr(C, align(64))]
    pub struct NamespaceHead {
        /// The first of the fields that commands read.
        nsid: u32,
        lba_shift: u8,
        pi_type: u8,
        /// The last of them.
        metadata: u16,
        pi_size: u8,
        guard: u8,
        extended: bool,
        csi: Csi,
        write_granularity: u32,
        write_size: u32,
        max_open: u32,
        zone_size: Sector,
        capacity: Sector,
        max_active: u32,
        shared: bool,
        ids: Ids,
        used: AtomicU64,
    }

    #[repr(C, align(64))]
    pub struct Namespace {
        state: PathState,
        head: Arc<NamespaceHead>,
        counters: PathCounters,
    }

    impl Layout for Namespace {
        const NAME: &'static str = "cache line optimized";

        fn new(info: &NamespaceInfo) -> Arc<Self> {
            let (state, head) = (PathState::default(), NamespaceHead::new(info));
            Arc::new(Namespace { state, head, counters: PathCounters::default() })
        }

        #[inline(always)]
        fn format(&self) -> CommandFormat {
            self.head.format()
        }

        fn accesses() -> Vec<Access> {
            let mut accesses = accesses!(Namespace.head: Arc<NamespaceHead>);
            accesses.extend(NamespaceHead::accesses());
            accesses
        }
    }

    impl Layout for NamespaceHead {
        const NAME: &'static str = "use nvme_ns_head directly";

        fn new(info: &NamespaceInfo) -> Arc<Self> {
            let zones = info.zones;
            Arc::new(NamespaceHead {
                nsid: info.nsid,
                lba_shift: info.lba_shift,
                pi_type: info.pi_type,
                metadata: info.metadata,
                pi_size: info.pi_size,
                guard: info.guard,
                extended: info.extended,
                csi: info.csi,
                write_granularity: info.write_granularity,
                write_size: info.write_size,
                max_open: zones.map_or(0, |zones| zones.max_open),
                zone_size: zones.map_or(Sector(0), |zones| zones.size),
                capacity: info.capacity,
                max_active: zones.map_or(0, |zones| zones.max_active),
                shared: info.shared,
                ids: info.ids,
                used: AtomicU64::new(info.used),
            })
        }

        #[inline(always)]
        fn format(&self) -> CommandFormat {
            CommandFormat {
                nsid: self.nsid,
                protection: Protection::new(self.metadata, self.pi_type),
                lba_shift: self.lba_shift,
            }
        }

        fn accesses() -> Vec<Access> {
            accesses!(
                NamespaceHead.nsid: u32, NamespaceHead.lba_shift: u8, NamespaceHead.pi_type: u8,
                NamespaceHead.metadata: u16,
            )
        }
    }
}
