//! The published tables that can be measured again.
mod flash;
mod flash_cache;
mod fs;
mod interference;
mod scaling;
pub(super) mod smr;
mod zn540;
mod zwp;

use super::table::Table;

/// All tables.
pub fn all() -> Vec<Table> {
    vec![
        zwp::null_blk(),
        zwp::zns(),
        zwp::smr(),
        smr::sequential(),
        smr::random(),
        fs::btrfs(),
        fs::xfs(),
        fs::xfs_limited(),
        fs::raidtest(),
        zn540::table(),
        interference::table(),
        flash::table(),
        flash_cache::table(),
        scaling::table(),
    ]
}
