//! The pages of the map: their size, and the pages that a request touches.
use super::translation::{Counts, Page, Translation};
use crate::control::TranslationStats;
use zonal_blk::{Bytes, Request};

/// The size of a page, in bytes.
pub(crate) const PAGE: u32 = 4096;

/// The number of a page of the drive.
pub(crate) fn page_number(page: u64) -> Page {
    Page::try_from(page).expect("the block layer has checked that it is on the device")
}

/// The pages that a request touches.
pub(crate) fn pages_of(request: &Request) -> std::ops::Range<Page> {
    let page = u64::from(PAGE);
    let (from, to) = (request.sector().to_bytes().0, request.end().to_bytes().0);
    page_number(from / page)..page_number(to.div_ceil(page))
}

/// Statistics of a translation layer with these counts, whose host had to wait with `waited` pages.
pub(crate) fn stats(translation: &Translation, counts: Counts, waited: u64) -> TranslationStats {
    let Counts { host, discarded, erased, .. } = counts;
    let bytes = |pages: u64| Bytes(pages * u64::from(PAGE));
    TranslationStats {
        host: bytes(host),
        media: bytes(counts.media()),
        discarded: bytes(discarded),
        erased_superblocks: erased,
        waited: bytes(waited),
        free_superblocks: translation.free(),
        superblocks: translation.shape().superblocks,
        map: None,
    }
}
