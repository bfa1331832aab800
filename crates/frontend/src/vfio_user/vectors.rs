//! Eventfds of the client, by which the guest is interrupted.
use super::super::guest::eventfd::Eventfd;
use super::wire::{IRQ_ERROR, IRQ_MSIX, IRQ_REQUEST};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// An interrupt: the eventfd that the client has given for it.
type Vector = Mutex<Option<Arc<Eventfd>>>;

/// The interrupts of a function.
pub struct Vectors {
    msix: Vec<Vector>,
    /// Of errors and requests, which are never signalled.
    others: [Vector; 2],
}

impl Vectors {
    /// `count` MSI-X vectors.
    pub fn new(count: u16) -> Self {
        Vectors { msix: (0..count).map(|_| Mutex::default()).collect(), others: Default::default() }
    }

    /// The interrupts with this VFIO index.
    fn of(&self, index: u32) -> &[Vector] {
        match index {
            IRQ_MSIX => &self.msix,
            IRQ_ERROR => &self.others[..1],
            IRQ_REQUEST => &self.others[1..],
            _ => &[],
        }
    }

    /// How many there are with this VFIO index.
    pub fn count(&self, index: u32) -> u32 {
        u32::try_from(self.of(index).len()).expect("no more than 65536")
    }

    fn range(&self, index: u32, start: u32, count: u32) -> Result<&[Vector], Errno> {
        let (start, count) = (start as usize, count as usize);
        let end = start.checked_add(count).ok_or(Errno::INVAL)?;
        self.of(index).get(start..end).ok_or(Errno::INVAL)
    }

    /// Sets the eventfds of some interrupts; without any, they have none.
    ///
    /// # Errors
    /// `EINVAL`: there are no such interrupts, not as many descriptors, or they are not eventfds.
    pub fn set(
        &self,
        index: u32,
        start: u32,
        count: u32,
        eventfds: Vec<OwnedFd>,
    ) -> Result<(), Errno> {
        let vectors = self.range(index, start, count)?;
        if !eventfds.is_empty() && eventfds.len() != vectors.len() {
            return Err(Errno::INVAL);
        }
        let eventfds = eventfds.into_iter().map(Eventfd::new).collect::<Result<Vec<_>, _>>()?;
        let eventfds = eventfds
            .into_iter()
            .map(|one| Some(Arc::new(one)))
            .chain(std::iter::repeat_with(|| None));
        for (vector, eventfd) in vectors.iter().zip(eventfds) {
            *vector.lock().expect("vector lock") = eventfd;
        }
        Ok(())
    }

    /// Signals some interrupts: those that `wanted` has by their number in the range.
    ///
    /// # Errors
    /// `EINVAL`: there are no such interrupts.
    pub fn trigger(
        &self,
        index: u32,
        start: u32,
        count: u32,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(), Errno> {
        let vectors = self.range(index, start, count)?;
        let wanted = vectors.iter().enumerate().filter(|(number, _)| wanted(*number));
        wanted.for_each(|(_, vector)| signal(vector));
        Ok(())
    }

    /// Interrupts the guest by an MSI-X vector.
    pub fn interrupt(&self, vector: u16) {
        if let Some(vector) = self.msix.get(usize::from(vector)) {
            signal(vector);
        }
    }

    /// Forgets all eventfds.
    pub fn clear(&self) {
        for vector in self.msix.iter().chain(&self.others) {
            *vector.lock().expect("vector lock") = None;
        }
    }
}

fn signal(vector: &Vector) {
    let eventfd = vector.lock().expect("vector lock").clone();
    if let Some(eventfd) = eventfd {
        eventfd.signal();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{OFlags, fcntl_setfl};

    #[test]
    fn guest_is_interrupted_by_eventfds_and_nothing_else() {
        let vectors = Vectors::new(2);
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let again = event.try_clone().expect("a descriptor");
        vectors.set(IRQ_MSIX, 1, 1, vec![again]).expect("a vector");
        vectors.interrupt(0);
        vectors.interrupt(7);
        vectors.interrupt(1);
        vectors.trigger(IRQ_MSIX, 0, 2, |number| number == 1).expect("vectors");
        let mut count = [0; 8];
        rustix::io::read(&event, &mut count).expect("it was signalled");
        assert_eq!(u64::from_ne_bytes(count), 2);
        vectors.set(IRQ_MSIX, 0, 2, Vec::new()).expect("vectors");
        vectors.interrupt(1);
        assert_eq!(rustix::io::read(&event, &mut count), Err(Errno::AGAIN));
        // One that is full and blocks, after it was given.
        vectors.set(IRQ_MSIX, 0, 1, vec![event.try_clone().expect("one more")]).expect("a vector");
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).expect("room");
        fcntl_setfl(&event, OFlags::empty()).expect("it is the client's, too");
        vectors.interrupt(0);
        rustix::io::read(&event, &mut count).expect("an interrupt");
        assert_eq!(u64::from_ne_bytes(count), u64::MAX);
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        assert_eq!(vectors.set(IRQ_MSIX, 0, 1, vec![pipe.into()]), Err(Errno::INVAL));
        let event = || event.try_clone().expect("a descriptor");
        for (index, start, count) in
            [(IRQ_MSIX, 1, 2), (IRQ_MSIX, u32::MAX, 1), (0, 0, 1), (9, 0, 1)]
        {
            let fds = (0..count.min(2)).map(|_| event()).collect();
            assert_eq!(vectors.set(index, start, count, fds), Err(Errno::INVAL));
        }
        assert_eq!(vectors.set(IRQ_MSIX, 0, 2, vec![event()]), Err(Errno::INVAL), "too few");
    }
}
