//! I/Os put together from their events.
use std::collections::HashMap;
use zonal_blk::{Nanos, Op, Sector, Status, Tag, TraceAction, TraceEvent, TraceSource, ZoneNo};

/// An I/O from its submission to its completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Life {
    /// The number of its request.
    pub(super) id: u64,
    /// As it was submitted.
    pub(super) op: Op,
    pub(super) zone: ZoneNo,
    /// Where it went: of an append, where it landed.
    pub(super) sector: Sector,
    pub(super) nr_sectors: u32,
    pub(super) channel: u32,
    pub(super) status: Status,
    pub(super) queued: Nanos,
    /// When it was put into its zone's plug, and when it left it.
    pub(super) plug: Option<(Nanos, Nanos)>,
    /// When it came to the scheduler.
    pub(super) inserted: Option<Nanos>,
    /// When it was issued to the device; `None` if the layer failed it.
    pub(super) issued: Option<Issue>,
    pub(super) completed: Nanos,
}

/// A request that was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) at: Nanos,
    /// By itself or as part of a merged request: on which hardware queue, and as what.
    pub(super) how: Issued,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Issued {
    /// As a command of this many sectors.
    Alone { hw_queue: u32, tag: Tag, nr_sectors: u32 },
    /// As a part of another request; 0 if that is not traced.
    Merged { into: u64 },
}

/// A part of an I/O's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// In the plug of its zone.
    Plug,
    /// In the scheduler.
    Scheduler,
    /// For a tag, or until the device takes commands again.
    Tag,
    /// With the device.
    Device,
}

impl Stage {
    pub(super) const ALL: [Stage; 4] = [Stage::Plug, Stage::Scheduler, Stage::Tag, Stage::Device];

    pub(super) fn name(self) -> &'static str {
        match self {
            Stage::Plug => "plug",
            Stage::Scheduler => "scheduler",
            Stage::Tag => "tag",
            Stage::Device => "device",
        }
    }
}

impl Life {
    pub(super) fn latency(&self) -> Nanos {
        self.completed - self.queued
    }

    /// The stages, each with its beginning and end; together they are the I/O's time.
    pub(super) fn stages(&self) -> impl Iterator<Item = (Stage, Nanos, Nanos)> {
        let issued = self.issued.map_or(self.completed, |issue| issue.at);
        let unplugged = self.plug.map_or(self.queued, |(_, until)| until).min(issued);
        let waits = if self.inserted.is_some() { Stage::Scheduler } else { Stage::Tag };
        [
            (Stage::Plug, self.queued, unplugged),
            (waits, unplugged, issued),
            (Stage::Device, issued, self.completed),
        ]
        .into_iter()
        .filter(|(_, from, to)| to > from)
    }
}

/// The I/Os that are whole, by the time of their submission.
pub(super) fn of(mut events: Vec<(TraceSource, TraceEvent)>) -> Vec<Life> {
    events.sort_by_key(|(_, event)| (event.id, event.step));
    let mut lives: Vec<Life> =
        events.chunk_by(|(_, a), (_, b)| a.id == b.id).filter_map(life).collect();
    follow_fronts(&mut lives);
    lives.sort_by_key(|life| (life.queued, life.id));
    lives
}

/// A request that was merged into another has left plug and scheduler with that one.
fn follow_fronts(lives: &mut [Life]) {
    let waits = |life: &Life| (life.id, (life.plug, life.inserted));
    let fronts: HashMap<u64, _> = lives.iter().map(waits).collect();
    for life in lives {
        let Some(Issued::Merged { into }) = life.issued.map(|issue| issue.how) else { continue };
        let Some((plug, inserted)) = fronts.get(&into) else { continue };
        if let Some((_, until)) = plug {
            let from = life.plug.map_or(life.queued, |(from, _)| from);
            life.plug = Some((from, from.max(*until)));
        }
        life.inserted = life.inserted.or(*inserted);
    }
}

/// An I/O from its events, in order; `None` if its beginning or its end is missing.
fn life(events: &[(TraceSource, TraceEvent)]) -> Option<Life> {
    let (first, last) = (&events.first()?.1, &events.last()?.1);
    if first.action != TraceAction::Queue || last.action != TraceAction::Complete {
        return None;
    }
    let mut life = Life {
        id: first.id,
        op: first.op,
        zone: first.zone,
        sector: last.sector,
        nr_sectors: first.nr_sectors,
        channel: first.channel,
        status: last.status,
        queued: first.at,
        plug: None,
        inserted: None,
        issued: None,
        completed: last.at,
    };
    // Threads read their clocks at different times; no event is before its cause.
    let mut now = first.at;
    for (source, event) in events {
        now = now.max(event.at);
        match event.action {
            TraceAction::Plug => life.plug = Some((now, now)),
            TraceAction::Unplug => {
                if let Some((_, until)) = &mut life.plug {
                    *until = now;
                }
            }
            TraceAction::Insert => life.inserted = Some(now),
            TraceAction::Merge => {
                life.issued = Some(Issue { at: now, how: Issued::Merged { into: event.into } });
            }
            TraceAction::Issue => {
                let TraceSource::HwQueue(hw_queue) = *source else { return None };
                let (tag, nr_sectors) = (event.tag, event.nr_sectors);
                let how = Issued::Alone { hw_queue, tag, nr_sectors };
                life.issued = Some(Issue { at: now, how });
            }
            TraceAction::Queue
            | TraceAction::Sleep
            | TraceAction::Requeue
            | TraceAction::Complete => {}
        }
    }
    life.completed = now;
    Some(life)
}

/// How many I/Os of each zone wait in its plug, as it changes.
pub(super) fn plugged(lives: &[Life]) -> HashMap<ZoneNo, Vec<(Nanos, u32)>> {
    let mut changes: HashMap<ZoneNo, Vec<(Nanos, i32)>> = HashMap::new();
    for life in lives {
        if let Some((from, to)) = life.plug.filter(|(from, to)| to > from) {
            changes.entry(life.zone).or_default().extend([(from, 1), (to, -1)]);
        }
    }
    let sum = |mut changes: Vec<(Nanos, i32)>| {
        changes.sort_unstable();
        let mut waiting = 0_u32;
        let mut values: Vec<(Nanos, u32)> = Vec::new();
        for (at, change) in changes {
            waiting = waiting.saturating_add_signed(change);
            match values.last_mut() {
                Some(last) if last.0 == at => last.1 = waiting,
                _ => values.push((at, waiting)),
            }
        }
        values
    };
    changes.into_iter().map(|(zone, changes)| (zone, sum(changes))).collect()
}
