//! Clients and guests that break rules: they get errors, and the server goes on.
use crate::client::{
    CONFIG, Client, DMA_MAP, DMA_UNMAP, REGION_READ, REGION_WRITE, SET_IRQS, VERSION, access,
    dma_map, set_irqs, version, wait,
};
use crate::guest::{DATA, Guest, LIST, MEMORY, transfer};
use crate::held_reads::HeldReads;
use crate::{OK, Served, null, verify};
use rustix::fs::ftruncate;
use std::os::fd::AsFd;
use zerocopy::IntoBytes;
use zonal_blk::Nanos;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::opcode::IoOpcode;

const INVALID: Result<Vec<u8>, u32> = Err(22);

/// The server serves an honest client.
fn check(served: &Served) {
    let mut guest = Guest::start(served.path());
    let mut queue = guest.create(1);
    let read = transfer(IoOpcode::READ, 0, 1, [DATA, 0]);
    assert_eq!(guest.io(&mut queue, read).status(), OK);
}

#[test]
fn messages_that_are_wrong_are_refused() {
    let served = Served::new(Nanos(0));
    let mut client = Client::negotiated(served.path());
    let info = [16_u32, 0, 0, 0].map(u32::to_le_bytes).concat();
    assert_eq!(client.call(4, &info, &[]).expect("information")[4..12], [3, 0, 0, 0, 9, 0, 0, 0]);
    let region =
        |index: u32, argsz: u32| [argsz, 0, index, 0, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
    let bar = client.call(5, &region(0, 32), &[]).expect("a region");
    assert_eq!(bar[16..24], 0x4000_u64.to_le_bytes());
    for (command, body) in [
        (4, info[..8].to_vec()),
        (4, vec![0; 16]),
        (5, region(9, 32)),
        (5, region(0, 16)),
        (7, [16_u32, 0, 5, 0].map(u32::to_le_bytes).concat()),
        (VERSION, version("{}")),
        (0, Vec::new()),
        (99, Vec::new()),
        (13, vec![0]),
        (REGION_READ, access(0, 0x4000, 1)),
        (REGION_READ, access(0, u64::MAX, 4)),
        (REGION_READ, access(0, 0, 0x4001)),
        (REGION_READ, access(3, 0, 4)),
        (REGION_READ, access(u32::MAX, 0, 4)),
        (REGION_READ, access(CONFIG, 4095, 2)),
        (REGION_WRITE, access(0, 0x14, 4)),
        (REGION_WRITE, [access(0, 0x14, 4), vec![0; 5]].concat()),
        (15, [9_u64.to_le_bytes().to_vec(), vec![0; 24]].concat()),
        (DMA_MAP, dma_map(0, 0, 0)),
        (DMA_MAP, dma_map(1, 4096, 0)),
        (DMA_MAP, dma_map(u64::MAX - 4095, 8192, 0)),
        (DMA_MAP, vec![0; 31]),
        (SET_IRQS, set_irqs(1 << 2 | 1 << 3, 2, 0, 1)),
        (SET_IRQS, set_irqs(1 << 1 | 1 << 5, 2, 0, 1)),
        (SET_IRQS, set_irqs(1 | 1 << 5, 2, 3, 9)),
        (SET_IRQS, set_irqs(1 | 1 << 5, 2, u32::MAX, u32::MAX)),
        (SET_IRQS, set_irqs(1 << 2 | 1 << 5, 0, 0, 1)),
        (SET_IRQS, set_irqs(u32::MAX, 2, 0, 1)),
        (SET_IRQS, vec![0; 19]),
    ] {
        assert_eq!(client.call(command, &body, &[]), INVALID, "{command} {body:?}");
    }
    for migration in [14, 16, 17, 18] {
        assert_eq!(client.call(migration, &[0; 16], &[]), Err(95), "migration is not supported");
    }
    assert_eq!(client.unmap(0, 4096), Err(2), "there is none");
    // Descriptors that are not what they should be, or should not be there.
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    assert_eq!(client.map(0, 4096, 0, &[pipe.as_fd()]), INVALID);
    assert_eq!(client.map(0, 4096, 0, &[pipe.as_fd(), pipe.as_fd()]), INVALID);
    let vector = set_irqs(1 << 2 | 1 << 5, 2, 0, 1);
    assert_eq!(client.call(SET_IRQS, &vector, &[pipe.as_fd()]), INVALID);
    assert_eq!(client.call(4, &info, &[pipe.as_fd()]), INVALID);
    drop(client);
    check(&served);
}

#[test]
fn clients_without_manners_are_disconnected() {
    let served = Served::new(Nanos(0));
    let mut client = Client::connect(served.path());
    client.send(4, &[0; 16], &[]);
    assert!(client.is_closed(), "no version");
    for wrong in [version("{"), vec![0, 0], vec![1, 0, 0, 0]] {
        let mut client = Client::connect(served.path());
        assert_eq!(client.call(VERSION, &wrong, &[]), INVALID);
        assert!(client.is_closed());
    }
    // The longest message is answered, one of a byte more is not received.
    let mut client = Client::negotiated(served.path());
    let longest = (16 << 10) + 64 - 16;
    assert_eq!(client.call(4, &vec![0; longest], &[]), INVALID);
    client.send(4, &vec![0; longest + 1], &[]);
    assert!(client.is_closed(), "too long");
    for size in [0_u32, 15, 1 << 20, u32::MAX] {
        let mut client = Client::connect(served.path());
        client.send_raw(&[&[1, 0, 1, 0], size.to_le_bytes().as_slice(), &[0; 8]].concat(), &[]);
        assert!(client.is_closed(), "{size}");
    }
    let mut client = Client::connect(served.path());
    client.send_raw(&[&[1, 0, 1, 0, 16, 0, 0, 0, 1], [0; 7].as_slice()].concat(), &[]);
    assert!(client.is_closed(), "a reply");
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    let mut client = Client::connect(served.path());
    client.send(VERSION, &version("{}"), &[pipe.as_fd(); 9]);
    assert!(client.is_closed(), "too many descriptors");
    // One that stops within a message, and goes.
    let mut client = Client::connect(served.path());
    client.send_raw(&[1, 0, 1], &[pipe.as_fd()]);
    drop(client);
    Client::connect(served.path());
    check(&served);
}

#[test]
fn data_in_flight_of_a_submission_queue_are_16_mib() {
    let reads = HeldReads::new(null(Nanos(0)));
    let served = Served::over(reads.clone());
    let mut guest = Guest::start(served.path());
    let mut queue = guest.create(1);
    // Reads of 1 MiB, all into the same pages.
    let pages: Vec<u64> = (1..256).map(|page| DATA + page * 4096).collect();
    guest.memory.put(LIST, pages.as_bytes());
    for zone in (0..8).cycle().take(24) {
        queue.put(&guest.memory, &transfer(IoOpcode::READ, zone * 256, 256, [DATA, LIST]));
    }
    guest.ring_tail(&queue);
    wait(|| (reads.most_held() >= 16 << 20).then_some(()));
    reads.release();
    for _ in 0..24 {
        assert_eq!(wait(|| queue.take(&guest.memory)).status(), OK);
    }
    assert_eq!(reads.most_held(), 16 << 20);
}

#[test]
fn memory_that_is_unmapped_in_flight_fails_its_commands() {
    let served = Served::new(Nanos(0));
    let mut guest = Guest::start(served.path());
    // Data beyond what the queues are in.
    let extra = crate::client::Memory::new(1 << 20);
    let address = 1 << 32;
    guest.client.map(address, 1 << 20, 0, &[extra.file.as_fd()]).expect("memory");
    assert_eq!(guest.client.map(address + 4096, 4096, 0, &[extra.file.as_fd()]), Err(17));
    let mut queue = guest.create(1);
    served.queue.freeze();
    queue.put(&guest.memory, &transfer(IoOpcode::READ, 0, 1, [address, 0]));
    guest.ring_tail(&queue);
    // It most likely is with the frozen queue then; before, its pointer is wrong.
    std::thread::sleep(std::time::Duration::from_millis(5));
    guest.client.unmap(address, 1 << 20).expect("it was there");
    served.queue.unfreeze();
    let cqe = wait(|| queue.take(&guest.memory));
    assert_eq!(cqe.status().code(), NvmeStatus::DATA_TRANSFER);
    // Without the memory of the queues the controller fails, and can be reset.
    guest.client.unmap(0, MEMORY as u64).expect("it was there");
    guest.client.set_register(0x1008, 2);
    wait(|| (guest.client.register(0x1c) & 0b10 != 0).then_some(()));
    guest.disable();
    guest.client.map(0, MEMORY as u64, 0, &[guest.memory.file.as_fd()]).expect("memory");
    guest.enable();
    verify(&mut guest, 1, 1);
    drop(guest);
    // All together.
    let mut guest = Guest::start(served.path());
    let all = [24_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat();
    guest.client.call(DMA_UNMAP, &[all, vec![0; 16]].concat(), &[]).expect("all memory");
}

#[test]
fn client_that_takes_its_memory_away_is_disconnected() {
    let served = Served::new(Nanos(0));
    let mut guest = Guest::start(served.path());
    let mut queue = guest.create(1);
    let read = transfer(IoOpcode::READ, 0, 1, [DATA, 0]);
    for _ in 0..8 {
        queue.put(&guest.memory, &read);
    }
    let extra = crate::client::Memory::new(1 << 20);
    guest.client.map(1 << 32, 1 << 20, 0, &[extra.file.as_fd()]).expect("memory");
    ftruncate(&extra.file, 0).expect("it is the client's");
    queue.put(&guest.memory, &transfer(IoOpcode::WRITE, 0, 1, [1 << 32, 0]));
    guest.ring_tail(&queue);
    assert!(guest.client.is_closed());
    drop(guest);
    check(&served);
}
