//! `zonal serve`.
use super::ZoneWriteArg;
use clap::Args;
use std::net::SocketAddr;

/// Options of `zonal serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The device to export: a spec (see `zonal devices`), a TOML profile or an image NAME.img. Those that keep data
    /// have memory=true
    #[arg(value_name = "DEVICE")]
    pub device: String,
    /// Serve it over NVMe/TCP on this address, such as 127.0.0.1:4420; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS:PORT", required = true)]
    pub nvme_tcp: SocketAddr,
    /// NVMe Qualified Name of the subsystem [default: one made from the device's spec]
    #[arg(long)]
    pub nqn: Option<String>,
    /// Let only hosts with this NVMe Qualified Name connect; can be repeated. Hosts say who they
    /// are, nothing proves it
    #[arg(long, value_name = "NQN")]
    pub allow_host: Vec<String>,
    /// Connections at once, of all hosts: an admin queue and I/O queues for each
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_connections: usize,
    /// Connections at once of one host NQN
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub max_host_connections: usize,
    /// I/O queues of a controller
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub io_queues: u16,
    /// Never sleep while hosts have I/O queues: less latency, a processor for each queue
    #[arg(long)]
    pub poll: bool,
    /// How writes to sequential zones are kept in order [default: qd1 for rotating devices, else
    /// plug]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub zone_write: Option<ZoneWriteArg>,
    /// I/O scheduler: none, mq-deadline, bfq or kyber [default: none]
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// Set an attribute of the scheduler; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub sched_opt: Vec<String>,
    /// Do not merge waiting writes that follow one another
    #[arg(long)]
    pub nomerges: bool,
    /// Chooses the random numbers of the device
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Say on standard error who connects, and why connections end
    #[arg(short, long)]
    pub verbose: bool,
}
