//! The work inside a device while an I/O was with it.
//!
//! A disk has one head: whatever it did meanwhile, for this I/O or for another, is what the I/O took. A
//! flash drive has dies: of a read counts the one that was done last, what it did before it came to
//! this read, and what it did for it; of a write, how long it waited for space in the buffer.
use super::lives::{Issued, Life};
use super::{FlashEntry, HeadEntry, Traced};
use std::collections::HashMap;
use zonal_blk::{Nanos, Tag};
use zonal_device::flash::FlashActivity;
use zonal_device::hdd::HeadActivity;

/// The activities inside a device.
pub(super) enum Inside<'a> {
    Nothing,
    Head(Head<'a>),
    Flash(Flash<'a>),
}

impl<'a> Inside<'a> {
    pub(super) fn new(traced: &'a Traced) -> Self {
        match (&traced.heads[..], &traced.flash[..]) {
            ([], []) => Inside::Nothing,
            ([], flash) => Inside::Flash(Flash::new(flash, &traced.lives)),
            (heads, _) => Inside::Head(Head::new(heads)),
        }
    }

    /// The parts of the time with the device that are told apart.
    pub(super) fn parts(&self) -> &'static [&'static str] {
        match self {
            Inside::Nothing => &[],
            Inside::Head(_) => &["seek", "rotate", "transfer"],
            Inside::Flash(_) => &Flash::PARTS,
        }
    }

    /// The nanoseconds of each part, of an I/O that was with the device from `from` to `to`.
    pub(super) fn during(&self, life: &Life, from: Nanos, to: Nanos) -> Vec<u64> {
        match self {
            Inside::Nothing => Vec::new(),
            Inside::Head(head) => head.during(from, to).to_vec(),
            Inside::Flash(flash) => flash.during(life, from, to).to_vec(),
        }
    }
}

/// The head's activities, and how long so far.
pub(super) struct Head<'a> {
    entries: &'a [HeadEntry],
    /// Before each entry: the time of each activity.
    before: Vec<[u64; 3]>,
}

impl<'a> Head<'a> {
    const ACTIVITIES: [HeadActivity; 3] =
        [HeadActivity::Seek, HeadActivity::Rotate, HeadActivity::Transfer];

    fn new(entries: &'a [HeadEntry]) -> Self {
        let mut sums = [0; 3];
        let mut before = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            before.push(sums);
            if let Some(next) = entries.get(at + 1) {
                add(&mut sums, entry.activity, next.at - entry.at);
            }
        }
        Head { entries, before }
    }

    /// The time of each activity from `from` to `to`.
    fn during(&self, from: Nanos, to: Nanos) -> [u64; 3] {
        let (until, since) = (self.until(to), self.until(from));
        std::array::from_fn(|at| until[at] - since[at])
    }

    /// The time of each activity until `time`.
    fn until(&self, time: Nanos) -> [u64; 3] {
        let next = self.entries.partition_point(|entry| entry.at <= time);
        let Some(current) = next.checked_sub(1) else { return [0; 3] };
        let mut sums = self.before[current];
        // The end of the last activity is not known.
        if next < self.entries.len() {
            let entry = &self.entries[current];
            add(&mut sums, entry.activity, time - entry.at);
        }
        sums
    }
}

fn add(sums: &mut [u64; 3], activity: HeadActivity, time: Nanos) {
    if let Some(at) = Head::ACTIVITIES.iter().position(|&it| it == activity) {
        sums[at] += time.0;
    }
}

/// The activity of the dies.
pub(super) struct Flash<'a> {
    /// By die, in order.
    dies: HashMap<u32, Vec<&'a FlashEntry>>,
    /// By hardware queue and tag, which one command has at a time.
    commands: HashMap<(u32, Tag), Vec<&'a FlashEntry>>,
    /// Hardware queue and tag of requests, for what was merged into them.
    fronts: HashMap<u64, (u32, Tag)>,
}

impl<'a> Flash<'a> {
    const PARTS: [&'static str; 8] = [
        "buffer_full",
        "collection",
        "behind_erase",
        "behind_program",
        "behind_read",
        "suspend",
        "sense",
        "transfer",
    ];

    fn new(entries: &'a [FlashEntry], lives: &[Life]) -> Self {
        let (mut dies, mut commands) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for entry in entries {
            if let Some(die) = entry.die {
                dies.entry(die).or_default().push(entry);
            }
            if let Some(command) = entry.command {
                commands.entry(command).or_default().push(entry);
            }
        }
        let place = |life: &Life| match life.issued?.how {
            Issued::Alone { hw_queue, tag, .. } => Some((life.id, (hw_queue, tag))),
            Issued::Merged { .. } => None,
        };
        Flash { dies, commands, fronts: lives.iter().filter_map(place).collect() }
    }

    /// The index of the part that it is to wait behind an activity of another command.
    fn behind(activity: FlashActivity) -> Option<usize> {
        match activity {
            FlashActivity::Erase => Some(2),
            FlashActivity::Program | FlashActivity::Pad | FlashActivity::Save => Some(3),
            FlashActivity::Sense | FlashActivity::Transfer => Some(4),
            FlashActivity::Suspend => Some(5),
            FlashActivity::BufferFull | FlashActivity::Collection => None,
        }
    }

    fn during(&self, life: &Life, from: Nanos, to: Nanos) -> [u64; 8] {
        let mut parts = [0; 8];
        let command = life.issued.and_then(|issue| match issue.how {
            Issued::Alone { hw_queue, tag, .. } => Some((hw_queue, tag)),
            Issued::Merged { into } => self.fronts.get(&into).copied(),
        });
        let all = command.and_then(|command| self.commands.get(&command));
        let own: Vec<&FlashEntry> = all
            .into_iter()
            .flatten()
            .filter(|entry| entry.from >= from && entry.to <= to)
            .copied()
            .collect();
        for entry in &own {
            match entry.activity {
                FlashActivity::BufferFull => parts[0] += (entry.to - entry.from).0,
                FlashActivity::Collection => parts[1] += (entry.to - entry.from).0,
                _ => {}
            }
        }
        let transfers = own.iter().filter(|entry| entry.activity == FlashActivity::Transfer);
        let Some(last) = transfers.max_by_key(|entry| entry.to) else { return parts };
        let sensed = own.iter().find(|entry| {
            (entry.die, entry.to, entry.activity) == (last.die, last.from, FlashActivity::Sense)
        });
        let begin = sensed.map_or(last.from, |sensed| sensed.from);
        parts[6] = (last.from - begin).0;
        parts[7] = (last.to - last.from).0;
        let on_die = last.die.and_then(|die| self.dies.get(&die)).map_or(&[][..], Vec::as_slice);
        let first = on_die.partition_point(|entry| entry.to <= from);
        for entry in on_die[first..].iter().take_while(|entry| entry.from < begin) {
            if let Some(part) = Self::behind(entry.activity) {
                parts[part] += (entry.to.min(begin) - entry.from.max(from)).0;
            }
        }
        parts
    }
}
