//! Schedulers from outside: named on the command line and by jobs, and what the report tells.
use crate::support;
use serde_json::Value;
use zonal_blk::sched::Scheduler;

/// Runs `zonal run` in virtual time: exit code, standard output, standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    support::run(&["run", "--clock=virtual"], args)
}

/// The JSON report of a run that succeeds without messages.
#[track_caller]
fn json(args: &[&str]) -> Value {
    let first = ["run", "--clock=virtual", "--output-format=json"];
    let report = support::zonal(&[&first[..], args].concat()).expect_ok();
    serde_json::from_str(&report).expect("JSON")
}

/// One command at a time, a tenth of a millisecond each.
const SLOW: &str = "--device=null:zoned=false,latency=100us,queues=1,depth=1";
const READS: [&str; 3] = ["--rw=randread", "--iodepth=16", "--runtime=2"];

#[test]
fn scheduler_and_its_attributes_are_in_the_report() {
    let options =
        ["--scheduler=mq-deadline", "--sched-opt=read_expire=7", "--sched-opt", "fifo_batch=3"];
    let job = ["--name=a", "--device=null:", "--size=1m"];
    let report = json(&[&options[..], &job].concat());
    let scheduler = &report["zonal"]["scheduler"][0];
    assert_eq!(scheduler["name"], "mq-deadline");
    assert_eq!(scheduler["attributes"]["read_expire"], "7ms");
    assert_eq!(scheduler["attributes"]["fifo_batch"], "3");
    let best_effort = &scheduler["classes"]["be"];
    assert_eq!(best_effort["inserted"], 256, "a megabyte in blocks of 4 KiB");
    assert_eq!(best_effort["completed"], best_effort["dispatched"]);
    let (code, text, _) = run(&[&options[..], &job].concat());
    assert_eq!(code, 0);
    assert!(text.contains("\n  scheduler: device=null:, name=mq-deadline\n"), "{text}");
    assert!(text.contains("classes be: inserted=256"), "{text}");
}

#[test]
fn without_a_scheduler_there_is_no_section() {
    assert_eq!(
        json(&["--name=a", "--device=null:", "--size=1m"])["zonal"]["scheduler"],
        Value::Null
    );
}

#[test]
fn jobs_name_the_scheduler_and_the_command_line_has_the_last_word() {
    let job = ["--name=a", "--device=null:", "--size=64k", "--ioscheduler=kyber"];
    let name = |more: &[&str]| json(&[&job[..], more].concat())["zonal"]["scheduler"][0].clone();
    assert_eq!(name(&[])["name"], "kyber");
    assert_eq!(name(&["--scheduler=bfq"])["name"], "bfq");
    let with = ["--ioscheduler=mq-deadline", "--sched_opt=write_expire=9,fifo_batch=2"];
    let attributes = &name(&with)["attributes"];
    assert_eq!(
        (&attributes["write_expire"], &attributes["fifo_batch"]),
        (&"9ms".into(), &"2".into())
    );
}

#[test]
fn priorities_of_jobs_reach_the_scheduler() {
    let urgent = ["--name=urgent", "--prioclass=1", "--prio=0"];
    let idle = ["--name=idle", "--prioclass=3"];
    let args = [&["--scheduler=mq-deadline", SLOW], &READS[..], &urgent, &idle].concat();
    let report = json(&args);
    let classes = &report["zonal"]["scheduler"][0]["classes"];
    assert!(classes["rt"]["completed"].as_u64() > classes["idle"]["completed"].as_u64());
    assert_eq!(classes["be"]["inserted"], 0);
    let (urgent, idle) = (ios(&report, 0), ios(&report, 1));
    assert!(urgent > 20.0 * idle.max(1.0), "idle waits for real time: {urgent} and {idle}");
}

#[test]
fn weights_of_jobs_divide_the_device_under_bfq() {
    let one = ["--name=one", "--weight=100"];
    let three = ["--name=three", "--weight=300"];
    let bfq = ["--scheduler=bfq", "--sched-opt=low_latency=0", SLOW];
    let report = json(&[&bfq, &READS[..], &one, &three].concat());
    let ratio = ios(&report, 1) / ios(&report, 0);
    assert!((2.85..=3.15).contains(&ratio), "{} to {}", ios(&report, 1), ios(&report, 0));
}

/// Each job's next write often waits in a plug for one of the other's, which the scheduler holds back
/// while the device idles for the first.
#[test]
fn bfq_does_not_idle_for_a_process_whose_writes_wait_for_anothers() {
    let device = "--device=null:zones=8,zone_size=16M,latency=20us,max_open=8";
    let writes = ["--zonemode=zbd", "--rw=randwrite", "--iodepth=16", "--runtime=1"];
    let done = |report: &Value, job: usize| {
        report["jobs"][job]["write"]["total_ios"].as_f64().expect("a count")
    };
    let one = ["--name=one", "--weight=100"];
    let bfq = [&["--scheduler=bfq", device], &writes[..]].concat();
    let alone = done(&json(&[&bfq[..], &one].concat()), 0);
    for two in [["--name=two", "--weight=300"], ["--name=two", "--prioclass=1"]] {
        let report = json(&[&bfq[..], &one, &two].concat());
        let both = done(&report, 0) + done(&report, 1);
        assert!(both > alone / 4.0, "{both} writes of two jobs, {alone} of one");
    }
}

#[test]
fn an_idle_class_is_not_starved_beyond_its_aging() {
    let aging = "--sched-opt=prio_aging_expire=100";
    let urgent = ["--name=urgent", "--prioclass=1", "--prio=0"];
    let idle = ["--name=idle", "--prioclass=3"];
    let args = [&["--scheduler=mq-deadline", aging, SLOW], &READS[..], &urgent, &idle].concat();
    let served = ios(&json(&args), 1);
    // 16 in flight, each served when it has waited 100 ms.
    assert!((300.0..=340.0).contains(&served), "{served} in two seconds");
}

fn ios(report: &Value, job: usize) -> f64 {
    report["jobs"][job]["read"]["total_ios"].as_f64().expect("a count")
}

#[test]
fn zone_write_locking_runs_under_mq_deadline_alone() {
    let job = ["--name=a", "--device=null:zones=8,zone_size=1M", "--zonemode=zbd", "--rw=write"];
    let lock = ["--zone-write=lock", "--iodepth=8", "--size=4m"];
    let report = json(&[&job[..], &lock, &["--scheduler=mq-deadline"]].concat());
    assert_eq!(report["zonal"]["policy"], "lock");
    for scheduler in Scheduler::NAMES.iter().filter(|&&name| name != "mq-deadline") {
        let named = format!("--scheduler={scheduler}");
        let (code, _, err) = run(&[&job[..], &lock, &[&named]].concat());
        assert_eq!(code, 2);
        let why = format!("needs the scheduler mq-deadline, the queue has {scheduler}");
        assert!(err.contains(&why), "{err}");
    }
}

#[test]
fn plugs_that_were_used_are_in_the_report() {
    let job = ["--name=a", "--device=null:zones=8,zone_size=1M", "--zonemode=zbd", "--rw=write"];
    let report = json(&[&job[..], &["--size=2m", "--bs=64k"]].concat());
    let plugs = &report["zonal"]["zone_write_plugs"][0];
    assert_eq!((&plugs["zones"], &plugs["writes"]), (&2.into(), &32.into()));
}

#[test]
fn wrong_schedulers_and_attributes_end_with_2_and_what_there_is() {
    let job = ["--name=a", "--device=null:", "--size=64k"];
    for (args, messages) in [
        (&["--scheduler=cfq"][..], &["--scheduler: ", "`cfq`", zonal_blk::scheduler_names!()][..]),
        (&["--ioscheduler=noop"], &["job a: ioscheduler: ", "`noop`"]),
        (
            &["--scheduler=mq-deadline", "--sched-opt=slice_idle=0"],
            &["--sched-opt: ", "`slice_idle`", "read_expire", "prio_aging_expire"],
        ),
        (&["--sched-opt=read_expire=1"], &["none has no attribute `read_expire`"]),
        (&["--scheduler=kyber", "--sched-opt=x"], &["found `x`, expected NAME=VALUE"]),
        (
            &["--ioscheduler=bfq", "--sched_opt=slice_idle=soon"],
            &["job a: sched_opt: ", "slice_idle", "`soon`"],
        ),
        (&["--prioclass=4"], &["prioclass", "0 to 3"]),
        (&["--weight=0"], &["weight", "1 to 1000"]),
    ] {
        let (code, out, err) = run(&[&job[..], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        for message in messages {
            assert!(err.contains(message), "{args:?}: {err}");
        }
    }
}

#[test]
fn job_is_served_when_the_one_that_a_scheduler_kept_the_device_for_has_ended() {
    let common = ["--ioscheduler=bfq", "--rw=randread", "--size=1g"];
    let device = "--device=null:zoned=false,size=1G,latency=10us";
    let first = [&["--name=a"], &common[..], &["--io_size=64k"]].concat();
    let second = [&["--name=b"], &common[..], &["--io_size=1m"]].concat();
    let report = json(&[&[device], &first[..], &second[..]].concat());
    let bytes = |job: usize| report["jobs"][job]["read"]["io_bytes"].as_u64();
    assert_eq!((bytes(0), bytes(1)), (Some(64 << 10), Some(1 << 20)));
}
