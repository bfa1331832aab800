//! Jobs that share nothing: in virtual time each set of them has a simulation of its own, and those run
//! on several processors. None notices the others, so the order in which they run changes nothing.
use crate::devices::Devices;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use zonal_blk::Nanos;
use zonal_fio::plan::Task;
use zonal_fio::runner::Outcome;
use zonal_sim::{BoxedRunner, CostModel, Deadlock};

/// Time between two updates of what is shown.
const UPDATE_PERIOD: Duration = Duration::from_millis(50);

/// A thing that several clones may use.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Shared<'a> {
    Device(&'a str),
    Flow(u32),
    /// A log, or state of clones that are judged or counted together: its address.
    State(usize),
    /// The order in which clones begin and end.
    Order,
    /// Reports while the jobs run, of all that have reached a time.
    Status,
}

/// The sets of the tasks of a phase that share nothing with one another, as places in the phase, in
/// order.
pub fn independent_sets(phase: &[Task], devices: &Devices) -> Vec<Vec<usize>> {
    let mut users: BTreeMap<Shared<'_>, usize> = BTreeMap::new();
    // By task, the first of its set.
    let mut firsts: Vec<usize> = (0..phase.len()).collect();
    for (at, task) in phase.iter().enumerate() {
        for shared in shared(task, devices) {
            let other = firsts[*users.entry(shared).or_insert(at)];
            let (first, last) = (other.min(firsts[at]), other.max(firsts[at]));
            if first < last {
                let joins = |it: &&mut usize| **it == last;
                firsts[..=at].iter_mut().filter(joins).for_each(|it| *it = first);
            }
        }
    }
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, first) in firsts.into_iter().enumerate() {
        sets.entry(first).or_default().push(at);
    }
    sets.into_values().collect()
}

fn shared<'a>(task: &'a Task, devices: &'a Devices) -> Vec<Shared<'a>> {
    fn state<'a, T>(state: &Arc<T>) -> Shared<'a> {
        Shared::State(Arc::as_ptr(state).addr())
    }
    let mut shared = vec![Shared::Device(&devices.of(task).name)];
    shared.extend((task.job.flow > 0).then_some(Shared::Flow(task.job.flow_id)));
    shared.extend(task.logs.iter().flatten().map(state));
    shared.extend(task.steady.as_ref().map(state));
    shared.extend(task.ramp.as_ref().map(state));
    shared.extend(task.order.as_ref().map(|_| Shared::Order));
    shared.extend(task.status.as_ref().map(|_| Shared::Status));
    shared
}

/// Simulations of jobs that share nothing.
pub struct Simulations<'a> {
    /// The time at which all begin.
    pub start: Nanos,
    /// The cost of an I/O for the thread that submits it.
    pub costs: CostModel,
    /// Steps between two looks whether to stop.
    pub steps: u64,
    /// Whether the jobs are to stop.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
}

/// The outcomes of the clones of a set, and the time at its end.
type Simulated = Result<(Vec<Outcome>, Nanos), Deadlock>;

impl Simulations<'_> {
    /// Runs each of the `sets` by itself, on as many threads as there are `workers`; a single one on this
    /// thread. Runners come with the places of their first clones. Calls `update` on this thread now and
    /// then with the time since the start, the mean of that of the sets. Returns the outcomes of all clones
    /// in order, and the time at the end of the last one.
    ///
    /// # Errors
    /// The jobs of a set wait for one another: [`Deadlock`] names those of all such sets.
    pub fn run(
        &self,
        mut runners: Vec<(usize, BoxedRunner)>,
        sets: &[Vec<usize>],
        workers: usize,
        update: impl FnMut(Nanos),
    ) -> Result<(Vec<Outcome>, Nanos), Deadlock> {
        if let [_] = sets {
            let runners = runners.into_iter().map(|(_, runner)| runner).collect();
            return self.simulate(runners, update);
        }
        let mut divide = |set: &Vec<usize>| {
            let own = runners.extract_if(.., |(at, _)| set.binary_search(at).is_ok());
            Mutex::new(own.map(|(_, runner)| runner).collect())
        };
        let divided: Vec<Mutex<Vec<BoxedRunner>>> = sets.iter().map(&mut divide).collect();
        let simulated = self.run_on_threads(&divided, workers, update);
        let (outcomes, end) = together(simulated, self.start)?;
        let with_places = |(set, outcomes): (&Vec<usize>, Vec<Outcome>)| {
            set.iter().copied().zip(outcomes).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = sets.iter().zip(outcomes).flat_map(with_places).collect();
        all.sort_unstable_by_key(|&(at, _)| at);
        Ok((all.into_iter().map(|(_, outcome)| outcome).collect(), end))
    }

    /// Runs sets, and returns what came of them in their order.
    fn run_on_threads(
        &self,
        sets: &[Mutex<Vec<BoxedRunner>>],
        workers: usize,
        update: impl FnMut(Nanos),
    ) -> Vec<Simulated> {
        let (next, elapsed) = (AtomicUsize::new(0), AtomicU64::new(0));
        let work = |done: mpsc::Sender<(usize, Simulated)>| {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(set) = sets.get(at) else { break };
                let runners = std::mem::take(&mut *set.lock().expect("one worker has a set"));
                let mut last = Nanos(0);
                let simulated = self.simulate(runners, |now| {
                    elapsed.fetch_add((now - last).0, Ordering::Relaxed);
                    last = now;
                });
                done.send((at, simulated)).expect("all are received");
            }
        };
        let work = &work;
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..workers.clamp(1, sets.len().max(1)) {
                let sender = sender.clone();
                scope.spawn(move || work(sender));
            }
            drop(sender);
            let mean = || Nanos(elapsed.load(Ordering::Relaxed) / sets.len() as u64);
            receive_all(&receiver, mean, update)
        })
    }

    /// Runs one set. Calls `passes` with the time since the start.
    fn simulate(&self, runners: Vec<BoxedRunner>, mut passes: impl FnMut(Nanos)) -> Simulated {
        let watch = |now: Nanos| {
            passes(now - self.start);
            (self.is_stopped)()
        };
        zonal_sim::run_watched(runners, self.start, self.costs, self.steps, watch)
    }
}

/// Receives until no worker is left, and calls `update` meanwhile. Returns what came, in the order of the
/// sets.
fn receive_all(
    receiver: &Receiver<(usize, Simulated)>,
    mean: impl Fn() -> Nanos,
    mut update: impl FnMut(Nanos),
) -> Vec<Simulated> {
    let mut all = Vec::new();
    loop {
        match receiver.recv_timeout(UPDATE_PERIOD) {
            Ok(simulated) => all.push(simulated),
            Err(RecvTimeoutError::Timeout) => update(mean()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    all.sort_unstable_by_key(|&(at, _)| at);
    all.into_iter().map(|(_, simulated)| simulated).collect()
}

/// The outcomes of all sets, or the jobs of all that have a deadlock, as if there were one simulation.
fn together(
    simulated: Vec<Simulated>,
    start: Nanos,
) -> Result<(Vec<Vec<Outcome>>, Nanos), Deadlock> {
    let (mut all, mut end, mut stuck) = (Vec::with_capacity(simulated.len()), start, Vec::new());
    for simulated in simulated {
        let (outcomes, at) = match simulated {
            Ok(simulated) => simulated,
            Err(Deadlock { at, jobs }) => {
                stuck.extend(jobs);
                (Vec::new(), at)
            }
        };
        all.push(outcomes);
        end = end.max(at);
    }
    if stuck.is_empty() { Ok((all, end)) } else { Err(Deadlock { at: end, jobs: stuck }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::DeviceOptions;
    use crate::executor::{Executor, FinishedTask};
    use crate::progress::{JobProgress, PhaseProgress};
    use std::sync::atomic::AtomicBool;
    use zonal_fio::jobfile::{MemoryEnvironment, parse_str};
    use zonal_fio::plan;

    const COSTS: CostModel = CostModel::Flat(Nanos(1000));

    fn prepare(text: &str) -> (Vec<Vec<Task>>, Devices) {
        let set = parse_str("t.fio", text, &MemoryEnvironment::default()).expect(text);
        let jobs: Vec<_> = set.jobs.into_iter().map(Arc::new).collect();
        let phases = plan::phases(&jobs).expect(text);
        let devices = Devices::attach(&DeviceOptions::default(), &phases).expect(text);
        (phases, devices)
    }

    fn sets(text: &str) -> Vec<Vec<usize>> {
        let (phases, devices) = prepare(text);
        independent_sets(&phases[0], &devices)
    }

    #[test]
    fn jobs_that_share_something_are_in_one_set() {
        let all = "[a]\nfilename=null:seed=1\nnumjobs=2\nOPTIONS\n[b]\nfilename=null:seed=2\n\
                   [c]\nfilename=null:seed=3\nOPTIONS\n[d]\nfilename=null:seed=2\n";
        let with = |options: &str| sets(&all.replace("OPTIONS", options));
        let (apart, joined) =
            (vec![vec![0, 1], vec![2, 4], vec![3]], vec![vec![0, 1, 3], vec![2, 4]]);
        assert_eq!(with("flow=0"), apart);
        assert_eq!(with("flow=1"), joined);
        assert_eq!(with("group_reporting=1\nramp_size=1m"), joined);
        assert_eq!(with("group_reporting=1\nsteadystate=iops:1%\nsteadystate_duration=2"), joined);
        assert_eq!(with("exitall=1"), [[0, 1, 2, 3, 4]], "any may end all");
        // The third task brings the first two together.
        let chain = "[a]\nfilename=null:seed=1\n[b]\nfilename=null:seed=2\nflow=1\n\
                     [c]\nfilename=null:seed=1\nflow=1\n";
        assert_eq!(sets(chain), [[0, 1, 2]]);
    }

    #[test]
    fn a_log_of_several_clones_joins_them() {
        let (mut phases, devices) = prepare("[a]\nfilename=null\n[b]\nfilename=null:seed=1\n");
        let dir = tempfile::tempdir().expect("a directory");
        let name = dir.path().join("lat.log").display().to_string();
        let log = Arc::new(zonal_fio::logs::LogFile::create(&name, None).expect("a file"));
        phases[0].iter_mut().for_each(|task| task.logs[0] = Some(Arc::clone(&log)));
        assert_eq!(independent_sets(&phases[0], &devices), [[0, 1]]);
    }

    /// All that was measured, clone by clone.
    fn measured(text: &str, processors: usize, one_clock: bool) -> Vec<String> {
        let (phases, devices) = prepare(text);
        let mut executor = Executor::virtual_time(COSTS).on_processors(processors);
        let run = |phase| executor.run(phase, &devices, 1, one_clock).expect("the jobs run");
        let finished: Vec<FinishedTask> = phases.into_iter().flat_map(run).collect();
        let clone = |finished: &FinishedTask| {
            let FinishedTask { task, outcome, elapsed } = finished;
            let (stats, error) = (&outcome.stats, outcome.error);
            format!("{}.{} {elapsed} {error:?} {stats:?}", task.job.name, task.clone)
        };
        finished.iter().map(clone).collect()
    }

    #[test]
    fn results_are_the_same_on_any_number_of_processors_and_with_one_clock() {
        let text = "\
            [global]\ntime_based\nruntime=200ms\nbs=64k\n\
            [disk]\nfilename=hdd\nrw=randrw\niodepth=4\n\
            [writers]\nfilename=null:latency=20us,jitter=5us,zones=8\nrw=write\nzonemode=zbd\n\
            numjobs=2\niodepth=8\n\
            [late]\nfilename=zn540:written=1%\nrw=randread\nzonemode=zbd\nsize=8z\nstartdelay=50ms\n\
            [paced]\nfilename=null:latency=20us,zones=8\nrw=randwrite\nzonemode=zbd\nrate_iops=900\n\
            ioscheduler=mq-deadline\n\
            [alone]\nfilename=hdd:seed=2\nrw=randread\niodepth=2\nthinktime=3ms\n\
            [flow]\nfilename=null:zoned=false,size=1G,latency=7us\nrw=read\nflow=1\n\
            [flows]\nfilename=null:zoned=false,size=2G,latency=9us\nrw=read\nflow=3\n\
            [after]\nstonewall\nfilename=hdd\nrw=read\n\
            [beside]\nfilename=null:latency=20us,zones=8\nrw=write\nzonemode=zbd\n";
        let together = measured(text, 1, true);
        assert_eq!(together.len(), 10);
        for processors in [1, 2, 7] {
            assert_eq!(measured(text, processors, false), together, "{processors} processors");
        }
    }

    /// Stops the jobs at the first update.
    struct Stopper(Arc<AtomicBool>);

    impl JobProgress for Stopper {
        fn start(&mut self, _phase: PhaseProgress) {}
        fn update(&mut self, _elapsed: Nanos) {
            self.0.store(true, Ordering::Relaxed);
        }
        fn finish(&mut self) {}
    }

    #[test]
    fn all_sets_end_when_the_run_is_stopped() {
        let text = "[global]\nrw=read\ntime_based\nruntime=1000d\n[a]\nfilename=null:zoned=false,latency=1us\n\
                    [b]\nfilename=null:zoned=false,latency=2us\n[c]\nfilename=null:zoned=false,latency=3us\n";
        let (mut phases, devices) = prepare(text);
        let stop = Arc::<AtomicBool>::default();
        let executor = Executor::interruptible(COSTS, Arc::clone(&stop), Box::new(Stopper(stop)));
        let finished = executor.on_processors(2).run(phases.remove(0), &devices, 1, false);
        assert_eq!(finished.expect("an early end is no error").len(), 3);
    }

    #[test]
    fn a_deadlock_names_the_jobs_of_all_sets_and_the_end_of_the_last() {
        let stuck = |at, job: &str| Err(Deadlock { at: Nanos(at), jobs: vec![job.to_owned()] });
        let all = vec![stuck(5, "a"), Ok((Vec::new(), Nanos(9))), stuck(7, "b")];
        let deadlock = together(all, Nanos(1)).err();
        let jobs = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(deadlock, Some(Deadlock { at: Nanos(9), jobs }));
        assert_eq!(together(Vec::new(), Nanos(1)).map(|(_, end)| end), Ok(Nanos(1)));
    }
}
