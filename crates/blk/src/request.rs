//! The carrier of a bio through the layer, and lists of them.
//!
//! A request is a box that changes hands (submitter, plug, hardware queue, device, submitter) and
//! returns to the pool of the channel that made it, so that nothing is allocated per I/O. A request
//! that carries a bio is never dropped.
use crate::bio::{Bio, BioFlags, Prio};
use crate::buf::Buf;
use crate::external::ExternalBuf;
use crate::op::Op;
use crate::probe::{mark, mutant};
use crate::status::Status;
use crate::units::{Nanos, Sector, Tag, ZoneNo};
use std::mem;

/// A command for the device.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Request {
    bio: Bio,
    next: Option<Box<Request>>,
    /// The channel that the bio came from.
    pub(crate) owner: u32,
    pub(crate) zone: ZoneNo,
    /// Length with the merged requests.
    nr_sectors: u32,
    pub(crate) tag: Tag,
    /// The command's operation: differs from that of the bio for an emulated append.
    op: Op,
    status: Status,
    /// Carries a bio that has not completed.
    live: bool,
    /// The device, or the layer in its place, has set the status.
    done: bool,
    /// Passed the zone's plug and holds a reference to it.
    pub(crate) plugged: bool,
    /// Failed because of its zone's condition or write pointer.
    pub(crate) refused: bool,
    /// The entry of the split bio that this one is a part of, in the owner's table; or [`NO_PARENT`].
    parent: u32,
    // The second cache line: what few requests have, or the owner writes and others hardly read. A
    // request that another channel completes then takes one line to it and back.
    pub(crate) parked_at: Nanos,
    merged: RequestList,
    /// When the request came to the scheduler, and when it was sent to the device from there.
    pub(crate) queued_at: Nanos,
    pub(crate) sent_at: Nanos,
    /// Its part in the trace. Meaningless unless the queue is traced.
    pub(crate) trace: TraceMark,
}

/// A request's part in the trace. Meaningless unless the queue is traced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TraceMark {
    /// 0 if the request is not traced.
    pub(crate) id: u64,
    pub(crate) step: u32,
}

/// Instead of an entry of the owner's table: the request is not a part of a split bio.
const NO_PARENT: u32 = u32::MAX;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::offset_of!(Request, parked_at) == 64);

impl Request {
    pub(crate) fn empty() -> Self {
        Request {
            bio: Bio::new(Op::Flush, Sector(0), 0, 0),
            op: Op::Flush,
            status: Status::Ok,
            live: false,
            done: false,
            plugged: false,
            refused: false,
            tag: Tag(0),
            owner: 0,
            parent: NO_PARENT,
            zone: ZoneNo(0),
            nr_sectors: 0,
            parked_at: Nanos(0),
            queued_at: Nanos(0),
            sent_at: Nanos(0),
            trace: TraceMark::default(),
            merged: RequestList::new(),
            next: None,
        }
    }

    /// For a device that asks a model how long commands take: a request without a bio, to which
    /// [`Request::copy_command`] copies a command.
    pub fn for_timing() -> Box<Self> {
        Box::new(Request::empty())
    }

    /// Copies the command of `other`, without its data and its bio.
    ///
    /// # Panics
    /// If this request carries a bio.
    pub fn copy_command(&mut self, other: &Request) {
        assert!(!self.live, "a request that carries a bio stands in for nobody");
        self.bio = Bio {
            flags: other.bio.flags,
            prio: other.bio.prio,
            stream: other.bio.stream,
            ..Bio::new(other.op, other.bio.sector, other.nr_sectors, 0)
        };
        self.op = other.op;
        self.nr_sectors = other.nr_sectors;
        self.zone = other.zone;
        self.tag = other.tag;
        self.owner = other.owner;
        self.status = Status::Ok;
        self.done = false;
    }

    #[inline(always)]
    pub(crate) fn init(&mut self, bio: Bio, owner: u32, zone: ZoneNo, parent: Option<u32>) {
        debug_assert!(!self.live, "a request carries one bio at a time");
        self.op = bio.op;
        self.nr_sectors = bio.nr_sectors;
        let last = std::mem::replace(&mut self.bio, bio);
        if last.buf.is_some() {
            drop(last);
        } else {
            // Without a call of the code that drops it.
            std::mem::forget(last);
        }
        self.status = Status::Ok;
        self.live = true;
        self.done = false;
        self.plugged = false;
        self.refused = false;
        self.owner = owner;
        self.zone = zone;
        debug_assert!(parent != Some(NO_PARENT), "fewer bios are split at once");
        self.parent = parent.unwrap_or(NO_PARENT);
    }

    /// The entry of the split bio that the request is a part of, in the owner's table.
    #[inline(always)]
    pub(crate) fn parent(&self) -> Option<u32> {
        (self.parent != NO_PARENT).then_some(self.parent)
    }

    /// Another request for the same bio, without its data: a bug, for the probes.
    pub(crate) fn duplicate(&self) -> Box<Request> {
        let mut other = Box::new(Request::empty());
        let Bio { op, sector, nr_sectors, user_data, .. } = self.bio;
        other.init(
            Bio::new(op, sector, nr_sectors, user_data),
            self.owner,
            self.zone,
            self.parent(),
        );
        other.set_status(self.status);
        other.tag = self.tag;
        other
    }

    /// Takes the bio out; the request can then be used again.
    #[inline(always)]
    pub(crate) fn take_bio(&mut self) -> (&Bio, Option<Buf>) {
        self.live = false;
        let buf = self.bio.buf.take();
        (&self.bio, buf)
    }

    /// Takes the bio out whole, as [`Request::take_bio`] does.
    pub(crate) fn take_whole_bio(&mut self) -> Bio {
        self.live = false;
        std::mem::replace(&mut self.bio, Bio::new(Op::Flush, Sector(0), 0, 0))
    }

    /// The operation.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Moves a command with a range to another place of the same length, for a wrapper whose sectors are
    /// not those of the device inside: what was at `from` is at `to`. The wrapper moves it back before it
    /// returns it.
    pub fn relocate(&mut self, from: Sector, to: Sector) {
        if !self.op.has_range() {
            return;
        }
        self.bio.sector = self.bio.sector - from + to;
        self.merged.for_each(|merged| merged.bio.sector = merged.bio.sector - from + to);
    }

    /// Gives the command another write stream, likewise.
    pub fn set_stream(&mut self, stream: u8) {
        self.bio.stream = stream;
    }

    /// The bio's modifiers.
    pub fn flags(&self) -> BioFlags {
        self.bio.flags
    }

    /// Operation, first sector and number of sectors of the command.
    pub(crate) fn command(&self) -> (Op, Sector, u32) {
        (self.op, self.bio.sector, self.nr_sectors)
    }

    /// First sector of the command.
    pub fn sector(&self) -> Sector {
        self.bio.sector
    }

    /// Length of the command in sectors, merged bios included.
    pub fn nr_sectors(&self) -> u32 {
        self.nr_sectors
    }

    /// The first sector after the command's range.
    pub fn end(&self) -> Sector {
        self.bio.sector + Sector(u64::from(self.nr_sectors))
    }

    /// Identifies the request among those in flight on its hardware queue.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The zone of the first sector, 0 on a device without zones.
    pub fn zone(&self) -> ZoneNo {
        self.zone
    }

    /// The bio's priority.
    pub fn prio(&self) -> Prio {
        self.bio.prio
    }

    /// The bio's write stream: that of all bios that were merged.
    pub fn stream(&self) -> u8 {
        self.bio.stream
    }

    /// The process that the bio came from: a channel.
    pub fn process(&self) -> u32 {
        self.owner
    }

    /// When the request came to the scheduler. Means nothing without one.
    pub fn queued_at(&self) -> Nanos {
        self.queued_at
    }

    /// When the scheduler sent the request to the device. Means nothing without one.
    pub fn sent_at(&self) -> Nanos {
        self.sent_at
    }

    /// The status of the command.
    pub fn status(&self) -> Status {
        self.status
    }

    /// For the device: sets the status of the command.
    pub fn set_status(&mut self, status: Status) {
        self.status = status;
        self.refused = false;
        self.done = true;
    }

    /// For the device: fails a command that its zone does not allow, by its condition or its write
    /// pointer. The medium is not at fault, and [`Completion::refused`](crate::Completion::refused)
    /// says so: by then the zone may have changed.
    pub fn refuse(&mut self, status: Status) {
        self.set_status(status);
        self.refused = true;
    }

    /// Whether the command failed because of its zone's condition or write pointer.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether the command has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Emulates a zone append: the write goes to `sector`, which the completion returns (A22).
    pub(crate) fn make_append_a_write(&mut self, sector: Sector) {
        self.op = Op::Write;
        self.bio.sector = sector;
        self.bio.flags = self.bio.flags | BioFlags::NOMERGE;
    }

    /// For the device, after a native zone append: sets the sector that the data were written to.
    ///
    /// # Panics
    /// If the request is not a zone append: no other command may land elsewhere than asked for.
    pub fn set_append_sector(&mut self, sector: Sector) {
        assert_eq!(self.op, Op::ZoneAppend, "only an append lands where the device wants");
        self.bio.sector = sector;
    }

    /// For the device: hands each bio's first sector, length in sectors and buffer to `visit`, in
    /// the order of the sectors.
    pub fn for_each_segment(&mut self, mut visit: impl FnMut(Sector, u32, Option<&mut Buf>)) {
        visit(self.bio.sector, self.bio.nr_sectors, self.bio.buf.as_mut());
        self.merged.for_each(|m| visit(m.bio.sector, m.bio.nr_sectors, m.bio.buf.as_mut()));
    }

    /// For the device: takes the buffer of the command's only bio, to send or fill it elsewhere.
    /// [`Request::put_buf`] gives it back, before the command completes. `None` if the command has
    /// several bios, no buffer, or an external one.
    pub fn take_buf(&mut self) -> Option<Buf> {
        if self.is_merged() {
            return None;
        }
        self.bio.buf.take_if(|buf| buf.as_external().is_none())
    }

    /// For the device: gives back the buffer that [`Request::take_buf`] took.
    pub fn put_buf(&mut self, buf: Buf) {
        debug_assert!(self.bio.buf.is_none() && !self.is_merged(), "a buffer that was not taken");
        self.bio.buf = Some(buf);
    }

    /// For the device: the external buffer with the data, if all of them are in one.
    pub fn external_buf(&self) -> Option<&ExternalBuf> {
        if self.is_merged() { None } else { self.bio.buf.as_ref()?.as_external() }
    }

    /// For the device: shows the bios of the command to `visit`, in the order of the sectors. The
    /// parts of a bio that was split have its `user_data`.
    pub fn for_each_bio(&mut self, mut visit: impl FnMut(&Bio)) {
        visit(&self.bio);
        self.merged.for_each(|merged| visit(&merged.bio));
    }

    /// Shows the requests that were merged after this one.
    pub(crate) fn for_each_merged(&mut self, mut visit: impl FnMut(&mut Request)) {
        self.merged.for_each(|merged| visit(merged));
    }

    pub(crate) fn can_append(&self, next: &Request, max_sectors: u32) -> bool {
        self.can_append_behind(self.nr_sectors, next, max_sectors)
    }

    /// Whether `next` can be merged with this request if that already has `total` sectors.
    #[inline]
    fn can_append_behind(&self, total: u32, next: &Request, max_sectors: u32) -> bool {
        let follows = self.bio.sector + Sector(u64::from(total)) == next.sector()
            && self.op == next.op
            && self.bio.flags == next.bio.flags
            && self.bio.prio == next.bio.prio
            && (self.bio.stream == next.bio.stream || mutant!(StreamsMerged))
            && !self.bio.flags.forbid_merges();
        let fits = total <= max_sectors.saturating_sub(next.nr_sectors);
        mark!(MergeLimitReached if follows && !fits);
        follows && (fits || mutant!(MergedBeyondLimit))
    }

    pub(crate) fn append(&mut self, mut next: Box<Request>) {
        self.nr_sectors += next.nr_sectors;
        let mut behind = next.unmerge();
        self.merged.push_back(next);
        while let Some(request) = behind.pop_front() {
            self.merged.push_back(request);
        }
    }

    /// Merges the requests at the front of `from` that follow this one on the medium, up to
    /// `max_sectors` in all. Returns their number.
    pub(crate) fn append_from(&mut self, from: &mut RequestFifo, max_sectors: u32) -> u32 {
        let mut count = 0;
        loop {
            let mut total = self.nr_sectors;
            let mut run = from.cut_front(|next| {
                let fits = !next.is_merged() && self.can_append_behind(total, next, max_sectors);
                if fits {
                    total += next.nr_sectors;
                }
                fits
            });
            count += run.len;
            self.nr_sectors = total;
            let went_all = run.len > 0 && from.outgoing.is_none() && from.incoming.is_some();
            if self.merged.is_empty() {
                self.merged = run;
            } else {
                while let Some(request) = run.pop_front() {
                    self.merged.push_back(request);
                }
            }
            // Those that came in later may follow too.
            if !went_all {
                return count;
            }
        }
    }

    pub(crate) fn is_merged(&self) -> bool {
        self.nr_sectors != self.bio.nr_sectors
    }

    /// Undoes the merging: gives the requests that were merged after this one.
    pub(crate) fn unmerge(&mut self) -> RequestList {
        self.nr_sectors = self.bio.nr_sectors;
        mem::take(&mut self.merged)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.live && !std::thread::panicking() {
            panic!("a request was dropped before it completed: {:?}", self.bio);
        }
    }
}

/// A first-in first-out queue of requests that allocates nothing: the requests are its links.
///
/// Two stacks: requests come in on one and go out from the other, which takes over the first,
/// reversed round, when it is empty. Each request is reversed once, so both ends cost O(1).
#[derive(Debug, Default)]
pub(crate) struct RequestFifo {
    incoming: Option<Box<Request>>,
    outgoing: Option<Box<Request>>,
}

impl RequestFifo {
    pub(crate) const fn new() -> Self {
        RequestFifo { incoming: None, outgoing: None }
    }

    #[inline]
    pub(crate) fn push_back(&mut self, request: Box<Request>) {
        link(request, &mut self.incoming);
    }

    fn push_front(&mut self, request: Box<Request>) {
        link(request, &mut self.outgoing);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Box<Request>> {
        if self.outgoing.is_none() {
            self.outgoing = reversed(self.incoming.take());
        }
        unlink(&mut self.outgoing)
    }

    pub(crate) fn front(&mut self) -> Option<&Request> {
        if self.outgoing.is_none() {
            self.outgoing = reversed(self.incoming.take());
        }
        self.outgoing.as_deref()
    }

    /// Cuts off the requests at the front for as long as `takes` says so. Looks no further than
    /// those that have been reversed round already, unless there are none.
    fn cut_front(&mut self, mut takes: impl FnMut(&Request) -> bool) -> RequestList {
        if self.outgoing.is_none() {
            self.outgoing = reversed(self.incoming.take());
        }
        let mut len = 0;
        let mut link = &mut self.outgoing;
        while link.as_deref().is_some_and(&mut takes) {
            link = &mut link.as_mut().expect("just seen").next;
            len += 1;
        }
        let rest = link.take();
        let outgoing = std::mem::replace(&mut self.outgoing, rest);
        RequestList { links: RequestFifo { incoming: None, outgoing }, len }
    }

    pub(crate) fn for_each(&mut self, mut visit: impl FnMut(&mut Request)) {
        let mut link = &mut self.outgoing;
        while let Some(request) = link {
            visit(request);
            link = &mut request.next;
        }
        // What came in later is linked last to first: append it, reversed, to what goes out.
        if self.incoming.is_some() {
            *link = reversed(self.incoming.take());
            while let Some(request) = link {
                visit(request);
                link = &mut request.next;
            }
        }
    }
}

/// Puts a request before the others of a list.
#[inline(always)]
fn link(mut request: Box<Request>, list: &mut Option<Box<Request>>) {
    debug_assert!(request.next.is_none(), "a request is in one list at a time");
    std::mem::swap(&mut request.next, list);
    // Nothing, which the compiler does not know: it would call the code that drops it.
    std::mem::forget(list.replace(request));
}

/// Takes the first request from a list.
#[inline(always)]
fn unlink(list: &mut Option<Box<Request>>) -> Option<Box<Request>> {
    let mut request = list.take()?;
    std::mem::swap(list, &mut request.next);
    Some(request)
}

fn reversed(mut from: Option<Box<Request>>) -> Option<Box<Request>> {
    let mut to = None;
    while let Some(request) = unlink(&mut from) {
        link(request, &mut to);
    }
    to
}

impl Drop for RequestFifo {
    fn drop(&mut self) {
        // One after another: dropping a long chain of boxes would recurse.
        while self.pop_front().is_some() {}
    }
}

/// A first-in first-out list of requests that allocates nothing and knows its length.
#[derive(Debug, Default)]
pub struct RequestList {
    links: RequestFifo,
    len: u32,
}

impl RequestList {
    /// An empty list.
    pub const fn new() -> Self {
        RequestList { links: RequestFifo::new(), len: 0 }
    }

    /// The number of requests in the list.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a request.
    pub fn push_back(&mut self, request: Box<Request>) {
        self.links.push_back(request);
        self.len += 1;
    }

    /// Puts a request before all others.
    pub fn push_front(&mut self, request: Box<Request>) {
        self.links.push_front(request);
        self.len += 1;
    }

    /// Takes the first request.
    pub fn pop_front(&mut self) -> Option<Box<Request>> {
        let request = self.links.pop_front()?;
        self.len -= 1;
        Some(request)
    }

    /// Looks at the first request.
    pub fn front(&mut self) -> Option<&Request> {
        self.links.front()
    }

    /// Visits the requests from first to last.
    pub fn for_each(&mut self, visit: impl FnMut(&mut Request)) {
        self.links.for_each(visit);
    }
}

/// A channel's stock of requests. It grows to the most that were ever out at the same time.
#[derive(Debug, Default)]
pub(crate) struct RequestPool(Option<Box<Request>>);

impl RequestPool {
    #[inline(always)]
    pub(crate) fn get(&mut self) -> Box<Request> {
        unlink(&mut self.0).unwrap_or_else(Self::grow)
    }

    /// Kept apart: a request on the stack has a cache line's alignment, which costs every I/O.
    #[cold]
    #[inline(never)]
    fn grow() -> Box<Request> {
        Box::new(Request::empty())
    }

    #[inline(always)]
    pub(crate) fn put(&mut self, request: Box<Request>) {
        link(request, &mut self.0);
    }
}

impl Drop for RequestPool {
    fn drop(&mut self) {
        while unlink(&mut self.0).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(user_data: u64) -> Box<Request> {
        let mut request = Box::new(Request::empty());
        request.init(Bio::new(Op::Read, Sector(user_data * 8), 8, user_data), 0, ZoneNo(0), None);
        request
    }

    fn retire(mut request: Box<Request>) -> u64 {
        request.take_bio().0.user_data
    }

    #[test]
    fn list_gives_requests_in_the_order_they_came() {
        let mut list = RequestList::new();
        list.push_back(request(1));
        list.push_back(request(2));
        assert_eq!(list.pop_front().map(retire), Some(1));
        list.push_back(request(3));
        list.push_front(request(0));
        let mut seen = Vec::new();
        list.for_each(|r| seen.push(r.bio.user_data));
        assert_eq!(seen, [0, 2, 3]);
        list.push_back(request(4));
        assert_eq!(list.len(), 4);
        let order: Vec<_> = std::iter::from_fn(|| list.pop_front().map(retire)).collect();
        assert_eq!(order, [0, 2, 3, 4]);
    }

    #[test]
    fn requests_of_different_write_streams_are_not_merged() {
        let in_stream = |user_data: u64, stream| {
            let mut request = Box::new(Request::empty());
            let bio = Bio::new(Op::Write, Sector(user_data * 8), 8, user_data);
            request.init(Bio { stream, ..bio }, 0, ZoneNo(0), None);
            request
        };
        let first = in_stream(0, 1);
        for (stream, merges) in [(1, true), (2, false), (0, false)] {
            let next = in_stream(1, stream);
            assert_eq!(first.can_append(&next, 64), merges, "stream {stream}");
            retire(next);
        }
        retire(first);
    }

    #[test]
    #[should_panic(expected = "dropped before it completed")]
    fn dropping_a_request_that_carries_a_bio_stops_the_program() {
        drop(request(1));
    }

    #[test]
    fn segments_come_in_sector_order_with_their_buffers() {
        let mut first = request(0);
        first.append(request(1));
        first.append(request(2));
        let mut seen = Vec::new();
        first.for_each_segment(|sector, len, buf| seen.push((sector.0, len, buf.is_none())));
        assert_eq!(seen, [(0, 8, true), (8, 8, true), (16, 8, true)]);
        assert_eq!(first.nr_sectors(), 24);
        first.relocate(Sector(0), Sector(1000));
        let mut moved = Vec::new();
        first.for_each_segment(|sector, _, _| moved.push(sector.0));
        assert_eq!((moved, first.end()), (vec![1000, 1008, 1016], Sector(1024)));
        first.relocate(Sector(1000), Sector(0));
        assert_eq!((first.sector(), first.nr_sectors()), (Sector(0), 24));
        let mut merged = first.unmerge();
        retire(first);
        while let Some(r) = merged.pop_front() {
            retire(r);
        }
    }
}
