//! Protection information, which the controller inserts and strips.
use crate::wire::io::control;

/// The bits of [`control`] that protection information requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// For reads and writes.
    pub rw: u16,
    /// For zone appends.
    pub append: u16,
}

impl Protection {
    /// For a namespace with `metadata` bytes per block and protection of type `pi_type`.
    ///
    /// Bios carry no metadata, so the controller inserts and strips it (PRACT). The scan has checked
    /// that it is protection information and nothing else.
    #[inline(always)]
    pub fn new(metadata: u16, pi_type: u8) -> Protection {
        if metadata == 0 {
            return Protection::default();
        }
        let mut rw = control::PRACT | control::CHECK_GUARD;
        if pi_type != 3 {
            rw |= control::CHECK_REFERENCE;
        }
        // The host does not know the LBA of an append: the controller remaps the reference tag.
        let append = if pi_type == 1 { rw | control::PI_REMAP } else { rw };
        Protection { rw, append }
    }
}
