//! The configuration of an ordinary flash drive, its validation and the limits that follow from it.
use super::SsdDevice;
use super::map::{ENTRIES, FlashMap};
use super::page::PAGE;
use super::prefill::Prefill;
use super::translation::{Isolation, Policy, Shape, ShapeError};
use crate::config::{ConfigError, Rules, check_ranges, rule};
use crate::flash::{MAX_IO, MAX_TIME, flash_options, validate_rate};
use crate::quantity::{format_percent, format_size};
use zonal_blk::{Bytes, Limits, Nanos, PlacementId, PlacementLayout};

/// Most over-provisioning, in thousandths of a percent.
const MAX_OVERPROVISION: u64 = 1_000_000;
/// Most placement identifiers: a bio's write stream is one of them or 0.
const MAX_STREAMS: u64 = 255;
/// 100 %, in the unit of `overprovision`.
const WHOLE: u64 = 100_000;

flash_options! {
    "ssd": SsdDevice, profiles [], without zones;

    /// The configuration of an ordinary flash drive. The flash is that of `zns`.
    pub struct SsdConfig {
        Any size: Bytes = Size("896G"), "size of the drive, a multiple of 4K";
        Any overprovision: u32 = Percent("7%") in 0..=MAX_OVERPROVISION,
            "flash beyond the size, in percent of it";
        Any gc: Policy = Words("greedy"), "which superblock is collected next";
        Any separate: bool = Flag("true"),
            "whether collected data get superblocks apart from those that the host writes";
        Any gc_low: u32 = Count("4") in 2..=1024,
            "free superblocks below which the collection begins";
        Any gc_high: u32 = Count("4") in 2..=1024, "free superblocks with which it ends";
        Any gc_buffer: Bytes = Size("8M"), "part of the buffer that the collection uses";
        Any map_cache: Bytes = Size("0"),
            "memory for the map, of which the rest is read from the flash; 0 for all of it";
        Any fdp_handles: u32 = Count("0") in 0..=MAX_STREAMS,
            "reclaim unit handles (FDP), of superblocks as reclaim units; 0 for none";
        Any fdp_persistent: u32 = Count("0") in 0..=MAX_STREAMS,
            "how many of them, the last ones, are persistently isolated";
        Any fdp_groups: u32 = Count("1") in 1..=64, "reclaim groups, each with dies of its own";
        Any prefill: Prefill = Fill("empty"), "what has been written before the first command";
        Any seed: u64 = Count("0"), "seed of what has been written";
        Any write_time: Nanos = Time("2us") in 0..=MAX_TIME,
            "controller, for a write before its data are moved";
        Any manage_time: Nanos = Time("2us") in 0..=MAX_TIME, "controller, for any other command";
        Any buffer: Bytes = Size("32M"), "write buffer; it outlives a loss of power";
        Any superblock_dies: u32 = Count("0"),
            "dies that a superblock has a block of; 0 for all";
    }
}

impl SsdConfig {
    /// The dies that have a block of a superblock.
    pub fn dies_of_superblock(&self) -> u32 {
        if self.superblock_dies == 0 { self.dies } else { self.superblock_dies }
    }

    /// A superblock: a block of each plane of its dies.
    pub fn superblock(&self) -> Bytes {
        let planes = u64::from(self.planes) * u64::from(self.dies_of_superblock());
        Bytes(self.block.0.saturating_mul(planes))
    }

    /// The translation layer places whole units.
    fn programs_pages(&self) -> bool {
        false
    }

    /// Bytes per second that the drive takes in long writes, without collection, and what limits it.
    pub(super) fn sequential_rate(&self) -> (Bytes, &'static str) {
        let dies = self.nand().write_rate(self.dies);
        let limits = [(self.link_rate, "link_rate"), (dies, "transfers and programs of all dies")];
        limits.into_iter().min_by_key(|(rate, _)| rate.0).expect("there are two")
    }

    /// The translation layer.
    pub(super) fn shape(&self) -> Result<Shape, ConfigError> {
        let pages = |bytes: u64| bytes / u64::from(PAGE);
        let (logical, each) = (pages(self.size.0), pages(self.superblock().0));
        let flash = u128::from(logical) * u128::from(WHOLE + u64::from(self.overprovision));
        let flash = u64::try_from(flash / u128::from(WHOLE)).unwrap_or(u64::MAX);
        let fits = |pages: u64| u32::try_from(pages).ok().filter(|pages| *pages < u32::MAX);
        let most = Bytes(u64::from(u32::MAX - 1) * u64::from(PAGE));
        let limit = || format!("up to {}", format_size(most.0));
        let show = || format_size(self.size.0);
        rule("size", fits(logical).is_some(), show(), limit)?;
        let superblocks = fits(flash.div_ceil(each)).unwrap_or(u32::MAX);
        let shape = Shape {
            logical_pages: fits(logical).expect("it was checked"),
            superblocks: superblocks
                .saturating_sub(self.map_shape().map_or(0, |map| map.superblocks)),
            superblock_pages: fits(each).unwrap_or(u32::MAX),
            groups: u16::try_from(self.fdp_groups).expect("it was checked"),
            streams: self.isolations(),
            separate: self.separate,
            policy: self.gc,
            low: self.gc_low,
            high: self.gc_high,
        };
        let checked = shape.validate();
        checked.map(|()| shape.clone()).map_err(|error| self.shape_error(&shape, &error))
    }

    /// The layer of the map's translation pages, if the map is on the flash: superblocks that are filled
    /// and free, and for each that the pages take another, so that collecting them moves few.
    pub(super) fn map_shape(&self) -> Option<Shape> {
        let pages = |bytes: u64| bytes / u64::from(PAGE);
        let to_u32 = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let shape = Shape {
            logical_pages: to_u32(pages(self.size.0).div_ceil(ENTRIES.into())),
            superblocks: 0,
            superblock_pages: to_u32(pages(self.superblock().0)),
            groups: 1,
            streams: vec![Isolation::Initial],
            separate: false,
            policy: Policy::Greedy,
            low: 2,
            high: 2,
        };
        let taken = shape.logical_pages.div_ceil(shape.superblock_pages.max(1));
        let superblocks = to_u32(shape.min_superblocks()).saturating_add(taken);
        (self.map_cache.0 > 0).then_some(Shape { superblocks, ..shape })
    }

    /// The map, if it is on the flash.
    pub(super) fn flash_map(&self) -> Option<FlashMap> {
        let shape = self.map_shape()?;
        let first = self.shape().expect("the shape was checked").superblocks;
        Some(FlashMap::new(shape, first, self.map_cache, self.dies))
    }

    /// How much of the map is in memory, in words; `None` if all of it is.
    pub(super) fn map_text(&self) -> Option<String> {
        let all = u64::from(self.map_shape()?.logical_pages) * u64::from(PAGE);
        Some(match self.map_cache.0 {
            part if part < all => format!("{} of {}", format_size(part), format_size(all)),
            _ => format!("all {}, read from the flash when it is needed", format_size(all)),
        })
    }

    /// The streams of the host: the reclaim unit handles, or a single one.
    fn isolations(&self) -> Vec<Isolation> {
        let initial = self.fdp_handles.saturating_sub(self.fdp_persistent);
        let of = |at| if at < initial { Isolation::Initial } else { Isolation::Persistent };
        if self.fdp_handles == 0 {
            vec![Isolation::Initial]
        } else {
            (0..self.fdp_handles).map(of).collect()
        }
    }

    /// The data placement of the drive, of which all handles and groups are those of its one namespace;
    /// `None` without reclaim unit handles.
    pub(super) fn placement(&self) -> Option<PlacementLayout> {
        let to_u16 = |count: u32| u16::try_from(count).expect("it was checked");
        let (handles, groups) = (to_u16(self.fdp_handles), to_u16(self.fdp_groups));
        let id = |handle| {
            (0..groups).map(move |group| PlacementId { handle, group, unit_handle: handle })
        };
        (handles > 0).then(|| PlacementLayout {
            groups,
            unit_handles: self.isolations(),
            unit: self.superblock(),
            ids: (0..handles).flat_map(id).collect(),
        })
    }

    /// Its data placement in words; `None` if it has none.
    pub(super) fn placement_text(&self) -> Option<String> {
        let &SsdConfig {
            fdp_handles: handles, fdp_persistent: persistent, fdp_groups: groups, ..
        } = self;
        let mut text = format!("{handles} reclaim unit handles");
        if persistent > 0 {
            text += &format!(", {persistent} of them persistently isolated");
        }
        if groups > 1 {
            text += &format!(", in {groups} groups");
        }
        (handles > 0).then_some(text)
    }

    /// The error of a shape, as that of an option.
    fn shape_error(&self, shape: &Shape, error: &ShapeError) -> ConfigError {
        let broken = |option, found: String, expected: String| {
            rule(option, false, found, || expected).expect_err("the rule does not hold")
        };
        let &ShapeError::NoRoom { needed, .. } = error else {
            return broken("block", format_size(self.block.0), error.to_string());
        };
        let each = u64::from(shape.superblock_pages);
        let map = self.map_shape().map_or(0, |map| u64::from(map.superblocks));
        let needed = needed + map;
        let beyond = (needed * each).saturating_sub(shape.logical_pages.into()) * WHOLE;
        let least = beyond.div_ceil(shape.logical_pages.into());
        let why = format!(
            "at least {}, {needed} superblocks of {}: beside the data {}{} are filled, gc_high={}{} are \
             free, and one has room to collect",
            format_percent(least),
            format_size(self.superblock().0),
            if map > 0 { format!("{map} are for the map (map_cache), ") } else { String::new() },
            shape.frontiers(),
            shape.high,
            if shape.groups > 1 { " in each group" } else { "" }
        );
        broken("overprovision", format_percent(self.overprovision.into()), why)
    }

    /// Validates the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let rules = Rules { lba: self.lba };
        check_ranges(self, false)?;
        rules.commands(self.max_io, MAX_IO)?;
        let size_ok = self.size.0 > 0 && self.size.0.is_multiple_of(PAGE.into());
        rule("size", size_ok, format_size(self.size.0), || "a non-zero multiple of 4K".to_owned())?;
        validate_rate("read_link_rate", self.read_link_rate)?;
        self.validate_flash()?;
        let map_ok = self.map_cache.0.is_multiple_of(PAGE.into());
        rule("map_cache", map_ok, format_size(self.map_cache.0), || {
            "0 for all of the map, or a multiple of 4K, the size of a translation page".to_owned()
        })?;
        self.validate_placement()?;
        self.validate_buffer()?;
        let high_ok = self.gc_high >= self.gc_low;
        rule("gc_high", high_ok, self.gc_high, || format!("at least gc_low={}", self.gc_low))?;
        self.shape()?;
        Rules::memory(self.memory, self.size)
    }

    fn validate_flash(&self) -> Result<(), ConfigError> {
        let divides = |parts: u32| parts > 0 && self.dies.is_multiple_of(parts);
        rule("superblock_dies", divides(self.dies_of_superblock()), self.superblock_dies, || {
            format!("0, or a divisor of dies={}", self.dies)
        })?;
        let page_ok = self.page.0 > 0
            && self.page.0.is_multiple_of(PAGE.into())
            && self.page <= Bytes(1 << 20);
        rule("page", page_ok, format_size(self.page.0), || {
            "a non-zero multiple of 4K, up to 1MiB".to_owned()
        })?;
        self.nand().validate(self.block)
    }

    fn validate_placement(&self) -> Result<(), ConfigError> {
        let &SsdConfig { fdp_handles: handles, fdp_persistent, fdp_groups: groups, .. } = self;
        rule("fdp_persistent", fdp_persistent <= handles, fdp_persistent, || {
            format!("at most fdp_handles={handles}")
        })?;
        rule("fdp_groups", groups == 1 || handles > 0, groups, || {
            "1, as there are no reclaim unit handles: fdp_handles=0".to_owned()
        })?;
        let ids = u64::from(handles) * u64::from(groups);
        rule("fdp_handles", ids <= MAX_STREAMS, handles, || {
            format!(
                "at most {}, so that there are no more than {MAX_STREAMS} placement identifiers \
                     with fdp_groups={groups}",
                MAX_STREAMS / u64::from(groups)
            )
        })?;
        rule("separate", handles == 0 || self.separate, self.separate, || {
            "true, as there are reclaim unit handles: the host's data are never mixed with collected ones"
                .to_owned()
        })?;
        let whole = self.dies.is_multiple_of(groups)
            && (self.dies / groups).is_multiple_of(self.dies_of_superblock());
        rule("fdp_groups", whole, groups, || {
            format!(
                "so many that a reclaim unit has dies of one group only: superblock_dies={} of dies={}, \
                 which has to be a divisor of the dies of a group",
                self.dies_of_superblock(),
                self.dies
            )
        })
    }

    fn validate_buffer(&self) -> Result<(), ConfigError> {
        let size = |bytes: u64| format_size(bytes);
        let unit = self.unit().0;
        // Each superblock that is filled may have a partial unit waiting and a unit being programmed.
        let groups = u64::from(self.fdp_groups);
        let units = |superblocks: u64| 2 * (superblocks * groups + 1);
        let map = u64::from(self.map_cache.0 > 0);
        let collected = u64::from(self.fdp_persistent) + 1 + map;
        let least = units(collected) * unit;
        rule("gc_buffer", self.gc_buffer.0 >= least, size(self.gc_buffer.0), || {
            let count = units(collected);
            format!("at least {count} units of planes * cell_pages * page: {}", size(least))
        })?;
        let host = units(self.fdp_handles.max(1).into());
        let needed = self.gc_buffer.0 + host * unit + self.max_io.0;
        rule("buffer", self.buffer.0 >= needed, size(self.buffer.0), || {
            format!(
                "at least {}: gc_buffer={}, {host} units, and a command of max_io={}",
                size(needed),
                size(self.gc_buffer.0),
                size(self.max_io.0)
            )
        })
    }

    /// The limits of the device.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub(super) fn limits(&self) -> Result<Limits, ConfigError> {
        self.validate()?;
        let sectors = self.max_io.to_sectors().0;
        Ok(Limits {
            lba_size: self.lba,
            max_sectors: u32::try_from(sectors).expect("a command is at most 64 MiB long"),
            // Zeroes are data to program, so they are written as such.
            max_write_zeroes_sectors: 0,
            nr_queues: self.queues,
            queue_depth: self.depth,
            ..Limits::regular(self.size.to_sectors())
        })
    }
}
