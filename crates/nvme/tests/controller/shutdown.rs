//! CC.SHN: a shutdown commits what was answered before it says that it is complete.
use crate::support::{CAPACITY, Host, ZONE, config, null, queue_with};
use std::sync::Arc;
use std::sync::mpsc::channel;
use zonal_blk::{Nanos, Wake};
use zonal_device::NullDevice;
use zonal_device::control::DeviceControl;
use zonal_device::inject::InjectDevice;
use zonal_device::power::{CutPlan, Keep, PowerDevice, When};
use zonal_nvme::controller::{Namespace, Subsystem};
use zonal_nvme::wire::fabrics::Property;

const NORMAL: u64 = 0x46_4061;
const ABRUPT: u64 = 0x46_8061;
const READY: u64 = 1;
const OCCURRING: u64 = 0b0100 | READY;
const COMPLETE: u64 = 0b1000 | READY;
const FAILED: u64 = OCCURRING | 0b10;

fn device() -> Arc<dyn DeviceControl> {
    Arc::new(NullDevice::new(&null()).expect("a device"))
}

/// A host of a subsystem with these devices as namespaces from 1 on.
fn host_of(devices: &[Arc<dyn DeviceControl>]) -> Host {
    let subsystem = Subsystem::new(config());
    for (nsid, device) in (1..).zip(devices) {
        let namespace = Namespace::new(queue_with(Arc::clone(device) as _), [7; 16]);
        let namespace = Arc::new(namespace.expect("a namespace"));
        subsystem.add(nsid, namespace).expect("a free identifier");
    }
    Host::of(subsystem)
}

/// A host of a device with faults.
fn host_with(rule: &str) -> (Host, Arc<InjectDevice>) {
    let faults = Arc::new(InjectDevice::new(device(), 0));
    faults.add(rule.parse().expect("a rule"));
    (host_of(&[Arc::clone(&faults) as _]), faults)
}

impl Host {
    /// CSTS when everything that is due has been done.
    fn csts(&mut self) -> u64 {
        self.event(9);
        self.get(Property::CSTS)
    }

    /// Lets the time pass until the flush in flight is due.
    fn pass(&mut self) {
        let next = self.admin.channels().map(|channel| channel.next_event()).min();
        let Some(Wake::At(due)) = next else { panic!("{next:?}") };
        self.now = due;
    }
}

#[test]
fn every_namespace_keeps_what_was_answered_before_a_shutdown() {
    for cc in [NORMAL, ABRUPT] {
        let cached = || Arc::new(PowerDevice::new(device(), 1 << 20).expect("it has data"));
        let devices = [cached(), cached()];
        let mut host = host_of(&devices.clone().map(|device| device as _));
        let mut io = host.io(1);
        for nsid in [1, 2] {
            let mut write = crate::support::rw(
                zonal_nvme::wire::opcode::IoOpcode::WRITE,
                ZONE,
                CAPACITY as u32,
            );
            write.nsid = nsid.into();
            io.send(write, &vec![0x5a; CAPACITY as usize * 4096]).fine();
        }
        host.set(Property::CC, cc);
        assert_eq!(host.csts(), OCCURRING, "an I/O queue may still answer");
        drop(io);
        assert_eq!(host.csts(), COMPLETE);
        for device in devices {
            let (report, reported) = channel();
            let cut = CutPlan::new(When::Now, Keep::None, 0);
            device.cut(cut, Some(report)).expect("it is on");
            assert_eq!(reported.recv().expect("a report").fates, [""; 0]);
        }
    }
}

#[test]
fn shutdown_whose_flush_fails_is_never_complete() {
    let (mut host, faults) = host_with("fail=flush,count=1");
    host.set(Property::CC, NORMAL);
    assert_eq!(host.csts(), FAILED);
    // After a reset the host may try once more.
    assert_eq!(faults.clear(), 1);
    host.set(Property::CC, 0x46_0060);
    host.set(Property::CC, 0x46_0061);
    assert_eq!(host.csts(), READY);
    host.set(Property::CC, NORMAL);
    assert_eq!(host.csts(), COMPLETE);
}

#[test]
fn shutdown_occurs_until_the_flush_has_completed_and_the_host_need_not_keep_alive() {
    let (mut host, _) = host_with("delay=flush,time=10s");
    host.set(Property::CC, NORMAL);
    assert_eq!(host.csts(), OCCURRING);
    assert_eq!(host.admin.next_event(), None);
    host.pass();
    assert!(!host.admin.is_expired(host.now));
    assert_eq!(host.csts(), COMPLETE);
    assert_eq!(host.admin.next_event(), Some(host.now + Nanos(5_000_000_000)));
}

#[test]
fn flush_of_a_shutdown_before_a_reset_completes_no_later_one() {
    let (mut host, faults) = host_with("delay=flush,time=10s");
    host.set(Property::CC, NORMAL);
    assert_eq!(host.csts(), OCCURRING);
    host.set(Property::CC, 0x46_0060);
    host.set(Property::CC, 0x46_0061);
    assert_eq!((host.csts(), host.admin.is_idle()), (READY, false));
    host.set(Property::CC, NORMAL);
    host.pass();
    assert_eq!(host.csts(), OCCURRING, "the second flush has only begun");
    host.pass();
    assert_eq!((host.csts(), host.admin.is_idle()), (COMPLETE, true));
    assert_eq!(faults.rules()[0].1, 2);
}
