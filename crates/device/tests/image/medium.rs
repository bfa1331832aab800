//! A file in memory with the worst loss of power that is allowed: of the writes since the last sync it
//! keeps a random part, sector by sector.
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{Buf, Tag};
use zonal_device::image::{ImageStore, ReadAt, Ring, SharedWords, Transfer};
use zonal_device::rng::Rng;

/// Something that was done to the file.
enum Change {
    Write { at: u64, data: Vec<u8> },
    Discard { at: u64, len: u64 },
    Truncate(u64),
}

fn apply(to: &mut Vec<u8>, change: &Change) {
    let index = |at: u64| usize::try_from(at).unwrap();
    match change {
        Change::Write { at, data } => {
            let end = index(*at) + data.len();
            if to.len() < end {
                to.extend_from_slice(&vec![0; end - to.len()]);
            }
            to[index(*at)..end].copy_from_slice(data);
        }
        Change::Discard { at, len } => {
            let end = index(at + len).min(to.len());
            if let Some(range) = to.get_mut(index(*at)..end) {
                range.fill(0);
            }
        }
        Change::Truncate(len) => to.truncate(index(*len)),
    }
}

struct State {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last synchronisation, the oldest first.
    changes: Vec<Change>,
    /// Calls until the power goes.
    fuse: u64,
    /// Data that rings have and the file has not.
    on_the_way: Vec<(u64, u64, Vec<u8>)>,
    transfers: u64,
    rng: Rng,
    /// One write in this many fails for want of space; 0 for none.
    full: u64,
    calls: Calls,
    /// Losses of power.
    losses: u8,
}

/// How often the file was called.
#[derive(Clone, Copy, Default)]
pub struct Calls {
    pub writes: u64,
    pub syncs: u64,
}

impl State {
    fn alive(&mut self) -> io::Result<()> {
        if self.fuse == 0 {
            return Err(io::Error::other("the power is off"));
        }
        self.fuse -= 1;
        Ok(())
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.changes.push(change);
    }
}

/// The file. A copy is the same file.
#[derive(Clone)]
pub struct Medium(Arc<Mutex<State>>);

impl Medium {
    /// An empty file.
    pub fn new(seed: u64) -> Self {
        Medium::of(Vec::new(), seed)
    }

    /// A file with contents, which are durable.
    pub fn of(bytes: Vec<u8>, seed: u64) -> Self {
        Medium(Arc::new(Mutex::new(State {
            now: bytes.clone(),
            durable: bytes,
            changes: Vec::new(),
            fuse: u64::MAX,
            on_the_way: Vec::new(),
            transfers: 0,
            rng: Rng::new(seed),
            full: 0,
            calls: Calls::default(),
            losses: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The power fails after this many calls.
    pub fn set_fuse(&self, calls: u64) {
        self.state().fuse = calls;
    }

    /// Whether the power has gone.
    pub fn is_off(&self) -> bool {
        self.state().fuse == 0
    }

    /// Makes one write in this many fail.
    pub fn set_full(&self, one_in: u64) {
        self.state().full = one_in;
    }

    /// Writes, without those of rings, and syncs so far.
    pub fn calls(&self) -> Calls {
        self.state().calls
    }

    /// The present contents of the file.
    pub fn bytes(&self) -> Vec<u8> {
        self.state().now.clone()
    }

    /// Turns bits of a byte.
    pub fn turn(&self, at: usize, bits: u8) {
        let mut state = self.state();
        state.now[at] ^= bits;
        state.durable = Vec::new();
    }

    /// The file as it is when its process is killed. What was done is done, and transfers are in the file or not.
    pub fn kill(&self) {
        let mut state = self.state();
        let moving = std::mem::take(&mut state.on_the_way);
        for (_, at, data) in moving {
            if state.rng.below(2) == 0 {
                state.change(Change::Write { at, data });
            }
        }
        state.fuse = u64::MAX;
    }

    /// The file after the loss of power: in units of `sector` bytes, `keep` in 4 of what was not
    /// durable are there.
    pub fn lose_power(&self, sector: usize, keep: u64) {
        let mut state = self.state();
        let state = &mut *state;
        let mut after = std::mem::take(&mut state.durable);
        let mut changes = std::mem::take(&mut state.changes);
        let moving = std::mem::take(&mut state.on_the_way);
        changes.extend(moving.into_iter().map(|(_, at, data)| Change::Write { at, data }));
        let mut kept = || state.rng.below(4) < keep;
        for change in changes {
            match change {
                Change::Write { at, data } => {
                    for (number, piece) in data.chunks(sector).enumerate() {
                        if kept() {
                            let at = at + (number * sector) as u64;
                            apply(&mut after, &Change::Write { at, data: piece.to_vec() });
                        }
                    }
                }
                whole => {
                    if kept() {
                        apply(&mut after, &whole);
                    }
                }
            }
        }
        state.losses = state.losses.wrapping_add(1);
        state.now = after.clone();
        state.durable = after;
        state.fuse = u64::MAX;
    }
}

impl ReadAt for Medium {
    fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        to.fill(0);
        let at = usize::try_from(at).unwrap();
        if let Some(there) = state.now.get(at..) {
            let len = there.len().min(to.len());
            to[..len].copy_from_slice(&there[..len]);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state().now.len() as u64)
    }
}

impl ImageStore for Medium {
    fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let change = Change::Write { at, data: from.to_vec() };
        state.calls.writes += 1;
        if state.fuse == 1 {
            // The power goes in the middle of it.
            state.changes.push(change);
            state.fuse = 0;
            return Err(io::Error::other("the power goes"));
        }
        state.alive()?;
        state.change(change);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        state.calls.syncs += 1;
        let state = &mut *state;
        for change in state.changes.drain(..) {
            apply(&mut state.durable, &change);
        }
        Ok(())
    }

    fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        state.change(Change::Discard { at, len });
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        state.change(Change::Truncate(len));
        Ok(())
    }

    fn share(&self, at: u64, _len: u64) -> io::Result<Box<dyn SharedWords>> {
        Ok(Box::new(MediumWords { medium: self.clone(), at }))
    }

    fn boot(&self) -> [u8; 16] {
        [self.state().losses; 16]
    }

    fn open_ring(&self, _depth: u16) -> io::Result<Box<dyn Ring>> {
        Ok(Box::new(MediumRing { medium: self.clone(), moving: Vec::new() }))
    }
}

/// Words of the file, one write each.
struct MediumWords {
    medium: Medium,
    at: u64,
}

impl SharedWords for MediumWords {
    fn store(&self, first: usize, words: &[u64]) -> io::Result<()> {
        let mut state = self.medium.state();
        if state.fuse == 0 {
            return Err(io::Error::other("the power is off"));
        }
        for (word, at) in words.iter().zip((self.at + 8 * first as u64..).step_by(8)) {
            state.change(Change::Write { at, data: word.to_le_bytes().to_vec() });
        }
        Ok(())
    }
}

/// Transfers end in any order, some at each poll.
struct MediumRing {
    medium: Medium,
    moving: Vec<(u64, Transfer)>,
}

impl Ring for MediumRing {
    fn start(&mut self, transfer: Transfer) {
        let mut state = self.medium.state();
        state.transfers += 1;
        let number = state.transfers;
        if transfer.write {
            let data = transfer.bufs.iter().map(|buf| &buf[..]).collect::<Vec<_>>().concat();
            assert_eq!(data.len(), transfer.len);
            state.on_the_way.push((number, transfer.at, data));
        }
        self.moving.push((number, transfer));
    }

    fn write_bufs(&self, tag: Tag) -> &[Buf] {
        let mut moving = self.moving.iter().map(|(_, transfer)| transfer);
        &moving.find(|transfer| transfer.write && transfer.tag == tag).unwrap().bufs
    }

    fn poll(&mut self, ended: &mut Vec<(Transfer, io::Result<usize>)>) {
        let mut kept = Vec::new();
        for (number, mut transfer) in self.moving.drain(..) {
            let mut state = self.medium.state();
            if state.fuse > 0 && state.rng.below(3) == 0 {
                kept.push((number, transfer));
                continue;
            }
            let mut result = state.alive().map(|()| transfer.len);
            let full = state.full;
            if result.is_ok() && transfer.write {
                let place = state.on_the_way.iter().position(|(n, ..)| *n == number).unwrap();
                let (_, at, mut data) = state.on_the_way.remove(place);
                if full > 0 && state.rng.below(full) == 0 {
                    data.truncate(data.len() / 1024 * 512);
                    result = Err(io::ErrorKind::StorageFull.into());
                }
                state.change(Change::Write { at, data });
            } else if result.is_ok() {
                drop(state);
                let mut data = vec![0; transfer.len];
                result = self.medium.read(transfer.at, &mut data).map(|()| transfer.len);
                let mut data = &data[..];
                for buf in &mut transfer.bufs {
                    let (part, rest) = data.split_at(buf.len().min(data.len()));
                    buf[..part.len()].copy_from_slice(part);
                    data = rest;
                }
            }
            ended.push((transfer, result));
        }
        self.moving = kept;
        let turn = self.medium.state().rng.below(ended.len().max(1) as u64);
        ended.rotate_left(usize::try_from(turn).unwrap());
    }
}
