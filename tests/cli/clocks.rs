//! Both clocks: the negative control, and the reproducibility of virtual time.
use crate::support::{RunOutput, TestDir, example, zonal};

fn control(clock: &str, policy: &str) -> RunOutput {
    zonal(&["run", "--clock", clock, "--zone-write", policy, &example("negative-control.fio")])
}

#[test]
fn concurrent_writes_fail_without_plugging() {
    for clock in ["real", "virtual"] {
        let ran = control(clock, "off");
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{clock} clock: {}", ran.out);
        let control = "err= 5 (I/O error)";
        assert!(ran.out.contains(control), "{clock} clock: {}", ran.out);
        assert!(ran.out.contains("errors    : total=28, first_error=5/<I/O error>"), "{}", ran.out);
    }
}

#[test]
fn concurrent_writes_pass_with_plugging() {
    for (clock, policy) in
        [("real", "plug"), ("virtual", "plug"), ("real", "qd1"), ("virtual", "qd1")]
    {
        let out = control(clock, policy).expect_ok();
        assert!(out.contains("err= 0"), "{clock} clock: {out}");
        assert!(out.contains("issued rwts: total=0,8192,0,0"), "{clock} clock: {out}");
        assert!(out.contains(&format!("policy={policy}")), "{out}");
    }
}

/// Random reads and writes in any order, on a device whose latencies are random as well.
const RANDOM: &str = "\
[global]
filename=null:zones=64,zone_size=1M,max_open=8,latency=20us,jitter=10us
zonemode=zbd
bs=4k
iodepth=8
size=100%
io_size=8m
[mixed]
rw=randrw
numjobs=3
[sequential]
rw=write
stonewall
";

fn virtual_run(seed: &str, format: &str) -> String {
    let dir = TestDir::new().with("random.fio", RANDOM);
    let format = format!("--output-format={format}");
    dir.zonal(&["run", "--clock=virtual", "--seed", seed, &format, "random.fio"]).expect_ok()
}

#[test]
fn same_seed_gives_the_same_bytes_in_virtual_time() {
    for format in ["normal", "json+", "terse", "normal,json"] {
        assert_eq!(virtual_run("7", format), virtual_run("7", format), "{format}");
    }
}

#[test]
fn another_seed_gives_another_run() {
    assert_ne!(virtual_run("7", "json+"), virtual_run("8", "json+"));
}

#[test]
fn virtual_time_passes_faster_than_real_time() {
    let device = "--device=null:zoned=false,size=1T,latency=10ms";
    let job = ["--name=a", "--rw=randread", "--time_based", "--runtime=1h"];
    let run = ["run", device, "--clock=virtual", "--io-cost=0"];
    let out = zonal(&[&run[..], &job].concat()).expect_ok();
    assert!(out.contains("IOPS=100, "), "{out}");
    assert!(out.contains("/3600000msec)"), "{out}");
}

#[test]
fn io_cost_is_charged_to_the_thread_in_virtual_time() {
    let job = ["--name=a", "--rw=read", "--size=4m", "--iodepth=1", "--clock=virtual"];
    for (cost, iops) in [("1000", "IOPS=100"), ("500", "IOPS=200")] {
        let args = [&["run", "--device=null", "--io-cost", cost][..], &job].concat();
        let out = zonal(&args).expect_ok();
        assert!(out.contains(iops), "{out}");
    }
}

#[test]
fn published_costs_depend_on_the_scheduler() {
    let job = ["--name=a", "--rw=read", "--bs=4k", "--size=4m", "--iodepth=1", "--clock=virtual"];
    for (scheduler, iops) in [("none", "IOPS=645k"), ("mq-deadline", "IOPS=230k")] {
        let run = ["run", "--device=null", "--io-cost=published", "--scheduler", scheduler];
        let out = zonal(&[&run[..], &job].concat()).expect_ok();
        assert!(out.contains(iops), "{out}");
    }
}
