//! Executing commands on the served devices.
use super::attributes;
use super::command::{Command, HeadLoss, NAMES, PowerCut, ZoneChange};
use super::managed::{ManagedDevice, Power};
use super::scrub::Scrubber;
use super::snapshot::Snapshot;
use super::view::View;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use zonal_blk::{Status, ZoneCondition, ZoneKind, ZoneNo};
use zonal_device::control::{DeviceControl, Lateness};
use zonal_device::inject::DeviceChange;
use zonal_device::power::When;
use zonal_device::quantity::format_time;
use zonal_frontend::nvme_tcp::Path;
use zonal_nvme::ana::AnaState;

/// How long the commands in flight may take when the power is cut.
const CUT_WITHIN: Duration = Duration::from_secs(20);

/// The served devices.
pub struct DeviceManager {
    devices: Vec<ManagedDevice>,
    /// One for each device.
    scrubbers: Vec<Scrubber>,
    /// One for each device.
    snapshots: Vec<Snapshot>,
    exports: Vec<String>,
    /// Paths to a subsystem that has all the devices.
    paths: Vec<Path>,
    started: Instant,
}

impl DeviceManager {
    /// A manager of `devices`, which are exported at `exports`.
    pub fn new(devices: Vec<ManagedDevice>, exports: Vec<String>) -> Self {
        let scrubber = |managed: &ManagedDevice| Scrubber::new(Arc::clone(&managed.device) as _);
        let scrubbers = devices.iter().map(scrubber).collect();
        let snapshots = devices.iter().map(|_| Snapshot::default()).collect();
        let (paths, started) = (Vec::new(), Instant::now());
        DeviceManager { devices, scrubbers, snapshots, exports, paths, started }
    }

    /// Adds paths over which the devices are exported.
    pub fn with_paths(mut self, paths: Vec<Path>) -> Self {
        self.paths = paths;
        self
    }

    pub(super) fn devices(&self) -> &[ManagedDevice] {
        &self.devices
    }

    /// One for each device.
    pub(super) fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    /// Executes a command on a device, counted from 1.
    ///
    /// # Errors
    /// Why it was refused. Nothing has changed then.
    pub fn execute(&self, device: usize, command: Command) -> Result<Value, String> {
        let known = device.checked_sub(1).filter(|&index| index < self.devices.len());
        let index = known
            .ok_or_else(|| format!("device {device}: expected 1 to {}", self.devices.len()))?;
        let (managed, scrubber) = (&self.devices[index], &self.scrubbers[index]);
        let ManagedDevice { queue, device, .. } = managed;
        match command {
            Command::Status => Ok(self.status()),
            Command::Stat => Ok(managed.stat()),
            Command::Plugs { all } => {
                Ok(queue.dump_plugs(all).iter().map(ToString::to_string).collect())
            }
            Command::View(range) => {
                let view = View::of(managed, range, self.started);
                serde_json::to_value(View { devices: self.devices.len(), ..view })
                    .map_err(|error| error.to_string())
            }
            Command::Get(None) => Ok(object(attributes::all(queue))),
            Command::Get(Some(name)) => {
                let all = attributes::all(queue);
                let found = all.into_iter().find(|(known, _)| *known == name);
                found
                    .map(|(_, value)| Value::from(value))
                    .ok_or_else(|| attributes::unknown(queue, &name))
            }
            Command::Set { name, value } => {
                attributes::set(queue, &name, &value).map(|()| Value::Null)
            }
            Command::Zones { zones, change } => {
                managed.change_zones(*zones.start(), *zones.end(), change)
            }
            Command::Depopulate { head, loss } => managed.depopulate(head, loss),
            Command::Revalidate => managed.revalidate().map(Value::from),
            Command::Faults => {
                let rules = device.rules();
                Ok(rules.iter().map(|(rule, hits)| format!("{rule}: {hits} commands")).collect())
            }
            Command::AddFault(rule) => {
                if let Some(zones) = &rule.zones {
                    managed.check_zones(*zones.end())?;
                }
                device.add(rule);
                Ok(Value::Null)
            }
            Command::ClearFaults => Ok(json!(device.clear())),
            Command::Ana(None) => Ok(object(self.ana_states())),
            Command::Ana(Some((address, state))) => self.set_ana_state(address, state),
            Command::Mark(text) => managed.put_mark(&text),
            Command::PowerCut(cut) => managed.cut_power(cut),
            Command::CancelPowerCut => match managed.power()?.device.disarm() {
                true => Ok(Value::Null),
                false => Err("power-cut: found none that waits for its moment".to_owned()),
            },
            Command::Methods => Ok(json!(NAMES)),
            Command::Metrics => Ok(Value::from(self.metrics())),
            Command::StartScrub { rate } => scrubber.start(rate).map(|()| Value::Null),
            Command::StopScrub => {
                scrubber.stop();
                Ok(scrubber.status())
            }
            Command::ScrubStatus => Ok(scrubber.status()),
        }
    }

    fn ana_states(&self) -> Vec<(String, String)> {
        let state = |path: &Path| (path.address().to_string(), path.ana_state().to_string());
        self.paths.iter().map(state).collect()
    }

    fn set_ana_state(&self, address: SocketAddr, state: AnaState) -> Result<Value, String> {
        let Some(path) = self.paths.iter().find(|path| path.address() == address) else {
            let known: Vec<String> =
                self.paths.iter().map(|path| path.address().to_string()).collect();
            return Err(match known.is_empty() {
                true => "ana: the devices are not served over NVMe/TCP".to_owned(),
                false => format!("ana: found {address}, expected {}", known.join(" or ")),
            });
        };
        path.set_ana_state(state);
        Ok(Value::Null)
    }

    fn status(&self) -> Value {
        let devices = self.devices.iter().zip(1..).map(|(managed, number)| {
            json!({
                "number": number,
                "name": managed.name,
                "description": managed.description,
                "scheduler": managed.queue.scheduler().name(),
                "zone_write": managed.queue.zone_write().name(),
                "live_plugs": managed.queue.live_plugs(),
                "faults": managed.device.rules().len(),
            })
        });
        json!({ "exports": self.exports, "devices": devices.collect::<Vec<_>>() })
    }
}

impl ManagedDevice {
    fn put_mark(&self, text: &str) -> Result<Value, String> {
        let put = self.mark.as_ref().ok_or(
            "mark: the device is not recorded; `zonal serve --record` does that".to_owned(),
        )?;
        put(text);
        Ok(Value::Null)
    }

    fn power(&self) -> Result<&Power, String> {
        self.power.as_ref().ok_or_else(|| {
            "power-cut: the device has no write cache that could be lost; \
             `zonal serve --write-cache SIZE` gives it one"
                .to_owned()
        })
    }

    /// Cuts the power, immediately or at a moment to come. In the first case it is back afterwards.
    fn cut_power(&self, PowerCut { plan, image }: PowerCut) -> Result<Value, String> {
        let Power { device, save } = self.power()?;
        if let Some(image) = image.as_ref().filter(|image| image.exists()) {
            return Err(format!("{}: the file exists; expected a new one", image.display()));
        }
        let (sender, report) = channel();
        let now = plan.when == When::Now;
        device.cut(plan, Some(sender)).map_err(|error| format!("power-cut: {error}"))?;
        if !now {
            return Ok(json!("the power fails at that moment"));
        }
        let lost = report.recv_timeout(CUT_WITHIN);
        let saved = match (&lost, image) {
            (Ok(_), Some(image)) => save(&image).map_err(|why| format!("power-cut: {why}")),
            _ => Ok(()),
        };
        device.restore();
        let lost = lost.map_err(|_| {
            "power-cut: the device does not end the commands in flight; the power fails when it has"
                .to_owned()
        })?;
        saved?;
        // The report also updates the block layer's write pointers.
        self.queue
            .all_zones()
            .try_for_each(|zone| zone.map(drop))
            .map_err(|status| format!("the device did not report its zones: {status}"))?;
        Ok(json!({ "commands_in_flight": lost.in_flight, "not_durable": lost.fates }))
    }

    fn stat(&self) -> Value {
        let activity = self.device.stats();
        let device: Vec<(String, String)> = activity
            .counts
            .iter()
            .map(|&(name, count)| (name.to_owned(), count.to_string()))
            .chain(
                activity.times.iter().map(|&(name, time)| (name.to_owned(), format_time(time.0))),
            )
            .collect();
        let counts = self.queue.iostat().unwrap_or_default().entries();
        let mut stat: Map<String, Value> =
            counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        stat.insert("live_plugs".to_owned(), self.queue.live_plugs().into());
        if let Some(Lateness { completions, late, total, largest }) = self.device.lateness() {
            stat.insert("model_completions".to_owned(), completions.into());
            stat.insert("model_late_completions".to_owned(), late.into());
            stat.insert("model_lateness_ns".to_owned(), total.0.into());
            stat.insert("model_largest_lateness_ns".to_owned(), largest.0.into());
        }
        stat.insert("device".to_owned(), object(device));
        Value::Object(stat)
    }

    /// Refuses zones that the device does not have.
    fn check_zones(&self, last: u32) -> Result<(), String> {
        match self.queue.limits().nr_zones {
            0 => Err(format!("zone {last}: the device has no zones")),
            nr_zones if last >= nr_zones => {
                Err(format!("zone {last}: the device has {nr_zones} zones, from 0"))
            }
            _ => Ok(()),
        }
    }

    /// Changes the condition of zones, one after the other. A device that cannot do that refuses the
    /// first.
    fn change_zones(&self, first: u32, last: u32, change: ZoneChange) -> Result<Value, String> {
        self.check_zones(last)?;
        let mut zones = Vec::new();
        let count = (last - first + 1) as usize;
        self.queue
            .report_zones(ZoneNo(first), count, &mut zones)
            .map_err(|status| format!("the device did not report its zones: {status}"))?;
        for (number, zone) in (first..).map(ZoneNo).zip(&zones) {
            self.set_condition(number, condition(change, zone.kind))?;
        }
        // The report also updates the block layer's write pointers.
        zones.clear();
        let seen = self.queue.report_zones(ZoneNo(first), count, &mut zones);
        seen.map(|()| json!(count)).map_err(|status| status.to_string())
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), String> {
        self.device.set_condition(zone, to).map_err(|status| format!("zone {zone}: {status}"))
    }

    /// Reads the zones anew, and tells those who use the device. Returns their number.
    fn revalidate(&self) -> Result<u32, String> {
        let zones = attributes::revalidate(&self.queue)?;
        self.device.announce(DeviceChange::Zones);
        Ok(zones)
    }

    /// Depopulates a head of a disk. Returns the number of zones that are affected, or that are left.
    fn depopulate(&self, head: u32, loss: HeadLoss) -> Result<Value, String> {
        let heads = self.device.heads();
        if heads == 0 {
            return Err("the device has no heads with zones of their own".to_owned());
        }
        if head >= heads {
            return Err(format!("head {head}: the device has {heads} heads, from 0"));
        }
        match loss {
            HeadLoss::Zones(change) => Ok(self.lose_zones_of(head, change)?.into()),
            HeadLoss::Format => {
                let formatted = self.device.format_without_head(head);
                formatted.map_err(|status| match status {
                    Status::Invalid => format!("head {head}: without it no sequential zone is left"),
                    _ => "the device cannot be formatted: disks with a write cache, recorded ones and images cannot"
                        .to_owned(),
                })?;
                self.revalidate().map(Value::from)
            }
        }
    }

    /// Changes the condition of the zones on the surface of a head, of all or of none. Returns their number.
    /// Only the first can be refused, as [`DeviceControl::set_condition`] says; a report, which could fail between
    /// two, comes last, and the conditions stand whatever comes of it.
    fn lose_zones_of(&self, head: u32, change: ZoneChange) -> Result<usize, String> {
        let zones = self.device.zones_of_head(head);
        for zone in &zones {
            self.set_condition(*zone, condition(change, ZoneKind::SequentialRequired))?;
        }
        for zone in &zones {
            // Updates the block layer's write pointer; without the report it learns it from a failed write.
            let _seen = self.queue.report_zones(*zone, 1, &mut Vec::new());
        }
        Ok(zones.len())
    }
}

/// The condition that a zone of this kind gets.
fn condition(change: ZoneChange, kind: ZoneKind) -> ZoneCondition {
    match (change, kind) {
        (ZoneChange::ReadOnly, _) => ZoneCondition::ReadOnly,
        (ZoneChange::Offline, _) => ZoneCondition::Offline,
        (ZoneChange::Restore, ZoneKind::Conventional) => ZoneCondition::NotWritePointer,
        (ZoneChange::Restore, ZoneKind::SequentialRequired) => ZoneCondition::Empty,
    }
}

fn object(entries: Vec<(String, String)>) -> Value {
    Value::Object(entries.into_iter().map(|(name, value)| (name, Value::from(value))).collect())
}
