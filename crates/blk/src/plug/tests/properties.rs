//! Random operations, completions and failures: commands and completions are those of the model.
use super::model::{CAPACITY, LONGEST, Model, Rules, SIZE, ZONES};
use crate::bio::Bio;
use crate::op::Op;
use crate::plug::{WpRecovery, ZoneWrite};
use crate::status::Status;
use crate::testing::{End, Rig, Setup, limits};
use crate::units::Sector;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum PlugStep {
    /// A bio on a channel, `off` sectors from where it should be.
    Submit { channel: usize, op: Op, zone: usize, off: u64, len: u32 },
    /// Writes submitted together, one after the other, `off` sectors from where they should be.
    Batch { channel: usize, zone: usize, off: u64, lens: Vec<u32> },
    /// The queue is drained, and the policy is changed.
    Switch,
    /// The device completes one of a queue's commands, or fails it after some sectors.
    End { queue: usize, nth: usize, fails_after: Option<u32> },
    /// A channel polls.
    Poll { channel: usize },
}

fn step() -> impl Strategy<Value = PlugStep> {
    let op = prop_oneof![
        12 => Just(Op::Write),
        2 => Just(Op::WriteZeroes),
        3 => Just(Op::ZoneAppend),
        1 => Just(Op::Read),
        1 => Just(Op::ZoneReset),
        1 => Just(Op::ZoneFinish),
        1 => Just(Op::ZoneResetAll),
    ];
    let off = prop_oneof![8 => Just(0_u64), 1 => 1..SIZE];
    let lens = prop::collection::vec(1..=4_u32, 2..5);
    let batch = (0..2_usize, 0..ZONES, prop_oneof![4 => Just(0), 1 => 0..SIZE], lens);
    let submit = (0..2_usize, op, 0..ZONES, off, 1..=6_u32);
    let fails_after = prop_oneof![8 => Just(None), 1 => (0..4_u32).prop_map(Some)];
    prop_oneof![
        20 => submit.prop_map(|(channel, op, zone, off, len)| {
            PlugStep::Submit { channel, op, zone, off, len }
        }),
        4 => batch.prop_map(|(channel, zone, off, lens)| PlugStep::Batch { channel, zone, off, lens }),
        1 => Just(PlugStep::Switch),
        16 => (0..2_usize, 0..4_usize, fails_after).prop_map(|(queue, nth, fails_after)| {
            PlugStep::End { queue, nth, fails_after }
        }),
        16 => (0..2_usize).prop_map(|channel| PlugStep::Poll { channel }),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    any::<[bool; 4]>().prop_map(|[one_per_disk, native_append, asks_at_once, merges]| Rules {
        one_per_disk,
        native_append,
        asks_at_once,
        merges,
    })
}

struct Both {
    rig: Rig,
    model: Model,
    completed: Vec<u64>,
    one_per_disk: bool,
    switched: bool,
}

impl Both {
    fn new(rules: Rules) -> Self {
        let mut limits = limits(ZONES as u32, SIZE);
        limits.max_sectors = LONGEST;
        limits.append_max_sectors = if rules.native_append { LONGEST } else { 0 };
        let policy = if rules.one_per_disk { ZoneWrite::Qd1 } else { ZoneWrite::Plug };
        let recovery = if rules.asks_at_once { WpRecovery::Report } else { WpRecovery::OnRequest };
        let rig = Setup::new()
            .limits(move |l| *l = limits)
            .zones(|zones| zones.iter_mut().for_each(|zone| zone.capacity = Sector(CAPACITY)))
            .options(|options| {
                options.zone_write = Some(policy);
                options.wp_recovery = recovery;
                options.merge = rules.merges;
            })
            .channels(2)
            .build();
        let (model, one_per_disk) = (Model::new(rules), rules.one_per_disk);
        Both { rig, model, completed: Vec::new(), one_per_disk, switched: false }
    }

    fn step(&mut self, step: PlugStep) {
        match step {
            PlugStep::Submit { channel, op, zone, off, len } => {
                let (at, len) = match op {
                    Op::Write | Op::WriteZeroes => {
                        let at = (self.model.pointer(zone) + off) % SIZE;
                        (at, len.min((SIZE - at) as u32))
                    }
                    Op::Read | Op::ZoneAppend => (0, len),
                    _ => (0, 0),
                };
                let zone = if op == Op::ZoneResetAll { 0 } else { zone };
                let sector = Sector(zone as u64 * SIZE + at);
                let id = self.rig.submit_bio(channel, Bio::new(op, sector, len, 0));
                self.model.submit(channel, id, (op, zone, at, len));
            }
            PlugStep::End { queue, nth, fails_after } => {
                let out = self.model.in_flight[queue].len();
                if out == 0 {
                    return;
                }
                let nth = nth % out;
                let command = &self.model.in_flight[queue][nth];
                let torn = matches!(command.op, Op::Write | Op::WriteZeroes)
                    && self.model.possible(queue, nth);
                let fails_after = match fails_after {
                    Some(sectors) if torn => Some(sectors.min(command.len - 1)),
                    Some(_) => Some(0),
                    None => None,
                };
                let how = match fails_after {
                    Some(0) => End::Forced(Status::IoError),
                    Some(sectors) => End::Torn(sectors),
                    None => End::ByZoneRules,
                };
                self.rig.device.end_nth(queue, nth, how);
                self.model.end(queue, nth, fails_after);
            }
            PlugStep::Batch { channel, zone, off, lens } => self.batch(channel, zone, off, lens),
            PlugStep::Switch => self.switch(),
            PlugStep::Poll { channel } => self.poll(channel),
        }
        let started = self.rig.started();
        assert_eq!(started, std::mem::take(&mut self.model.log), "the same order at the device");
    }

    fn batch(&mut self, channel: usize, zone: usize, off: u64, mut lens: Vec<u32>) {
        let at = (self.model.pointer(zone) + off) % SIZE;
        let mut room = SIZE - at;
        lens.retain(|&len| {
            let fits = u64::from(len) <= room;
            room -= if fits { u64::from(len) } else { 0 };
            fits
        });
        let mut next = zone as u64 * SIZE + at;
        let mut writes = Vec::new();
        for &len in &lens {
            writes.push((next, len));
            next += u64::from(len);
        }
        let ids = self.rig.write_batch_on(channel, &writes);
        if !ids.is_empty() {
            let bios: Vec<_> = ids.into_iter().zip(lens).collect();
            self.model.submit_batch(channel, &bios, zone, at);
        }
    }

    fn switch(&mut self) {
        self.finish();
        self.one_per_disk = !self.one_per_disk;
        self.switched = true;
        let policy = if self.one_per_disk { ZoneWrite::Qd1 } else { ZoneWrite::Plug };
        self.rig.queue.freeze();
        self.rig.queue.set_zone_write(policy).expect("a frozen queue without I/O");
        self.rig.queue.unfreeze();
        self.model.switch();
    }

    fn poll(&mut self, channel: usize) {
        let mut layer = self.rig.poll_on(channel);
        let mut model = self.model.poll(channel);
        layer.sort_unstable_by_key(|&(id, _)| id);
        model.sort_unstable_by_key(|&(id, _)| id);
        assert_eq!(layer, model, "the same results");
        self.completed.extend(layer.into_iter().map(|(id, _)| id));
    }

    /// All that is in flight completes.
    fn finish(&mut self) {
        let mut rounds = 0;
        while self.completed.len() < self.rig.next_id as usize {
            for channel in 0..2 {
                while !self.model.in_flight[channel].is_empty() {
                    self.step(PlugStep::End { queue: channel, nth: 0, fails_after: None });
                }
                self.step(PlugStep::Poll { channel });
            }
            rounds += 1;
            assert!(rounds < 1000, "nothing is lost");
        }
    }

    fn check_the_end(&mut self, rules: Rules) {
        self.completed.sort_unstable();
        let all: Vec<u64> = (0..self.rig.next_id).collect();
        assert_eq!(self.completed, all, "nothing is lost or done twice");
        let most = if rules.one_per_disk && !self.switched {
            self.rig.device.most_per_disk()
        } else {
            self.rig.device.most_per_zone()
        };
        assert!(most <= 1, "one write in flight");
        assert_eq!(self.rig.queue.live_plugs() as usize, self.model.live());
        assert_eq!(self.rig.references() as usize, self.model.live());
        for zone in 0..ZONES {
            let device = self.rig.device.zones.lock().unwrap()[zone];
            assert_eq!((device.wp - device.start).0, self.model.device_pointer(zone));
            assert_eq!(self.rig.known(zone as u32).1, self.model.pointer(zone));
        }
    }
}

proptest! {

    #[test]
    fn layer_does_what_the_model_does(
        rules in rules(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut both = Both::new(rules);
        for step in steps {
            both.step(step);
        }
        both.finish();
        both.check_the_end(rules);
    }
}
