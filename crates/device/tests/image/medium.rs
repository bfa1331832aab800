//! A file in memory with the worst loss of power that is allowed: of the writes since the last sync it
//! keeps a random part, sector by sector.
use std::io;
use std::ops::Range;
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

/// What is in a file. Copies share their pages until one of them is written; a page without contents has zeroes.
#[derive(Clone, Default)]
struct Contents {
    len: usize,
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
}

const PAGE: usize = 4096;

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

impl Contents {
    /// The pages of a range with the parts of it that are in them, and where those begin in the range.
    fn pages(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        pages.map(move |page| {
            let (first, end) = (page * PAGE, (page + 1) * PAGE);
            let (from, to) = (range.start.max(first), range.end.min(end));
            (page, from - first..to - first, from - range.start)
        })
    }

    fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        self.len = self.len.max(end);
        self.pages.resize(self.pages.len().max(end.div_ceil(PAGE)), None);
        for (page, part, from) in Self::pages(at..end) {
            let page = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE]));
            let len = part.len();
            Arc::make_mut(page)[part].copy_from_slice(&data[from..from + len]);
        }
    }

    fn discard(&mut self, range: Range<usize>) {
        let end = range.end.min(self.len).max(range.start);
        for (page, part, _) in Self::pages(range.start..end) {
            let Some(page) = self.pages.get_mut(page) else { break };
            match page {
                Some(page) if part.len() < PAGE => Arc::make_mut(page)[part].fill(0),
                page => *page = None,
            }
        }
    }

    fn truncate(&mut self, len: usize) {
        self.discard(len..self.len);
        self.len = self.len.min(len);
    }

    /// Zeroes beyond the end.
    fn read(&self, at: usize, to: &mut [u8]) {
        to.fill(0);
        for (page, part, from) in Self::pages(at..at + to.len()) {
            if let Some(Some(page)) = self.pages.get(page) {
                to[from..from + part.len()].copy_from_slice(&page[part]);
            }
        }
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { at, data } => self.write(index(*at), data),
            Change::Discard { at, len } => self.discard(index(*at)..index(at + len)),
            Change::Truncate(len) => self.truncate(index(*len)),
        }
    }
}

struct State {
    now: Contents,
    durable: Contents,
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
    /// Bytes that were read, without those of rings.
    pub read: u64,
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
        self.now.apply(&change);
        self.changes.push(change);
    }
}

/// The file. A copy is the same file.
#[derive(Clone)]
pub struct Medium(Arc<Mutex<State>>);

impl Medium {
    /// An empty file.
    pub fn new(seed: u64) -> Self {
        Medium::with(Contents::default(), seed)
    }

    /// A file with contents, which are durable.
    pub fn of(bytes: impl AsRef<[u8]>, seed: u64) -> Self {
        let bytes = bytes.as_ref();
        let mut contents = Contents { len: bytes.len(), ..Contents::default() };
        for (at, page) in (0..).step_by(PAGE).zip(bytes.chunks(PAGE)) {
            if *page != [0; PAGE][..page.len()] {
                contents.write(at, page);
            }
        }
        Medium::with(contents, seed)
    }

    /// Another file with the same contents, which are durable.
    pub fn copied(&self, seed: u64) -> Self {
        Medium::with(self.state().now.clone(), seed)
    }

    fn with(contents: Contents, seed: u64) -> Self {
        Medium(Arc::new(Mutex::new(State {
            now: contents.clone(),
            durable: contents,
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

    /// Writes and bytes read, without those of rings, and syncs so far.
    pub fn calls(&self) -> Calls {
        self.state().calls
    }

    /// The present contents of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let state = self.state();
        let mut bytes = vec![0; state.now.len];
        state.now.read(0, &mut bytes);
        bytes
    }

    /// Turns bits of a byte.
    pub fn turn(&self, at: usize, bits: u8) {
        let mut state = self.state();
        let mut byte = [0];
        state.now.read(at, &mut byte);
        state.now.write(at, &[byte[0] ^ bits]);
        state.durable = Contents::default();
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
                            after.write(index(at), piece);
                        }
                    }
                }
                whole => {
                    if kept() {
                        after.apply(&whole);
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
        state.calls.read += to.len() as u64;
        state.now.read(index(at), to);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state().now.len as u64)
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
            state.durable.apply(&change);
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
