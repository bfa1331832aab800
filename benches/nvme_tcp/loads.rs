//! The loads: each with the row of the bare socket that bounds it.
use zonal_blk::Op;
use zonal_os::poll::WaitPolicy;

/// A load.
pub struct Row {
    /// Its name in the table.
    pub name: &'static str,
    /// Reads, writes or appends.
    pub op: Op,
    /// Bytes of an I/O.
    pub len: u32,
    /// Commands in flight, over all queues.
    pub depth: usize,
    /// Where they go.
    pub order: Order,
    /// How the target's threads wait. With [`WaitPolicy::Spin`] the host's does so too.
    pub waiting: WaitPolicy,
    /// Connections.
    pub queues: u16,
    /// Header and data digests are used.
    pub digests: bool,
    /// The target's limits on a command's data: MDTS, and bytes in a capsule.
    pub limits: Option<(u8, u32)>,
    /// The host sends each command by itself, instead of all that it has.
    pub single: bool,
    /// KIOPS, measured of SPDK 24.09 on a machine of this kind.
    pub goal: Option<f64>,
    /// The row of the same bytes over a bare socket.
    pub bound: Option<&'static str>,
}

impl Row {
    fn new(name: &'static str, op: Op, len: u32, depth: usize, order: Order) -> Self {
        let waiting = WaitPolicy::default();
        Row {
            name,
            op,
            len,
            depth,
            order,
            waiting,
            queues: 1,
            digests: false,
            limits: None,
            single: false,
            goal: None,
            bound: None,
        }
    }

    fn polled(self) -> Self {
        Row { waiting: WaitPolicy::Yield, ..self }
    }

    fn spin(self) -> Self {
        Row { waiting: WaitPolicy::Spin, ..self }
    }

    fn queues(self, queues: u16) -> Self {
        Row { queues, ..self }
    }

    fn digests(self) -> Self {
        Row { digests: true, ..self }
    }

    fn limits(self, mdts: u8, in_capsule: u32) -> Self {
        Row { limits: Some((mdts, in_capsule)), ..self }
    }

    fn single(self) -> Self {
        Row { single: true, ..self }
    }

    fn goal(self, kiops: f64) -> Self {
        Row { goal: Some(kiops), ..self }
    }

    fn bound(self, bare: &'static str) -> Self {
        Row { bound: Some(bare), ..self }
    }
}

/// Where the I/Os of a row go.
#[derive(Clone, Copy)]
pub enum Order {
    /// Anywhere.
    Random,
    /// One after the other.
    Sequential,
    /// On a device with zones, those of each place in the queue to a zone of its own.
    Zones,
    /// No device: a [bare socket](super::bare).
    Bare,
}

impl Order {
    /// The specification of the target's device.
    pub fn device(self) -> &'static str {
        match self {
            Order::Random | Order::Sequential | Order::Bare => "null:zoned=false,size=64G,lba=4096",
            Order::Zones => "null:zones=128,zone_size=1G,lba=4096",
        }
    }
}

/// The two rows that are compared with each other.
pub const WRITE: &str = "write 4k qd32";
pub const APPEND: &str = "append 4k qd32";

/// The name of the bound of reads of 4 KiB, by the depth.
fn bare_read(depth: usize) -> &'static str {
    match depth {
        1 => "bare socket 4k qd1",
        8 => "bare socket 4k qd8",
        32 => "bare socket 4k qd32",
        _ => "bare socket 4k qd128",
    }
}

/// The same of writes.
fn bare_write(depth: usize) -> &'static str {
    match depth {
        1 => "bare socket write 4k qd1",
        32 => "bare socket write 4k qd32",
        _ => "bare socket write 4k qd128",
    }
}

/// The bounds of transfers of 1 MiB.
const BARE_READ: &str = "bare socket read 1m qd1";
const BARE_READS: &str = "bare socket read 1m qd8";
const BARE_WRITE: &str = "bare socket write 1m qd1";
const BARE_WRITES: &str = "bare socket write 1m qd8";

/// Reads of 4 KiB, and writes.
fn short() -> Vec<Row> {
    let read = |name, depth| {
        Row::new(name, Op::Read, 4 << 10, depth, Order::Random).bound(bare_read(depth))
    };
    let write =
        |name, op, depth| Row::new(name, op, 4 << 10, depth, Order::Zones).bound(bare_write(depth));
    let bare = |op, depth| {
        let name = if op == Op::Read { bare_read(depth) } else { bare_write(depth) };
        Row::new(name, op, 4 << 10, depth, Order::Bare)
    };
    let (spin_1, spin_8) = ("bare socket 4k qd1 spin", "bare socket 4k qd8 spin");
    let bare_spin = |name, depth| Row { name, ..bare(Op::Read, depth) }.spin();
    vec![
        bare(Op::Read, 1),
        bare_spin(spin_1, 1),
        read("randread 4k qd1", 1).goal(111.0),
        read("randread 4k qd1 --poll", 1).polled().goal(111.0),
        read("randread 4k qd1 spin", 1).spin().goal(111.0).bound(spin_1),
        bare(Op::Read, 8),
        bare_spin(spin_8, 8),
        read("randread 4k qd8", 8).goal(410.0),
        read("randread 4k qd8 spin", 8).spin().goal(410.0).bound(spin_8),
        bare(Op::Read, 32),
        read("randread 4k qd32", 32).goal(913.0),
        read("randread 4k qd32 spin", 32).spin().goal(913.0),
        read("randread 4k qd32 digests", 32).digests(),
        bare(Op::Read, 128),
        read("randread 4k qd128", 128).goal(964.0),
        read("randread 4k qd128 spin", 128).spin().goal(964.0),
        read("randread 4k qd128 1 by 1", 128).single(),
        read("randread 4k qd32 4 queues", 32).queues(4).goal(737.0),
        read("randread 4k qd128 4 queues", 128).queues(4).goal(1080.0),
        bare(Op::Write, 1),
        write("write 4k qd1", Op::Write, 1),
        bare(Op::Write, 32),
        write(WRITE, Op::Write, 32),
        write(APPEND, Op::ZoneAppend, 32),
        write("write 4k qd32 capsule 4k", Op::Write, 32).limits(5, 4 << 10),
        write("write 4k qd32 no capsule", Op::Write, 32).limits(5, 0),
        bare(Op::Write, 128),
        write("write 4k qd128", Op::Write, 128).goal(1065.0),
        write("write 4k qd128 1 by 1", Op::Write, 128).single(),
        write("write 4k qd128 spin", Op::Write, 128).spin().goal(1065.0),
    ]
}

/// Writes of 16 KiB by the bytes that a capsule takes, and transfers of 1 MiB.
fn long() -> Vec<Row> {
    let write = |name| Row::new(name, Op::Write, 16 << 10, 32, Order::Zones);
    let long = |name, op, depth| Row::new(name, op, 1 << 20, depth, Order::Sequential);
    let bare = |name, op, depth| Row::new(name, op, 1 << 20, depth, Order::Bare);
    vec![
        write("write 16k qd32"),
        write("write 16k qd32 capsule 4k").limits(5, 4 << 10),
        bare(BARE_READ, Op::Read, 1),
        long("read 1m qd1", Op::Read, 1).goal(5.24).bound(BARE_READ),
        bare(BARE_READS, Op::Read, 8),
        long("read 1m qd8", Op::Read, 8).goal(8.01).bound(BARE_READS),
        long("read 1m qd8 digests", Op::Read, 8).digests().bound(BARE_READS),
        long("read 1m qd8 mdts 128k", Op::Read, 8).limits(5, 16 << 10).bound(BARE_READS),
        bare(BARE_WRITE, Op::Write, 1),
        long("write 1m qd1", Op::Write, 1).goal(6.01).bound(BARE_WRITE),
        bare(BARE_WRITES, Op::Write, 8),
        long("write 1m qd8", Op::Write, 8).goal(7.25).bound(BARE_WRITES),
        long("write 1m qd8 digests", Op::Write, 8).digests().bound(BARE_WRITES),
        long("write 1m qd8 mdts 128k", Op::Write, 8).limits(5, 16 << 10).bound(BARE_WRITES),
    ]
}

/// All rows, each after the one that bounds it.
pub fn rows() -> Vec<Row> {
    let mut rows = short();
    rows.extend(long());
    rows
}
