//! One export of one kind of image: kills, and what was lost by them.
#[cfg(feature = "fuse")]
use crate::disk::Disk;
use crate::files::{Files, unmount};
use crate::host::{DEPTH, Fua, Host, MAX_SECTORS, Named, PATIENCE, ShutDown};
use crate::hostile::Target;
use crate::model::{Answered, Command, Model, SECTOR, Shape, Survives, Work};
use crate::nvme::Nvme;
use crate::server::Server;
use crate::tcp;
use crate::virtio::Virtio;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zonal_backend::image;
use zonal_device::image::{Finding, Profile};
use zonal_device::rng::Rng;

/// How a device is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    NvmeTcp,
    VfioUser,
    VhostUser,
    Fuse,
    Ublk,
}

/// What kind of device is in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Zoned,
    Unzoned,
    Ssd,
    /// An SSD whose namespaces share its image.
    Divided,
}

/// Sectors of a zone, its capacity, and the number of zones.
const ZONE: u64 = 2048;
const CAPACITY: u64 = 1536;
const ZONES: u64 = 8;
/// Sectors of a device without zones.
const SECTORS: u64 = 16384;
/// Kills of an image, before another takes its place.
const KILLS_OF_AN_IMAGE: u64 = 16;
/// Commands that may fail one after another before the server is killed.
const MAX_FAILURES: u64 = 40;

/// Where an image is.
enum Place {
    File(PathBuf),
    #[cfg(feature = "fuse")]
    Disk(Disk),
}

impl Place {
    fn path(&self) -> PathBuf {
        match self {
            Place::File(path) => path.clone(),
            #[cfg(feature = "fuse")]
            Place::Disk(disk) => disk.path(),
        }
    }

    /// Whether the power has failed.
    fn is_off(&self) -> bool {
        match self {
            Place::File(_) => false,
            #[cfg(feature = "fuse")]
            Place::Disk(disk) => disk.is_off(),
        }
    }

    /// Calls fail now and then, or the power fails soon, or neither. Returns whether anything may fail.
    fn plan_faults(&self, rng: &mut Rng) -> bool {
        match self {
            Place::File(_) => false,
            #[cfg(feature = "fuse")]
            Place::Disk(disk) => match rng.below(8) {
                0 => {
                    disk.set_faults(10 + rng.below(200));
                    true
                }
                1 => {
                    disk.set_fuse(1 + rng.below(600));
                    true
                }
                _ => false,
            },
        }
    }

    /// With no process that uses it.
    fn lose_power(&mut self, rng: &mut Rng) {
        match self {
            Place::File(_) => unreachable!("a file cannot lose its power"),
            #[cfg(feature = "fuse")]
            Place::Disk(disk) => {
                disk.set_faults(0);
                let unit = if rng.below(2) == 0 { 512 } else { 4096 };
                // Often nothing that was not synced is there.
                let keep = [0, 0, 1, 2, 4][usize::try_from(rng.below(5)).expect("five")];
                disk.lose_power(unit, keep);
            }
        }
    }
}

/// An image, what it may hold, and the server that has it.
struct Image {
    /// It ends before the place is taken away.
    session: Option<Session>,
    place: Place,
    model: Model,
    /// Sectors of a logical block.
    unit: u64,
    kills: u64,
    dir: TempDir,
}

impl Image {
    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Where its zones are files.
    fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    fn messages(&self) -> PathBuf {
        self.dir.path().join("messages")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        self.session = None;
        unmount(&self.files());
    }
}

struct Session {
    server: Server,
    host: Box<dyn Host>,
    /// Commands in flight by slot; flushes with what was answered before them.
    slots: Vec<Option<(Command, Option<Answered>)>>,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pub kills: u64,
    pub losses_of_power: u64,
    pub shutdowns: u64,
    pub writes: u64,
    pub faults: u64,
    pub lost: Vec<String>,
}

impl Sum {
    /// Adds those of another case.
    pub fn add(&mut self, other: &Sum) {
        self.kills += other.kills;
        self.losses_of_power += other.losses_of_power;
        self.shutdowns += other.shutdowns;
        self.writes += other.writes;
        self.faults += other.faults;
        self.lost.extend_from_slice(&other.lost);
    }
}

/// A row of the table that `main` prints.
impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sum { kills, losses_of_power, shutdowns, writes, faults, lost } = self;
        let lost = lost.len();
        write!(f, "{kills} | {losses_of_power} | {shutdowns} | {faults} | {writes} | {lost} |")
    }
}

/// A case.
pub struct Case {
    pub export: Export,
    pub kind: Kind,
    rng: Rng,
    dir: TempDir,
    on_file: Option<Image>,
    #[cfg(feature = "fuse")]
    on_disk: Option<Image>,
    pub sum: Sum,
    /// How the server ended last.
    ending: String,
}

fn number(value: usize) -> u64 {
    value as u64
}

impl Kind {
    /// The profile of an image, with logical blocks of so many sectors, and its namespaces.
    fn profile(self, export: Export, unit: u64) -> (String, Vec<Shape>) {
        let lba = unit * SECTOR as u64;
        let flat = |places| Shape { places, zones: 0, zone_len: 0, zone_capacity: 0 };
        let flash =
            "ssd:size=8M,overprovision=90%,dies=2,channels=1,block=96K,buffer=16M,fdp_handles=2";
        match self {
            Kind::Zoned => {
                // NVMe has no conventional zones.
                let nvme = matches!(export, Export::NvmeTcp | Export::VfioUser);
                let conventional = if nvme { 0 } else { 1 };
                let zones = ZONES - conventional;
                let shape = Shape {
                    places: conventional * ZONE,
                    zones,
                    zone_len: ZONE,
                    zone_capacity: CAPACITY,
                };
                let spec = format!(
                    "null:zones={ZONES},zone_size=1M,zone_capacity=768K,conventional={conventional},\
                     max_open=4,lba={lba}"
                );
                (spec, vec![shape])
            }
            Kind::Unzoned => (format!("null:zoned=false,size=8M,lba={lba}"), vec![flat(SECTORS)]),
            Kind::Ssd => (flash.to_owned(), vec![flat(SECTORS)]),
            Kind::Divided => (flash.to_owned(), vec![flat(SECTORS / 2); 2]),
        }
    }
}

impl Case {
    pub fn new(export: Export, kind: Kind, seed: u64) -> Self {
        Case {
            export,
            kind,
            rng: Rng::new(seed),
            dir: tempfile::tempdir().expect("a directory"),
            on_file: None,
            #[cfg(feature = "fuse")]
            on_disk: None,
            sum: Sum::default(),
            ending: String::new(),
        }
    }

    fn image(&mut self, on_disk: bool) -> Image {
        let is_flash = matches!(self.kind, Kind::Ssd | Kind::Divided);
        // Zones as files are written directly, in pages.
        let unit =
            if is_flash || self.export == Export::Fuse || self.rng.below(2) == 0 { 8 } else { 1 };
        let (spec, shapes) = self.kind.profile(self.export, unit);
        let dir = tempfile::tempdir_in(self.dir.path()).expect("a directory");
        let path = dir.path().join("disk.img");
        let checksums = self.rng.below(4) > 0;
        image::create(&path, Profile::Spec(spec), checksums).expect("an image");
        let seed = self.rng.below(u64::MAX);
        let place = match on_disk {
            #[cfg(feature = "fuse")]
            true => {
                let file = std::fs::read(&path).expect("an image");
                Place::Disk(Disk::new(dir.path(), file, seed))
            }
            _ => Place::File(path),
        };
        let model = Model::new(seed, &shapes);
        Image { session: None, place, model, unit, kills: 0, dir }
    }

    /// Kills a server once, and looks for what was answered, or if power is lost, for what was durable.
    pub fn kill(&mut self, power_fails: bool, on_disk: bool) {
        #[cfg(feature = "fuse")]
        let kept = if on_disk { &mut self.on_disk } else { &mut self.on_file };
        #[cfg(not(feature = "fuse"))]
        let kept = &mut self.on_file;
        let kept = kept.take().filter(|image| image.kills < KILLS_OF_AN_IMAGE);
        let mut image = kept.unwrap_or_else(|| self.image(on_disk));
        let what = format!("kill {}", self.sum.kills);
        let run = std::panic::AssertUnwindSafe(|| self.kill_server(&mut image, power_fails));
        let ended = std::panic::catch_unwind(run);
        self.sum.kills += 1;
        self.sum.losses_of_power += u64::from(power_fails);
        let failed = match ended {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(_) => Some("the host has panicked".to_owned()),
        };
        #[cfg(feature = "fuse")]
        if let Place::Disk(disk) = &image.place {
            self.sum.faults += disk.take_failed();
        }
        match failed {
            Some(why) => {
                self.sum.lost.push(format!("{what}, {}: {why}", self.ending));
            }
            #[cfg(feature = "fuse")]
            None if on_disk => self.on_disk = Some(image),
            None => self.on_file = Some(image),
        }
    }

    fn kill_server(&mut self, image: &mut Image, power_fails: bool) -> Result<(), String> {
        if image.session.is_none() {
            image.session = Some(self.start(image)?);
            self.verify(image, Survives::Answered)?;
        }
        let may_fail = power_fails && image.place.plan_faults(&mut self.rng);
        let mut session = image.session.take().expect("it has started");
        self.load(image, &mut session)?;
        self.end(image, &mut session, (power_fails, may_fail))?;
        let said = session.server.said();
        if said.contains("panicked") {
            return Err(said);
        }
        drop(session);
        unmount(&image.files());
        if power_fails {
            self.ending += if may_fail { ", faults, power lost" } else { ", power lost" };
            image.place.lose_power(&mut self.rng);
        }
        self.interrupt_starts(image, power_fails);
        let (_, _, findings) = image::inspect(&image.place.path(), None)
            .map_err(|error| format!("the image cannot be read: {error}"))?;
        // A loss of power tears what was being written, so that one of two copies is damaged.
        let is_damage = |found: &Finding| matches!(found, Finding::Damage(_));
        if matches!(image.place, Place::File(_)) && findings.iter().any(is_damage) {
            return Err(format!("the image is damaged: {findings:?}"));
        }
        image.kills += 1;
        image.session = Some(self.start(image)?);
        self.sum.writes += image.model.take_unchecked();
        let survives = if power_fails { Survives::Durable } else { Survives::Answered };
        self.verify(image, survives)
    }

    /// Servers that are killed while they open the image; the power may fail then, too.
    fn interrupt_starts(&mut self, image: &mut Image, power_fails: bool) {
        for _ in 0..self.rng.below(3) {
            let args = self.arguments(image);
            #[cfg(feature = "fuse")]
            if let (Place::Disk(disk), true) = (&image.place, power_fails) {
                disk.set_fuse(1 + self.rng.below(80));
            }
            let after = Duration::from_micros(self.rng.below(60_000));
            self.ending += &format!(", killed {after:?} after a start");
            Server::start_and_kill(&args, &image.messages(), after);
            unmount(&image.files());
            if power_fails {
                image.place.lose_power(&mut self.rng);
            }
        }
    }

    /// The arguments of `zonal serve`.
    fn arguments(&self, image: &Image) -> Vec<String> {
        let mut args = vec![image.place.path().display().to_string()];
        if self.kind == Kind::Divided {
            args.extend(
                ["--namespace", "1=part:4M/0", "--namespace", "2=part:rest/1"].map(String::from),
            );
        }
        let socket = image.socket().display().to_string();
        let option = |name: &str, value: String| vec![name.to_owned(), value];
        let export = match self.export {
            Export::NvmeTcp => option("--nvme-tcp", "127.0.0.1:0".to_owned()),
            Export::VfioUser => option("--vfio-user", socket),
            Export::VhostUser => option("--vhost-user", socket),
            Export::Fuse => option("--fuse", image.files().display().to_string()),
            Export::Ublk => vec!["--ublk".to_owned()],
        };
        args.extend(export);
        args
    }

    fn start(&mut self, image: &Image) -> Result<Session, String> {
        if self.export == Export::Fuse {
            std::fs::create_dir_all(image.files()).expect("a directory");
        }
        let (server, place) = Server::start(&self.arguments(image), &image.messages())?;
        let shapes: Vec<Shape> = image.model.shapes().cloned().collect();
        let zones = usize::try_from(shapes[0].zones).expect("few");
        let abrupt = self.rng.below(2) == 0;
        let socket = image.socket();
        let host: Box<dyn Host> = match self.export {
            Export::NvmeTcp => {
                let names = (1..=shapes.len()).map(|n| format!("{place}?nsid={n}&ctrl_loss_tmo=0"));
                let target = Target::parse(&place);
                let shut_down = move || tcp::shut_down(&target, abrupt).expect("a shutdown");
                Box::new(Named::open(&names.collect::<Vec<_>>(), Some(Box::new(shut_down))))
            }
            Export::VfioUser => Box::new(Nvme::start(&socket, image.unit, zones, abrupt)),
            Export::VhostUser => {
                let flushes = self.rng.below(4) > 0;
                Box::new(Virtio::start(&socket, flushes, zones, shapes[0].places))
            }
            Export::Fuse => Box::new(Files::open(&image.files(), &shapes[0])),
            Export::Ublk => Box::new(Named::open(&[place], None)),
        };
        Ok(Session { server, host, slots: (0..DEPTH).map(|_| None).collect() })
    }

    /// Reads everything, and compares it with what may be there.
    fn verify(&self, image: &mut Image, survives: Survives) -> Result<(), String> {
        let Image { model, session, .. } = image;
        let host = &mut session.as_mut().expect("it has started").host;
        let shapes: Vec<Shape> = model.shapes().cloned().collect();
        for (namespace, shape) in shapes.iter().enumerate() {
            let mut data = Vec::new();
            let mut read = |from: u64, end: u64| -> Result<(), String> {
                for at in (from..end).step_by(MAX_SECTORS as usize) {
                    let more = host.read(namespace, at, MAX_SECTORS.min(end - at));
                    data.extend(more.map_err(|why| {
                        format!("namespace {namespace}: sector {at} cannot be read: {why}")
                    })?);
                }
                Ok(())
            };
            read(0, shape.places)?;
            for zone in 0..shape.zones {
                let start = shape.places + zone * shape.zone_len;
                read(start, start + shape.zone_capacity)?;
            }
            let zones = host.zones(namespace);
            model.check(namespace, survives, &data, &zones)?;
        }
        Ok(())
    }

    fn draw(&mut self, image: &mut Image, host: &dyn Host) -> Option<Command> {
        let (rng, model, unit) = (&mut self.rng, &mut image.model, image.unit);
        let shapes: Vec<Shape> = model.shapes().cloned().collect();
        let namespace = usize::try_from(rng.below(number(shapes.len()))).expect("few");
        let shape = &shapes[namespace];
        let of = |work| Some(Command { namespace, work });
        if rng.below(14) == 0 {
            return of(Work::Flush);
        }
        let mut len = unit * (1 + rng.below(MAX_SECTORS / unit));
        let fua = match host.fua() {
            Fua::Never => false,
            Fua::OnRequest => rng.below(8) == 0,
            Fua::Always => true,
        };
        if shape.zones == 0 || shape.places > 0 && rng.below(4) == 0 {
            let sector = unit * rng.below(shape.places / unit - len / unit + 1);
            // A command of a conventional zone ends there; so does a file.
            let free = model.is_free(namespace, sector, len);
            let version = model.next_version();
            return of(Work::Write { sector, len, version, fua }).filter(|_| free);
        }
        let zone = rng.below(shape.zones);
        let manage = rng.below(40);
        let next = model.next_write(namespace, zone);
        if let (0..3, Some(sector)) = (manage, model.idle_zone(namespace, zone)) {
            return of(match next {
                Some(_) if manage == 0 => Work::Finish { sector },
                _ => Work::Reset { sector },
            });
        }
        let Some((sector, left)) = next else {
            return model
                .idle_zone(namespace, zone)
                .map(|sector| Command { namespace, work: Work::Reset { sector } });
        };
        if !host.keeps_order() && model.is_zone_busy(namespace, zone) {
            return None;
        }
        len = len.min(left);
        let version = model.next_version();
        of(Work::Write { sector, len, version, fua })
    }

    /// Fills the slots that are free, with commands of a kind.
    fn submit(&mut self, image: &mut Image, session: &mut Session, kind: fn(&Work) -> bool) {
        for slot in 0..session.slots.len() {
            if session.slots[slot].is_some() {
                continue;
            }
            let drawn = self.draw(image, &*session.host);
            let Some(command) = drawn.filter(|command| kind(&command.work)) else { continue };
            let (data, then) = match command.work {
                Work::Write { sector, len, version, .. } => {
                    (image.model.data(command.namespace, sector, len, version), None)
                }
                Work::Flush => (Vec::new(), Some(image.model.answered())),
                _ => (Vec::new(), None),
            };
            image.model.submitted(&command);
            session.host.submit(slot, &command, &data);
            session.slots[slot] = Some((command, then));
        }
    }

    /// Writes until the power fails or the server is to be killed, with commands in flight.
    fn load(&mut self, image: &mut Image, session: &mut Session) -> Result<(), String> {
        let commands = 5 + self.rng.below(400);
        let (mut answered, mut failures, mut last) = (0, 0, Instant::now());
        while answered < commands && failures < MAX_FAILURES && !image.place.is_off() {
            self.submit(image, session, |_| true);
            let results = settle(image, session, false);
            for fine in &results {
                failures = if *fine { 0 } else { failures + 1 };
            }
            answered += number(results.len());
            if !results.is_empty() {
                last = Instant::now();
            } else if session.slots.iter().all(Option::is_none) {
                // Nothing can be written, since commands have failed.
                break;
            }
            if last.elapsed() > PATIENCE {
                return Err(format!("no answer for {PATIENCE:?}"));
            }
            std::thread::yield_now();
        }
        self.submit(image, session, |_| true);
        std::thread::sleep(Duration::from_micros(self.rng.below(1500)));
        Ok(())
    }

    /// Has answers to writes that nothing has made durable yet, and more such writes in flight.
    fn write_unflushed(&mut self, image: &mut Image, session: &mut Session) -> Result<(), String> {
        let is_plain = |work: &Work| matches!(work, Work::Write { fua: false, .. });
        for _ in 0..1 + self.rng.below(4) {
            drain(image, session)?;
            self.submit(image, session, is_plain);
        }
        drain(image, session)?;
        self.submit(image, session, is_plain);
        Ok(())
    }

    /// The same; then a flush or a write with FUA, which has its answer.
    fn write_and_flush(&mut self, image: &mut Image, session: &mut Session) -> Result<(), String> {
        self.write_unflushed(image, session)?;
        drain(image, session)?;
        for _ in 0..100 {
            self.submit(image, session, |work| {
                matches!(work, Work::Flush | Work::Write { fua: true, .. })
            });
            if session.slots.iter().any(Option::is_some) {
                break;
            }
        }
        drain(image, session)
    }

    /// Ends the server: kills it, perhaps right after an orderly shutdown or a flush, or signals it to end. If
    /// the power is lost then, it shows whether that is what made data durable.
    fn end(
        &mut self,
        image: &mut Image,
        session: &mut Session,
        (power_fails, may_fail): (bool, bool),
    ) -> Result<(), String> {
        let (mut kept, mut how) = (None, "killed");
        match self.rng.below(16) {
            0..10 if power_fails && !may_fail => {
                self.write_unflushed(image, session)?;
                (kept, how) = (shut_down(image, session)?, "shut down by its host");
            }
            10..14 if power_fails && !may_fail => {
                self.write_and_flush(image, session)?;
                how = "killed after a flush";
            }
            0..2 if !may_fail => {
                (kept, how) = (shut_down(image, session)?, "shut down by its host");
            }
            14 => {
                settle(image, session, false);
                let then = image.model.answered();
                how = "ended by SIGTERM";
                session.server.terminate();
                let code = session.server.wait();
                if code == Some(0) {
                    kept = Some(then);
                } else if !may_fail {
                    return Err(format!("it ends with {code:?}: {}", session.server.said()));
                }
            }
            _ => {}
        }
        self.ending = how.to_owned();
        session.server.kill();
        settle(image, session, true);
        if let Some(then) = kept {
            self.sum.shutdowns += 1;
            image.model.flushed(&then, None);
        }
        Ok(())
    }
}

/// Has a host shut the device down. Returns what had been answered before, if that is kept.
fn shut_down(image: &mut Image, session: &mut Session) -> Result<Option<Answered>, String> {
    settle(image, session, false);
    let then = image.model.answered();
    match session.host.shut_down() {
        Some(ShutDown::WithServer) if session.server.wait() != Some(0) => {
            Err(format!("it fails at its end: {}", session.server.said()))
        }
        answer => Ok(answer.map(|_| then)),
    }
}

/// Waits for the answers to all commands.
fn drain(image: &mut Image, session: &mut Session) -> Result<(), String> {
    let begun = Instant::now();
    while session.slots.iter().any(Option::is_some) {
        settle(image, session, false);
        if begun.elapsed() > PATIENCE {
            return Err(format!("no answer for {PATIENCE:?}"));
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Takes the answers that have come. Returns whether each was a success.
fn settle(image: &mut Image, session: &mut Session, killed: bool) -> Vec<bool> {
    let mut ended = Vec::new();
    if killed {
        session.host.poll_after_kill(&mut ended);
    } else {
        session.host.poll(&mut ended);
    }
    for &(slot, fine) in &ended {
        let (command, then) = session.slots[slot].take().expect("a command in flight");
        image.model.ended(&command, fine);
        if let (true, Some(then)) = (fine, then) {
            image.model.flushed(&then, Some(command.namespace));
        }
    }
    ended.into_iter().map(|(_, fine)| fine).collect()
}
