//! A namespace over several paths: servers that stop and return, and timeouts.
use crate::support::{Host, NQN, Served, ZONE, ZONED, patient, pattern, report, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use zonal_backend::nvme_tcp::{Address, ConnectError, NvmeTcpDevice, open};
use zonal_blk::{
    Bio, Buf, Clock, Completion, Nanos, QueueOptions, Sector, Status, ZoneCondition, ZoneNo,
};
use zonal_device::control::DeviceControl;
use zonal_device::device_spec;
use zonal_frontend::nvme_tcp::Server;
use zonal_os::{Notify, RealClock};

/// Short, so that tests need not wait.
const QUICK: &str = "reconnect_delay=1&ctrl_loss_tmo=600&quiesce=0";

/// The messages of paths.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub fn notify(&self) -> Notify {
        let heard = Arc::clone(&self.0);
        Arc::new(move |what| heard.lock().unwrap().push(what.to_owned()))
    }

    pub fn has(&self, what: &str) -> bool {
        self.times(what) > 0
    }

    /// How many messages have this in them.
    pub fn times(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|said| said.contains(what)).count()
    }
}

fn address(servers: &[&Server], options: &str) -> Address {
    let all: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    format!("nvme-tcp://{}/{NQN}?{options}", all.join(",")).parse().unwrap()
}

fn connect(servers: &[&Server], options: &str, heard: &Heard) -> Arc<dyn DeviceControl> {
    open(&address(servers, options), 1, &heard.notify()).expect("a path").0
}

/// How often something happened.
pub fn count(device: &dyn DeviceControl, what: &str) -> u64 {
    device.stats().counts.iter().find(|(name, _)| *name == what).expect("a counter").1
}

fn write(sector: u64, id: u64) -> Bio {
    Bio::write(Sector(sector), Buf::from(&pattern(4096, sector)[..]), id)
}

pub fn statuses(done: &[Completion]) -> Vec<Status> {
    done.iter().map(|done| done.status).collect()
}

#[test]
fn writes_go_on_over_the_other_path_when_a_server_stops() {
    let served = Served::new(ZONED);
    let other = served.another();
    let heard = Heard::default();
    let device =
        connect(&[&other, &served.server], &format!("{QUICK}&iopolicy=round-robin"), &heard);
    let mut host = Host::over(Arc::clone(&device) as _, QueueOptions::default());
    let mut other = Some(other);
    let mut expected = 0;
    for round in 0..8 {
        for zone in 0..4 {
            for block in 0..8 {
                let sector = zone * ZONE + (round * 8 + block) * 8;
                host.submit(write(sector, expected));
                expected += 1;
            }
        }
        if round == 4 {
            // With this round's commands in flight.
            drop(other.take());
        }
        if round % 4 == 3 {
            assert!(statuses(&host.finish()).iter().all(|&status| status == Status::Ok));
        }
    }
    assert!(heard.has("lost: "), "{:?}", heard.0);
    for zone in 0..4 {
        assert_eq!(report(&*served.device)[zone as usize].wp, Sector(zone * ZONE + 512));
        for block in 0..64 {
            let sector = zone * ZONE + block * 8;
            assert_eq!(host.read(sector, 8).buf.as_deref(), Some(&pattern(4096, sector)[..]));
        }
    }
}

/// A write fails with the queue frozen, all tags taken and one of the paths gone. Linux no longer reports
/// zones then, since it would wait for itself.
#[test]
fn failed_write_is_reported_while_the_queue_is_frozen_with_all_tags_taken() {
    for gone in [None, Some(0), Some(1)] {
        let drive = device_spec::build(&device_spec::parse(ZONED).expect("a spec"));
        let drive = drive.expect("a device");
        let served = Served::over(Arc::clone(&drive) as _, patient());
        let mut servers = [Some(served.another()), Some(served.another())];
        let both = servers.each_ref().map(|server| server.as_ref().expect("it serves"));
        let options = format!("{QUICK}&iopolicy=round-robin");
        let device = connect(&both, &options, &Heard::default());
        let mut host = Host::over(device, QueueOptions::default());
        let queue = Arc::clone(host.channel.queue());
        queue.freeze();
        queue.set_nr_requests(2).expect("nothing is inside");
        queue.unfreeze();
        drive.set_condition(ZoneNo(0), ZoneCondition::ReadOnly).expect("a zone");
        // Two are sent, and the others wait for the zone or for a tag.
        for (id, sector) in (0..).zip([0, 8, ZONE, ZONE + 8, 2 * ZONE, 3 * ZONE]) {
            host.submit(write(sector, id));
        }
        queue.freeze();
        if let Some(gone) = gone {
            drop(servers[gone].take());
        }
        let done = statuses(&host.finish());
        let [fails, fits] = [Status::IoError, Status::Ok];
        // A write that is lost with its path is in doubt: the report of a read-only zone does not tell
        // whether it was executed.
        assert!(done[0] == fails || gone.is_some() && done[0] == Status::Transport, "{done:?}");
        assert_eq!(done[1..], [fails, fits, fits, fits, fits], "path {gone:?} gone");
        assert!(queue.is_quiescent());
        queue.unfreeze();
        assert_eq!(host.write(8, &pattern(4096, 0)).status, fails, "known to be read-only");
    }
}

#[test]
fn held_commands_are_sent_when_the_server_is_back() {
    let served = Served::new(ZONED);
    let (first, heard) = (served.another(), Heard::default());
    let port = first.address().port();
    let device = connect(&[&first], QUICK, &heard);
    let mut host = Host::over(Arc::clone(&device) as _, QueueOptions::default());
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok);
    drop(first);
    wait_until(|| {
        host.channel.poll(Nanos(0), &mut host.done);
        heard.has("lost: ")
    });
    (1..4).for_each(|block| host.submit(write(block * 8, block)));
    host.channel.poll(Nanos(0), &mut host.done);
    assert_eq!(host.channel.outstanding(), 3);
    let _again = served.another_on(port);
    // In real time: commands that find the path connected and its queues not yet are sent again later.
    let clock = RealClock::start();
    wait_until(|| {
        host.channel.poll(clock.now(), &mut host.done);
        host.channel.outstanding() == 0
    });
    assert_eq!(statuses(&host.finish()), [Status::Ok; 3]);
    assert!(heard.has("connected again"));
    assert_eq!(report(&*device)[0].wp, Sector(32), "reports are back too");
}

#[test]
fn path_that_is_not_back_in_time_is_given_up() {
    let served = Served::new(ZONED);
    let (only, heard) = (served.another(), Heard::default());
    let device = connect(&[&only], "reconnect_delay=1&ctrl_loss_tmo=1", &heard);
    let mut host = Host::over(device, QueueOptions::default());
    drop(only);
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Transport);
    assert!(heard.has("cannot connect again: ") && heard.has("given up"), "{:?}", heard.0);
}

#[test]
fn another_device_at_the_same_address_is_refused() {
    let served = Served::new(ZONED);
    let (first, heard) = (served.another(), Heard::default());
    let port = first.address().port();
    let _device = connect(&[&first], QUICK, &heard);
    drop(first);
    let _other = Served::identified(port, ZONED, [8; 16]);
    wait_until(|| heard.has("NGUID: found 0808"));
}

#[test]
fn paths_to_different_namespaces_are_refused() {
    let (one, other) = (Served::new(ZONED), Served::identified(0, ZONED, [8; 16]));
    let both = address(&[&one.server, &other.server], "");
    let error = open(&both, 1, &Heard::default().notify()).err().expect("two devices");
    assert!(matches!(error, ConnectError::Head { .. }), "{error}");
    assert!(error.to_string().contains("NGUID: found 0808"), "{error}");
}

#[test]
fn paths_whose_zones_contradict_are_refused_though_their_identifiers_are_equal() {
    let (one, other) = (Served::new(ZONED), Served::new(ZONED));
    let mut host = one.host("");
    assert_eq!(host.write(2 * ZONE, &pattern(4096, 0)).status, Status::Ok);
    let both = address(&[&one.server, &other.server], "");
    let error = open(&both, 1, &Heard::default().notify()).err().expect("two devices");
    assert!(matches!(error, ConnectError::Zone { .. }), "{error}");
    assert!(error.to_string().contains("zone 2: found Empty"), "{error}");
}

#[test]
fn paths_to_subsystems_with_different_serial_numbers_are_refused() {
    let (one, other) = (Served::new(ZONED), Served::with_serial(ZONED, "2"));
    let both = address(&[&one.server, &other.server], "");
    let error = open(&both, 1, &Heard::default().notify()).err().expect("two devices");
    let expected = "serial number: found `2`, expected `1` as on the other paths";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn path_that_comes_back_with_other_zones_is_refused() {
    let served = Served::new(ZONED);
    let (second, heard) = (served.another(), Heard::default());
    let port = second.address().port();
    let device = connect(&[&served.server, &second], QUICK, &heard);
    let mut host = Host::over(device, QueueOptions::default());
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok);
    drop(second);
    wait_until(|| {
        host.channel.poll(Nanos(0), &mut host.done);
        heard.has("lost: ")
    });
    let _impostor = Served::on(port, ZONED, patient());
    wait_until(|| heard.has("cannot connect again: path") && heard.has("zone 0: found Empty"));
    assert_eq!(host.write(8, &pattern(4096, 0)).status, Status::Ok, "over the first path");
}

#[test]
fn path_that_is_missing_at_first_is_connected_later() {
    let served = Served::new(ZONED);
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = place.local_addr().unwrap().port();
    drop(place);
    let text = format!(
        "nvme-tcp://127.0.0.1:{port},{}/{NQN}?{QUICK}&iopolicy=numa",
        served.server.address()
    );
    let heard = Heard::default();
    let device = open(&text.parse().unwrap(), 1, &heard.notify()).unwrap().0;
    assert!(heard.has("not connected: cannot connect"));
    let mut host = Host::over(device, QueueOptions::default());
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok);
    let late = served.another_on(port);
    wait_until(|| heard.has("connected again"));
    // The first path of the policy: admin queue, hardware queue and reports.
    assert_eq!(host.write(8, &pattern(4096, 0)).status, Status::Ok);
    assert_eq!(late.connections(), 3);
}

/// A proxy to a server that can withhold responses.
pub struct Proxy {
    pub address: SocketAddr,
    pub mute: Arc<AtomicBool>,
    /// The bytes of the first connection, that of the first admin queue.
    pub mute_first: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn to(server: &Server) -> Self {
        let (listener, target) = (TcpListener::bind("127.0.0.1:0").unwrap(), server.address());
        let address = listener.local_addr().unwrap();
        let (mute, mute_first) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let proxy = Proxy { address, mute, mute_first, open };
        let (muted, first) = (Arc::clone(&proxy.mute), Arc::clone(&proxy.mute_first));
        let open = Arc::clone(&proxy.open);
        // It ends with the test's process.
        thread::spawn(move || {
            let mut first = Some(first);
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(target).unwrap());
                let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                open.lock().unwrap().push(near.try_clone().unwrap());
                thread::spawn(move || forward(near_too, far_too, &[]));
                let muted: Vec<_> = first.take().into_iter().chain([Arc::clone(&muted)]).collect();
                thread::spawn(move || forward(far, near, &muted));
            }
        });
        proxy
    }

    /// Breaks all connections. New ones are possible.
    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, mutes: &[Arc<AtomicBool>]) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        let is_muted = mutes.iter().any(|mute| mute.load(Ordering::Acquire));
        if !is_muted && to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn command_that_times_out_moves_to_another_path() {
    let served = Served::new(ZONED);
    let proxies = [Proxy::to(&served.server), Proxy::to(&served.server)];
    let options = "io_timeout=5&reconnect_delay=100&ctrl_loss_tmo=100&quiesce=0";
    let [a, b] = [proxies[0].address, proxies[1].address];
    let heard = Heard::default();
    let text = format!("nvme-tcp://{a},{b}/{NQN}?{options}");
    let device = open(&text.parse().unwrap(), 1, &heard.notify()).unwrap().0;
    let mut host = Host::over(Arc::clone(&device) as _, QueueOptions::default());
    proxies.iter().for_each(|proxy| proxy.mute.store(true, Ordering::Release));
    host.submit(Bio::read(Sector(0), 8, 0));
    host.channel.poll(Nanos(4 * SECOND), &mut host.done);
    assert_eq!(count(&*device, "path_errors"), 0);
    host.channel.poll(Nanos(6 * SECOND), &mut host.done);
    assert_eq!((count(&*device, "path_errors"), count(&*device, "resent")), (1, 1));
    wait_until(|| heard.has("lost: a command timed out"));
    // The same over the other path, and no path is left; it is held for 100 seconds.
    host.channel.poll(Nanos(12 * SECOND), &mut host.done);
    assert_eq!(count(&*device, "path_errors"), 2);
    host.channel.poll(Nanos(105 * SECOND), &mut host.done);
    assert_eq!(host.channel.outstanding(), 1);
    host.channel.poll(Nanos(107 * SECOND), &mut host.done);
    assert_eq!(statuses(&host.done), [Status::Transport]);
}

#[test]
fn command_that_times_out_without_another_path_fails() {
    let served = Served::new(ZONED);
    let proxy = Proxy::to(&served.server);
    let text = format!("nvme-tcp://{}/{NQN}?io_timeout=5", proxy.address);
    let device = NvmeTcpDevice::connect(&text.parse().unwrap(), 1).unwrap();
    let mut host = Host::over(Arc::new(device), QueueOptions::default());
    proxy.mute.store(true, Ordering::Release);
    host.submit(Bio::read(Sector(0), 8, 0));
    host.channel.submit(Nanos(3 * SECOND), Bio::read(Sector(0), 8, 1));
    host.channel.poll(Nanos(4 * SECOND), &mut host.done);
    assert!(host.done.is_empty());
    host.channel.poll(Nanos(6 * SECOND), &mut host.done);
    host.done.sort_by_key(|done| done.user_data);
    assert_eq!(statuses(&host.done), [Status::Timeout, Status::Transport], "one was late");
    host.done.clear();
    assert_eq!(host.read(0, 8).status, Status::Offline);
}

#[test]
fn servers_of_one_subsystem_share_its_zones() {
    let served = Served::with(ZONED, patient());
    let other = served.another();
    let one = open(&address(&[&served.server], ""), 1, &Heard::default().notify()).unwrap().0;
    let two = open(&address(&[&other], ""), 1, &Heard::default().notify()).unwrap().0;
    let mut host = Host::over(one, QueueOptions::default());
    host.write(0, &pattern(4096, 0));
    assert_eq!(report(&*two)[0].wp, Sector(8));
    assert_eq!(two.limits().nr_zones, 16);
}
