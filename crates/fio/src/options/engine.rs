//! The engines of fio. All I/O goes through Zonal's own block layer, but an engine may limit the depth.
use thiserror::Error;

/// The engines of fio 3.41 whose jobs read and write storage, separated by blanks.
const ENGINES: &str = "psync sync vsync pvsync pvsync2 io_uring io_uring_cmd libaio posixaio \
    solarisaio windowsaio mmap splice sg libzbc null xnvme libblkio nbd libiscsi rbd rados http \
    gfapi gfapi_async libhdfs mtd libpmem pmemblk dev-dax ime_psync ime_psyncv ime_aio libcufile \
    dfs nfs guasi cpp_null external";

/// Engines of fio whose jobs do no I/O that a block device would see, and what they do.
const NO_STORAGE: [(&str, &str); 18] = [
    ("cpuio", "burns CPU time"),
    ("exec", "runs a program"),
    ("net", "sends data over a network"),
    ("netsplice", "sends data over a network"),
    ("rdma", "sends data over a network"),
    ("librpma_apm_client", "sends data over a network"),
    ("librpma_apm_server", "sends data over a network"),
    ("librpma_gpspm_client", "sends data over a network"),
    ("librpma_gpspm_server", "sends data over a network"),
    ("filecreate", "creates files"),
    ("filestat", "reads the attributes of files"),
    ("filedelete", "removes files"),
    ("dircreate", "creates directories"),
    ("dirstat", "reads the attributes of directories"),
    ("dirdelete", "removes directories"),
    ("falloc", "allocates space of files"),
    ("ftruncate", "changes the sizes of files"),
    ("e4defrag", "moves the blocks of files"),
];

/// Why an engine cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// An engine that does no I/O to storage.
    #[error("{engine} does no block I/O: it {what}")]
    NoStorage {
        /// The engine.
        engine: &'static str,
        /// Its purpose.
        what: &'static str,
    },
    /// fio has no such engine.
    #[error(
        "expected one of {}, found {found:?}{}",
        ENGINES.replace(' ', ", "),
        zonal_blk::did_you_mean(.found, ENGINES.split(' '))
    )]
    Unknown {
        /// The engine.
        found: String,
    },
}

/// An engine is one of fio's, or `external:FILE` or the path of a file.
pub(super) fn check_engine(found: &str) -> Result<(), EngineError> {
    if let Some(&(engine, what)) = NO_STORAGE.iter().find(|(name, _)| *name == found) {
        return Err(EngineError::NoStorage { engine, what });
    }
    let name = found.split(':').next().unwrap_or(found);
    if found.contains('/') || ENGINES.split(' ').any(|known| known == name) {
        return Ok(());
    }
    Err(EngineError::Unknown { found: found.to_owned() })
}

/// Engines that do one I/O at a time, so that a clone never has more than one in flight.
const ONE_AT_A_TIME: [&str; 17] = [
    "psync",
    "sync",
    "vsync",
    "pvsync",
    "pvsync2",
    "mmap",
    "splice",
    "sg",
    "libzbc",
    "http",
    "gfapi",
    "libhdfs",
    "mtd",
    "libpmem",
    "dev-dax",
    "ime_psync",
    "libcufile",
];

/// Whether an engine does one I/O at a time.
pub(super) fn is_synchronous(engine: &str) -> bool {
    ONE_AT_A_TIME.contains(&engine)
}

/// Whether an engine has a queue, even one of one I/O.
pub(super) fn has_queue(engine: &str) -> bool {
    !is_synchronous(engine) && engine != "null"
}
