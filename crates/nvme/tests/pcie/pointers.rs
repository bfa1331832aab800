//! Data pointers of every shape, made as the specifications say (NVMe Base 4.3.1 and 4.3.2), carry the
//! bytes that they point to, no others, and none if they do not have as many as the command.
use crate::guest::{self, DATA, Guest, LIST, read, write};
use zonal_device::rng::Rng;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::pcie::{prp_pointer, sgl};
use zonal_nvme::wire::{Sgl, Sqe};

const PAGE: u64 = 4096;
/// An entry that leads nowhere.
const NOWHERE: u64 = 1 << 60;

/// Bytes that differ from page to page.
fn pattern(seed: u64, len: u64) -> Vec<u8> {
    (seed..seed + len).map(|at| (at % 251) as u8).collect()
}

/// Pieces of memory, each an address and a length.
type Pieces = Vec<(u64, u64)>;

fn put(guest: &Guest, pieces: &Pieces, mut bytes: &[u8]) {
    for &(address, len) in pieces {
        let (here, rest) = bytes.split_at(len as usize);
        guest.memory.put(address, here);
        bytes = rest;
    }
}

fn get(guest: &Guest, pieces: &Pieces) -> Vec<u8> {
    pieces.iter().flat_map(|&(address, len)| guest.memory.get(address, len as usize)).collect()
}

/// Where the data are.
const AREA: usize = 160 * 4096;

/// The PRPs of `len` bytes from `offset` in a page on, whose list begins `room` entries before the
/// end of a page. What is not part of a list leads nowhere.
fn prps(guest: &mut Guest, rng: &mut Rng, offset: u64, len: u64, room: u64) -> ([u64; 2], Pieces) {
    // Pages that are next to one another, or not.
    let far = rng.below(2);
    let mut page = |number: u64| DATA + (number + far * (3 * number + rng.below(3))) * PAGE;
    let first = page(0) + offset;
    let mut pieces = vec![(first, len.min(PAGE - offset))];
    let mut left = len - pieces[0].1;
    for number in 1.. {
        if left == 0 {
            break;
        }
        pieces.push((page(number), left.min(PAGE)));
        left -= left.min(PAGE);
    }
    let entries: Vec<u64> = pieces[1..].iter().map(|piece| piece.0).collect();
    let second = match entries[..] {
        [] => NOWHERE,
        [one] => one,
        _ => LIST + PAGE - room * 8,
    };
    guest.put_list(LIST, &[NOWHERE; 4 * 512]);
    let (mut rest, mut at) = (&entries[..], LIST + PAGE - room * 8);
    let mut room = room as usize;
    while rest.len() > room {
        // The last entry of a page of a list that goes on points to the rest of it.
        let next = (at / PAGE + 2) * PAGE;
        guest.put_list(at, &rest[..room - 1]);
        guest.put_list(at + (room as u64 - 1) * 8, &[next]);
        (rest, at, room) = (&rest[room - 1..], next, 512);
    }
    if entries.len() > 1 {
        guest.put_list(at, rest);
    }
    ([first, second], pieces)
}

/// Writes a zone through one pointer and reads it through another, and compares.
fn write_and_read(
    guest: &mut Guest,
    seed: u64,
    blocks: u32,
    mut pointer: impl FnMut(&mut Guest, &mut Rng) -> (Sqe, Pieces),
) {
    let mut rng = Rng::new(seed);
    let mut reset = guest::command(zonal_nvme::wire::opcode::IoOpcode::ZONE_MANAGEMENT_SEND.0, 1);
    reset.cdw13 = 4.into();
    assert_eq!(guest.io(reset).status().code(), NvmeStatus::SUCCESS);
    let data = pattern(seed, u64::from(blocks) * PAGE);
    let (sqe, pieces) = pointer(guest, &mut rng);
    put(guest, &pieces, &data);
    let sqe = Sqe { flags: sqe.flags, dptr: sqe.dptr, ..write(0, blocks) };
    assert_eq!(guest.io(sqe).status().code(), NvmeStatus::SUCCESS, "write, {pieces:x?}");
    guest.fill(DATA, AREA, 0xee);
    let (sqe, pieces) = pointer(guest, &mut rng);
    let sqe = Sqe { flags: sqe.flags, dptr: sqe.dptr, ..read(0, blocks) };
    assert_eq!(guest.io(sqe).status().code(), NvmeStatus::SUCCESS, "read, {pieces:x?}");
    assert!(get(guest, &pieces) == data, "{pieces:x?}");
    put(guest, &pieces, &vec![0xee; data.len()]);
    assert!(guest.memory.get(DATA, AREA).iter().all(|&byte| byte == 0xee), "{pieces:x?}");
}

#[test]
fn lists_that_end_or_go_on_at_the_end_of_their_page_carry_their_data() {
    let mut guest = Guest::with_queues();
    for blocks in [1, 2, 3, 4, 9, 15, 16] {
        for room in 1..=18 {
            for offset in [0, 4, 2048, 4092] {
                let seed = u64::from(blocks) << 32 | room << 16 | offset;
                write_and_read(&mut guest, seed, blocks, |guest, rng| {
                    let len = u64::from(blocks) * PAGE;
                    let (prps, pieces) = prps(guest, rng, offset, len, room);
                    (Sqe { dptr: prp_pointer(prps), ..write(0, 1) }, pieces)
                });
            }
        }
    }
}

#[test]
fn list_of_a_whole_page_is_full_without_a_pointer() {
    let mut guest = Guest::with_queues();
    // 128 blocks are the whole device.
    for (room, blocks) in [(127, 128), (126, 128), (128, 128), (127, 127), (511, 128), (512, 128)] {
        let mut rng = Rng::new(room);
        let (prps, _) = prps(&mut guest, &mut rng, 0, blocks * PAGE, room);
        let sqe = Sqe { dptr: prp_pointer(prps), ..read(0, blocks as u32) };
        assert_eq!(guest.io(sqe).status().code(), NvmeStatus::SUCCESS, "{room} {blocks}");
    }
}

fn descriptor(address: u64, len: u64, kind: u8) -> Sgl {
    let mut descriptor = Sgl::zeroed();
    descriptor.address = address.into();
    (descriptor.length, descriptor.kind) = (u32::try_from(len).expect("short").into(), kind);
    descriptor
}

/// An SGL of `len` bytes in random pieces, in segments of random numbers of descriptors.
fn sgls(guest: &mut Guest, rng: &mut Rng, len: u64) -> (Sqe, Pieces) {
    let (mut pieces, mut left) = (Pieces::new(), len);
    // A piece has eight pages of its own.
    for number in 0..19 {
        let piece = match rng.below(4) {
            0 => 0,
            1 => rng.below(64),
            _ => 1 + rng.below(7 * PAGE),
        };
        pieces.push((DATA + 8 * number * PAGE + rng.below(PAGE), piece.min(left)));
        left -= piece.min(left);
    }
    let pieces = if left > 0 { vec![(DATA, len)] } else { pieces };
    let blocks: Vec<Sgl> =
        pieces.iter().map(|&(at, len)| descriptor(at, len, sgl::DATA_BLOCK)).collect();
    if let [only] = blocks[..] {
        return (Sqe { flags: 0x40, dptr: only, ..write(0, 1) }, pieces);
    }
    let (mut rest, mut at, mut segments) = (&blocks[..], LIST, Vec::new());
    while !rest.is_empty() {
        let count = (1 + rng.below(6) as usize).min(rest.len());
        let (here, after) = rest.split_at(count);
        segments.push((at, here.to_vec()));
        (rest, at) = (after, at + 0x200);
    }
    let last = segments.len() - 1;
    let lens: Vec<u64> = (0..=last)
        .map(|number| (segments[number].1.len() + usize::from(number < last)) as u64 * 16)
        .collect();
    let pointer = |number: usize| {
        let kind = if number == last { sgl::LAST_SEGMENT } else { sgl::SEGMENT };
        descriptor(LIST + number as u64 * 0x200, lens[number], kind)
    };
    for (number, (at, mut segment)) in segments.into_iter().enumerate() {
        if number < last {
            segment.push(pointer(number + 1));
        }
        guest.put_sgl(at, &segment);
    }
    (Sqe { flags: 0x40, dptr: pointer(0), ..write(0, 1) }, pieces)
}

#[test]
fn sgls_of_any_pieces_and_segments_carry_their_data_and_others_none() {
    let mut guest = Guest::with_queues();
    for seed in 0..400 {
        let blocks = 1 + seed as u32 % 16;
        let len = u64::from(blocks) * PAGE;
        write_and_read(&mut guest, seed, blocks, |guest, rng| sgls(guest, rng, len));
        // A byte too few or too many.
        for wrong in [len - 1, len + 1] {
            let (sqe, _) = sgls(&mut guest, &mut Rng::new(seed), wrong);
            let sqe = Sqe { flags: sqe.flags, dptr: sqe.dptr, ..read(0, blocks) };
            assert_eq!(guest.io(sqe).status().code(), NvmeStatus::SGL_LENGTH, "{seed}");
        }
    }
}
