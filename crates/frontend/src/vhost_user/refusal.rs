//! Why a request of a client is refused.
use super::super::guest::socket::MAX_FDS;
use super::chain::RingError;
use super::ring::MAX_RING;
use rustix::io::Errno;
use std::io;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("it is not known here")]
    Unknown,
    #[error("found {0} bytes, which such a request does not have")]
    Size(usize),
    #[error("found {found} descriptors, expected {expected}")]
    Fds { found: usize, expected: usize },
    #[error("found features {0:#x}, expected some of those that were offered")]
    Features(u64),
    #[error("found ring {found}, expected one of {rings}")]
    Ring { found: u64, rings: usize },
    #[error("found a ring of {0}, expected a power of two up to {MAX_RING}")]
    RingSize(u32),
    #[error("the ring is being served")]
    Running,
    #[error("the ring has no size, no addresses, or addresses that rings cannot have")]
    NotReady,
    #[error("address {0:#x} is not in memory that the client shares")]
    Address(u64),
    #[error("found {0} regions, expected {MAX_FDS} at most")]
    Regions(u32),
    #[error("memory: {0}")]
    Memory(Errno),
    #[error("found a descriptor that is no eventfd: {0}")]
    Eventfd(Errno),
    #[error("a ring without an eventfd is not supported")]
    NoKick,
    #[error("memory for requests in flight: {0}")]
    Inflight(Errno),
    #[error(transparent)]
    Broken(#[from] RingError),
    #[error("no thread for the ring: {0}")]
    Thread(io::Error),
    #[error("configuration space cannot be written")]
    ReadOnly,
}
