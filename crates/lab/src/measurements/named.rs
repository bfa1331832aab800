//! Loads by name and numbers: from a name such as `read_write_10_90_offset` to job options.
use anyhow::{Context, Result, bail};
use std::fmt;
use zonal_blk::Op;
use zonal_fio::job::DataDir;

/// Size of a memory page: blocks of whole pages can always be merged.
pub(super) const PAGE: u64 = 4096;

/// The operations of zone management by name: what is done in a zone, the last of which is measured.
const MANAGEMENT: [(&str, &[Op]); 8] = [
    ("finish", &[Op::Write, Op::ZoneFinish]),
    ("reset", &[Op::Write, Op::ZoneReset]),
    ("reset_finished", &[Op::Write, Op::ZoneFinish, Op::ZoneReset]),
    ("open", &[Op::ZoneOpen]),
    ("close", &[Op::ZoneOpen, Op::ZoneClose]),
    ("close_write", &[Op::ZoneOpen, Op::Write, Op::ZoneClose]),
    ("close_implicit", &[Op::Write, Op::ZoneClose]),
    ("close_implicit_write", &[Op::Write, Op::ZoneClose]),
];

/// How writes are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writer {
    /// Writes at the write pointer, one in flight.
    Write,
    /// The same at any depth through mq-deadline, which holds back and merges a zone's writes.
    WriteMq,
    /// Zone appends.
    Append,
}

impl Writer {
    fn of(name: &str) -> Option<Self> {
        match name {
            "write" => Some(Writer::Write),
            "writemq" => Some(Writer::WriteMq),
            "append" => Some(Writer::Append),
            _ => None,
        }
    }
}

/// Which of two jobs side by side the depth and the block size of a cell are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Focus {
    /// The writes; the reads are 4 KiB at depth 1.
    Writes,
    /// The reads; the writes are 4 KiB at depth 1.
    Reads,
    /// The reads; the writes have the length and the depth that suit writes best.
    ReadsBestWrites,
    /// The reads; the writes have the length and the depth that suit appends best.
    ReadsBestAppends,
}

impl Focus {
    /// The focus of reads that a text begins with, and the rest.
    fn split(text: &str) -> (Self, &str) {
        let known = [
            ("def_", Focus::Reads),
            ("opt_", Focus::ReadsBestWrites),
            ("optap_", Focus::ReadsBestAppends),
        ];
        let given = |(prefix, focus)| Some((focus, text.strip_prefix(prefix)?));
        known.into_iter().find_map(given).unwrap_or((Focus::Reads, text))
    }
}

/// Where the zones of two jobs side by side are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// One zone each, the writes in the one after the reads'.
    Adjacent,
    /// The writes 100 zones on.
    Offset,
    /// The writes in zone 902.
    OffsetFar,
    /// 200 zones each, one range after the other.
    Strip,
    /// The writes over the last 202 zones.
    StripFar,
}

impl Place {
    const NAMES: [(&'static str, Place); 5] = [
        ("adjacent", Place::Adjacent),
        ("offset", Place::Offset),
        ("offset_far", Place::OffsetFar),
        ("strip", Place::Strip),
        ("strip_far", Place::StripFar),
    ];

    /// The number of zones of the reads; the first zone and the number of zones of the writes.
    fn zones(self) -> (u32, u32, u32) {
        match self {
            Place::Adjacent => (1, 1, 1),
            Place::Offset => (1, 100, 1),
            Place::OffsetFar => (1, 902, 1),
            Place::Strip => (200, 200, 200),
            Place::StripFar => (200, 702, 202),
        }
    }
}

/// The work of a load.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadKind {
    /// Writes, each job in zones of its own.
    Write(Writer),
    /// Reads, each job in zones of its own.
    Read {
        /// In one zone at random, or through the zones in order.
        random: bool,
        /// Through mq-deadline.
        mq: bool,
    },
    /// Random reads and writes side by side, in the proportion of their weights.
    Mix {
        /// How the writes are issued.
        writer: Writer,
        /// The part of the load that the cell's depth and block size are about.
        focus: Focus,
        /// Weight of the writes.
        writes: u32,
        /// Weight of the reads.
        reads: u32,
        /// Where the zones are.
        place: Place,
    },
    /// Zone management, one operation at a time: its name in the file.
    Management(&'static str),
}

impl LoadKind {
    /// Parses an operation of the set `io`, such as `append:write`.
    pub(super) fn parse_io(text: &str) -> Result<(Self, DataDir)> {
        let (name, dir) = text.split_once(':').unwrap_or((text, ""));
        let dir = match dir {
            "read" => DataDir::Read,
            "write" => DataDir::Write,
            _ => bail!("op: found `{text}`, expected an operation with `:read` or `:write`"),
        };
        let kind = match name {
            "read" | "readmq" | "randread" | "randreadmq" => {
                LoadKind::Read { random: name.starts_with("rand"), mq: name.ends_with("mq") }
            }
            _ => match Writer::of(name) {
                Some(writer) => LoadKind::Write(writer),
                None => Self::parse_mix(name).with_context(|| {
                    format!(
                        "op: found `{text}`, expected write, writemq, append, read, readmq, \
                         randread, randreadmq, read_KIND_A_B_PLACE or KIND_read_A_B_PLACE"
                    )
                })?,
            },
        };
        Ok((kind, dir))
    }

    /// `read_KIND_A_B_PLACE`, or `KIND_read_A_B_PLACE` with `def_`, `opt_` or `optap_` before A or B.
    fn parse_mix(name: &str) -> Option<Self> {
        let (first, rest) = name.split_once('_')?;
        let (writer, focus, rest) = if first == "read" {
            let (writer, rest) = rest.split_once('_')?;
            (writer, Focus::Writes, rest)
        } else {
            let rest = rest.strip_prefix("read_")?;
            let (focus, rest) = Focus::split(rest);
            (first, focus, rest)
        };
        let weight = |text: &str| text.parse().ok().filter(|weight| (1..=1000).contains(weight));
        let (writes, rest) = rest.split_once('_')?;
        let (focus, rest) = match focus {
            Focus::Reads => Focus::split(rest),
            focus => (focus, rest),
        };
        let (reads, place) = rest.split_once('_')?;
        let (writes, reads) = (weight(writes)?, weight(reads)?);
        let (_, place) = Place::NAMES.into_iter().find(|(known, _)| *known == place)?;
        Some(LoadKind::Mix { writer: Writer::of(writer)?, focus, writes, reads, place })
    }

    /// Parses an operation of the set `management`, such as `reset_finished`.
    pub(super) fn parse_management(text: &str) -> Result<Self> {
        let found = MANAGEMENT.iter().find(|(name, ..)| *name == text).with_context(|| {
            let names = MANAGEMENT.map(|(name, ..)| name).join(", ");
            let hint = zonal_blk::did_you_mean(text, MANAGEMENT.map(|(name, ..)| name));
            format!("op: found `{text}`, expected one of {names}{hint}")
        })?;
        Ok(LoadKind::Management(found.0))
    }

    /// The operations of zone management, the last of which is measured.
    pub(super) fn steps(&self) -> &'static [Op] {
        let LoadKind::Management(name) = self else { return &[] };
        MANAGEMENT.iter().find(|(known, _)| known == name).map_or(&[], |(_, steps)| steps)
    }

    /// The kind of work, for summaries.
    pub fn class(&self) -> &'static str {
        match self {
            LoadKind::Write(Writer::Write) => "writes",
            LoadKind::Write(Writer::WriteMq) => "writes, mq-deadline",
            LoadKind::Write(Writer::Append) => "appends",
            LoadKind::Read { random: true, .. } => "random reads",
            LoadKind::Read { random: false, .. } => "sequential reads",
            LoadKind::Mix { .. } => "mixes",
            LoadKind::Management(_) => "zone management",
        }
    }
}

/// A load by name and numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedLoad {
    /// How the host reached the drive: the name of a host profile.
    pub driver: String,
    /// The LBA format.
    pub lba: u32,
    /// The action.
    pub kind: LoadKind,
    /// Block size in bytes; of zone management, the bytes written before.
    pub block: u64,
    /// Jobs, each in zones of its own.
    pub zones: u32,
    /// Queue depth of a job.
    pub depth: u32,
}

/// Length and depth of the writes that suit writes best, through mq-deadline.
const BEST_WRITES: (u64, u32) = (8192, 4);
/// Length and depth of the writes that suit appends best.
const BEST_APPENDS: (u64, u32) = (8192, 2);

impl fmt::Display for NamedLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NamedLoad { driver, lba, kind, block, zones, depth } = self;
        let class = kind.class();
        write!(f, "{class} over {driver}, lba={lba}, block={block}, zones={zones}, depth={depth}")
    }
}

impl NamedLoad {
    /// Whether the jobs go through mq-deadline.
    pub fn is_scheduled(&self) -> bool {
        match self.kind {
            LoadKind::Write(writer) | LoadKind::Mix { writer, .. } => writer == Writer::WriteMq,
            LoadKind::Read { mq, .. } => mq,
            LoadKind::Management(_) => false,
        }
    }

    /// Whether Linux merges the blocks, wherever their buffers are.
    pub fn merges(&self) -> bool {
        self.block.is_multiple_of(PAGE)
    }

    /// Whether Linux merges the blocks in every second zone (`turns.rs`).
    pub fn merges_in_turns(&self) -> bool {
        self.kind == LoadKind::Write(Writer::WriteMq) && self.depth > 1 && !self.merges()
    }

    /// Bytes that are in flight at the same time, at most.
    pub fn bytes_in_flight(&self) -> u64 {
        let depth = match self.kind {
            LoadKind::Write(Writer::Write) | LoadKind::Management(_) => 1,
            _ => u64::from(self.depth),
        };
        self.block * depth * u64::from(self.zones)
    }

    /// The length of an I/O in one direction; 0 for zone management.
    pub fn block_of(&self, dir: DataDir) -> u64 {
        match self.kind {
            LoadKind::Mix { focus, .. } => {
                let [read, write] = self.sides(focus);
                if dir == DataDir::Read { read.0 } else { write.0 }
            }
            LoadKind::Management(_) => 0,
            LoadKind::Write(_) | LoadKind::Read { .. } => self.block,
        }
    }

    /// Length and depth of the reads and of the writes of two jobs side by side.
    fn sides(&self, focus: Focus) -> [(u64, u32); 2] {
        let own = (self.block, self.depth);
        match focus {
            Focus::Writes => [(4096, 1), own],
            Focus::Reads => [own, (4096, 1)],
            Focus::ReadsBestWrites => [own, BEST_WRITES],
            Focus::ReadsBestAppends => [own, BEST_APPENDS],
        }
    }

    /// The jobs, as options of `zonal run`; none for zone management.
    pub fn jobs(&self) -> Vec<String> {
        let NamedLoad { block, zones, depth, .. } = *self;
        let clones = |rw: &str, size: u32| {
            vec![
                format!("--name={rw}"),
                format!("--rw={rw}"),
                format!("--bs={block}"),
                format!("--iodepth={depth}"),
                format!("--numjobs={zones}"),
                format!("--size={size}z"),
                format!("--offset_increment={size}z"),
                "--zonemode=zbd".to_owned(),
                "--max_open_zones=14".to_owned(),
            ]
        };
        match self.kind {
            LoadKind::Write(writer) => {
                let mut options = clones("write", 100);
                options.push("--job_max_open_zones=1".to_owned());
                options.push(format!("--zone_append={}", u8::from(writer == Writer::Append)));
                options
            }
            LoadKind::Read { random: true, .. } => {
                let mut options = clones("randread", 1);
                options.push("--norandommap=1".to_owned());
                options
            }
            LoadKind::Read { random: false, .. } => clones("read", 100),
            LoadKind::Mix { writer, focus, writes, reads, place } => {
                self.mix(writer, focus, [writes, reads], place)
            }
            LoadKind::Management(_) => Vec::new(),
        }
    }

    fn mix(&self, writer: Writer, focus: Focus, weights: [u32; 2], place: Place) -> Vec<String> {
        let [read, write] = self.sides(focus);
        let (read_zones, first, write_zones) = place.zones();
        let job = |rw: &str, (block, depth): (u64, u32), flow: u32, offset: u32, size: u32| {
            vec![
                format!("--name={rw}"),
                format!("--rw={rw}"),
                format!("--bs={block}"),
                format!("--iodepth={depth}"),
                format!("--flow={flow}"),
                format!("--offset={offset}z"),
                format!("--size={size}z"),
                "--zonemode=zbd".to_owned(),
                "--max_open_zones=14".to_owned(),
            ]
        };
        let mut options = job("randread", read, weights[1], 0, read_zones);
        options.push("--norandommap=1".to_owned());
        options.extend(job("write", write, weights[0], first, write_zones));
        options.push(format!("--zone_append={}", u8::from(writer == Writer::Append)));
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(text: &str) -> (Writer, Focus, u32, u32, Place, DataDir) {
        match LoadKind::parse_io(text).unwrap() {
            (LoadKind::Mix { writer, focus, writes, reads, place }, dir) => {
                (writer, focus, writes, reads, place, dir)
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn names_of_mixes_say_who_writes_how_and_where() {
        let (read, write) = (DataDir::Read, DataDir::Write);
        assert_eq!(
            mix("read_append_10_90_offset_far:read"),
            (Writer::Append, Focus::Writes, 10, 90, Place::OffsetFar, read)
        );
        assert_eq!(
            mix("write_read_50_50_strip:write"),
            (Writer::Write, Focus::Reads, 50, 50, Place::Strip, write)
        );
        assert_eq!(
            mix("writemq_read_optap_10_90_strip_far:write"),
            (Writer::WriteMq, Focus::ReadsBestAppends, 10, 90, Place::StripFar, write)
        );
        assert_eq!(
            mix("append_read_10_opt_90_offset:read"),
            (Writer::Append, Focus::ReadsBestWrites, 10, 90, Place::Offset, read)
        );
    }

    #[test]
    fn unknown_operations_are_refused_with_the_known_ones() {
        for text in
            ["write", "erase:write", "read_write_10_90_near:read", "read_write_0_1_strip:read"]
        {
            let error = LoadKind::parse_io(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("op: found `{text}`, expected ")), "{error}");
        }
        let error = LoadKind::parse_management("erase").unwrap_err().to_string();
        assert!(error.starts_with("op: found `erase`, expected one of finish, reset"), "{error}");
    }
}
