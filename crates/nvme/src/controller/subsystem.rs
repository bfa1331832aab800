//! An NVM subsystem: its namespaces and controllers.
use super::association::Association;
use super::async_events::AsyncEvents;
use super::namespace::Namespace;
use super::queue_auth::QueueAuth;
use super::{DISCOVERY_MDTS, IN_CAPSULE, MAX_NAMESPACES, MDTS};
use crate::ana::{AnaState, Port};
use crate::auth::{AuthConfig, ControllerAuth};
use crate::wire::fabrics::DISCOVERY_NQN;
use crate::wire::log::DiscoveryEntry;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use zonal_blk::{DataPlacement, ZoneNo};

/// The identity that a subsystem reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// NVMe Qualified Name, up to 223 bytes.
    pub nqn: String,
    /// Serial number, up to 20 bytes.
    pub serial: String,
    /// Model number, up to 40 bytes.
    pub model: String,
    /// Firmware revision, up to 8 bytes.
    pub firmware: String,
}

/// Why a namespace cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddNamespaceError {
    /// Not an identifier of a namespace.
    #[error("namespace identifier {0}, expected 1 to {MAX_NAMESPACES}")]
    Identifier(u32),
    /// The identifier is in use.
    #[error("there is a namespace {0} already")]
    NsidInUse(u32),
}

/// Controllers begin in another block of identifiers after each loss of power; how many of them there are.
const CNTLID_BLOCK: u16 = 256;
const CNTLID_BLOCKS: u64 = 255;

/// An NVM subsystem.
pub struct Subsystem {
    config: SubsystemConfig,
    /// How hosts authenticate; `None` if they need not.
    auth: Option<Arc<AuthConfig>>,
    /// Counts changes of the set of namespaces.
    generation: AtomicU64,
    state: Mutex<State>,
    private: AtomicBool,
    mdts: AtomicU8,
    in_capsule: AtomicU32,
    pub(super) totals: Totals,
}

#[derive(Default)]
struct State {
    namespaces: BTreeMap<u32, Arc<Namespace>>,
    controllers: BTreeMap<u16, Weak<Association>>,
    last_cntlid: u16,
    /// For a discovery subsystem: the generation of its log, and the entries.
    discovery: Option<(u64, Vec<DiscoveryEntry>)>,
}

/// The counts of the SMART log page for all controllers.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub sectors_read: AtomicU64,
    pub sectors_written: AtomicU64,
    pub media_errors: AtomicU64,
    pub power_losses: AtomicU64,
    pub unsafe_shutdowns: AtomicU64,
}

/// What the commands that a queue completes in one poll add to the [`Totals`], which all queues share.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub reads: u64,
    pub writes: u64,
    pub sectors_read: u64,
    pub sectors_written: u64,
    pub media_errors: u64,
}

impl Totals {
    /// Adds what was counted: the cache line of the totals is taken from other threads once, whatever the
    /// number of commands.
    pub fn add(&self, counted: &Counted) {
        let counts = [
            (&self.reads, counted.reads),
            (&self.writes, counted.writes),
            (&self.sectors_read, counted.sectors_read),
            (&self.sectors_written, counted.sectors_written),
            (&self.media_errors, counted.media_errors),
        ];
        for (total, count) in counts.into_iter().filter(|&(_, count)| count > 0) {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Subsystem {
    /// A subsystem without namespaces.
    pub fn new(config: SubsystemConfig) -> Arc<Self> {
        Subsystem::with(config, None, State::default())
    }

    /// A subsystem without namespaces, for hosts that authenticate. Hosts without a secret are
    /// refused.
    pub fn authenticated(config: SubsystemConfig, auth: AuthConfig) -> Arc<Self> {
        Subsystem::with(config, Some(Arc::new(auth)), State::default())
    }

    /// A discovery subsystem with these entries in its log.
    pub fn discovery(mut config: SubsystemConfig, entries: Vec<DiscoveryEntry>) -> Arc<Self> {
        DISCOVERY_NQN.clone_into(&mut config.nqn);
        let state = State { discovery: Some((1, entries)), ..State::default() };
        Subsystem::with(config, None, state)
    }

    fn with(config: SubsystemConfig, auth: Option<Arc<AuthConfig>>, state: State) -> Arc<Self> {
        let (generation, totals) = (AtomicU64::new(0), Totals::default());
        let mdts = if state.discovery.is_some() { DISCOVERY_MDTS } else { MDTS };
        Arc::new(Subsystem {
            config,
            auth,
            generation,
            state: state.into(),
            private: AtomicBool::new(false),
            mdts: mdts.into(),
            in_capsule: IN_CAPSULE.into(),
            totals,
        })
    }

    /// Its controllers take shorter transfers than the usual 1 MiB and 16 KiB: commands of 4 KiB shifted
    /// left by `mdts` at most (MDTS), and `in_capsule` bytes in a capsule (IOCCSZ), a multiple of 16.
    /// For hosts that connect from now on. Longer ones stay as they are.
    pub fn limit_transfers(&self, mdts: u8, in_capsule: u32) {
        self.mdts.fetch_min(mdts.max(1), Ordering::Relaxed);
        self.in_capsule.fetch_min(in_capsule / 16 * 16, Ordering::Relaxed);
    }

    /// Its only controller has one host, and says so. Linux makes a multipath disk of what may be
    /// reached by others, and waits for them when it is lost.
    pub fn make_private(&self) {
        self.private.store(true, Ordering::Release);
    }

    /// Whether there may be several controllers, of which each has all namespaces.
    pub(super) fn is_shared(&self) -> bool {
        !self.private.load(Ordering::Acquire)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("subsystem lock")
    }

    /// The authentication of a queue of this host; `None` if the host needs a secret and has none.
    pub(super) fn queue_auth(&self, host: &str) -> Option<QueueAuth> {
        match &self.auth {
            None => Some(QueueAuth::NOT_REQUIRED),
            Some(auth) => {
                ControllerAuth::new(auth, host, &self.config.nqn).map(QueueAuth::required)
            }
        }
    }

    /// The identity that the subsystem reports.
    pub fn config(&self) -> &SubsystemConfig {
        &self.config
    }

    /// Adds a namespace. Hosts get an event.
    ///
    /// # Errors
    /// The identifier is out of range or in use.
    pub fn add(&self, nsid: u32, namespace: Arc<Namespace>) -> Result<(), AddNamespaceError> {
        let mut state = self.state();
        if !(1..=MAX_NAMESPACES).contains(&nsid) {
            return Err(AddNamespaceError::Identifier(nsid));
        }
        if state.namespaces.contains_key(&nsid) {
            return Err(AddNamespaceError::NsidInUse(nsid));
        }
        state.namespaces.insert(nsid, namespace);
        self.changed(&state, nsid);
        Ok(())
    }

    /// Removes a namespace. Hosts get an event; I/O in flight completes.
    pub fn remove(&self, nsid: u32) -> Option<Arc<Namespace>> {
        let mut state = self.state();
        let removed = state.namespaces.remove(&nsid)?;
        self.changed(&state, nsid);
        Some(removed)
    }

    fn changed(&self, state: &State, nsid: u32) {
        self.generation.fetch_add(1, Ordering::Release);
        for controller in state.controllers.values().filter_map(Weak::upgrade) {
            controller.raise(|events| events.namespace_changed(nsid));
        }
    }

    /// Reports to hosts that the descriptor of a zone has changed without a command: it is read-only or
    /// offline now, or has a recommendation.
    pub fn zone_changed(&self, nsid: u32, zone: ZoneNo) {
        let state = self.state();
        let Some(namespace) = state.namespaces.get(&nsid) else { return };
        let slba = namespace.to_blocks(namespace.limits().zone_start(zone));
        for controller in state.controllers.values().filter_map(Weak::upgrade) {
            controller.raise(|events| events.zone_changed(nsid, slba));
        }
    }

    /// A zone was made read-only or offline, or usable again, without a command. Reports it to hosts, so
    /// that no failed command does so again.
    pub fn condition_changed(&self, nsid: u32, zone: ZoneNo) {
        let namespace = self.state().namespaces.get(&nsid).cloned();
        namespace.iter().for_each(|namespace| namespace.look_at(zone));
        self.zone_changed(nsid, zone);
    }

    /// The zones of a namespace were read anew, and it may have another size now. Reports it to hosts, which
    /// identify the namespace again.
    pub fn zones_changed(&self, nsid: u32) {
        let state = self.state();
        let Some(namespace) = state.namespaces.get(&nsid) else { return };
        namespace.look_at_all();
        self.changed(&state, nsid);
    }

    /// The drive was switched on `cycles` times before this one, not shut down as often, and has lost its power. After
    /// a loss its controllers have other identifiers, so that a host that was connected sees that it is not where
    /// it was. To be called before hosts connect.
    pub fn set_power_history(&self, cycles: u64, unsafe_shutdowns: u64, losses: u64) {
        self.totals.power_losses.store(cycles, Ordering::Relaxed);
        self.totals.unsafe_shutdowns.store(unsafe_shutdowns, Ordering::Relaxed);
        let block = u16::try_from(losses % CNTLID_BLOCKS).expect("few blocks");
        self.state().last_cntlid = block * CNTLID_BLOCK;
    }

    /// Counts a loss of power of the device of a namespace. It is an unsafe shutdown if a controller was
    /// enabled and no shutdown of it has completed since.
    pub fn power_lost(&self) {
        self.totals.power_losses.fetch_add(1, Ordering::Relaxed);
        let state = self.state();
        let mut controllers = state.controllers.values().filter_map(Weak::upgrade);
        if controllers.any(|controller| controller.is_uncommitted()) {
            self.totals.unsafe_shutdowns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Changes the ANA state of the namespaces at a port. Hosts that are connected there get an event;
    /// I/O in flight completes.
    pub fn set_ana_state(&self, port: &Arc<Port>, to: AnaState) {
        let state = self.state();
        if !port.set(to) {
            return;
        }
        let at_port = |controller: &Arc<Association>| {
            controller.port.as_ref().is_some_and(|its| Arc::ptr_eq(its, port))
        };
        for controller in state.controllers.values().filter_map(Weak::upgrade).filter(at_port) {
            controller.raise(AsyncEvents::ana_changed);
        }
    }

    /// Replaces the entries of a discovery log. Hosts get an event. Does nothing to other subsystems.
    pub fn set_discovery(&self, entries: Vec<DiscoveryEntry>) {
        let mut state = self.state();
        if let Some((generation, known)) = &mut state.discovery {
            *generation += 1;
            *known = entries;
            for controller in state.controllers.values().filter_map(Weak::upgrade) {
                controller.raise(|events| events.discovery_changed());
            }
        }
    }

    /// Counts changes of the set of namespaces.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn is_discovery(&self) -> bool {
        self.state().discovery.is_some()
    }

    /// MDTS of its controllers.
    pub(super) fn mdts(&self) -> u8 {
        self.mdts.load(Ordering::Relaxed)
    }

    /// Bytes of data that a command capsule may carry.
    pub(super) fn in_capsule(&self) -> u32 {
        self.in_capsule.load(Ordering::Relaxed)
    }

    /// The generation and the entries of a discovery log.
    pub(super) fn discovery_log(&self) -> Option<(u64, Vec<DiscoveryEntry>)> {
        self.state().discovery.clone()
    }

    pub(super) fn namespace(&self, nsid: u32) -> Option<Arc<Namespace>> {
        self.state().namespaces.get(&nsid).cloned()
    }

    /// Whether a namespace has a log for marks.
    pub(super) fn takes_marks(&self) -> bool {
        self.state().namespaces.values().any(|namespace| namespace.marks().is_some())
    }

    /// Whether a namespace has reclaim unit handles.
    pub(super) fn has_placement(&self) -> bool {
        self.state().namespaces.values().any(|namespace| namespace.placement().is_some())
    }

    /// The endurance group of a namespace with data placement: the number of the first namespace of its
    /// drive. 0 if it has no data placement.
    pub(super) fn endurance_group(&self, namespace: &Namespace) -> u32 {
        let Some(drive) = namespace.placement().map(DataPlacement::drive) else { return 0 };
        let is_of_drive =
            |other: &Namespace| other.placement().is_some_and(|other| other.drive() == drive);
        let state = self.state();
        let first = state.namespaces.iter().find(|(_, other)| is_of_drive(other));
        first.map_or(0, |(nsid, _)| *nsid)
    }

    /// The namespaces of an endurance group, with their numbers.
    pub(super) fn namespaces_of_group(&self, group: u32) -> Vec<(u32, Arc<Namespace>)> {
        let has = |namespace: &Namespace| namespace.placement().is_some();
        let all = self.namespaces_after(0, has).into_iter();
        let all = all.filter_map(|nsid| Some((nsid, self.namespace(nsid)?)));
        all.filter(|(_, namespace)| self.endurance_group(namespace) == group).collect()
    }

    /// Identifiers above `after` of the namespaces that `wanted` selects.
    pub(super) fn namespaces_after(
        &self,
        after: u32,
        wanted: impl Fn(&Namespace) -> bool,
    ) -> Vec<u32> {
        let state = self.state();
        let after = state.namespaces.range(after.saturating_add(1)..);
        after.filter(|(_, namespace)| wanted(namespace)).map(|(nsid, _)| *nsid).collect()
    }

    /// The zone append that all namespaces support, in sectors; `None` without zoned ones.
    pub(super) fn append_max(&self) -> Option<u32> {
        let state = self.state();
        let zoned = state.namespaces.values().filter(|namespace| namespace.is_zoned());
        zoned.map(|namespace| namespace.append_max()).min()
    }

    /// Adds a controller. `None` if all identifiers are in use.
    pub(super) fn associate(
        self: &Arc<Self>,
        make: impl FnOnce(u16) -> Arc<Association>,
    ) -> Option<Arc<Association>> {
        let mut state = self.state();
        state.controllers.retain(|_, controller| controller.strong_count() > 0);
        // 0 is none, FFF0h and above are reserved (Base section 3.1.2.1).
        let free = |id: &u16| !state.controllers.contains_key(id);
        let last = state.last_cntlid;
        let cntlid = (last + 1..0xfff0).chain(1..=last).find(free)?;
        let controller = make(cntlid);
        state.controllers.insert(cntlid, Arc::downgrade(&controller));
        state.last_cntlid = cntlid;
        Some(controller)
    }

    /// The controller `cntlid`, while its host is connected.
    pub(super) fn controller(&self, cntlid: u16) -> Option<Arc<Association>> {
        self.state().controllers.get(&cntlid)?.upgrade()
    }
}
