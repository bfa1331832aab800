//! Any bytes as the events of a log: read or refused, never a panic, whatever commands they are. Each
//! state that is enumerated can be made, and its text is that state.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_blk::{Limits, Sector, ZoneNo};
use zonal_crash::log::{Event, Header};
use zonal_crash::{Drive, Outcome, State, ReplayStep};
use zonal_device::image::{ImageGeometry, Profile, Superblock};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::zoned(4, Sector(16));
    let zones: Vec<_> = limits.empty_zones(ZoneNo(0), 4).collect();
    let geometry = ImageGeometry { conventional: 1, ..ImageGeometry::of(&limits, &zones).unwrap() };
    let superblock = Superblock::new([0; 16], geometry, Profile::Spec(String::new())).unwrap();
    let header = Header { device: String::new(), superblock, zones: Vec::new() };
    let (mut drive, mut rest, mut settled) = (Drive::new(&header, 64), bytes, Vec::new());
    while let Some(event) = Event::decode(&mut rest) {
        let step = match event {
            Event::Started { command, .. } if command.nr_sectors > 64 => continue,
            Event::Started { command, .. } if command.blocks.iter().any(|run| run.len > 64) => continue,
            Event::Started { id, command } => ReplayStep::Started(id, command, Outcome::Unknown),
            Event::Ended { id, landed, .. } => ReplayStep::Ended(id, Outcome::Done(landed)),
            Event::Mark(text) => ReplayStep::Mark(text),
        };
        drive.advance(&step, &mut settled);
        for choice in drive.choices(1) {
            for fate in 0..choice.count() {
                let mut state = State { cut: drive.events(), ..State::default() };
                choice.set(fate, &mut state);
                if let Ok(effects) = drive.effects(&state) {
                    drive.identify(&effects);
                }
                assert_eq!(state.to_string().parse(), Ok(state));
            }
        }
    }
});
