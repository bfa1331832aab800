//! PCI configuration space: what may be written, byte by byte, and function level reset.
//!
//! ```text
//!  00h  header: an NVMe controller with a BAR of 64 bits
//!  40h  power management (NVMe over PCIe section 3.8)
//!  48h  MSI-X
//!  60h  PCI Express
//! ```
use super::{DEVICE, VENDOR};

/// Bytes of BAR 0.
pub const BAR_SIZE: u32 = 0x4000;
/// Where BAR 0 has the MSI-X table.
pub(super) const VECTOR_TABLE: u32 = 0x2000;
/// Where it has the pending bits, which are always 0.
pub(super) const PBA: u32 = 0x3000;
/// Bytes of configuration space.
pub const CONFIG_SIZE: usize = 4096;

const POWER: u8 = 0x40;
const MSIX: u8 = 0x48;
const EXPRESS: u8 = 0x60;
/// Device Control, in the capability.
const DEVICE_CONTROL: u8 = EXPRESS + 8;
/// Initiate Function Level Reset, in the upper byte of Device Control.
const FUNCTION_RESET: u8 = 1 << 7;

/// The configuration space of a function.
pub(super) struct ConfigSpace {
    bytes: Vec<u8>,
    writable: Vec<u8>,
}

impl ConfigSpace {
    /// With MSI-X for `vectors`.
    pub fn new(vectors: u16) -> Self {
        let mut space = ConfigSpace { bytes: vec![0; CONFIG_SIZE], writable: vec![0; CONFIG_SIZE] };
        space.header();
        // Version 3; a reset of the power state keeps nothing (No_Soft_Reset is 0).
        space.set(POWER, &[0x01, MSIX, 0x03, 0x00]);
        space.allow(POWER + 4, &[0x03]);
        space.set(MSIX, &[0x11, EXPRESS]);
        space.set(MSIX + 2, &(vectors - 1).to_le_bytes());
        space.set(MSIX + 4, &VECTOR_TABLE.to_le_bytes());
        space.set(MSIX + 8, &PBA.to_le_bytes());
        // MSI-X Enable and Function Mask.
        space.allow(MSIX + 3, &[0xc0]);
        // Version 2, an endpoint.
        space.set(EXPRESS, &[0x10, 0x00, 0x02, 0x00]);
        // Role-based error reporting; function level reset.
        space.set(EXPRESS + 4, &(1_u32 << 15 | 1 << 28).to_le_bytes());
        space.allow(DEVICE_CONTROL, &[0xff, 0x7f]);
        // A link of 4 lanes at 8 GT/s, as capable as it is.
        space.set(EXPRESS + 12, &0x43_u32.to_le_bytes());
        space.set(EXPRESS + 18, &0x43_u16.to_le_bytes());
        space.allow(EXPRESS + 40, &[0xff, 0xff]);
        space
    }

    fn header(&mut self) {
        self.set(0, &VENDOR.to_le_bytes());
        self.set(2, &DEVICE.to_le_bytes());
        // Memory space, bus master, parity, SERR, interrupts disabled.
        self.allow(0x04, &[0x46, 0x05]);
        // There are capabilities.
        self.set(0x06, &[0x10, 0x00]);
        // Mass storage, non-volatile memory, NVM Express.
        self.set(0x09, &[0x02, 0x08, 0x01]);
        // Cache line size and latency timer.
        self.allow(0x0c, &[0xff, 0xff]);
        // BAR 0: memory, 64 bits.
        self.set(0x10, &[0x04]);
        self.allow(0x10, &(!(u64::from(BAR_SIZE) - 1)).to_le_bytes());
        self.set(0x2c, &VENDOR.to_le_bytes());
        self.set(0x2e, &DEVICE.to_le_bytes());
        self.set(0x34, &[POWER]);
        // Interrupt line.
        self.allow(0x3c, &[0xff]);
    }

    fn set(&mut self, at: u8, bytes: &[u8]) {
        let at = usize::from(at);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: u8, mask: &[u8]) {
        let at = usize::from(at);
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }

    /// Reads from `offset` on. Beyond the end are zeroes.
    pub fn read(&self, offset: u64, to: &mut [u8]) {
        to.fill(0);
        let start = usize::try_from(offset).unwrap_or(CONFIG_SIZE).min(CONFIG_SIZE);
        let found = &self.bytes[start..];
        let len = found.len().min(to.len());
        to[..len].copy_from_slice(&found[..len]);
    }

    /// Writes from `offset` on what may be written. Returns whether the function is to be reset.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> bool {
        let start = usize::try_from(offset).unwrap_or(CONFIG_SIZE).min(CONFIG_SIZE);
        let mut reset = false;
        for ((at, byte), value) in self.bytes.iter_mut().enumerate().skip(start).zip(from) {
            let mask = self.writable[at];
            *byte = *byte & !mask | value & mask;
            reset |= at == usize::from(DEVICE_CONTROL) + 1 && value & FUNCTION_RESET != 0;
        }
        reset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<const N: usize>(space: &ConfigSpace, offset: u64) -> [u8; N] {
        let mut bytes = [0; N];
        space.read(offset, &mut bytes);
        bytes
    }

    #[test]
    fn it_is_an_nvme_controller_whose_capabilities_end() {
        let space = ConfigSpace::new(33);
        assert_eq!(read(&space, 9), [0x02, 0x08, 0x01]);
        let (mut at, mut found) = (read::<1>(&space, 0x34)[0], Vec::new());
        while at != 0 {
            let [id, next] = read(&space, at.into());
            found.push(id);
            at = next;
        }
        assert_eq!(found, [0x01, 0x11, 0x10]);
        assert_eq!(read(&space, u64::from(MSIX) + 2), 32_u16.to_le_bytes(), "33 vectors");
    }

    #[test]
    fn only_what_is_writable_changes_at_any_width() {
        let mut space = ConfigSpace::new(2);
        let before = read::<4>(&space, 0);
        assert!(!space.write(0, &[0xff; 4]));
        assert_eq!(read(&space, 0), before);
        // The size of the BAR, as software asks for it.
        space.write(0x10, &[0xff; 8]);
        let bar = u64::from_le_bytes(read(&space, 0x10));
        assert_eq!((!(bar & !0xf)) + 1, BAR_SIZE.into());
        assert_eq!(bar & 0xf, 4);
        assert!(!space.write(CONFIG_SIZE as u64 - 1, &[0xff; 9]));
        assert!(!space.write(u64::MAX, &[0xff; 9]));
        assert_eq!(read(&space, u64::MAX), [0]);
        assert!(space.write(DEVICE_CONTROL.into(), &[0, 0x80]), "function level reset");
        assert_eq!(read::<2>(&space, DEVICE_CONTROL.into()), [0, 0], "which reads as 0");
    }
}
