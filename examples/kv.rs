//! A small log-structured key-value store on a zoned device, as material for the crash lab, with the
//! bugs that people make: `docs/crash-lab.md` shows how the lab finds them.
//!
//! ```text
//!  kv run IMAGE LOG [BUG]     writes transactions, and records what the device is sent
//!  kv check IMAGE MARKS [BUG] opens the store after a loss of power, and verifies it
//! ```
//!
//! Zones 0 and 1 have a superblock each, which says which of the zones 2 and 3 has the records. A
//! transaction is two records of three blocks, the second of which commits it. When the zone has no
//! room, the live records are copied to the other one.
use std::collections::BTreeMap;
use std::time::Instant;
use zonal_backend::Stack;
use zonal_blk::*;
use zonal_crash::Recorder;

const BLOCK: usize = 4096;
const SECTORS: u64 = 8;
/// Blocks of a record: a header and the value.
const RECORD: usize = 3;
const MAGIC: &[u8; 4] = b"KVR1";
/// Keys come in pairs; a transaction writes both of a pair.
const PAIRS: u64 = 3;
/// Transactions of `kv run`.
const TRANSACTIONS: u64 = 12;

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    /// The superblock is published before the records that it points to are durable.
    NoFlush,
    /// The old records are reset before the new copy is durable.
    EarlyReset,
    /// A record is believed by its header; nothing covers its value.
    NoChecksum,
    /// Everything below the write pointer is taken for whole records.
    TrustWp,
    /// The commit is sent with the data, as if appends landed in the order in which they were sent.
    AppendOrder,
}

fn bug(name: Option<&String>) -> Bug {
    match name.map_or("none", String::as_str) {
        "none" => Bug::None,
        "no-flush" => Bug::NoFlush,
        "early-reset" => Bug::EarlyReset,
        "no-checksum" => Bug::NoChecksum,
        "trust-wp" => Bug::TrustWp,
        "append-order" => Bug::AppendOrder,
        other => fail(&format!(
            "bug {other}: expected none, no-flush, early-reset, no-checksum, trust-wp or append-order"
        )),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("kv: {why}");
    std::process::exit(1)
}

/// The device, one command after another.
struct Io {
    channel: Channel,
    start: Instant,
}

impl Io {
    /// Submits bios at the same time and waits for all of them.
    fn run(&mut self, bios: Vec<Bio>) -> Vec<Completion> {
        let now = |start: Instant| Nanos(start.elapsed().as_nanos() as u64);
        let count = bios.len();
        for bio in bios {
            self.channel.submit(now(self.start), bio);
        }
        let mut done = Vec::new();
        while done.len() < count {
            self.channel.poll(now(self.start), &mut done);
            std::thread::yield_now();
        }
        if let Some(failed) = done.iter().find(|done| done.status != Status::Ok) {
            fail(&format!("sector {}: {}", failed.sector, failed.status));
        }
        done
    }

    fn flush(&mut self) {
        self.run(vec![Bio::new(Op::Flush, Sector(0), 0, 0)]);
    }

    fn reset(&mut self, zone: u64) {
        let start = self.zone(zone).start;
        self.run(vec![Bio::new(Op::ZoneReset, start, 0, 0)]);
    }

    fn zone(&self, zone: u64) -> Zone {
        let mut zones = Vec::new();
        let number = ZoneNo(zone as u32);
        self.channel.queue().report_zones(number, 1, &mut zones).expect("the zone");
        zones[0]
    }

    /// Blocks that were written to a zone.
    fn written(&self, zone: u64) -> usize {
        let zone = self.zone(zone);
        match zone.cond {
            ZoneCondition::Full => (zone.capacity.0 / SECTORS) as usize,
            _ => ((zone.wp - zone.start).0 / SECTORS) as usize,
        }
    }

    /// What was written to a zone, and zeroes after it for as long as a record.
    fn read(&mut self, zone: u64) -> Vec<u8> {
        let mut data = vec![0; (self.written(zone) + RECORD) * BLOCK];
        let start = self.zone(zone).start;
        for block in 0..self.written(zone) {
            let sector = start + Sector(block as u64 * SECTORS);
            let done = self.run(vec![Bio::read(sector, SECTORS as u32, 0)]);
            let buf = done[0].buf.as_ref().expect("a read has a buffer");
            data[block * BLOCK..(block + 1) * BLOCK].copy_from_slice(buf);
        }
        data
    }

    fn append(&self, zone: u64, data: &[u8]) -> Bio {
        Bio { op: Op::ZoneAppend, ..Bio::write(self.zone(zone).start, Buf::from(data), 0) }
    }
}

/// A checksum (FNV-1a).
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Header: magic, whether it commits (byte 4), key (8), transaction (16), checksum of those and the
/// value (24). The value is the transaction over and over.
fn record(key: u64, transaction: u64, commits: bool) -> Vec<u8> {
    let mut data = vec![0; RECORD * BLOCK];
    data[..4].copy_from_slice(MAGIC);
    data[4] = commits.into();
    data[8..16].copy_from_slice(&key.to_le_bytes());
    data[16..24].copy_from_slice(&transaction.to_le_bytes());
    data[BLOCK..].chunks_mut(8).for_each(|word| word.copy_from_slice(&transaction.to_le_bytes()));
    let sum = sum(&data);
    data[24..32].copy_from_slice(&sum.to_le_bytes());
    data
}

fn is_intact(record: &[u8]) -> bool {
    let mut data = record.to_vec();
    data[24..32].fill(0);
    number(record, 24) == sum(&data)
}

struct Store {
    io: Io,
    bug: Bug,
    /// The zone with the records.
    zone: u64,
    generation: u64,
    /// The value of each key.
    values: BTreeMap<u64, Vec<u8>>,
}

impl Store {
    /// Opens the store, or makes a new one on an empty device.
    fn open(mut io: Io, bug: Bug) -> Store {
        let mut newest = (0, 2);
        for zone in [0, 1] {
            let block = io.read(zone);
            if &block[..4] == b"KVSB" && number(&block, 24) == sum(&block[..24]) {
                newest = newest.max((number(&block, 8), number(&block, 16)));
            }
        }
        let (generation, zone) = newest;
        let mut store = Store { io, bug, zone, generation, values: BTreeMap::new() };
        store.recover();
        store
    }

    /// Reads the records: a transaction counts if the record that commits it is there.
    fn recover(&mut self) {
        let data = self.io.read(self.zone);
        let (mut at, mut pending) = (0, BTreeMap::new());
        while at + RECORD * BLOCK <= data.len() {
            let found = &data[at..at + RECORD * BLOCK];
            if &found[..4] != MAGIC || !(is_intact(found) || self.bug == Bug::NoChecksum) {
                if self.bug == Bug::TrustWp {
                    break;
                }
                // The remains of a record that was torn.
                at += BLOCK;
                continue;
            }
            pending.insert(number(found, 8), (number(found, 16), found[BLOCK..].to_vec()));
            if found[4] == 1 {
                let here = number(found, 16);
                let records = std::mem::take(&mut pending).into_iter();
                let records = records.filter(|(_, (transaction, _))| *transaction == here);
                self.values.extend(records.map(|(key, (_, value))| (key, value)));
            }
            at += RECORD * BLOCK;
        }
    }

    /// Writes both keys of a pair; durable after the next flush.
    fn put(&mut self, transaction: u64) {
        let room = self.io.zone(self.zone).capacity.0 / SECTORS;
        if self.io.written(self.zone) + 2 * RECORD > room as usize {
            self.compact();
        }
        let pair = transaction % PAIRS * 2;
        self.write(self.zone, pair, transaction);
        for key in [pair, pair + 1] {
            self.values.insert(key, record(key, transaction, false)[BLOCK..].to_vec());
        }
    }

    fn write(&mut self, zone: u64, pair: u64, transaction: u64) {
        let first = self.io.append(zone, &record(pair, transaction, false));
        let second = self.io.append(zone, &record(pair + 1, transaction, true));
        if self.bug == Bug::AppendOrder {
            self.io.run(vec![first, second]);
        } else {
            self.io.run(vec![first]);
            self.io.run(vec![second]);
        }
    }

    /// Copies the live records to the other zone.
    fn compact(&mut self) {
        let (old, new) = (self.zone, 5 - self.zone);
        self.io.reset(new);
        for (pair, value) in self.values.clone().into_iter().filter(|(key, _)| key % 2 == 0) {
            self.write(new, pair, number(&value, 0));
        }
        if self.bug == Bug::EarlyReset {
            self.io.reset(old);
        }
        if self.bug != Bug::NoFlush {
            self.io.flush();
        }
        self.publish(new);
        if self.bug != Bug::EarlyReset {
            self.io.reset(old);
        }
    }

    /// Writes the next superblock, over the one before the last.
    fn publish(&mut self, zone: u64) {
        (self.generation, self.zone) = (self.generation + 1, zone);
        let mut block = vec![0; BLOCK];
        block[..4].copy_from_slice(b"KVSB");
        block[8..16].copy_from_slice(&self.generation.to_le_bytes());
        block[16..24].copy_from_slice(&zone.to_le_bytes());
        let sum = sum(&block[..24]);
        block[24..32].copy_from_slice(&sum.to_le_bytes());
        let place = self.generation % 2;
        self.io.reset(place);
        let bio = self.io.append(place, &block);
        self.io.run(vec![Bio { flags: BioFlags::FUA, ..bio }]);
    }

    /// Whether all values are whole, both keys of each pair are of one transaction, and no transaction
    /// up to `durable` is lost.
    fn verify(&self, durable: u64) {
        for pair in 0..PAIRS {
            let transaction = |key: u64| {
                let Some(value) = self.values.get(&key) else { return 0 };
                let transaction = number(value, 0);
                if !value.chunks(8).all(|word| number(word, 0) == transaction) {
                    fail(&format!(
                        "key {key}: a part of its value is not of transaction {transaction}"
                    ));
                }
                transaction
            };
            let (a, b) = (transaction(pair * 2), transaction(pair * 2 + 1));
            if a != b {
                fail(&format!("pair {pair}: keys of transactions {a} and {b}"));
            }
            let expected = (1..=durable).rev().find(|number| number % PAIRS == pair).unwrap_or(0);
            if a < expected {
                fail(&format!("pair {pair}: found transaction {a}, expected {expected} or later"));
            }
        }
    }
}

/// Opens an image, recorded if there is a log.
fn open(image: &str, log: Option<&str>) -> (Io, Option<std::sync::Arc<Recorder>>) {
    let open = || {
        let device = Stack::open(image)?;
        let device = log.into_iter().fold(device, Stack::record);
        let stack = device.attach(QueueOptions::default())?;
        if let Some(recording) = &stack.recording {
            recording.start()?;
        }
        anyhow::Ok(stack)
    };
    let attached = open().unwrap_or_else(|error| fail(&format!("{error:#}")));
    let recorder = attached.recording.map(|recording| std::sync::Arc::clone(&recording.recorder));
    let channel = attached.queue.channel().expect("the first channel");
    (Io { channel, start: Instant::now() }, recorder)
}

fn run(image: &str, log: &str, bug: Bug) {
    let (io, recorder) = open(image, Some(log));
    let recorder = recorder.expect("there is a log");
    let mut store = Store::open(io, bug);
    store.publish(2);
    for transaction in 1..=TRANSACTIONS {
        store.put(transaction);
        if transaction % 2 == 0 {
            store.io.flush();
            recorder.mark(&format!("durable {transaction}"));
        }
    }
    recorder.finish().unwrap_or_else(|error| fail(&format!("{log}: {error}")));
}

fn check(image: &str, marks: &str, bug: Bug) {
    let marks = std::fs::read_to_string(marks).unwrap_or_else(|error| fail(&error.to_string()));
    let last = marks.lines().filter_map(|mark| mark.strip_prefix("durable ")?.parse().ok()).max();
    let image = format!("image:{image}");
    let mut store = Store::open(open(&image, None).0, bug);
    store.verify(last.unwrap_or(0));
    // It must also be able to go on.
    let next = (1..=PAIRS).map(|number| TRANSACTIONS + number);
    next.clone().for_each(|transaction| store.put(transaction));
    store.io.flush();
    drop(store);
    Store::open(open(&image, None).0, bug).verify(next.max().expect("at least one"));
}

/// Runs the command that the arguments have, from its name on.
pub fn main() {
    let args = std::env::args().skip_while(|arg| arg != "run" && arg != "check");
    let args: Vec<String> = args.collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", image, log, ..] if args.len() <= 4 => run(image, log, bug(args.get(3))),
        ["check", image, marks, ..] if args.len() <= 4 => check(image, marks, bug(args.get(3))),
        _ => fail("expected run IMAGE LOG [BUG], or check IMAGE MARKS [BUG]"),
    }
}
