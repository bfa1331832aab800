//! The published change, arranged: what every command reads is one cache line of the head. With
//! [`NamespaceHead`] as the arrangement, commands are made without looking at the path.
use super::{FieldAccess, NamespaceLayout, PathCounters, PathInfo, PathState, hot_fields};
use crate::ns::info::{Ids, NamespaceInfo};
use crate::ns::setup::Protection;
use crate::wire::opcode::Csi;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zonal_blk::Sector;
use zonal_blk::layout::StructLayout;
use zonal_blk::struct_layout;

/// What the paths of a namespace share.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct NamespaceHead {
    /// The identifier that commands name it by. The first of the fields that commands read.
    pub nsid: u32,
    /// log2 of the block size in bytes.
    pub lba_shift: u8,
    /// Type of protection information; 0 for none.
    pub pi_type: u8,
    /// Metadata bytes of a block. The last of the fields that commands read.
    pub metadata: u16,
    /// Its length in bytes.
    pub pi_size: u8,
    /// The guard; 0 for 16 bits.
    pub guard: u8,
    /// Whether metadata follow each block.
    pub extended: bool,
    /// Command set.
    pub csi: Csi,
    /// Preferred write granularity in blocks.
    pub write_granularity: u32,
    /// Optimal write size in blocks.
    pub write_size: u32,
    /// Zones that may be open at once; 0 for no limit.
    pub max_open: u32,
    /// Distance between zone starts; 0 without zones.
    pub zone_size: Sector,
    /// Size.
    pub capacity: Sector,
    /// Zones that may be active at once; 0 for no limit.
    pub max_active: u32,
    /// Whether several controllers may have it.
    pub shared: bool,
    /// Names.
    pub ids: Ids,
    /// Blocks in use.
    pub used: AtomicU64,
}

/// A namespace on one controller.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Namespace {
    /// State of the path.
    pub state: PathState,
    /// The head.
    pub head: Arc<NamespaceHead>,
    /// Counters.
    pub counters: PathCounters,
}

impl NamespaceHead {
    fn head(info: &NamespaceInfo) -> Arc<Self> {
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
            max_open: info.zones.map_or(0, |zones| zones.max_open),
            zone_size: info.zones.map_or(Sector(0), |zones| zones.size),
            capacity: info.capacity,
            max_active: info.zones.map_or(0, |zones| zones.max_active),
            shared: info.shared,
            ids: info.ids,
            used: AtomicU64::new(info.used),
        })
    }

    fn fields() -> StructLayout {
        struct_layout!(NamespaceHead {
            nsid,
            lba_shift,
            pi_type,
            metadata,
            pi_size,
            guard,
            extended,
            csi,
            write_granularity,
            write_size,
            max_open,
            zone_size,
            capacity,
            max_active,
            shared,
            ids,
            used,
        })
    }
}

impl NamespaceLayout for Namespace {
    const NAME: &'static str = "cache line optimized";

    fn new(info: &NamespaceInfo, path: &PathInfo) -> Arc<Self> {
        let (state, head) = (PathState::new(path), NamespaceHead::head(info));
        Arc::new(Namespace { state, head, counters: PathCounters::default() })
    }

    #[inline(always)]
    fn nsid(&self) -> u32 {
        self.head.nsid
    }

    #[inline(always)]
    fn lba_shift(&self) -> u8 {
        self.head.lba_shift
    }

    #[inline(always)]
    fn protection(&self) -> Protection {
        self.head.protection()
    }

    fn hot_fields() -> Vec<FieldAccess> {
        let mut hot_fields = hot_fields!(Namespace.head: Arc<NamespaceHead>);
        hot_fields.extend(NamespaceHead::hot_fields());
        hot_fields
    }

    fn layouts() -> Vec<StructLayout> {
        vec![struct_layout!(Namespace { state, head, counters }), NamespaceHead::fields()]
    }
}

impl NamespaceLayout for NamespaceHead {
    const NAME: &'static str = "use nvme_ns_head directly";

    fn new(info: &NamespaceInfo, _path: &PathInfo) -> Arc<Self> {
        NamespaceHead::head(info)
    }

    #[inline(always)]
    fn nsid(&self) -> u32 {
        self.nsid
    }

    #[inline(always)]
    fn lba_shift(&self) -> u8 {
        self.lba_shift
    }

    #[inline(always)]
    fn protection(&self) -> Protection {
        Protection::new(self.metadata, self.pi_type)
    }

    fn hot_fields() -> Vec<FieldAccess> {
        hot_fields!(
            NamespaceHead.nsid: u32, NamespaceHead.lba_shift: u8, NamespaceHead.pi_type: u8,
            NamespaceHead.metadata: u16,
        )
    }

    fn layouts() -> Vec<StructLayout> {
        vec![NamespaceHead::fields()]
    }
}
