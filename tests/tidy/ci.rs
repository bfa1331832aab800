//! The steps of `.ci/run` and the jobs that call them.

/// Steps that no job calls or that two call, and what a job calls that is no step.
pub fn steps_of_jobs(script: &str, workflow: &str) -> Vec<String> {
    let steps = script.split_once("\nsteps=(").and_then(|(_, rest)| rest.split_once(")\n"));
    let words = steps.map_or("", |(steps, _)| steps).split([' ', '\n']);
    let steps: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let jobs = workflow.lines().filter_map(|line| line.trim_start().strip_prefix("steps: "));
    let called: Vec<&str> = jobs.flat_map(str::split_whitespace).collect();
    let count = |step: &str| called.iter().filter(|called| **called == step).count();
    let mut faults: Vec<String> = Vec::new();
    for step in &steps {
        let count = count(step);
        if count != 1 {
            faults.push(format!(".ci/run: {count} jobs of test.yml call {step}, expected 1"));
        }
    }
    for unknown in called.iter().filter(|called| !steps.contains(called)) {
        faults.push(format!("test.yml: {unknown} is no step of .ci/run"));
    }
    if steps.is_empty() {
        faults.push(".ci/run: found no list of steps".to_owned());
    }
    faults
}

#[test]
fn a_step_is_called_by_one_job() {
    let script = "x\nsteps=(a b\n    c)\n";
    let faults = |jobs: &str| steps_of_jobs(script, jobs).len();
    assert_eq!(faults("  steps: a\n  steps: b c\n"), 0);
    assert_eq!(faults("  steps: a c\n"), 1, "b is in no job");
    assert_eq!(faults("  steps: a b c\n  steps: b\n"), 1, "b is in two");
    assert_eq!(faults("  steps: a b c d\n"), 1, "d is no step");
    assert_eq!(steps_of_jobs("", "").len(), 1, "no list");
}
