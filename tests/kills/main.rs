//! Servers that are killed under load, half of them with a loss of power of the file system below: nothing that a
//! host was told is kept may be lost.
//!
//! ```text
//!  main    the cases: each export of each kind of image
//!  case    kills of one: load, kill or power cut, start, verification
//!  model   what may be there afterwards
//!  host    what submits commands: named (nvme-tcp, ublk), nvme (vfio-user), virtio (vhost-user), files (FUSE)
//!  disk    a file system with a volatile cache, and with faults
//! ```
//!
//! `cargo test --features fuse --test kills` does a few kills of each. `ZONAL_KILLS` is their number, `ZONAL_SEED` the
//! seed, and `ZONAL_CASE` a part of the names of cases, such as `vfio-user/ssd`.
mod case;
#[cfg(feature = "fuse")]
mod disk;
mod files;
#[path = "../../crates/frontend/tests/guest_memory/mod.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod guest_memory;
mod host;
#[path = "../hostile/mod.rs"]
mod hostile;
mod model;
mod nvme;
mod server;
mod tcp;
mod virtio;

use case::{Case, Export, Kind};
use std::path::Path;
use std::process::ExitCode;
use zonal_device::rng::mix;

/// Kills of each case, unless `ZONAL_KILLS` is set.
const KILLS: u64 = 4;
const EXPORTS: [(Export, &str); 5] = [
    (Export::NvmeTcp, "nvme-tcp"),
    (Export::VfioUser, "vfio-user"),
    (Export::VhostUser, "vhost-user"),
    (Export::Fuse, "fuse"),
    (Export::Ublk, "ublk"),
];
const KINDS: [(Kind, &str); 4] = [
    (Kind::Zoned, "zoned"),
    (Kind::Unzoned, "unzoned"),
    (Kind::Ssd, "ssd"),
    (Kind::Divided, "divided"),
];

const HEAD: &str = "\
| Export | Images | Kills | with a loss of power | after a shutdown | Faults | Writes checked | Losses |
|---|---|---|---|---|---|---|---|";

/// Why a case is not run.
fn obstacle(export: Export, kind: Kind) -> Option<&'static str> {
    match (export, kind) {
        (Export::Fuse, _) if !cfg!(feature = "fuse") => Some("built without the feature fuse"),
        (Export::Fuse, _) if !Path::new("/dev/fuse").exists() => Some("there is no /dev/fuse"),
        (Export::Ublk, _) if !Path::new("/dev/ublk-control").exists() => {
            Some("there is no /dev/ublk-control")
        }
        (Export::Ublk, _) if std::env::var_os("ZONAL_KILLS").is_none() => {
            Some("only with ZONAL_KILLS, since a killed server leaves its block device behind")
        }
        (Export::Fuse, kind) if kind != Kind::Zoned => Some("it has files for zones only"),
        (Export::VhostUser | Export::Ublk, Kind::Divided) => Some("it exports one device"),
        _ => None,
    }
}

fn variable(name: &str, otherwise: u64) -> u64 {
    let parse = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}: found `{text}`"));
    std::env::var(name).map_or(otherwise, parse)
}

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let (kills, seed) = (variable("ZONAL_KILLS", KILLS), variable("ZONAL_SEED", 1));
    let wanted = std::env::var("ZONAL_CASE").unwrap_or_default();
    let loses_power = cfg!(feature = "fuse");
    if !loses_power {
        eprintln!("no losses of power: built without the feature fuse");
    }
    println!("{HEAD}");
    let mut all = case::Sum::default();
    let cases = EXPORTS.iter().flat_map(|export| KINDS.iter().map(move |kind| (export, kind)));
    for (number, (&(export, door), &(kind, image))) in (0_u64..).zip(cases) {
        let name = format!("{door}/{image}");
        if !name.contains(&wanted) {
            continue;
        }
        if let Some(why) = obstacle(export, kind) {
            eprintln!("{name} not run: {why}");
            continue;
        }
        let mut case = Case::new(export, kind, mix(seed) ^ number);
        for kill in 0..kills {
            // Half of them with a loss of power; of the others every second on the same file system.
            case.kill(loses_power && kill % 2 == 0, loses_power && kill % 4 != 1);
        }
        let sum = std::mem::take(&mut case.sum);
        drop(case);
        println!("| {door} | {image} | {sum}");
        for lost in &sum.lost {
            eprintln!(
                "  lost: {lost}\n  again: ZONAL_SEED={seed} ZONAL_CASE={name} ZONAL_KILLS={kills}"
            );
        }
        all.add(&sum);
    }
    println!("| in all | | {all}");
    eprintln!("seed {seed}");
    if all.lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
