//! For tests: commands of a namespace that is not there.
use super::commands::NvmeCommands;
use std::fs::File;
use std::sync::Arc;
use zonal_nvme::ns::{Ids, NamespaceHead, NamespaceInfo};
use zonal_nvme::wire::identify::IdentifyNamespace;

/// Commands for namespace 1, of 2048 blocks of 512 bytes, by whatever file.
pub fn commands(file: Arc<File>) -> NvmeCommands {
    let mut id = IdentifyNamespace::zeroed();
    (id.size, id.lba_formats[0].data_shift) = (2048.into(), 9);
    let info = NamespaceInfo::new(1, Ids::default(), &id, None).expect("a usable namespace");
    let namespace = NamespaceHead::new(&info).path();
    NvmeCommands { file, namespace }
}
