//! The identities of a served subsystem and its namespaces: to a host, two servers with equal identities
//! are two paths to the same data.
use super::{NvmeOptions, ServeError, expected};
use zonal_backend::Stack;
use zonal_backend::nvme_tcp::NQN_FORM;
use zonal_nvme::wire::is_nqn;
use zonal_os::uuid;

/// The identifiers of a subsystem.
pub struct Identity {
    pub nqn: String,
    pub serial: String,
    /// Of the namespaces, in the order of the devices.
    pub uuids: Vec<[u8; 16]>,
}

impl Identity {
    /// The identity of `devices`: what the options choose, else what images have, else random numbers,
    /// for the life of this process.
    ///
    /// # Errors
    /// An option is malformed.
    pub fn new(options: &NvmeOptions, devices: &[Stack]) -> Result<Self, ServeError> {
        let kept: Vec<Option<[u8; 16]>> = devices.iter().map(|device| device.uuid).collect();
        let kept =
            if options.uuids.is_empty() { kept } else { chosen(&options.uuids, devices.len())? };
        let random = || uuid::random().map_err(ServeError::Random);
        // The subsystem is the same again only if all of its namespaces are.
        let id = match kept.iter().copied().collect::<Option<Vec<_>>>().as_deref() {
            Some([only]) => *only,
            Some(all) => uuid::derived(all),
            None => random()?,
        };
        let nqn = match &options.nqn {
            Some(nqn) => nqn.clone(),
            None => format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid::format(&id)),
        };
        check_nqn("nqn", &nqn)?;
        let serial = match &options.serial {
            Some(serial) => checked_serial(serial)?,
            None => uuid::format(&id).replace('-', "")[..20].to_owned(),
        };
        let uuids = kept.into_iter().map(|kept| kept.map_or_else(random, Ok));
        Ok(Identity { nqn, serial, uuids: uuids.collect::<Result<_, _>>()? })
    }
}

/// Checks the NVMe Qualified Name of an option.
///
/// # Errors
/// It is malformed.
pub fn check_nqn(option: &'static str, nqn: &str) -> Result<(), ServeError> {
    if is_nqn(nqn) {
        return Ok(());
    }
    Err(expected(option, format!("found `{nqn}`, expected {NQN_FORM}")))
}

/// The UUIDs that are chosen, one for each device.
fn chosen(texts: &[String], devices: usize) -> Result<Vec<Option<[u8; 16]>>, ServeError> {
    let wrong = |text| Err(expected("uuid", text));
    if texts.len() != devices {
        let found = texts.len();
        return wrong(format!("found {found} for {devices} devices, expected one for each"));
    }
    let mut uuids = Vec::new();
    for text in texts {
        let uuid = uuid::parse(text).filter(|uuid| *uuid != [0; 16]);
        let Some(uuid) = uuid else {
            return wrong(format!(
                "found `{text}`, expected hexadecimal digits that are not all 0, such as \
                 01234567-89ab-4def-8123-456789abcdef"
            ));
        };
        if uuids.contains(&Some(uuid)) {
            return wrong(format!("found {text} twice, expected another for each device"));
        }
        uuids.push(Some(uuid));
    }
    Ok(uuids)
}

fn checked_serial(serial: &str) -> Result<String, ServeError> {
    let printable = serial.bytes().all(|byte| byte.is_ascii_graphic());
    if (1..=20).contains(&serial.len()) && printable {
        return Ok(serial.to_owned());
    }
    let text = "expected 1 to 20 printable ASCII characters without spaces";
    Err(expected("serial", format!("found `{serial}`, {text}")))
}
