//! Copies between the segments of a request and one contiguous buffer, as long as its data.
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{Request, Status};

/// Copies the data of a write to `data`. A bio without a buffer writes zeroes.
///
/// # Errors
/// An external buffer cannot be read.
pub(super) fn gather(request: &mut Request, mut data: &mut [u8]) -> Result<(), Status> {
    let mut result = Ok(());
    request.for_each_segment(|_, nr_sectors, buf| {
        let len = (nr_sectors as usize) << SECTOR_SHIFT;
        let (segment, rest) = std::mem::take(&mut data).split_at_mut(len);
        match buf {
            None => segment.fill(0),
            Some(buf) => match buf.as_external() {
                Some(external) => result = result.and(external.read(segment)),
                None => segment.copy_from_slice(buf),
            },
        }
        data = rest;
    });
    result
}

/// Copies `data` to the buffers of a read.
///
/// # Errors
/// An external buffer cannot be written.
pub(super) fn scatter(request: &mut Request, mut data: &[u8]) -> Result<(), Status> {
    let mut result = Ok(());
    request.for_each_segment(|_, nr_sectors, buf| {
        let (segment, rest) = data.split_at((nr_sectors as usize) << SECTOR_SHIFT);
        if let Some(buf) = buf {
            match buf.as_external() {
                Some(external) => result = result.and(external.write(segment)),
                None => buf.copy_from_slice(segment),
            }
        }
        data = rest;
    });
    result
}
