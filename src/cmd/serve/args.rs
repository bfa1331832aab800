//! `zonal serve`.
use crate::args::{address, seconds, sectors, zone_write};
use crate::cmd::traced::TraceArgs;
use crate::config;
use anyhow::{Context, Result, bail, ensure};
use clap::{ArgGroup, Args, ValueEnum};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use tracing::Level;
use zonal_blk::ZoneWrite;
use zonal_device::part::Share;
use zonal_nvme::auth::{Group, Hash};
use zonal_nvme::controller::MAX_NAMESPACES;
use zonal_serve::control::log::{Format, LogOptions};

/// What the name of a part of the device begins with.
const PART: &str = "part:";

/// Options of `zonal serve`.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("exports").required(true).multiple(true),
    // What makes the devices namespaces of an NVMe subsystem.
    group = ArgGroup::new("nvme").multiple(true),
    // Exports whose device has a serial number, and queues that are polled.
    group = ArgGroup::new("named").multiple(true),
    group = ArgGroup::new("traced").arg("trace"),
)]
pub struct ServeArgs {
    /// The devices to export, each a spec (see `zonal devices`), a TOML profile, an image
    /// NAME.img, or a block device /dev/NAME or NVMe namespace /dev/ngXnY of this machine. Those of
    /// a spec that keep data have memory=true
    #[arg(value_name = "DEVICE", required_unless_present = "namespace", value_parser = config::device)]
    pub devices: Vec<String>,
    /// Export this device, too, as the namespace with number N, from 1 to 1024; can be repeated. The
    /// others get the numbers that are left, in order. N=part:SIZE/HANDLES divides the one DEVICE,
    /// which has no zones, among namespaces: SIZE is `rest` for what is left, HANDLES are reclaim unit
    /// handles (FDP) of the device, such as 0+1, which no other namespace has
    #[arg(long, value_name = "N=DEVICE", requires = "nvme", value_parser = numbered_device)]
    pub namespace: Vec<(u32, String)>,
    /// How writes to sequential zones are kept in order [default: qd1 for rotating devices, else
    /// plug]
    #[arg(long, value_parser = zone_write(), value_name = "POLICY")]
    pub zone_write: Option<ZoneWrite>,
    #[arg(
        long,
        value_name = "NAME",
        help = concat!("I/O scheduler: ", zonal_blk::scheduler_names!(), " [default: none]")
    )]
    pub scheduler: Option<String>,
    /// Set an attribute of the scheduler; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub sched_opt: Vec<String>,
    /// Do not merge contiguous writes that wait in a plug
    #[arg(long)]
    pub nomerges: bool,
    /// Random seed of the device
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Record everything that changes the device to this file, with its data, for `zonal crash`
    #[arg(long, value_name = "LOG")]
    pub record: Option<PathBuf>,
    /// Give the device a volatile write cache of this size, which `zonal ctl power-cut` loses
    #[arg(long, value_name = "SIZE", requires = "ctl", conflicts_with = "record", value_parser = sectors)]
    pub write_cache: Option<u64>,
    /// How long an interrupt (SIGINT, SIGTERM, SIGHUP) waits for I/O in flight before it ends the
    /// server as a power loss would; a second interrupt does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub shutdown_timeout: f64,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub nvme_tcp: NvmeTcpArgs,
    #[command(flatten)]
    pub vfio_user: VfioUserArgs,
    #[command(flatten)]
    pub vhost_user: VhostUserArgs,
    #[command(flatten)]
    pub fuse: FuseArgs,
    #[command(flatten)]
    pub ublk: UblkArgs,
    #[command(flatten)]
    pub control: ControlArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

impl ServeArgs {
    /// The device that is divided among namespaces, and their shares by their numbers, ascending; `None` if
    /// each namespace is a whole device.
    ///
    /// # Errors
    /// Other devices are named beside it.
    pub fn shares(&self) -> Result<Option<(&str, BTreeMap<u32, Share>)>> {
        let share = |(nsid, name): &(u32, String)| {
            let share = name.strip_prefix(PART)?.parse().expect("it was checked");
            Some((*nsid, share))
        };
        let shares: BTreeMap<u32, Share> = self.namespace.iter().filter_map(share).collect();
        if shares.is_empty() {
            return Ok(None);
        }
        let devices = self.namespace.len() - shares.len();
        let [device] = &self.devices[..] else {
            bail!(
                "--namespace: found parts of a device, and {} devices, expected one DEVICE",
                self.devices.len()
            );
        };
        ensure!(
            devices == 0,
            "--namespace: found parts of {device} or a number twice, expected a part for each number"
        );
        Ok(Some((device, shares)))
    }

    /// The devices with the numbers of their namespaces, ascending.
    ///
    /// # Errors
    /// A number is given twice, or there are too many devices.
    pub fn numbered_devices(&self) -> Result<BTreeMap<u32, &str>> {
        let mut devices = BTreeMap::new();
        for (nsid, name) in &self.namespace {
            ensure!(
                devices.insert(*nsid, &**name).is_none(),
                "--namespace: found {nsid} twice, expected another number for each device"
            );
        }
        let mut left = (1..=MAX_NAMESPACES).filter(|nsid| !self.has_chosen(*nsid));
        for name in &self.devices {
            let nsid = left.next().with_context(|| {
                format!("device {name}: expected at most {MAX_NAMESPACES} devices")
            })?;
            devices.insert(nsid, name);
        }
        Ok(devices)
    }

    fn has_chosen(&self, nsid: u32) -> bool {
        self.namespace.iter().any(|(chosen, _)| *chosen == nsid)
    }
}

/// Parses `N=DEVICE`.
fn numbered_device(text: &str) -> Result<(u32, String), String> {
    let (nsid, name) = text.split_once('=').ok_or("expected N=DEVICE, such as 2=zns-1t")?;
    let number = nsid.parse().ok().filter(|number| (1..=MAX_NAMESPACES).contains(number));
    let number = number
        .ok_or_else(|| format!("found `{nsid}`, expected a number from 1 to {MAX_NAMESPACES}"))?;
    if name.is_empty() {
        return Err("found no device, expected N=DEVICE, such as 2=zns-1t".to_owned());
    }
    if let Some(share) = name.strip_prefix(PART) {
        share.parse::<Share>().map_err(|error| error.to_string())?;
        return Ok((number, name.to_owned()));
    }
    let Ok(name) = config::device(name);
    Ok((number, name))
}

/// Options of the log, which goes to standard error.
#[derive(Args, Debug)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Lines of text, or JSON objects
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// The lowest level that is logged; `debug` has connections and why they end
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
    /// The same as --log-level debug
    #[arg(short, long, conflicts_with = "log_level")]
    pub verbose: bool,
}

/// `--log-format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// `--log-level`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl LogArgs {
    /// The log of a server, whose clients may cause any number of messages.
    pub fn options(&self) -> LogOptions {
        let format = match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        let level = match self.log_level {
            _ if self.verbose => Level::DEBUG,
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        };
        LogOptions { format, level, limited: true }
    }
}

/// Options of the export over NVMe/TCP, and of the subsystem, which a virtual machine may have, too.
#[derive(Args, Debug)]
#[command(next_help_heading = "NVMe/TCP and the NVMe subsystem")]
pub struct NvmeTcpArgs {
    /// Serve them over NVMe/TCP on this address, such as 127.0.0.1:4420; port 0 for any that is
    /// free. Repeated, each address is a path to the same subsystem
    #[arg(long = "nvme-tcp", value_name = "HOST:PORT", groups = ["exports", "nvme", "named"], value_parser = address)]
    pub addresses: Vec<SocketAddr>,
    /// NVMe Qualified Name of the subsystem [default: one made from the UUIDs of images; else a random
    /// one for as long as the server runs]
    #[arg(long, requires = "nvme")]
    pub nqn: Option<String>,
    /// Serial number of the subsystem, and of a virtio device, up to 20 characters [default: as --nqn]
    #[arg(long, requires = "named")]
    pub serial: Option<String>,
    /// UUID of a namespace; repeated, one for each device [default: that of an image, else a random
    /// one]
    #[arg(long, requires = "nvme")]
    pub uuid: Vec<String>,
    /// Let only hosts with this NVMe Qualified Name connect; can be repeated. Without
    /// --dhchap-secrets hosts do not have to prove their name
    #[arg(long, value_name = "NQN", requires = "addresses")]
    pub allow_host: Vec<String>,
    /// Let only hosts connect that authenticate with DH-HMAC-CHAP. The file has lines of
    /// HOSTNQN SECRET or HOSTNQN SECRET CONTROLLER-SECRET, with secrets as `nvme gen-dhchap-key`
    /// makes them
    #[arg(long, value_name = "FILE", requires = "addresses")]
    pub dhchap_secrets: Option<PathBuf>,
    /// Hash functions of authentication, the preferred first [default: sha256,sha384,sha512]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "dhchap_secrets")]
    pub dhchap_hash: Vec<Hash>,
    /// DH groups of authentication, the preferred first [default:
    /// ffdhe2048,ffdhe3072,ffdhe4096,ffdhe6144,ffdhe8192,null]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "dhchap_secrets")]
    pub dhchap_dhgroup: Vec<Group>,
    /// Take TLS 1.3 connections of the hosts that have a pre-shared key, and these only with TLS (needs
    /// the feature `tls`). The file has lines of HOSTNQN KEY, with keys as `nvme gen-tls-key` makes them
    #[arg(long, value_name = "FILE", requires = "addresses")]
    pub tls_psk: Option<PathBuf>,
    /// Whether hosts without a key may connect without TLS [default: required]
    #[arg(long, value_enum, value_name = "POLICY", requires = "tls_psk")]
    pub tls: Option<TlsPolicy>,
    /// Connections at once, of all hosts: an admin queue and I/O queues for each
    #[arg(long, value_name = "N", default_value_t = 256, requires = "addresses")]
    pub max_connections: usize,
    /// Connections at once of one host NQN
    #[arg(long, value_name = "N", default_value_t = 128, requires = "addresses")]
    pub max_host_connections: usize,
    /// I/O queues of a controller, of a host over NVMe/TCP or of a virtual machine
    #[arg(long, value_name = "N", default_value_t = 32, requires = "nvme", value_parser = clap::value_parser!(u16).range(1..=128))]
    pub io_queues: u16,
    /// Never sleep while hosts or virtual machines have I/O queues: less latency, a processor for
    /// each queue
    #[arg(long, requires = "named")]
    pub poll: bool,
}

/// `--tls`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TlsPolicy {
    /// No host connects without TLS
    #[default]
    Required,
    /// Hosts without a key connect without TLS
    Optional,
}

/// Options of the export to a virtual machine.
#[derive(Args, Debug)]
#[command(next_help_heading = "Virtual machines")]
pub struct VfioUserArgs {
    /// Serve them to a virtual machine as an NVMe controller on its PCIe bus: make a socket here
    /// for QEMU (-device vfio-user-pci)
    #[arg(long = "vfio-user", value_name = "SOCKET", groups = ["exports", "nvme", "named"])]
    pub socket: Option<PathBuf>,
}

/// Options of the export to a virtual machine as a virtio device.
#[derive(Args, Debug)]
#[command(next_help_heading = "Virtual machines")]
pub struct VhostUserArgs {
    /// Serve it to a virtual machine as a virtio block device, with zones of either kind: make a
    /// socket here for QEMU (-device vhost-user-test-device-pci; without zones vhost-user-blk-pci)
    #[arg(id = "vhost_user", long = "vhost-user", value_name = "SOCKET", groups = ["exports", "named"])]
    pub socket: Option<PathBuf>,
    /// Queues of the virtio device, each with a thread; QEMU is told the same number
    #[arg(id = "vhost_user_queues", long = "vhost-user-queues", value_name = "N", default_value_t = 1, requires = "vhost_user", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub queues: u16,
}

/// Options for monitoring and control.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Monitoring and control")]
pub struct ControlArgs {
    /// Make a socket here for `zonal ctl`, which monitors and controls the devices
    #[arg(long, value_name = "SOCKET")]
    pub ctl: Option<PathBuf>,
    /// Let the members of this group, by name or number, use the socket of --ctl, too
    #[arg(long, value_name = "GROUP", requires = "ctl", value_parser = group)]
    pub ctl_group: Option<u32>,
    /// Answer `GET /metrics` on this address, for Prometheus
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Show the devices as a page for a browser on this address, such as 127.0.0.1:8080; port 0 for
    /// any that is free. On an address that other machines reach, the page has a token in its URL
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub web: Option<SocketAddr>,
    /// Let the page change the scheduler, the zone-write policy and fault rules
    #[arg(long, requires = "web")]
    pub web_control: bool,
}

/// Options of the export as files.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Zones as files")]
pub struct FuseArgs {
    /// Mount the zones as files on this directory, as zonefs does (needs the feature `fuse`)
    #[arg(long = "fuse", value_name = "DIR", group = "exports")]
    pub dir: Option<PathBuf>,
    /// zonefs' options, separated by commas: aggr_cnv, uid=N, gid=N, perm=OCTAL, explicit-open,
    /// errors=remount-ro|zone-ro|zone-offline|repair
    #[arg(long = "fuse-options", value_name = "LIST", requires = "dir")]
    pub options: Option<String>,
    /// Threads that do the files' I/O, each with a hardware queue
    #[arg(long = "fuse-threads", value_name = "N", default_value_t = 4, requires = "dir", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
}

/// Options of the export as a block device.
#[derive(Args, Debug)]
#[command(next_help_heading = "Block device of this machine (ublk)")]
pub struct UblkArgs {
    /// Serve it as the block device /dev/ublkbID of this machine, through the kernel's ublk driver;
    /// as root [default ID: one that is free]
    #[arg(long = "ublk", value_name = "ID", num_args = 0..=1, require_equals = true, group = "exports")]
    pub id: Option<Option<u32>>,
    /// Queues of the ublk device, each with a thread [default: one for each processor, up to those
    /// of the device]
    #[arg(long = "ublk-queues", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queues: Option<u16>,
    /// Requests at once on each queue of the ublk device
    #[arg(long = "ublk-depth", value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub depth: u16,
    /// Copy the data of the ublk device, also where the kernel can lend its pages to the device
    #[arg(long = "ublk-copy")]
    pub copies: bool,
    /// If this server is killed, keep the ublk device and its I/O for the next one; if such a device
    /// waits, take it over
    #[arg(long)]
    pub recover: bool,
}

/// The number of a group that has this name or number.
fn group(text: &str) -> Result<u32, String> {
    let found = zonal_os::group::group_id(text).map_err(|error| error.to_string())?;
    let number = found.or_else(|| text.parse().ok());
    number.ok_or_else(|| "there is no such group: expected the name or the number of one (`getent group` lists them)".to_owned())
}
