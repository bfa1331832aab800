//! Events, and how they are encoded: numbers in LEB128, seven bits a byte.
use zonal_blk::{BioFlags, Op, Sector, Status};

/// A command that changes the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The operation.
    pub op: Op,
    /// FUA and PREFLUSH.
    pub flags: BioFlags,
    /// First sector; of an append and of zone management, the zone's start.
    pub sector: Sector,
    /// Length; 0 where the operation has no range.
    pub nr_sectors: u32,
    /// The data written, one block after the other.
    pub blocks: Vec<BlockRun>,
}

/// Blocks with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The number of the first; all blocks of a run from 0 on are block 0, which is zeroes.
    pub first: u64,
    /// How many.
    pub len: u32,
}

impl Command {
    /// The number of each block that is written.
    pub fn block_numbers(&self) -> impl Iterator<Item = u64> {
        self.blocks.iter().flat_map(|run| {
            (0..u64::from(run.len)).map(|i| if run.first == 0 { 0 } else { run.first + i })
        })
    }

    /// Appends blocks to those of the command.
    pub(super) fn push_blocks(&mut self, blocks: BlockRun) {
        if let Some(run) = self.blocks.last_mut() {
            let next = if run.first == 0 { 0 } else { run.first + u64::from(run.len) };
            if next == blocks.first
                && let Some(len) = run.len.checked_add(blocks.len)
            {
                run.len = len;
                return;
            }
        }
        self.blocks.push(blocks);
    }
}

/// Something that happened at the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A command was started.
    Started {
        /// Its number, from 0.
        id: u64,
        /// The command.
        command: Command,
    },
    /// A command completed.
    Ended {
        /// Its number.
        id: u64,
        /// Its status.
        status: Status,
        /// Its first sector: where an append landed.
        landed: Sector,
    },
    /// Somebody put a mark into the log.
    Mark(String),
}

const STARTED: u8 = 1;
const ENDED: u8 = 2;
const MARK: u8 = 3;

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes the next number; `None` if there is none.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes)?.try_into().ok()
}

impl Event {
    /// Appends the event to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Event::Started { id, command } => {
                bytes.push(STARTED);
                let flag = |flag, bit| if command.flags.contains(flag) { bit } else { 0 };
                let flags = flag(BioFlags::FUA, 1) | flag(BioFlags::PREFLUSH, 2);
                let numbers = [*id, command.op as u64, flags, command.sector.0];
                numbers.into_iter().for_each(|number| put(bytes, number));
                put(bytes, command.nr_sectors.into());
                put(bytes, command.blocks.len() as u64);
                for run in &command.blocks {
                    put(bytes, run.first);
                    put(bytes, run.len.into());
                }
            }
            Event::Ended { id, status, landed } => {
                bytes.push(ENDED);
                let numbers = [*id, status.errno().unsigned_abs().into(), landed.0];
                numbers.into_iter().for_each(|number| put(bytes, number));
            }
            Event::Mark(text) => {
                bytes.push(MARK);
                put(bytes, text.len() as u64);
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Takes the next event; `None` if the bytes are not one.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        *bytes = rest;
        match kind {
            STARTED => {
                let id = take(bytes)?;
                let op = *Op::ALL.get(usize::try_from(take(bytes)?).ok()?)?;
                let flags = take(bytes)?;
                let flag = |flag, bit| if flags & bit == 0 { BioFlags::NONE } else { flag };
                let flags = flag(BioFlags::FUA, 1) | flag(BioFlags::PREFLUSH, 2);
                let (sector, nr_sectors) = (Sector(take(bytes)?), take_u32(bytes)?);
                let runs = take(bytes)?;
                let mut blocks = Vec::new();
                for _ in 0..runs {
                    let run = BlockRun { first: take(bytes)?, len: take_u32(bytes)? };
                    run.first.checked_add(run.len.into())?;
                    blocks.push(run);
                }
                let command = Command { op, flags, sector, nr_sectors, blocks };
                Some(Event::Started { id, command })
            }
            ENDED => {
                let (id, errno, landed) = (take(bytes)?, take_u32(bytes)?, take(bytes)?);
                let status = match i32::try_from(errno).ok()? {
                    0 => Status::Ok,
                    errno => Status::from_errno(errno),
                };
                Some(Event::Ended { id, status, landed: Sector(landed) })
            }
            MARK => {
                let len = usize::try_from(take(bytes)?).ok()?;
                let (text, rest) = bytes.split_at_checked(len)?;
                *bytes = rest;
                Some(Event::Mark(String::from_utf8(text.to_vec()).ok()?))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_event() -> impl Strategy<Value = Event> {
        let run = (0..1u64 << 63, any::<u32>()).prop_map(|(first, len)| BlockRun { first, len });
        let command = (0..Op::ALL.len(), 0..4u8, any::<u64>(), any::<u32>());
        let started = (any::<u64>(), command, proptest::collection::vec(run, 0..4)).prop_map(
            |(id, (op, flags, sector, nr_sectors), blocks)| {
                let flag = |flag, bit| if flags & bit == 0 { BioFlags::NONE } else { flag };
                let flags = flag(BioFlags::FUA, 1) | flag(BioFlags::PREFLUSH, 2);
                let sector = Sector(sector);
                let command = Command { op: Op::ALL[op], flags, sector, nr_sectors, blocks };
                Event::Started { id, command }
            },
        );
        let statuses = [Status::Ok, Status::Timeout, Status::NoSpace, Status::Invalid];
        let ended =
            (any::<u64>(), 0..4usize, any::<u64>()).prop_map(move |(id, status, landed)| {
                Event::Ended { id, status: statuses[status], landed: Sector(landed) }
            });
        prop_oneof![started, ended, ".{0,20}".prop_map(Event::Mark)]
    }

    proptest! {
        #[test]
        fn events_are_decoded_as_they_were_encoded(events in proptest::collection::vec(any_event(), 0..8)) {
            let mut bytes = Vec::new();
            events.iter().for_each(|event| event.encode(&mut bytes));
            let mut rest = &bytes[..];
            let decoded: Option<Vec<Event>> = events.iter().map(|_| Event::decode(&mut rest)).collect();
            prop_assert_eq!(decoded, Some(events));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_events_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut rest = &bytes[..];
            while let Some(_event) = Event::decode(&mut rest) {}
        }
    }

    #[test]
    fn consecutive_blocks_are_one_run() {
        let mut command = Command {
            op: Op::Write,
            flags: BioFlags::NONE,
            sector: Sector(0),
            nr_sectors: 7,
            blocks: Vec::new(),
        };
        let numbers = [4, 5, 0, 0, 0, 1, 9];
        numbers.into_iter().for_each(|first| command.push_blocks(BlockRun { first, len: 1 }));
        assert_eq!(command.blocks.len(), 4);
        assert_eq!(command.block_numbers().collect::<Vec<_>>(), numbers);
    }
}
