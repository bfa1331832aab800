//! Reports against those of fio 3.33.
//!
//! `data/` holds one run in fio's formats, made with `--output-format=normal,json+,terse` from this
//! job file (times and process IDs are replaced):
//!
//! ```ini
//! [global]
//! ioengine=null
//! size=1g
//! bs=4k
//! iodepth=8
//! runtime=2
//! time_based
//! group_reporting
//!
//! [mixed]
//! rw=randrw
//! rate_iops=2000,1000
//! numjobs=2
//! ```
mod fio_json;
mod fio_text;
mod percentiles;
mod snapshot;
mod support;
