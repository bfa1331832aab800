//! Whether what was found on a path is the namespace of a head.
//!
//! Takes what scans found; gives the field in which they differ. As in Linux, a namespace on another
//! controller is the same one only if its names and its format are (`nvme_ns_ids_equal`,
//! drivers/nvme/host/core.c, 6.12).
use super::info::NamespaceInfo;
use super::layout::inline::NamespaceHead;
use std::fmt::{LowerHex, Write};

/// Something that was found and is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct NamespaceMismatch {
    field: &'static str,
    found: String,
    expected: String,
}

fn same<T: PartialEq>(
    field: &'static str,
    show: impl Fn(&T) -> String,
    found: &T,
    expected: &T,
) -> Result<(), NamespaceMismatch> {
    if found == expected {
        return Ok(());
    }
    Err(NamespaceMismatch { field, found: show(found), expected: show(expected) })
}

fn hex<T: LowerHex>(bytes: impl IntoIterator<Item = T>) -> String {
    bytes.into_iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl NamespaceHead {
    /// Whether what was found on a path is this namespace.
    ///
    /// # Errors
    /// The first field in which it is not.
    pub fn validate(&self, found: &NamespaceInfo) -> Result<(), NamespaceMismatch> {
        let head = &self.info;
        let number = |number: &u64| number.to_string();
        let numbers = |field, found: u64, head: u64| same(field, number, &found, &head);
        same("NGUID", |id: &[u8; 16]| hex(id), &found.ids.nguid, &head.ids.nguid)?;
        same("EUI64", |id: &[u8; 8]| hex(id), &found.ids.eui64, &head.ids.eui64)?;
        same("UUID", |id: &[u8; 16]| hex(id), &found.ids.uuid, &head.ids.uuid)?;
        numbers("namespace", found.nsid.into(), head.nsid.into())?;
        numbers("command set", found.csi.0.into(), head.csi.0.into())?;
        numbers("block size (log2)", found.lba_shift.into(), head.lba_shift.into())?;
        numbers("metadata bytes", found.metadata.into(), head.metadata.into())?;
        numbers("protection type", found.pi_type.into(), head.pi_type.into())?;
        numbers("capacity in sectors", found.capacity.0, head.capacity.0)?;
        let size = |info: &NamespaceInfo| info.zones.map_or(0, |zones| zones.size.0);
        numbers("zone size in sectors", size(found), size(head))
    }

    /// The same for a path over another controller at the same time: the namespace must be one that
    /// controllers may share (NMIC bit 0).
    ///
    /// # Errors
    /// The first field in which it is not.
    pub fn validate_shared(&self, found: &NamespaceInfo) -> Result<(), NamespaceMismatch> {
        self.validate(found)?;
        let show = |&shared: &bool| if shared { "shared" } else { "private" }.to_owned();
        same("sharing (NMIC)", show, &(found.shared && self.info.shared), &true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ns::info::testing;
    use crate::ns::{Ids, ZoneInfo};
    use crate::wire::opcode::Csi;
    use zonal_blk::Sector;

    #[test]
    fn namespace_that_differs_in_a_name_or_in_its_format_is_another() {
        let zones = ZoneInfo { size: Sector(64), max_open: 4, max_active: 4 };
        let info = NamespaceInfo {
            nsid: 1,
            ids: Ids { eui64: [1; 8], nguid: [2; 16], uuid: [3; 16] },
            shared: true,
            capacity: Sector(6400),
            zones: Some(zones),
            ..testing::info()
        };
        let head = NamespaceHead::new(&info);
        // What is in use changes, and limits may differ: the strictest hold.
        let limits = ZoneInfo { max_open: 2, ..zones };
        head.validate_shared(&NamespaceInfo { used: 7, zones: Some(limits), ..info }).unwrap();
        let ids = |ids| NamespaceInfo { ids, ..info };
        let zones = ZoneInfo { size: Sector(128), ..zones };
        for (found, expected) in [
            (
                ids(Ids { nguid: [4; 16], ..info.ids }),
                "NGUID: found 04040404040404040404040404040404, expected 0202",
            ),
            (ids(Ids { eui64: [4; 8], ..info.ids }), "EUI64: found 0404040404040404, expected 01"),
            (ids(Ids { uuid: [0; 16], ..info.ids }), "UUID: found 0000"),
            (NamespaceInfo { nsid: 2, ..info }, "namespace: found 2, expected 1"),
            (NamespaceInfo { csi: Csi::NVM, ..info }, "command set: found 0, expected 2"),
            (NamespaceInfo { lba_shift: 9, ..info }, "block size (log2): found 9, expected 12"),
            (NamespaceInfo { metadata: 8, ..info }, "metadata bytes: found 8, expected 0"),
            (NamespaceInfo { pi_type: 1, ..info }, "protection type: found 1, expected 0"),
            (NamespaceInfo { capacity: Sector(8), ..info }, "capacity in sectors: found 8, exp"),
            (NamespaceInfo { zones: Some(zones), ..info }, "zone size in sectors: found 128, exp"),
        ] {
            let error = head.validate(&found).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let private = NamespaceInfo { shared: false, ..info };
        head.validate(&private).unwrap();
        let error = head.validate_shared(&private).unwrap_err().to_string();
        assert_eq!(error, "sharing (NMIC): found private, expected shared");
    }
}
