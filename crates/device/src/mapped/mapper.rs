//! The host's commands: pages that are written get their places in the order of the commands, reads go
//! where the pages are.
use super::collection::Collection;
use crate::control::TranslationStats;
use crate::flash::{Controller, Queues};
use crate::ssd::page::{PAGE, page_number, pages_of, stats};
use crate::ssd::translation::{Page, Place, Translation};
use std::collections::VecDeque;
use zonal_blk::{Bio, Channel, Completion, Nanos, Op, Request, Sector, Slab, Status};

/// The work that an I/O of the mapper is a part of, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A command of the host.
    Command(u32),
    /// The pages of a row are read.
    Read(u32),
    /// The pages of a row are written.
    Write(u32),
    /// A zone is reset.
    Reset(u32),
}

impl Work {
    fn user_data(self) -> u64 {
        let (kind, number) = match self {
            Work::Command(number) => (0, number),
            Work::Read(number) => (1, number),
            Work::Write(number) => (2, number),
            Work::Reset(number) => (3, number),
        };
        kind << 32 | u64::from(number)
    }

    fn from_user_data(user_data: u64) -> Self {
        let number = u32::try_from(user_data & u64::from(u32::MAX)).expect("it was masked");
        match user_data >> 32 {
            0 => Work::Command(number),
            1 => Work::Read(number),
            2 => Work::Write(number),
            _ => Work::Reset(number),
        }
    }
}

/// An outstanding command.
struct Command {
    request: Box<Request>,
    queue: usize,
    /// The next page of a write that has no place yet.
    next: Page,
    /// I/Os that it waits for.
    pending: u32,
}

/// The frontiers of the translation layer: for the host's pages, and for those that are collected.
const HOST: u16 = 0;
pub(super) const COLLECTED: u16 = 1;
/// Zones that only the collection may open, so that it can go on.
const RESERVED: usize = 2;

/// A zone that has been written in part, or whose last writes are under way.
struct Active {
    zone: u32,
    /// Pages that were sent.
    pages: u32,
    /// Writes under way.
    writes: u32,
}

/// State shared by all hardware queues, under one lock.
pub(super) struct Mapper {
    channel: Channel,
    pub(super) translation: Translation,
    pub(super) collection: Collection,
    zone_size: Sector,
    active: Vec<Active>,
    /// Zones that may be active.
    most_active: usize,
    pub(super) now: Nanos,
    commands: Slab<Command>,
    /// Writes, some of whose pages have no place yet, and discards that follow one.
    unplaced: VecDeque<u32>,
    /// Pages that had to wait there.
    waited: u64,
    queues: Queues,
    completions: Vec<Completion>,
    next_event: Option<Nanos>,
    /// An I/O of the collection has failed, so that the map can no longer be relied on.
    failed: Option<Status>,
}

impl Mapper {
    pub(super) fn new(channel: Channel, translation: Translation) -> Self {
        let limits = channel.queue().limits();
        let most = match limits.max_open_zones {
            0 => usize::MAX,
            most => most as usize,
        };
        Mapper {
            zone_size: limits.zone_size,
            active: Vec::new(),
            most_active: most,
            channel,
            translation,
            collection: Collection::new(),
            now: Nanos(0),
            commands: Slab::default(),
            unplaced: VecDeque::new(),
            waited: 0,
            queues: Queues::default(),
            completions: Vec::new(),
            next_event: None,
            failed: None,
        }
    }

    /// Statistics of the translation layer.
    pub(super) fn stats(&self) -> TranslationStats {
        stats(&self.translation, self.translation.counts(), self.waited)
    }

    /// Whether the host waits for the collection.
    pub(super) fn host_waits(&self) -> bool {
        !self.unplaced.is_empty()
    }

    /// Whether a frontier has a zone for its next page, or may open one.
    pub(super) fn has_zone(&self, frontier: u16) -> bool {
        let reserved = if frontier == HOST { RESERVED } else { 0 };
        self.translation.is_open(frontier) || self.active.len() + reserved < self.most_active
    }

    /// A page was placed: its zone is active until all of its pages are written.
    pub(super) fn placed(&mut self, place: Place) {
        if place.slot == 0 {
            self.active.push(Active { zone: place.superblock, pages: 0, writes: 0 });
        }
    }

    fn active(&mut self, zone: u32) -> (usize, &mut Active) {
        let mut all = self.active.iter_mut().enumerate();
        all.find(|(_, active)| active.zone == zone).expect("a zone that is written is active")
    }

    /// A write to a zone is done.
    fn write_done(&mut self, zone: u32) {
        let all = self.translation.shape().superblock_pages;
        let (at, active) = self.active(zone);
        active.writes -= 1;
        if active.writes == 0 && active.pages == all {
            self.active.swap_remove(at);
            self.place_waiting();
            self.collect();
        }
    }

    /// Sends an I/O on a run of pages of a zone.
    pub(super) fn send(&mut self, op: Op, (first, pages): (Place, u32), work: Work) {
        if op == Op::Write {
            let (_, active) = self.active(first.superblock);
            active.pages += pages;
            active.writes += 1;
        }
        let page = PAGE / 512;
        let sector =
            Sector(u64::from(first.slot) * u64::from(page)) + self.start_of(first.superblock);
        self.channel.submit(self.now, Bio::new(op, sector, pages * page, work.user_data()));
    }

    /// Resets a zone.
    pub(super) fn reset(&mut self, zone: u32) {
        let work = Work::Reset(zone);
        let bio = Bio::new(Op::ZoneReset, self.start_of(zone), 0, work.user_data());
        self.channel.submit(self.now, bio);
    }

    fn start_of(&self, zone: u32) -> Sector {
        Sector(u64::from(zone) * self.zone_size.0)
    }

    /// The device fetches a command.
    fn begin(&mut self, id: u32) {
        if let Some(status) = self.failed {
            return self.end(id, status);
        }
        let request = self.request(id);
        let (op, pages) = (request.op(), pages_of(request));
        match op {
            Op::Read => self.read(id, pages),
            Op::Write | Op::WriteZeroes | Op::Discard => {
                self.commands[id as usize].next = pages.start;
                self.unplaced.push_back(id);
                self.place_waiting();
                if op != Op::Discard && self.unplaced.back() == Some(&id) {
                    self.waited += u64::from(pages.end - self.commands[id as usize].next);
                }
                self.collect();
            }
            Op::Flush => {
                self.commands[id as usize].pending = 1;
                let user_data = Work::Command(id).user_data();
                self.channel.submit(self.now, Bio::new(Op::Flush, Sector(0), 0, user_data));
            }
            _ => self.end(id, Status::NotSupported),
        }
    }

    /// Reads what has a place: other pages are zeroes.
    fn read(&mut self, id: u32, pages: std::ops::Range<Page>) {
        let mut runs = Runs::default();
        for page in pages {
            let place = self.translation.find(page);
            if let Some(run) = place.and_then(|place| runs.add(place)) {
                self.send_part(Op::Read, run, id);
            }
        }
        match runs.0.take() {
            Some(run) => self.send_part(Op::Read, run, id),
            None => self.end(id, Status::Ok),
        }
    }

    fn send_part(&mut self, op: Op, run: (Place, u32), id: u32) {
        self.commands[id as usize].pending += 1;
        self.send(op, run, Work::Command(id));
    }

    /// Goes on with the writes and discards that wait, in order.
    pub(super) fn place_waiting(&mut self) {
        while let Some(&id) = self.unplaced.front()
            && self.place(id)
        {
            self.unplaced.pop_front();
        }
    }

    /// Gives the pages of a command their places and writes them. Returns whether that was all.
    fn place(&mut self, id: u32) -> bool {
        let request = self.request(id);
        if request.op() == Op::Discard {
            // Pages that are discarded in part keep their data.
            let (from, to) = (request.sector().to_bytes().0, request.end().to_bytes().0);
            let page = u64::from(PAGE);
            for page in page_number(from.div_ceil(page))..page_number(to / page) {
                self.translation.discard(page);
            }
            self.end(id, Status::Ok);
            return true;
        }
        let pages = self.commands[id as usize].next..pages_of(request).end;
        let mut runs = Runs::default();
        let mut next = pages.start;
        while next < pages.end
            && !self.collection.pace.host_is_ahead()
            && self.translation.can_write(HOST)
            && self.has_zone(HOST)
        {
            let place = self.translation.write(next, HOST);
            self.placed(place);
            self.collection.pace.host_wrote();
            next += 1;
            if let Some(run) = runs.add(place) {
                self.send_part(Op::Write, run, id);
            }
        }
        if let Some(run) = runs.0.take() {
            self.send_part(Op::Write, run, id);
        }
        self.commands[id as usize].next = next;
        next == pages.end
    }

    fn request(&self, id: u32) -> &Request {
        &self.commands[id as usize].request
    }

    /// Completes a command.
    fn end(&mut self, id: u32, status: Status) {
        let command = self.commands.remove(id as usize).expect("a command completes once");
        let Command { mut request, queue, .. } = command;
        request.set_status(status);
        self.queues.complete(queue, request);
    }

    /// A part of a command is done: with all of its pages placed and no part under way, the command is.
    fn part_done(&mut self, id: u32, status: Status) {
        let pages = pages_of(self.request(id));
        let command = &mut self.commands[id as usize];
        command.pending -= 1;
        let request = &mut command.request;
        if status != Status::Ok && request.status() == Status::Ok {
            request.set_status(status);
        }
        let placed =
            !matches!(request.op(), Op::Write | Op::WriteZeroes) || command.next == pages.end;
        if command.pending == 0 && placed {
            let status = request.status();
            self.end(id, status);
        }
    }

    /// An I/O of the mapper is done.
    fn done(&mut self, completion: &Completion) {
        let work = Work::from_user_data(completion.user_data);
        if completion.status != Status::Ok && !matches!(work, Work::Command(_)) {
            return self.fail(completion.status);
        }
        let writes = match work {
            Work::Command(id) => matches!(self.request(id).op(), Op::Write | Op::WriteZeroes),
            work => matches!(work, Work::Write(_)),
        };
        match work {
            Work::Command(id) => self.part_done(id, completion.status),
            Work::Read(row) => self.row_read(row),
            Work::Write(row) => self.row_written(row),
            Work::Reset(zone) => {
                self.translation.erased(zone);
                self.place_waiting();
                self.collect();
            }
        }
        if writes {
            let zone = completion.sector.0 / self.zone_size.0;
            self.write_done(u32::try_from(zone).expect("zones are counted in 32 bits"));
        }
    }

    /// The collection cannot go on: nor can what waits for it.
    #[cold]
    fn fail(&mut self, status: Status) {
        self.failed.get_or_insert(status);
        for id in std::mem::take(&mut self.unplaced) {
            let end = pages_of(self.request(id)).end;
            let command = &mut self.commands[id as usize];
            command.next = end;
            if command.pending == 0 {
                self.end(id, status);
            } else {
                command.request.set_status(status);
            }
        }
    }
}

impl Drop for Mapper {
    /// Waits for the I/O that is under way: the collection's may outlast that of the host.
    fn drop(&mut self) {
        while let Some(at) = self.channel.next_event().at() {
            self.now = self.now.max(at);
            self.channel.poll(self.now, &mut self.completions);
        }
    }
}

/// Pages one after another in a zone, gathered into a run.
#[derive(Default)]
pub(super) struct Runs(pub(super) Option<(Place, u32)>);

impl Runs {
    /// Adds a place. Returns the run before it, unless it continues that.
    pub(super) fn add(&mut self, place: Place) -> Option<(Place, u32)> {
        match &mut self.0 {
            Some((first, pages))
                if first.superblock == place.superblock && first.slot + *pages == place.slot =>
            {
                *pages += 1;
                None
            }
            run => run.replace((place, 1)),
        }
    }
}

impl Controller for Mapper {
    fn queues(&mut self) -> &mut Queues {
        &mut self.queues
    }

    fn start(&mut self, now: Nanos, queue: usize, request: Box<Request>) {
        self.advance(now);
        let command = Command { request, queue, next: Page::default(), pending: 0 };
        let id = self.commands.insert(command);
        self.begin(u32::try_from(id).expect("2^16 queues of 2^15 tags"));
        self.next_event = self.channel.next_event().at();
    }

    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        let mut completions = std::mem::take(&mut self.completions);
        while self.channel.poll(self.now, &mut completions) > 0 {
            for completion in completions.drain(..) {
                self.done(&completion);
            }
        }
        self.completions = completions;
        self.next_event = self.channel.next_event().at();
    }

    fn next_event(&self) -> Option<Nanos> {
        self.next_event
    }

    fn next_completion(&mut self, _next: Option<Nanos>) -> Option<Nanos> {
        self.channel.next_completion().at()
    }
}
