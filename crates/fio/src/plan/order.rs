//! The order of the clones of a plan: which wait for others (`wait_for`) and which end others
//! (`exitall`, `exitall_on_error`, `exit_what`).
//!
//! The rules are those of fio (HOWTO): a job waits for all clones of a job before it in the file, whose
//! name is unique; if one job has `exitall`, any that ends, ends others.
use super::{PlanError, Task};
use crate::job::ExitWhat;
use crate::runner::CloneOrder;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Sets the order of the clones of all phases that wait for others or end them.
///
/// # Errors
/// There is not one job before it that a job can wait for, or it has no clones of its own.
pub(crate) fn arrange(phases: &mut [Vec<Task>]) -> Result<(), PlanError> {
    let tasks = || phases.iter().flatten().filter(|task| task.clone == 0);
    let exits =
        |task: &Task| task.job.limits.order.exitall || task.job.limits.order.exitall_on_error;
    let orders = |task: &Task| exits(task) || task.job.limits.order.wait_for.is_some();
    if !tasks().any(orders) {
        return Ok(());
    }
    if let Some(task) = tasks().find(|task| task.job.fs.kind.is_some()) {
        let job = task.job.name.clone();
        return Err(PlanError::OrderOnFileSystem { job });
    }
    let exitall = tasks().any(|task| task.job.limits.order.exitall);
    let mut waits: BTreeMap<u32, u32> = BTreeMap::new();
    for task in tasks().filter(|task| task.job.limits.order.wait_for.is_some()) {
        waits.insert(task.index, awaited(task, tasks())?);
    }
    for phase in phases {
        let orders = of_phase(phase, &waits, exitall);
        phase.iter_mut().zip(orders).for_each(|(task, order)| task.order = Some(order));
    }
    Ok(())
}

/// The index of the job that `task` waits for.
fn awaited<'a>(task: &Task, tasks: impl Iterator<Item = &'a Task>) -> Result<u32, PlanError> {
    let name = task.job.limits.order.wait_for.as_deref().unwrap_or_default();
    let named: Vec<u32> =
        tasks.filter(|other| other.job.name == name).map(|other| other.index).collect();
    let problem = |problem| PlanError::WaitFor { job: task.job.name.clone(), problem };
    match named[..] {
        [index] if index < task.index => Ok(index),
        [] => Err(problem(format!("there is no job {name}"))),
        [_] => Err(problem(format!("job {name} is not before it"))),
        _ => Err(problem(format!("{} jobs are called {name}, expected one", named.len()))),
    }
}

fn of_phase(phase: &[Task], waits: &BTreeMap<u32, u32>, exitall: bool) -> Vec<CloneOrder> {
    let mut left: BTreeMap<u32, Arc<AtomicU32>> = BTreeMap::new();
    let mut ended: BTreeMap<u32, Arc<AtomicBool>> = BTreeMap::new();
    for task in phase {
        left.entry(task.index).or_default().fetch_add(1, Ordering::Relaxed);
        ended.entry(task.group).or_default();
    }
    let order = |task: &Task| {
        let options = &task.job.limits.order;
        let ends = match options.exit_what {
            _ if !exitall && !options.exitall_on_error => Vec::new(),
            ExitWhat::Group => vec![Arc::clone(&ended[&task.group])],
            ExitWhat::Stonewall | ExitWhat::All => ended.values().map(Arc::clone).collect(),
        };
        CloneOrder {
            // A job of an earlier phase has ended.
            waits_for: waits.get(&task.index).and_then(|index| left.get(index)).map(Arc::clone),
            left: Arc::clone(&left[&task.index]),
            is_ended: Arc::clone(&ended[&task.group]),
            ends_run: options.exit_what == ExitWhat::All && !ends.is_empty(),
            ends,
            on_error: !exitall,
        }
    };
    phase.iter().map(order).collect()
}

#[cfg(test)]
mod tests {
    use crate::job::Job;
    use crate::jobfile::{MemoryEnvironment, parse_str};
    use crate::plan::{Task, phases};
    use std::sync::Arc;

    fn jobs(text: &str) -> Vec<Arc<Job>> {
        let set = parse_str("t.fio", text, &MemoryEnvironment::default()).expect(text);
        set.jobs.into_iter().map(Arc::new).collect()
    }

    fn order(text: &str) -> Vec<Vec<Task>> {
        phases(&jobs(text)).expect(text)
    }

    /// Ends a clone, and returns which ones of its phase that ends.
    fn ended(phase: &[Task], clone: usize, failed: bool) -> Vec<bool> {
        let order = |task: &Task| task.order.clone().expect("an order");
        order(&phase[clone]).end(failed);
        phase.iter().map(|task| order(task).is_ended()).collect()
    }

    #[test]
    fn a_job_waits_for_all_clones_of_another() {
        let phases = order("[a]\nnumjobs=2\n[b]\nwait_for=a\n[c]\nstonewall\nwait_for=a\n");
        let orders: Vec<_> = phases[0].iter().map(|task| task.order.as_ref().unwrap()).collect();
        let waits = || orders.iter().map(|order| order.waits()).collect::<Vec<_>>();
        assert_eq!(waits(), [false, false, true]);
        orders[1].end(false);
        assert_eq!(waits(), [false, false, true]);
        orders[0].end(true);
        assert_eq!(waits(), [false, false, false]);
        let later = phases[1][0].order.as_ref().unwrap();
        assert!(!later.waits(), "its phase starts when all before have ended");
        assert!(order("[a]\n")[0][0].order.is_none());
    }

    #[test]
    fn the_job_to_wait_for_is_one_job_before() {
        for (text, told) in [
            ("[b]\nwait_for=a\n[a]\n", "job b: wait_for: job a is not before it"),
            ("[b]\nwait_for=c\n", "job b: wait_for: there is no job c"),
            ("[a]\n[a]\n[b]\nwait_for=a\n", "job b: wait_for: 2 jobs are called a, expected one"),
            (
                "[a]\nfilesystem=xfs\nfilesize=1m\nrw=write\n[b]\nwait_for=a\n",
                "job a: jobs on file systems cannot be combined with wait_for or exitall",
            ),
        ] {
            assert_eq!(phases(&jobs(text)).expect_err(text).to_string(), told);
        }
    }

    #[test]
    fn a_job_that_ends_ends_its_group_the_running_jobs_or_the_run() {
        let text = "[global]\nexitall\n[a]\n[b]\n[c]\nnew_group\nexit_what=stonewall\n";
        assert_eq!(ended(&order(text)[0], 0, false), [true, true, false]);
        assert_eq!(ended(&order(text)[0], 2, false), [true, true, true]);
        let phases = order("[a]\nexit_what=all\n[b]\nexitall\nexit_what=stonewall\n");
        let ends_run = |at: usize| phases[0][at].order.as_ref().unwrap().ends_run(false);
        assert_eq!([ends_run(0), ends_run(1)], [true, false], "exitall holds for all jobs");
    }

    #[test]
    fn exitall_on_error_is_of_the_job_that_fails() {
        let text = "[a]\nexitall_on_error\n[b]\n[c]\nexitall_on_error\nexit_what=all\n";
        assert_eq!(ended(&order(text)[0], 0, false), [false; 3]);
        assert_eq!(ended(&order(text)[0], 1, true), [false; 3]);
        assert_eq!(ended(&order(text)[0], 0, true), [true; 3]);
        let last = order(text)[0][2].order.clone().unwrap();
        assert!(last.ends_run(true) && !last.ends_run(false));
    }
}
