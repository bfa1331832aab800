//! The tree of fio's JSON: field names, nesting and order of fio 3.33, with our facts beside it
//! under `zonal`.
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// An object whose keys are known only at run time, in the order given.
#[derive(Clone, Debug, Default)]
pub(super) struct Map<V>(pub Vec<(String, V)>);

impl<V> Map<V> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

/// The whole output.
#[derive(serde::Serialize)]
pub(super) struct Root {
    #[serde(rename = "fio version")]
    pub version: String,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    pub time: String,
    #[serde(rename = "global options", skip_serializing_if = "Map::is_empty")]
    pub global_options: Map<String>,
    pub jobs: Vec<Job>,
    /// Always empty: statistics of a host's disks mean nothing for our devices.
    pub disk_util: [(); 0],
    pub zonal: Zonal,
}

/// What fio has no place for.
#[derive(serde::Serialize)]
pub(super) struct Zonal {
    pub device: String,
    pub clock: String,
    pub policy: String,
    pub seed: u64,
    pub jobs: Vec<ZonalJob>,
    #[serde(flatten)]
    pub extra: Map<Value>,
}

/// An entry of `zonal.jobs`, in the place of its entry of `jobs`.
#[derive(serde::Serialize)]
pub(super) struct ZonalJob {
    pub jobname: String,
    pub zone_resets: u64,
    /// Failed I/Os by status.
    pub errors: Map<DirCounts>,
}

#[derive(serde::Serialize)]
pub(super) struct DirCounts {
    pub read: u64,
    pub write: u64,
    pub trim: u64,
}

/// An entry of `jobs`.
#[derive(serde::Serialize)]
pub(super) struct Job {
    pub jobname: String,
    pub groupid: u32,
    pub error: i32,
    /// Seconds.
    pub eta: u64,
    /// Seconds.
    pub elapsed: u64,
    #[serde(rename = "job options")]
    pub job_options: Map<String>,
    pub read: Direction,
    pub write: Direction,
    pub trim: Direction,
    pub sync: Sync,
    /// Milliseconds, summed over the clones.
    pub job_runtime: u64,
    /// Percent.
    pub usr_cpu: f64,
    /// Percent.
    pub sys_cpu: f64,
    pub ctx: u64,
    pub majf: u64,
    pub minf: u64,
    /// This and the five below: percent.
    pub iodepth_level: Map<f64>,
    pub iodepth_submit: Map<f64>,
    pub iodepth_complete: Map<f64>,
    pub latency_ns: Map<f64>,
    pub latency_us: Map<f64>,
    pub latency_ms: Map<f64>,
    pub latency_depth: u32,
    pub latency_target: u64,
    pub latency_percentile: f64,
    pub latency_window: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_err: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desc: Option<String>,
}

/// `read`, `write` and `trim` of a job.
#[derive(serde::Serialize)]
pub(super) struct Direction {
    pub io_bytes: u64,
    pub io_kbytes: u64,
    /// Bytes per second.
    pub bw_bytes: u64,
    /// KiB per second.
    pub bw: u64,
    pub iops: f64,
    /// Milliseconds.
    pub runtime: u64,
    pub total_ios: u64,
    pub short_ios: u64,
    pub drop_ios: u64,
    pub slat_ns: Latency,
    pub clat_ns: Latency,
    pub lat_ns: Latency,
    /// KiB per second, as all of `bw_` but the percentage `bw_agg`.
    pub bw_min: u64,
    pub bw_max: u64,
    pub bw_agg: f64,
    pub bw_mean: f64,
    pub bw_dev: f64,
    pub bw_samples: u64,
    pub iops_min: u64,
    pub iops_max: u64,
    pub iops_mean: f64,
    pub iops_stddev: f64,
    pub iops_samples: u64,
}

/// A latency in nanoseconds.
#[derive(Default, serde::Serialize)]
pub(super) struct Latency {
    pub min: u64,
    pub max: u64,
    pub mean: f64,
    pub stddev: f64,
    #[serde(rename = "N")]
    pub count: u64,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub percentile: Map<u64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub bins: Map<u64>,
}

/// `sync` of a job.
#[derive(Default, serde::Serialize)]
pub(super) struct Sync {
    pub total_ios: u64,
    pub lat_ns: Latency,
}
