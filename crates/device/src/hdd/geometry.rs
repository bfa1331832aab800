//! The layout of the disk: the radius, track and angle of each byte address.
//!
//! Within a band, consecutive addresses pass under the head one after another; the skew between
//! tracks makes the only gaps.
//!
//! ```text
//!   address 0                                                                      end
//!   | ring 0 (longest tracks)                 | ring 1          | ...   | ring n     |
//!   | band 0    | band 1    | ... | band h    | band h+1 ...
//!     on head 0   on head 1         on head 0, one band further in
//! ```
//!
//! The rings of a disk are equally wide. The bands of a shingled disk are its zones: each is on one
//! surface, as many side by side as there are heads. A conventional disk has one band per ring,
//! whose tracks rotate over the heads, cylinder by cylinder.
//!
//! Each surface is formatted for the capabilities of its head, so the angle at which a band begins
//! is practically random; here it is a hash of the band's number.
use super::config::{HddConfig, Recording};
use crate::rng::mix;
use std::ops::Range;

/// A ring of tracks of one size.
#[derive(Clone, Debug)]
struct Ring {
    start: u64,
    /// Bytes per track.
    track: u64,
    /// Bytes per band.
    band: u64,
    /// Bands of this ring and the rings before.
    first_band: u64,
    /// Tracks of this ring, on all surfaces, and the rings before.
    first_track: u64,
    /// Tracks per band.
    tracks: u64,
    /// Number of tracks of a band, or of bands, from rim to hub.
    depth: f64,
    /// Radial position of the start, from 0 at the outer edge to 1.
    outer: f64,
}

/// The location of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskLocation {
    /// Radial position, from 0 at the outer edge to 1 at the inner.
    pub radius: f64,
    /// The track, counted over the whole disk.
    pub track: u64,
    /// When it passes under the head, in nanoseconds from a moment that all addresses of a band have
    /// in common: modulo the time of a revolution this is the angle.
    pub time: u64,
    /// The end of the band, which no transfer crosses.
    pub band_end: u64,
}

/// A track, to locate more than one address of it.
#[derive(Clone, Debug)]
pub(super) struct Track {
    ring: usize,
    /// The first address of its band.
    band_start: u64,
    pub(super) addresses: Range<u64>,
    /// Bands or tracks between it and the rim of the ring.
    inward: f64,
    /// Counted over the whole disk.
    number: u64,
    /// The time of its first address: see [`DiskLocation::time`].
    begins: u64,
}

/// The layout of a disk.
#[derive(Clone, Debug)]
pub struct Geometry {
    rings: Vec<Ring>,
    capacity: u64,
    shingled: bool,
    revolution: u64,
    skew: u64,
    heads: u64,
    /// Width of a ring, as a fraction of the stroke.
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
        let heads = u64::from(config.heads);
        let mut geometry = Geometry {
            rings: Vec::new(),
            capacity: config.capacity().0,
            shingled: config.recording == Recording::Smr,
            revolution: config.revolution().0,
            skew: config.skew.0,
            heads,
            width: 1.0 / nr_rings as f64,
        };
        let (mut start, mut share, mut first_band, mut first_track) = (0, 0, 0, 0);
        for nr in 0..nr_rings {
            let track = track(nr);
            share += track;
            // Bands or tracks side by side on all surfaces are in one ring.
            let unit = heads * if geometry.shingled { config.zone_size.0 } else { track };
            let wanted = u128::from(geometry.capacity) * u128::from(share) / u128::from(total);
            let wanted = u64::try_from(wanted).expect("no more than the capacity");
            let units = (wanted.saturating_sub(start) / unit).max(1);
            let is_last = nr + 1 == nr_rings;
            let end = if is_last { geometry.capacity } else { start + units * unit };
            let end = end.min(geometry.capacity);
            let band = if geometry.shingled { config.zone_size.0 } else { end - start };
            let tracks = band.div_ceil(track);
            geometry.rings.push(Ring {
                start,
                track,
                band,
                first_band,
                first_track,
                tracks,
                depth: (end - start).div_ceil(unit) as f64,
                outer: nr as f64 * geometry.width,
            });
            let bands = (end - start).div_ceil(band);
            first_band += bands;
            first_track += bands * tracks;
            start = end;
            if start == geometry.capacity {
                // A disk with few tracks or zones has fewer rings.
                break;
            }
        }
        geometry
    }

    /// The location of an address.
    pub fn locate(&self, at: u64) -> DiskLocation {
        self.locate_on(&self.track_of(at), at)
    }

    /// The head over an address, of a shingled disk.
    pub fn head(&self, at: u64) -> u64 {
        let after = self.rings.partition_point(|ring| ring.start <= at);
        let ring = &self.rings[after - 1];
        (at - ring.start) / ring.band % self.heads
    }

    /// The track of an address.
    pub(super) fn track_of(&self, at: u64) -> Track {
        let after = self.rings.partition_point(|ring| ring.start <= at);
        let ring = &self.rings[after - 1];
        let offset = at - ring.start;
        let (band, within) = (offset / ring.band, offset % ring.band);
        let number = within / ring.track;
        let start = at - within % ring.track;
        let band_start = at - within;
        let next_ring = self.rings.get(after).map_or(u64::MAX, |next| next.start);
        Track {
            ring: after - 1,
            band_start,
            addresses: start..(start + ring.track).min(band_start + ring.band).min(next_ring),
            inward: if self.shingled { band / self.heads } else { number / self.heads } as f64,
            number: ring.first_track + band * ring.tracks + number,
            begins: number * (self.revolution + self.skew)
                + if self.shingled { mix(ring.first_band + band) % self.revolution } else { 0 },
        }
    }

    /// The location of an address of a track.
    #[inline]
    pub(super) fn locate_on(&self, track: &Track, at: u64) -> DiskLocation {
        let ring = &self.rings[track.ring];
        let within = at - track.band_start;
        let part = at - track.addresses.start;
        let inward = match self.shingled {
            true => track.inward + within as f64 / ring.band as f64,
            false => track.inward,
        };
        DiskLocation {
            radius: ring.outer + self.width * inward / ring.depth,
            track: track.number,
            time: track.begins + part * self.revolution / ring.track,
            band_end: (track.band_start + ring.band).min(self.capacity),
        }
    }

    /// Duration of a revolution, in nanoseconds.
    pub fn revolution(&self) -> u64 {
        self.revolution
    }
}
