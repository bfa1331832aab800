//! Making images.
use crate::device::text;
use crate::error::{Error, Result, guard};
use std::ffi::{c_char, c_int, c_uint};
use std::path::Path;
use zonal_backend::image::{self, Profile};

/// Flag of `zonal_create`: data have no checksums.
pub const ZONAL_CREATE_NO_CHECKSUMS: c_uint = 1;

/// Creates an image, a zoned device in a file, of the device that `profile` names: a spec such as
/// `zns-1t:zones=64`, or a profile `NAME.toml`. `flags` is 0 or `ZONAL_CREATE_NO_CHECKSUMS`. The file must
/// not exist. `zonal_open` opens it, by its path if that ends in `.img`, else by `image:PATH`.
///
/// Returns 0, or -1: `EEXIST` if there is a file, `EINVAL` for a profile that no image can have, else the
/// error number of what failed.
///
/// # Safety
/// `path` and `profile` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_create(
    path: *const c_char,
    profile: *const c_char,
    flags: c_uint,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let (path, profile) = unsafe { (text(path, "path")?, text(profile, "profile")?) };
        if flags & !ZONAL_CREATE_NO_CHECKSUMS != 0 {
            return Err(Error::invalid(format_args!(
                "flags {flags}: expected 0 or ZONAL_CREATE_NO_CHECKSUMS, 1"
            )));
        }
        create(path, profile, flags & ZONAL_CREATE_NO_CHECKSUMS == 0).map(|()| 0)
    })
}

fn create(path: &str, profile: &str, checksums: bool) -> Result<()> {
    zonal_backend::load(profile)?;
    let profile = if profile.ends_with(".toml") {
        Profile::Toml(zonal_backend::profile_text(profile).map_err(Error::invalid)?)
    } else {
        Profile::Spec(profile.to_owned())
    };
    image::create(Path::new(path), profile, checksums)?;
    Ok(())
}
