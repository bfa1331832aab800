//! A namespace on one controller (a path), and what its paths share (the head).
//!
//! A path carries a copy of what commands are made from. That is eleven bytes, and the sender of a
//! command holds the path anyway. The format of a namespace does not change under a path: a host that
//! finds a new format freezes the queue and makes new paths. So the copy is never stale, and a
//! command reads one cache line without following a pointer. `benches/ns_head` compares this with the
//! layouts that Linux had and has.
use super::info::NamespaceInfo;
use super::protection::Protection;
use std::fmt::{LowerHex, Write};
use std::sync::Arc;

/// What the commands of a namespace are made from.
#[derive(Clone, Copy, Debug)]
pub struct CommandFormat {
    /// The namespace identifier.
    pub nsid: u32,
    /// Control bits for protection information.
    pub protection: Protection,
    /// log2 of the block size in bytes.
    pub lba_shift: u8,
}

/// State that the paths of a namespace share.
#[derive(Debug)]
pub struct NamespaceHead {
    /// The namespace that the scan found.
    pub info: NamespaceInfo,
}

/// A namespace on one controller.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Namespace {
    format: CommandFormat,
    head: Arc<NamespaceHead>,
}

const _: () = assert!(size_of::<Namespace>() == 64, "making a command reads one cache line");

impl NamespaceHead {
    /// The head of a namespace that a scan found.
    pub fn new(info: &NamespaceInfo) -> Arc<Self> {
        Arc::new(NamespaceHead { info: *info })
    }

    /// Adds a path to the namespace.
    pub fn path(self: &Arc<Self>) -> Arc<Namespace> {
        let info = &self.info;
        let format = CommandFormat {
            nsid: info.nsid,
            protection: Protection::new(info.metadata, info.pi_type),
            lba_shift: info.lba_shift,
        };
        Arc::new(Namespace { format, head: Arc::clone(self) })
    }

    /// Checks that `found`, the namespace on another path, is this one: its identifiers and its
    /// format must be the same, as in Linux (`nvme_ns_ids_equal`, drivers/nvme/host/core.c, 6.12).
    ///
    /// # Errors
    /// The first field that differs.
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

    /// As [`NamespaceHead::validate`], for a path that is used beside this one: the namespace must
    /// also be one that controllers may share (NMIC bit 0).
    ///
    /// # Errors
    /// The first field that differs.
    pub fn validate_shared(&self, found: &NamespaceInfo) -> Result<(), NamespaceMismatch> {
        self.validate(found)?;
        let show = |&shared: &bool| if shared { "shared" } else { "private" }.to_owned();
        same("sharing (NMIC)", show, &(found.shared && self.info.shared), &true)
    }
}

impl Namespace {
    /// The head.
    pub fn head(&self) -> &Arc<NamespaceHead> {
        &self.head
    }

    /// What its commands are made from.
    #[inline(always)]
    pub fn format(&self) -> CommandFormat {
        self.format
    }
}

/// A path that leads to another namespace than its head's.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ns::info::testing;
    use crate::ns::{Ids, ZoneInfo};
    use crate::wire::opcode::Csi;
    use zonal_blk::Sector;

    #[test]
    fn namespace_with_another_identifier_or_format_is_another() {
        let zones = ZoneInfo {
            size: Sector(64),
            max_open: 4,
            max_active: 4,
            zrwa: zonal_blk::ZrwaLimits::NONE,
        };
        let info = NamespaceInfo {
            nsid: 1,
            ids: Ids { eui64: [1; 8], nguid: [2; 16], uuid: [3; 16] },
            shared: true,
            capacity: Sector(6400),
            zones: Some(zones),
            ..testing::info()
        };
        let head = NamespaceHead::new(&info);
        // Utilization changes, and limits may differ: the strictest apply.
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
