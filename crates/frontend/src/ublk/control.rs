//! Commands to `/dev/ublk-control`. Each blocks until the driver has completed it, which for starting
//! and stopping a device takes threads that serve its queues.
use super::abi::{ANY_ID, CtrlCmd, DevInfo, NO_QUEUE, Params, ctrl, feature};
use io_uring::squeue::Entry128;
use io_uring::{cqueue, opcode, types};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};
use zonal_os::poll::uring::Uring;

/// Where the driver takes commands.
pub const PATH: &str = "/dev/ublk-control";

/// Why a command to the driver failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The driver is not loaded.
    #[error(
        "there is no {0}: load the driver (modprobe ublk_drv), which is in Linux 6.0 and later \
         with CONFIG_BLK_DEV_UBLK"
    )]
    NoDriver(String),
    /// The process may not use it.
    #[error("cannot open {0}: {1}; ublk devices need root (CAP_SYS_ADMIN)")]
    Open(String, io::Error),
    /// There is no io_uring, which carries the commands.
    #[error(
        "no io_uring, which ublk commands go through: {0} (see kernel.io_uring_disabled in sysctl)"
    )]
    Ring(io::Error),
    /// The driver is too old to report its features.
    #[error(
        "the kernel's ublk driver does not report its features (UBLK_U_CMD_GET_FEATURES: {0}): \
         expected Linux 6.5 or later, and 6.6 or later for zoned devices"
    )]
    NoFeatures(io::Error),
    /// The driver lacks a feature.
    #[error("the kernel's ublk driver has no {name}: expected Linux {since} or later")]
    Lacks {
        /// The feature.
        name: &'static str,
        /// The first Linux version with it.
        since: &'static str,
    },
    /// A command failed.
    #[error("ublk: {0}: {1}")]
    Command(&'static str, io::Error),
}

/// The driver.
pub struct Control {
    ring: Uring<Entry128, cqueue::Entry>,
    file: File,
    /// The driver's features.
    features: u64,
}

impl Control {
    /// Opens the driver, which must have all of `features`.
    ///
    /// # Errors
    /// It is not loaded, or lacks a feature.
    pub fn open(path: &Path, features: u64) -> Result<Self, ControlError> {
        let name = || path.display().to_string();
        let open = File::options().read(true).write(true).open(path);
        let file = open.map_err(|error| match error.kind() {
            ErrorKind::NotFound => ControlError::NoDriver(name()),
            _ => ControlError::Open(name(), error),
        })?;
        let ring = Uring::new(4).map_err(ControlError::Ring)?;
        let mut control = Control { ring, file, features: 0 };
        let mut found = 0u64;
        let command = CtrlRequest { id: ANY_ID, ..CtrlRequest::new(ctrl::GET_FEATURES) };
        control.execute(command, &mut found).map_err(ControlError::NoFeatures)?;
        control.features = found;
        control.require(features)?;
        Ok(control)
    }

    /// Checks that the driver has all of `features`.
    ///
    /// # Errors
    /// The first one that it lacks.
    pub fn require(&self, features: u64) -> Result<(), ControlError> {
        check(self.features, features)
    }

    /// The device's description; `None` if there is no device of this number.
    pub fn info(&mut self, id: u32) -> Result<Option<DevInfo>, ControlError> {
        let mut info = DevInfo::new_zeroed();
        match self.execute(CtrlRequest { id, ..CtrlRequest::new(ctrl::GET_DEV_INFO) }, &mut info) {
            Ok(()) => Ok(Some(info)),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                Ok(None)
            }
            Err(error) => Err(ControlError::Command("looking for the device", error)),
        }
    }

    /// Adds a device. The driver updates `info`.
    pub fn add(&mut self, info: &mut DevInfo) -> Result<(), ControlError> {
        let command = CtrlRequest { id: info.dev_id, ..CtrlRequest::new(ctrl::ADD_DEV) };
        self.execute(command, info).map_err(|e| ControlError::Command("adding the device", e))
    }

    /// Sets the parameters of the device's request queue.
    pub fn set_params(&mut self, id: u32, params: &Params) -> Result<(), ControlError> {
        let mut params = *params;
        self.execute(CtrlRequest { id, ..CtrlRequest::new(ctrl::SET_PARAMS) }, &mut params)
            .map_err(|error| ControlError::Command("setting the device's parameters", error))
    }

    /// The parameters of the device's request queue.
    pub fn params(&mut self, id: u32) -> Result<Params, ControlError> {
        let mut params = Params::empty();
        self.execute(CtrlRequest { id, ..CtrlRequest::new(ctrl::GET_PARAMS) }, &mut params)
            .map_err(|error| ControlError::Command("reading the device's parameters", error))?;
        Ok(params)
    }

    /// Creates the block device. Its queues have to be served meanwhile.
    pub fn start(&mut self, id: u32, pid: u32) -> Result<(), ControlError> {
        self.plain(ctrl::START_DEV, id, pid, "starting the device")
    }

    /// Removes the block device when its requests are done; the driver then aborts all tags.
    pub fn stop(&mut self, id: u32) -> Result<(), ControlError> {
        self.plain(ctrl::STOP_DEV, id, 0, "stopping the device")
    }

    /// Deletes the device; waits until no program has a file of it open.
    pub fn delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.plain(ctrl::DEL_DEV, id, 0, "deleting the device")
    }

    /// Has the device deleted as soon as no program has a file of it open. Before Linux 6.9, waits for
    /// that.
    pub fn delete_later(&mut self, id: u32) -> Result<(), ControlError> {
        match self
            .execute(CtrlRequest { id, ..CtrlRequest::new(ctrl::DEL_DEV_ASYNC) }, &mut [0u8; 0])
        {
            Err(error) if error.kind() == ErrorKind::Unsupported => self.delete(id),
            result => result.map_err(|error| ControlError::Command("deleting the device", error)),
        }
    }

    /// Prepares a quiesced device for a new server. Returns false while the last one has not exited.
    pub fn start_recovery(&mut self, id: u32) -> Result<bool, ControlError> {
        match self.execute(
            CtrlRequest { id, ..CtrlRequest::new(ctrl::START_USER_RECOVERY) },
            &mut [0u8; 0],
        ) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(false),
            Err(error) => Err(ControlError::Command("recovering the device", error)),
        }
    }

    /// Resumes the device with this server. Its queues have to be served meanwhile.
    pub fn end_recovery(&mut self, id: u32, pid: u32) -> Result<(), ControlError> {
        self.plain(ctrl::END_USER_RECOVERY, id, pid, "resuming the device")
    }

    /// Changes the size of the block device, in sectors.
    pub fn update_size(&mut self, id: u32, sectors: u64) -> Result<(), ControlError> {
        self.execute(CtrlRequest { number: ctrl::UPDATE_SIZE, id, data: sectors }, &mut [0u8; 0])
            .map_err(|error| ControlError::Command("changing the device's size", error))
    }

    fn plain(
        &mut self,
        number: u32,
        id: u32,
        pid: u32,
        doing: &'static str,
    ) -> Result<(), ControlError> {
        self.execute(CtrlRequest { number, id, data: pid.into() }, &mut [0u8; 0])
            .map_err(|error| ControlError::Command(doing, error))
    }

    /// Sends a command and waits for its completion. The driver reads and writes `buffer`.
    fn execute<B>(&mut self, sent: CtrlRequest, buffer: &mut B) -> io::Result<()>
    where
        B: FromBytes + IntoBytes + Immutable,
    {
        let len = size_of::<B>();
        let command = CtrlCmd {
            dev_id: sent.id,
            queue_id: NO_QUEUE,
            len: u16::try_from(len).expect("a small structure"),
            addr: buffer.as_mut_bytes().as_mut_ptr().expose_provenance() as u64,
            data: sent.data,
            ..CtrlCmd::new_zeroed()
        };
        let mut bytes = [0; 80];
        bytes[..size_of::<CtrlCmd>()].copy_from_slice(command.as_bytes());
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, sent.number).cmd(bytes).build();
        // SAFETY: the file is open, and `buffer` may be written with any bytes and outlives the
        // command, since the loop below ends only with its completion.
        unsafe { self.ring.push(entry) };
        let result = loop {
            if self.ring.wait(None).is_err() {
                // Out of memory for now.
                thread::yield_now();
            }
            if let Some(completion) = self.ring.reap() {
                break completion.result();
            }
        };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

/// A command to send.
struct CtrlRequest {
    number: u32,
    id: u32,
    data: u64,
}

impl CtrlRequest {
    fn new(number: u32) -> Self {
        CtrlRequest { number, id: 0, data: 0 }
    }
}

/// Checks that all of `wanted` are among the features found.
fn check(found: u64, wanted: u64) -> Result<(), ControlError> {
    match feature::NAMES.iter().find(|(bit, ..)| wanted & !found & bit != 0) {
        Some(&(_, name, since)) => Err(ControlError::Lacks { name, since }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_without_the_driver_is_told_how_to_load_it() {
        let Err(error) = Control::open(Path::new("/nonexistent/ublk-control"), 0) else {
            panic!("opened")
        };
        let text = error.to_string();
        assert!(text.contains("/nonexistent/ublk-control"), "{text}");
        assert!(text.contains("modprobe ublk_drv"), "{text}");
    }

    #[test]
    fn missing_feature_is_named_with_the_version_that_has_it() {
        let wanted = feature::USER_COPY | feature::ZONED;
        assert!(check(wanted | 1, wanted).is_ok());
        let error = check(feature::USER_COPY, wanted).expect_err("no zones").to_string();
        assert!(error.contains("no UBLK_F_ZONED") && error.contains("Linux 6.6"), "{error}");
    }
}
