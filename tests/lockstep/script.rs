//! What is submitted: rounds of bios, and what is set before each.
use std::fmt;
use zonal_blk::Op;

/// How the guest has the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Export {
    /// As a virtio disk, over vhost-user.
    Virtio,
    /// As an NVMe namespace, over TCP. It has no conventional zones, and executes commands that are pending together in
    /// an order of its own: of a long write it asks for the data, and goes on with others meanwhile.
    NvmeTcp,
    /// As an NVMe namespace on the guest's PCIe bus, by vfio-user.
    NvmePci,
}

impl Export {
    /// The device that both have: small zones, some of them conventional if there can be, and a limit of open
    /// zones. With one queue it executes commands that are pending together in the same order in both, the
    /// newest first.
    pub fn device(self) -> String {
        let conventional = self.conventional();
        format!(
            "null:zones={ZONES},conventional={conventional},zone_size=1M,lba={BLOCK},max_open={MAX_OPEN},\
             append_max=64K,queues=1,memory=true"
        )
    }

    /// Conventional zones, the first of the device.
    pub fn conventional(self) -> u32 {
        match self {
            Export::Virtio => 4,
            Export::NvmeTcp | Export::NvmePci => 0,
        }
    }

    /// Whether commands that are pending together arrive at the device in the order in which they were submitted.
    pub fn keeps_order(self) -> bool {
        self != Export::NvmeTcp
    }
}

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// Blocks of a zone.
pub const ZONE_BLOCKS: u64 = 256;
/// Zones of the device.
pub const ZONES: u32 = 16;
/// The device's limit of open zones.
pub const MAX_OPEN: u32 = 6;
/// The longest command, in KiB: shorter than what a virtio disk takes, so that splits are seen.
pub const MAX_SECTORS_KB: u32 = 256;

/// Bytes of the volatile write cache of a device that loses its power: all of the device.
pub const WRITE_CACHE: u64 = ZONES as u64 * ZONE_BLOCKS * BLOCK;

/// What a script is for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How the guest has the device.
    pub export: Export,
    /// Whether the kernel has QD=1, and a write pointer that moves when a reset or a finish has completed: Linux 6.19
    /// and newer.
    pub is_new: bool,
    /// Whether the script begins with one write to sequential zones in flight for the whole device (QD=1).
    pub qd1: bool,
    /// Whether the device has a volatile write cache, and loses its power. It cannot be recorded then.
    pub power: bool,
}

/// A script: the rounds, one after the other.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it is for.
    pub setup: Setup,
    /// The rounds.
    pub rounds: Vec<Round>,
}

/// Bios that are submitted together.
#[derive(Clone, Debug)]
pub struct Round {
    /// What the round is about.
    pub name: &'static str,
    /// Commands of `zonal ctl` before it.
    pub before: Vec<String>,
    /// When the bios are submitted.
    pub pace: Pace,
    /// Whether QD=1 is on: all writes to sequential zones have an order.
    pub qd1: bool,
    /// Whether the same writes are merged in both. Otherwise what was written is compared, not in how many
    /// commands.
    pub same_merges: bool,
    /// The bios, in the order of their submission.
    pub steps: Vec<Step>,
    /// Commands of `zonal ctl` when all have been submitted, and the device has completed none.
    pub after: Vec<String>,
}

/// When the bios of a round are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each when the one before has completed.
    OneByOne,
    /// All while the device stands still.
    Held,
    /// All while the device delays the first of them, which the commands before the round have it do.
    Delayed,
}

/// A bio, or a change of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A read or a write of bytes of the device.
    Io {
        /// Whether it is a write.
        write: bool,
        /// The first byte.
        at: u64,
        /// Bytes.
        len: u64,
        /// Whether it is durable when it completes (FUA).
        fua: bool,
    },
    /// Zone management.
    Zone(Op, u32),
    /// All zones are reset.
    ResetAll,
    /// The scheduler changes to mq-deadline, or to none.
    Deadline(bool),
    /// QD=1 is turned on or off.
    Qd1(bool),
}

impl Step {
    /// A write of whole blocks of a zone.
    pub fn write(zone: u32, block: u64, blocks: u64) -> Self {
        let at = (u64::from(zone) * ZONE_BLOCKS + block) * BLOCK;
        Step::Io { write: true, at, len: blocks * BLOCK, fua: false }
    }

    /// A read of whole blocks of a zone.
    pub fn read(zone: u32, block: u64, blocks: u64) -> Self {
        let at = (u64::from(zone) * ZONE_BLOCKS + block) * BLOCK;
        Step::Io { write: false, at, len: blocks * BLOCK, fua: false }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Io { write, at, len, fua } => {
                let (op, fua) =
                    (if write { "write" } else { "read" }, if fua { " FUA" } else { "" });
                let (zone, block) = (at / BLOCK / ZONE_BLOCKS, at / BLOCK % ZONE_BLOCKS);
                write!(f, "{op} zone {zone} block {block}")?;
                if at % BLOCK > 0 {
                    write!(f, "+{}", at % BLOCK)?;
                }
                write!(f, ", {len} bytes{fua}")
            }
            Step::Zone(op, zone) => write!(f, "{op} zone {zone}"),
            Step::ResetAll => f.write_str("reset all"),
            Step::Deadline(on) => {
                write!(f, "scheduler {}", if on { "mq-deadline" } else { "none" })
            }
            Step::Qd1(on) => write!(f, "QD=1 {}", if on { "on" } else { "off" }),
        }
    }
}
