//! Where bytes lie on the disk, and when they pass under the head.
//!
//! Takes byte addresses; gives the radial position, the surface and the angle. Keeps true: addresses that
//! follow one another pass under the head one after another, with the skew between tracks and a
//! settle time between bands as the only gaps within a ring.
//!
//! ```text
//!   address 0                                                       end
//!   | ring 0 (longest tracks)     | ring 1        | ...    | ring n  |      rings have equally many
//!   | band 0 head 0 | band 1 head 1 | ... | band h head 0 | ...             cylinders each
//! ```
//!
//! A band is a zone of a shingled disk, or a track of a conventional one.
use super::config::{HddConfig, Recording};

/// A ring of tracks of one size.
#[derive(Clone, Debug)]
struct Ring {
    start: u64,
    end: u64,
    /// Bytes of a track.
    track: u64,
    /// Bytes of a band.
    band: u64,
    /// From the start of a band to the start of the next, in nanoseconds.
    band_time: u64,
    /// Bands one behind the other from rim to hub, each on all heads.
    depth: f64,
    /// Radial position of the start, from 0 at the outer edge to 1.
    outer: f64,
    /// Tracks of a band.
    tracks: u64,
    /// The number of its first track.
    first_track: u64,
}

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Radial position, from 0 at the outer edge to 1 at the inner.
    pub radius: f64,
    /// The track, counted over the whole disk.
    pub track: u64,
    /// When it passes under the head: nanoseconds from the start of its ring, so that the angle is
    /// the remainder by the duration of a turn.
    pub time: u64,
}

/// The layout of a disk.
#[derive(Clone, Debug)]
pub struct Geometry {
    rings: Vec<Ring>,
    turn: u64,
    skew: u64,
    heads: u64,
    width: f64,
}

impl Geometry {
    /// Lays out a valid configuration.
    pub fn new(config: &HddConfig) -> Self {
        let nr_rings = u64::from(config.rings);
        let (outer, inner) = (config.track_outer.0, config.track_inner.0);
        let steps = nr_rings.saturating_sub(1).max(1);
        let track = |ring: u64| outer - (outer - inner) * ring / steps;
        let total: u64 = (0..nr_rings).map(track).sum();
        let capacity = config.capacity().0;
        let heads = u64::from(config.heads);
        let mut geometry = Geometry {
            rings: Vec::new(),
            turn: config.turn().0,
            skew: config.skew.0,
            heads,
            width: 1.0 / nr_rings as f64,
        };
        let mut start = 0;
        let mut share = 0;
        let mut first_track = 0;
        for nr in 0..nr_rings {
            let track = track(nr);
            share += track;
            let smr = config.recording == Recording::Smr;
            let band = if smr { config.zone_size.0 } else { track };
            let wanted = u128::from(capacity) * u128::from(share) / u128::from(total);
            let wanted = u64::try_from(wanted).expect("no more than the capacity");
            let bands = (wanted.saturating_sub(start) / band / heads).max(1) * heads;
            let end =
                if nr + 1 == nr_rings { capacity } else { (start + bands * band).min(capacity) };
            let depth = ((end - start) as f64 / (band * heads) as f64).max(1.0);
            let switch = if smr { config.settle.0 } else { 0 };
            let band_time = geometry.time_in(band, track) + switch;
            let tracks = band.div_ceil(track);
            let outer = nr as f64 * geometry.width;
            geometry.rings.push(Ring {
                start,
                end,
                track,
                band,
                band_time,
                depth,
                outer,
                tracks,
                first_track,
            });
            first_track += (end - start).div_ceil(band) * tracks;
            start = end;
        }
        geometry
    }

    /// When a byte of a band passes under the head, from the start of the band.
    fn time_in(&self, at: u64, track: u64) -> u64 {
        at / track * (self.turn + self.skew) + at % track * self.turn / track
    }

    fn ring(&self, at: u64) -> &Ring {
        let after = self.rings.partition_point(|ring| ring.start <= at);
        &self.rings[after - 1]
    }

    /// Where an address lies.
    pub fn place(&self, at: u64) -> Place {
        let ring = self.ring(at);
        let offset = at - ring.start;
        let (band, within) = (offset / ring.band, offset % ring.band);
        let part = within as f64 / ring.band as f64;
        let radius = ring.outer + self.width * ((band / self.heads) as f64 + part) / ring.depth;
        let track = ring.first_track + band * ring.tracks + within / ring.track;
        let time = band * ring.band_time + self.time_in(within, ring.track);
        Place { radius, track, time }
    }

    /// The end of the ring that an address lies in: transfers end there.
    pub fn ring_end(&self, at: u64) -> u64 {
        self.ring(at).end
    }

    /// How long it takes to pass over the bytes from `start` to `end` of one ring, without a gap
    /// that is beyond the last.
    pub fn transfer(&self, start: u64, end: u64) -> u64 {
        self.place(end - 1).time - self.place(start).time
    }

    /// Duration of a revolution.
    pub fn turn(&self) -> u64 {
        self.turn
    }
}
