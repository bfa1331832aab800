//! The shutdown of an NVMe/TCP controller, by a host beside the one that writes.
use crate::hostile::{Client, Connect, Target};
use std::io;
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::fabrics::{Property, PropertyCommand};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType};

fn property(client: &mut Client, kind: FabricsType, at: Property, value: u64) -> io::Result<u64> {
    let mut command = PropertyCommand::zeroed();
    (command.opcode, command.fctype) = (FABRICS, kind.0);
    (command.offset, command.value) = (at.0.into(), value.into());
    let cqe = client.command(Sqe::from(command), &[])?;
    assert!(cqe.status().is_success(), "{:?}", cqe.status());
    Ok(cqe.result())
}

/// Sets CC.SHN, and waits until CSTS.SHST says that the shutdown is complete.
///
/// # Errors
/// Those of the connection.
pub fn shut_down(target: &Target, abrupt: bool) -> io::Result<()> {
    let (mut admin, cqe) = target.connected(&Connect::default())?;
    assert!(cqe.status().is_success(), "{:?}", cqe.status());
    admin.enable()?;
    let shn = if abrupt { 2 } else { 1 };
    property(&mut admin, FabricsType::PROPERTY_SET, Property::CC, 0x46_0061 | shn << 14)?;
    while property(&mut admin, FabricsType::PROPERTY_GET, Property::CSTS, 0)? >> 2 & 0b11 != 2 {
        std::thread::yield_now();
    }
    Ok(())
}
