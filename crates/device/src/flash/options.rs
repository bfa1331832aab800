//! The options that all flash drives have: those of the controller and its link, and those of the NAND.

use super::Nand;
use crate::config::{ConfigError, rule};
use crate::quantity::{format_rate, format_size};
use zonal_blk::Bytes;

/// Longest command.
pub(crate) const MAX_IO: Bytes = Bytes(64 << 20);
/// Most dies.
pub(crate) const MAX_DIES: u64 = 1 << 16;
/// Longest time of a command or a flash operation, in nanoseconds.
pub(crate) const MAX_TIME: u64 = 10_000_000_000;
/// Lowest rate in bytes per second: the longest command takes a minute at it.
pub(crate) const MIN_RATE: u64 = 1_000_000;

/// Declares a kind of flash drive as `device_options!` does, with the options of all flash drives after its
/// own. The configuration also gets what follows from them.
macro_rules! flash_options {
    (
        $kind:literal: $device:ty, profiles $profiles:tt, $zones:tt $scopes:tt;
        $(#[$outer:meta])* pub struct $config:ident { $($entries:tt)* }
    ) => {
        $crate::config::device_options! {
            $kind: $device, profiles $profiles, $zones $scopes;

            $(#[$outer])* pub struct $config {
                $($entries)*
                Any lba: u32 = Size("4096"), "logical block size, 512 or 4096";
                Any queues: u16 = Count("32") in 1..=u64::MAX, "hardware queues on offer";
                Any depth: u16 = Count("1023") in 1..=u64::MAX,
                    "commands in flight on one hardware queue";
                Any max_io: Bytes = Size("1M"), "longest command";
                Any read_time: Nanos = Time("2us") in 0..=$crate::flash::MAX_TIME,
                    "controller, for a read";
                /// From the fetch of a command until the controller works on it, and from the end of that
                /// until the host sees the completion.
                Any latency: Nanos = Time("0") in 0..=$crate::flash::MAX_TIME,
                    "of each command besides controller, data and flash; commands overlap in it";
                Any link_rate: Bytes = Rate("2517MB/s") in $crate::flash::MIN_RATE..=u64::MAX,
                    "from the host to the drive";
                Any read_link_rate: Bytes = Rate("0"), "from the drive to the host; 0 for link_rate";
                Any send_time: Nanos = Time("0") in 0..=$crate::flash::MAX_TIME,
                    "link to the host, for a read besides its data";
                Any reads: u32 = Count("0"), "reads that the drive works on at once; 0 for no limit";
                Any read_ahead: bool = Flag("false"),
                    "whether the drive reads ahead of a sequential stream";
                Any channels: u32 = Count("8"), "buses between controller and dies";
                Any dies: u32 = Count("32") in 1..=$crate::flash::MAX_DIES,
                    "dies, spread evenly over the channels";
                Any planes: u32 = Count("2") in 1..=16, "planes of a die that work together";
                Any page: Bytes = Size("16K"), "page of a plane";
                Any cell_pages: u32 = Count("3") in 1..=16,
                    "pages of a plane that one program writes: bits of a cell";
                Any block: Bytes = Size("18M"), "erase block of a plane";
                Any channel_rate: Bytes = Rate("1258MB/s") in $crate::flash::MIN_RATE..=u64::MAX,
                    "on a channel";
                Any page_read: Nanos = Time("65us") in 0..=$crate::flash::MAX_TIME,
                    "sensing a page, in all planes";
                Any page_spread: u32 = Count("0") in 0..=1000,
                    "what the slowest page of a cell takes longer to sense, in percent";
                Any transfer_time: Nanos = Time("0") in 0..=$crate::flash::MAX_TIME,
                    "channel, for each transfer from a die besides its data";
                Any cache_read: bool = Flag("false"),
                    "whether a die senses the next page of a read while it sends one";
                Any program: Nanos = Time("1200us") in 1..=$crate::flash::MAX_TIME,
                    "programming a unit: planes * cell_pages * page";
                Any program_spread: u32 = Count("0") in 0..=100,
                    "by how many percent, at most, a program takes more or less";
                Any erase: Nanos = Time("3500us") in 0..=$crate::flash::MAX_TIME,
                    "erasing a block, in all planes";
                Any suspend: bool = Flag("false"), "whether reads interrupt a program or an erase";
                Any suspend_time: Nanos = Time("20us") in 0..=$crate::flash::MAX_TIME,
                    "what an interruption costs";
                Any suspend_step: Nanos = Time("0") in 0..=$crate::flash::MAX_TIME,
                    "an interruption is possible each time that this much is done; 0 for any";
                /// It then runs to its end, but padding and erases after a reset only for a `suspend_step`.
                Any reads_in_a_row: u32 = Count("8") in 1..=65535,
                    "reads that may go before a program or an erase";
            }
        }

        impl $config {
            /// The unit that a die programs: a page of each bit of a cell, in all planes.
            pub fn unit(&self) -> Bytes {
                self.nand().unit()
            }

            /// The rate of the link to the host.
            fn host_link_rate(&self) -> Bytes {
                if self.read_link_rate.0 == 0 { self.link_rate } else { self.read_link_rate }
            }

            /// Rates of single commands, estimated.
            pub(super) fn estimates(&self) -> Vec<$crate::control::Estimate> {
                let controller = self.read_time + self.latency + self.send_time;
                self.nand().estimates(self.sequential_rate(), controller, self.host_link_rate())
            }

            /// The flash.
            pub(crate) fn nand(&self) -> $crate::flash::Nand {
                let suspend = $crate::flash::Suspend {
                    cost: self.suspend_time,
                    step: self.suspend_step,
                };
                $crate::flash::Nand {
                    dies: self.dies,
                    channels: self.channels,
                    planes: self.planes,
                    page: self.page,
                    cell_pages: self.cell_pages,
                    channel_rate: self.channel_rate,
                    page_read: self.page_read,
                    page_spread: self.page_spread,
                    transfer_time: self.transfer_time,
                    cache_read: self.cache_read,
                    program: self.program,
                    page_programs: self.programs_pages(),
                    program_spread: self.program_spread,
                    erase: self.erase,
                    suspend: self.suspend.then_some(suspend),
                    reads_in_a_row: self.reads_in_a_row,
                }
            }

            /// The controller of a drive without zones, and of one whose zones are all alike.
            pub(super) fn setup(&self) -> $crate::flash::Setup {
                $crate::flash::Setup {
                    nand: self.nand(),
                    latency: self.latency,
                    link_rate: self.link_rate,
                    read_link_rate: self.host_link_rate(),
                    send_time: self.send_time,
                    reads: self.reads,
                    read_ahead: self.read_ahead,
                    zones: 1,
                    zone_dies: self.dies,
                    ahead_least: 0,
                    stream_rate: Bytes(0),
                    write_spread: 0,
                    drawn_from: Bytes(0),
                }
            }
        }
    };
}

pub(crate) use flash_options;

/// A rate of 0 stands for none; others have the least that all have.
pub(crate) fn validate_rate(option: &'static str, rate: Bytes) -> Result<(), ConfigError> {
    rule(option, rate.0 == 0 || rate.0 >= MIN_RATE, format_rate(rate.0), || {
        format!("0, or at least {}", format_rate(MIN_RATE))
    })
}

impl Nand {
    /// Validates `channels`, and the size of a block.
    ///
    /// # Errors
    /// The rule that is broken.
    pub(crate) fn validate(&self, block: Bytes) -> Result<(), ConfigError> {
        let channels_ok = self.channels > 0 && self.dies.is_multiple_of(self.channels);
        rule("channels", channels_ok, self.channels, || {
            format!("a divisor of dies={}, so that each channel has as many", self.dies)
        })?;
        let cells = Bytes(u64::from(self.cell_pages) * self.page.0);
        let block_ok = block.0 > 0 && block.0.is_multiple_of(cells.0);
        rule("block", block_ok, format_size(block.0), || {
            format!("a non-zero multiple of cell_pages * page = {}", format_size(cells.0))
        })
    }
}
