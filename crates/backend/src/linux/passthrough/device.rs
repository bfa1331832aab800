//! An NVMe namespace of this machine through its generic node.
use super::abi::{self, PassthruError, QueueKind};
use super::commands::NvmeCommands;
use super::error::NodeError;
use super::node::{Node, block_name};
use crate::linux::describe;
use crate::linux::queue::Queue;
use crate::linux::users;
use io_uring::{cqueue, squeue};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use zonal_blk::{Buf, Device, HwQueue, Limits, Status, Zone, ZoneNo};
use zonal_device::control::DeviceControl;
use zonal_nvme::ns::{self, ControllerInfo, NamespaceHead, NamespaceInfo};
use zonal_nvme::wire::admin::IdentifyCommand;
use zonal_nvme::wire::identify::IdentifyController;
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, Csi};
use zonal_nvme::wire::text;
use zonal_os::poll::uring::Uring;

/// The longest zone report to request, in bytes.
const MAX_REPORT: usize = 256 << 10;

/// An NVMe namespace of this machine, through its generic node.
pub struct NvmeDevice {
    file: Arc<File>,
    /// The block device of the namespace, opened exclusively.
    _block: Option<File>,
    name: String,
    model: String,
    head: Arc<NamespaceHead>,
    limits: Limits,
    /// See [`Device::external_buf_alignment`].
    alignment: Option<u32>,
}

impl NvmeDevice {
    /// Opens a generic node, and claims the namespace's block device.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(path: &str) -> Result<Self, NodeError> {
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        block_name(name.unwrap_or(path))?;
        let metadata = std::fs::metadata(path).map_err(NodeError::Open)?;
        if !metadata.file_type().is_char_device() {
            return Err(NodeError::NotACharacterDevice);
        }
        let open = File::options().read(true).write(true).open(path);
        let file = open.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                NodeError::Forbidden(users::allowed(Path::new("/"), &metadata))
            }
            _ => NodeError::Open(error),
        })?;
        // The device that was opened, whatever the path names by now.
        let number = file.metadata().map_err(NodeError::Open)?.rdev();
        let node = Node::find(Path::new("/sys"), libc::major(number), libc::minor(number))?;
        let block = node.claim_block_device(Path::new("/dev"))?;
        // Where there is no block device to claim, this excludes other servers.
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| NodeError::InUse {
            path: path.to_owned(),
            by: "opened by another program".to_owned(),
        })?;
        let (info, controller, limits) = probe(&file, &node)?;
        // `open_queue` cannot fail.
        Uring::<squeue::Entry128, cqueue::Entry32>::new(1).map_err(NodeError::Ring)?;
        Ok(NvmeDevice {
            file: Arc::new(file),
            _block: block,
            name: path.to_owned(),
            model: text(&controller.mn).unwrap_or_default().to_owned(),
            head: NamespaceHead::new(&info),
            limits,
            alignment: node.alignment,
        })
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        describe(&self.name, &self.limits)
    }
}

/// Identifies the namespace and its controller, and derives the limits.
fn probe(
    file: &File,
    node: &Node,
) -> Result<(NamespaceInfo, IdentifyController, Limits), NodeError> {
    let nsid = abi::nsid(file)
        .map_err(|source| NodeError::System { doing: "namespace identifier", source })?;
    let info = ns::scan(nsid, |cns, csi| identify(file, nsid, cns, csi))??;
    if info.metadata > 0 {
        return Err(NodeError::Metadata(info.metadata));
    }
    let controller = ns::identify_data(&identify(file, 0, Cns::CONTROLLER, Csi::NVM)?);
    let zns = match info.zones {
        Some(_) => Some(ns::identify_data(&identify(file, 0, Cns::CSI_CONTROLLER, Csi::ZNS)?)),
        None => None,
    };
    // CAP cannot be read from here. No page is smaller than 4 KiB, so that lengths are rather too
    // short; the driver knows them, and what it can map besides.
    let mappable = node.max_sectors & !((1 << (info.lba_shift - 9)) - 1);
    let reach = ControllerInfo {
        controller: &controller,
        zns: zns.as_ref(),
        mpsmin: 0,
        default_max_sectors: mappable,
    };
    let mut limits = info.limits(&reach)?;
    limits.max_sectors = limits.max_sectors.min(mappable);
    limits.append_max_sectors = limits.append_max_sectors.min(limits.max_sectors);
    (limits.nr_queues, limits.queue_depth) = (u16::MAX, node.depth);
    limits.rotational = node.rotational;
    Ok((info, controller, limits))
}

fn identify(file: &File, nsid: u32, cns: Cns, csi: Csi) -> Result<Vec<u8>, NodeError> {
    let mut command = IdentifyCommand::zeroed();
    (command.opcode, command.nsid) = (AdminOpcode::IDENTIFY.0, nsid.into());
    (command.cns, command.csi) = (cns.0, csi.0);
    // Page-aligned, so that the driver can map it.
    let mut data = Buf::zeroed(4096);
    abi::execute(file, QueueKind::Admin, &command.into(), &mut data)
        .map_err(|error| NodeError::of("Identify", error))?;
    Ok(data.to_vec())
}

impl Device for NvmeDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let room = MAX_REPORT.min(self.limits.max_sectors as usize * 512);
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let end = first.0.saturating_add(max).min(self.limits.nr_zones);
        let mut next = first.0;
        while next < end {
            let start = self.limits.zone_start(ZoneNo(next));
            let (command, len) = self.head.info.report(start, (end - next) as usize, room);
            let mut report = Buf::zeroed(len as usize);
            match abi::execute(&self.file, QueueKind::Io, &command.into(), &mut report) {
                Ok(()) => {}
                Err(PassthruError::Nvme(status)) => return Err(status.to_blk_status()),
                Err(PassthruError::System(error)) => return Err(error.into()),
            }
            match self.head.info.parse_report(&report, zones) {
                None | Some(0) => return Err(Status::IoError),
                Some(listed) => next += u32::try_from(listed).expect("no more than requested"),
            }
        }
        Ok(())
    }

    fn external_buf_alignment(&self) -> Option<u32> {
        self.alignment
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let namespace = self.head.path();
        let commands = NvmeCommands { file: Arc::clone(&self.file), namespace };
        Box::new(Queue::new(commands, self.limits.queue_depth))
    }
}

impl DeviceControl for NvmeDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.name.clone()), ("model", self.model.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn other_files_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ng0n1");
        let error = |path: &Path| {
            let opened = NvmeDevice::open(path.to_str().expect("a name"));
            opened.err().expect("refused").to_string()
        };
        assert!(error(&path).contains("No such file"));
        std::fs::write(&path, "").expect("a file");
        assert!(error(&path).starts_with("expected a character device"));
        std::fs::remove_file(&path).expect("it was there");
        symlink("/dev/null", &path).expect("a link");
        assert!(error(&path).starts_with("found a character device of another kind"));
        assert!(error(Path::new("/dev/ng7")).starts_with("found `ng7`, expected"));
    }
}
