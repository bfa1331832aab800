//! Images as JSON.
use serde_json::{Value, json};
use std::path::Path;
use zonal_device::image::{ImageGeometry, Profile, Superblock};
use zonal_os::uuid;

/// An image as its superblock describes it.
pub fn superblock(path: &Path, superblock: &Superblock) -> Value {
    let (Profile::Spec(profile) | Profile::Toml(profile)) = &superblock.profile;
    json!({
        "image": path,
        "format_version": superblock.version,
        "uuid": uuid::format(&superblock.uuid),
        "profile": profile,
        "geometry": geometry(&superblock.geometry),
        "checksums": superblock.checksums,
        "preallocated": superblock.preallocated,
    })
}

/// Zones and limits; sizes in bytes, 0 where there is no limit.
fn geometry(geometry: &ImageGeometry) -> Value {
    json!({
        "zones": geometry.zones,
        "conventional": geometry.conventional,
        "zone_size": geometry.zone_size.to_bytes().0,
        "zone_capacity": geometry.zone_capacity.to_bytes().0,
        "max_open": geometry.max_open,
        "max_active": geometry.max_active,
        "lba": geometry.lba,
        "max_io": u64::from(geometry.max_sectors) << 9,
        "append_max": u64::from(geometry.append_max_sectors) << 9,
        "rotational": geometry.rotational,
        "zoned": !geometry.regular,
    })
}
