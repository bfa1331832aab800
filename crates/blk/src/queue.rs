//! The queue of a device: what the channels of all threads share.
use crate::bio::Op;
use crate::channel::Channel;
use crate::completion::Mailbox;
use crate::device::Device;
use crate::hctx::{Hctx, HctxRef};
use crate::limits::Limits;
pub use crate::plug::AttachError;
use crate::plug::{ZonePlugs, ZoneWrite, attach};
use crate::request::{Request, RequestList};
use crate::sched::Scheduler;
use crate::sync::Mutex;
use std::sync::Arc;

/// How a queue treats its I/O.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// How writes to sequential zones are kept in order.
    pub zone_write: ZoneWrite,
    /// The I/O scheduler.
    pub scheduler: Scheduler,
    /// Whether waiting bios that follow one another on the medium go out as one request.
    pub merge: bool,
    /// Whether channels take turns on the device's hardware queues, each behind a lock, so that
    /// there can be more channels than queues.
    pub share_queues: bool,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions {
            zone_write: ZoneWrite::default(),
            scheduler: Scheduler::default(),
            merge: true,
            share_queues: false,
        }
    }
}

/// A device with its block layer. Each thread that wants to do I/O opens a [`Channel`].
pub struct Queue {
    device: Arc<dyn Device>,
    limits: Limits,
    /// `None` on a device without zones and with [`ZoneWrite::Off`].
    pub(crate) plugs: Option<ZonePlugs>,
    /// The hardware queues if channels share them.
    shared: Option<Vec<Arc<Mutex<Hctx>>>>,
    channels: Mutex<Channels>,
}

#[derive(Default)]
struct Channels {
    /// Of all channels ever opened.
    mailboxes: Vec<Arc<Mailbox>>,
    /// Hardware queues that belong to a channel.
    owned: u16,
}

/// The device has no hardware queue left for one more channel.
#[derive(Debug, thiserror::Error)]
#[error("the device has {0} hardware queues, all in use; share them to open more channels")]
pub struct NoQueueLeft(u16);

impl Queue {
    /// Attaches the block layer to a device: checks its limits and reads its zones.
    ///
    /// # Errors
    /// The rule that the device's limits or a zone of its report break.
    pub fn attach(
        device: Arc<dyn Device>,
        options: QueueOptions,
    ) -> Result<Arc<Self>, AttachError> {
        let limits = device.limits().clone();
        attach::check_limits(&limits)?;
        let zoned = limits.nr_zones > 0;
        let mut plugs = None;
        if zoned {
            let read = ZonePlugs::attach(Arc::clone(&device), options.merge)?;
            plugs = (options.zone_write == ZoneWrite::Plug).then_some(read);
        }
        let shared = options.share_queues.then(|| {
            let open = |_| Arc::new(Mutex::new(Hctx::open(&device)));
            (0..limits.nr_queues).map(open).collect()
        });
        Ok(Arc::new(Queue {
            device,
            limits,
            plugs,
            shared,
            channels: Mutex::default(),
        }))
    }

    /// The device's limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Opens a channel for the calling thread, with a hardware queue of its own unless they are
    /// shared.
    ///
    /// # Errors
    /// [`NoQueueLeft`] if every hardware queue has its channel.
    pub fn channel(self: &Arc<Self>) -> Result<Channel, NoQueueLeft> {
        let mut channels = self.channels.lock().expect("channels lock");
        let id = channels.mailboxes.len();
        let hctx = match &self.shared {
            Some(hctxs) => HctxRef::Shared(Arc::clone(&hctxs[id % hctxs.len()])),
            None if channels.owned < self.limits.nr_queues => {
                channels.owned += 1;
                HctxRef::Own(Hctx::open(&self.device))
            }
            None => return Err(NoQueueLeft(self.limits.nr_queues)),
        };
        channels.mailboxes.push(Arc::new(Mailbox::new()));
        let id = u32::try_from(id).expect("fewer than 2^32 channels");
        Ok(Channel::new(
            Arc::clone(self),
            id,
            channels.mailboxes.clone(),
            hctx,
        ))
    }

    /// A channel no longer needs its hardware queue.
    pub(crate) fn give_back(&self) {
        self.channels.lock().expect("channels lock").owned -= 1;
    }

    /// Lets go what `request`, which has ended, held in its plug. Gives the write to issue next.
    pub(crate) fn release(
        &self,
        request: &Request,
        aborted: &mut RequestList,
    ) -> Option<Box<Request>> {
        let plugs = self.plugs.as_ref()?;
        match request.op() {
            Op::ZoneResetAll => plugs.end_reset_all(request.status(), aborted),
            _ if !request.plugged => {}
            Op::ZoneReset | Op::ZoneFinish => plugs.end_management(request, aborted),
            _ => return plugs.complete(request, aborted),
        }
        None
    }

    /// The mailboxes of all channels opened so far, by channel.
    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.channels
            .lock()
            .expect("channels lock")
            .mailboxes
            .clone()
    }
}
