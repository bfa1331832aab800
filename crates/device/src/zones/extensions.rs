//! Zone descriptor extensions (NVMe ZNS 1.1 section 3.4.2, ZDES): bytes that a host keeps with a zone.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use zonal_blk::ZoneNo;

/// The extensions of a device's zones. They last until their zone is empty again.
#[derive(Debug)]
pub(super) struct Extensions {
    /// Bytes of each; 0 for none.
    size: u32,
    data: Mutex<BTreeMap<ZoneNo, Box<[u8]>>>,
}

impl Extensions {
    pub fn new(size: u32) -> Self {
        Extensions { size, data: Mutex::default() }
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    fn data(&self) -> MutexGuard<'_, BTreeMap<ZoneNo, Box<[u8]>>> {
        self.data.lock().expect("no thread panics with the extensions locked")
    }

    pub fn set(&self, zone: ZoneNo, data: &[u8]) {
        self.data().insert(zone, data.into());
    }

    /// Copies the extension of a zone, or zeroes.
    pub fn get(&self, zone: ZoneNo, to: &mut [u8]) {
        match self.data().get(&zone).filter(|data| data.len() == to.len()) {
            Some(data) => to.copy_from_slice(data),
            None => to.fill(0),
        }
    }

    pub fn clear(&self, zone: ZoneNo) {
        self.data().remove(&zone);
    }
}
