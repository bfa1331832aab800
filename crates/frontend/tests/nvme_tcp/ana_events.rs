//! Events of the ANA state that arrive while the host waits for something else.
use crate::paths::Heard;
use crate::support::{NQN, Served, ZONED, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use zonal_backend::nvme_tcp::open;
use zonal_frontend::nvme_tcp::Server;
use zonal_nvme::ana::AnaState;
use zonal_nvme::wire::opcode::AdminOpcode;

/// The types of PDUs with a command and with a completion.
const COMMAND: u8 = 4;
const COMPLETION: u8 = 5;
/// The command identifier of the host's Asynchronous Event Request.
const EVENT_CID: u16 = 1;

/// The PDUs of the first connection, that of the admin queue, that a proxy has seen or withholds.
#[derive(Default)]
struct Seen {
    /// Withhold what the target sends from the next command with this opcode on.
    trigger: Option<u8>,
    /// Whether it withholds.
    is_held: bool,
    held: Vec<Vec<u8>>,
    /// Opcodes of the host's commands.
    opcodes: Vec<u8>,
}

impl Seen {
    /// The number of withheld completions with the event's command identifier, or with others.
    fn completions(&self, of_event: bool) -> usize {
        let is_wanted = |pdu: &&Vec<u8>| {
            // The CID is in bytes 12 and 13 of the completion, after the header of 8 bytes.
            pdu[0] == COMPLETION
                && (u16::from_le_bytes([pdu[20], pdu[21]]) == EVENT_CID) == of_event
        };
        self.held.iter().filter(is_wanted).count()
    }
}

/// A proxy that passes whole PDUs on, and withholds the PDUs to the host's admin queue when told to.
struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    admin: Arc<Mutex<Option<TcpStream>>>,
}

impl Proxy {
    fn to(server: &Server) -> Self {
        let (listener, target) = (TcpListener::bind("127.0.0.1:0").unwrap(), server.address());
        let address = listener.local_addr().unwrap();
        let proxy = Proxy { address, seen: Arc::default(), admin: Arc::default() };
        let (seen, admin) = (Arc::clone(&proxy.seen), Arc::clone(&proxy.admin));
        // It ends with the test's process.
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(target).unwrap());
                let mut admin = admin.lock().unwrap();
                let seen = admin.is_none().then(|| Arc::clone(&seen));
                admin.get_or_insert(near.try_clone().unwrap());
                let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let to_far = seen.clone();
                thread::spawn(move || pass(near_too, far_too, |pdu| watch(to_far.as_ref(), pdu)));
                thread::spawn(move || pass(far, near, |pdu| hold(seen.as_ref(), pdu)));
            }
        });
        proxy
    }

    /// Sends the withheld PDUs in one write, and forgets the commands so far.
    fn release(&self) {
        let mut seen = self.seen.lock().unwrap();
        let bytes = std::mem::take(&mut seen.held).concat();
        (seen.is_held, seen.opcodes) = (false, Vec::new());
        let admin = self.admin.lock().unwrap();
        admin.as_ref().expect("an admin queue").write_all(&bytes).expect("the host reads");
    }
}

/// Notes a command of the host; it is passed on.
fn watch(seen: Option<&Arc<Mutex<Seen>>>, pdu: &[u8]) -> bool {
    if let Some(seen) = seen
        && pdu[0] == COMMAND
    {
        let (mut seen, opcode) = (seen.lock().unwrap(), pdu[8]);
        seen.opcodes.push(opcode);
        if seen.trigger == Some(opcode) {
            (seen.trigger, seen.is_held) = (None, true);
        }
    }
    true
}

/// Whether a PDU of the target is passed on; otherwise it is kept.
fn hold(seen: Option<&Arc<Mutex<Seen>>>, pdu: &[u8]) -> bool {
    let Some(seen) = seen else { return true };
    let mut seen = seen.lock().unwrap();
    if seen.is_held {
        seen.held.push(pdu.to_vec());
    }
    !seen.is_held
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut passes: impl FnMut(&[u8]) -> bool) {
    loop {
        let mut pdu = vec![0; 8];
        if from.read_exact(&mut pdu).is_err() {
            return;
        }
        let len = u32::from_le_bytes([pdu[4], pdu[5], pdu[6], pdu[7]]);
        pdu.resize(len as usize, 0);
        if from.read_exact(&mut pdu[8..]).is_err() || passes(&pdu) && to.write_all(&pdu).is_err() {
            return;
        }
    }
}

/// An event arrives with the answer to another command. Returns whether the host read the log before its
/// next Keep Alive, which it sends every five seconds.
fn is_noticed(during: AdminOpcode) -> bool {
    let served = Served::new(ZONED);
    let (heard, proxy) = (Heard::default(), Proxy::to(&served.server));
    let text = format!("nvme-tcp://{}/{NQN}?reconnect_delay=1&quiesce=0", proxy.address);
    let _device = open(&text.parse().unwrap(), 1, &heard.notify()).expect("a path").0;
    proxy.seen.lock().unwrap().trigger = Some(during.0);
    if during == AdminOpcode::GET_LOG_PAGE {
        // Its event has the host read the log.
        served.server.path().set_ana_state(AnaState::NonOptimized);
    }
    let seen = |check: &dyn Fn(&Seen) -> bool| check(&proxy.seen.lock().unwrap());
    wait_until(|| seen(&|seen| seen.completions(false) == 1));
    served.server.path().set_ana_state(AnaState::Inaccessible);
    wait_until(|| seen(&|seen| seen.completions(true) == 1));
    proxy.release();
    let log = AdminOpcode::GET_LOG_PAGE.0;
    wait_until(|| seen(&|seen| seen.opcodes.contains(&log)));
    wait_until(|| heard.has("ANA state inaccessible"));
    let opcodes = proxy.seen.lock().unwrap().opcodes.clone();
    let before = opcodes.iter().take_while(|&&opcode| opcode != log);
    !before.into_iter().any(|&opcode| opcode == AdminOpcode::KEEP_ALIVE.0)
}

#[test]
fn event_that_arrives_during_a_log_read_or_keep_alive_is_not_overlooked() {
    for during in [AdminOpcode::GET_LOG_PAGE, AdminOpcode::KEEP_ALIVE] {
        // A host whose thread gets no CPU for five seconds sends Keep Alive first: it may try again.
        assert!((0..3).any(|_| is_noticed(during)), "{during:?}");
    }
}
