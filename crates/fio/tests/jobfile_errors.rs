//! Invalid input and the exact error messages.
use zonal_fio::jobfile::{MemoryEnvironment, parse_args, parse_file, parse_str};

fn env() -> MemoryEnvironment {
    let mut env = MemoryEnvironment::default()
        .with_file("jobs/self.fio", "bs=4k\ninclude self.fio\n")
        .with_file("jobs/ping.fio", "include pong.fio\n")
        .with_file("jobs/pong.fio", "\ninclude ping.fio\n")
        .with_file("jobs/section.fio", "bs=4k\n[b]\n")
        .with_file("jobs/wrong.fio", "bs=4k\niodepth=none\n")
        .with_file("jobs/file.fio", "[a]\n");
    for depth in 0..20 {
        env = env.with_file(&format!("jobs/{depth}"), &format!("include {}\n", depth + 1));
    }
    env.files.insert("bytes.fio".into(), b"[a]\nbs=4k\nname=\xff\n".to_vec());
    env
}

#[track_caller]
fn file(text: &str, message: &str) {
    let error = parse_str("jobs/zwp.fio", text, &env()).expect_err(text);
    assert_eq!(error.to_string(), message);
}

#[track_caller]
fn option(option: &str, message: &str) {
    file(&format!("[a]\n\n{option}\n"), &format!("jobs/zwp.fio:3: {message}"));
}

#[track_caller]
fn line(arguments: &str, message: &str) {
    let error = parse_args(arguments.split(' '), &env()).expect_err(arguments);
    assert_eq!(error.to_string(), message);
}

#[test]
fn sizes() {
    option("bs=4x", r#"bs: expected a size such as 4k, found "4x""#);
    option("blocksize=4.5k", r#"blocksize: expected a size such as 4k, found "4.5k""#);
    option("bs=4k,8q", r#"bs: expected a size such as 4k, found "8q""#);
    option("bs=4k,8k,16k,32k", r#"bs: expected a size such as 4k, found "4k,8k,16k,32k""#);
    option("bs=0", r#"bs: expected 1 to 18446744073709551615, found "0""#);
    option("bs", "bs: expected a size such as 4k, found no value");
    option("bs=", "bs: expected a size such as 4k, found no value");
    option("bs=2z", r#"bs: expected a size such as 4k, found "2z""#);
    option("bs=4k*2", r#"bs: arithmetic outside parentheses in "4k*2""#);
    option("size=(4k/0)", r#"size: division by zero in "(4k/0)""#);
    option("size=(4k-8k)", r#"size: number less than zero in "(4k-8k)""#);
    option("size=99999p", r#"size: number too large in "99999p""#);
    option("size=101%", r#"size: percentage above 100 in "101%""#);
    option("size=1kz", r#"size: expected a size such as 4k, 50% or 8z, found "1kz""#);
    option("bs=${UNSET}", "bs: expected a size such as 4k, found no value");
}

#[test]
fn times() {
    option("runtime=10min", r#"runtime: expected a time such as 30s, found "10min""#);
    option(
        "startdelay=10-5",
        r#"startdelay: expected a time such as 30s or a range such as 5-10, found "10-5""#,
    );
    option("ramp_time=99999999999d", r#"ramp_time: number too large in "99999999999d""#);
}

#[test]
fn numbers() {
    option("iodepth=0", r#"iodepth: expected 1 to 1048576, found "0""#);
    option("iodepth=deep", r#"iodepth: expected a whole number, found "deep""#);
    option("numjobs=0", r#"numjobs: expected 1 to 4096, found "0""#);
    option("numjobs=-1", r#"numjobs: expected a whole number, found "-1""#);
    option("rwmixread=101", r#"rwmixread: expected 0 to 100, found "101""#);
    option("max_open_zones=4097", r#"max_open_zones: expected 0 to 4096, found "4097""#);
    option("direct=2", r#"direct: expected 0 or 1, found "2""#);
    option("direct", "direct: expected 0 or 1, found no value");
    option("time_based=yes", r#"time_based: expected 0 or 1, found "yes""#);
}

#[test]
fn words() {
    option(
        "rw=randomread",
        "rw: expected one of read, write, trim, rw, readwrite, randread, randwrite, randtrim, \
         randrw, trimwrite, randtrimwrite, found \"randomread\", did you mean `randread`?",
    );
    option(
        "rw=reed:8",
        "rw: expected one of read, write, trim, rw, readwrite, randread, randwrite, randtrim, \
         randrw, trimwrite, randtrimwrite, found \"reed:8\", did you mean `read`?",
    );
    option(
        "zonemode=zdb",
        r#"zonemode: expected one of none, zbd, strided, found "zdb", did you mean `zbd`?"#,
    );
    option(
        "steadystate=iosp:5",
        "steadystate: expected one of iops, iops_slope, bw, bw_slope, found \"iosp:5\", did you mean \
         `iops`?",
    );
    option(
        "rw=randread:4k",
        r#"rw: expected a count of I/Os after the colon, found "randread:4k""#,
    );
    option("rw=read:q", r#"rw: expected a size such as 4k after the colon, found "read:q""#);
    option("zonemode=strided", "zonemode: needs zonesize");
    option("zonemode=zoned", r#"zonemode: expected one of none, zbd, strided, found "zoned""#);
    option("cpus_allowed=3-1", r#"cpus_allowed: expected CPU numbers such as 0,2-5, found "3-1""#);
}

#[test]
fn lengths_and_offsets() {
    let split = "sizes with percentages of at most 100 in total, such as 4k/60:64k/40";
    option("bssplit=4k/60:8k/60", &format!(r#"bssplit: expected {split}, found "4k/60:8k/60""#));
    option("bsrange=8k-4k", r#"bsrange: expected a range of sizes such as 1k-4k, found "8k-4k""#);
    option(
        "random_distribution=zipf:1",
        "random_distribution: expected random, zipf:THETA (not 1), pareto:H, normal:DEVIATION, \
         zoned:IO%/REGION%:..., zoned_abs:IO%/SIZE:... (IO% is 100 in all) or \
         sequence:BLOCK,BLOCK,... (up to 64), found \"zipf:1\"",
    );
    option(
        "random_distribution=zpif:1.2",
        "random_distribution: expected one of random, zipf, pareto, normal, zoned, zoned_abs, \
         sequence, found \"zpif:1.2\", did you mean `zipf`?",
    );
    option("percentage_random=101", r#"percentage_random: expected 0 to 100, found "101""#);
    option("zoneskip=1m", "zoneskip: needs zonemode=strided");
    option("zonesize=1m", "zonesize: needs zonemode=zbd");
}

#[test]
fn data() {
    option(
        "verify=crc32d",
        "verify: expected one of 0, crc32c, crc32c-intel, crc32, crc64, crc16, crc7, md5, sha1, sha256, \
         sha512, sha3-224, sha3-256, sha3-384, sha3-512, xxhash, meta, pattern, null, found \"crc32d\", \
         did you mean `crc32c`?",
    );
    option(
        "verify_pattern=abc",
        "verify_pattern: expected numbers, \"strings\" and %o, such as 0xff%o\"abc\"-12, found \"abc\"",
    );
    option("verify_interval=40", r#"verify_interval: expected 80 to 4294967295, found "40""#);
    option(
        "continue_on_error=yes",
        "continue_on_error: expected one of none, read, write, io, verify, all, 0, 1, found \"yes\"",
    );
    option(
        "ignore_error=EWHAT",
        "ignore_error: expected errors for reads, writes and verification, such as EIO:28,ENOSPC, found \
         \"EWHAT\"",
    );
}

#[test]
fn names() {
    option("bloksize=4k", r#"unknown option "bloksize", did you mean "blocksize"?"#);
    option("colour_of_the_disk=red", r#"unknown option "colour_of_the_disk""#);
    option("BS=4k", r#"unknown option "BS""#);
    option("=4", r#"unknown option """#);
    line(
        "--name=a --bloksize=4k",
        "command line: unknown option --bloksize, did you mean --blocksize?",
    );
    line("--name=a --colour_of_the_disk", "command line: unknown option --colour_of_the_disk");
}

#[test]
fn conflicts() {
    file(
        "[a]\nioengine=libaoi\n",
        &format!(
            "jobs/zwp.fio:2: ioengine: expected one of {}, found \"libaoi\", did you mean `libaio`?",
            "psync, sync, vsync, pvsync, pvsync2, io_uring, io_uring_cmd, libaio, posixaio, solarisaio, \
             windowsaio, mmap, splice, sg, libzbc, null, xnvme, libblkio, nbd, libiscsi, rbd, rados, http, \
             gfapi, gfapi_async, libhdfs, mtd, libpmem, pmemblk, dev-dax, ime_psync, ime_psyncv, ime_aio, \
             libcufile, dfs, nfs, guasi, cpp_null, external"
        ),
    );
    option("ioengine=cpuio", "ioengine: cpuio does no block I/O: it burns CPU time");
    option("nrfiles=2", "nrfiles: needs filesize or size");
    option("rate_iops=100\nrate=1m", "rate_iops: cannot be combined with rate");
    option("size=512", "size: 512 is less than the block size, 4k");
    option("zonesize=256m", "zonesize: needs zonemode=zbd");
    option("offset=4z", "offset: needs zonemode=zbd");
    file(
        "[global]\nsize=4k\n\n[a]\nbs=8k\n",
        "jobs/zwp.fio:2: size: 4k is less than the block size, 8k",
    );
    line("--name=a --nrfiles=2", "command line: nrfiles: needs filesize or size");
}

#[test]
fn sections() {
    file("bs=4k\n[a]\n", r#"jobs/zwp.fio:1: "bs=4k" is before the first [section]"#);
    file("time_based\n[a]\n", r#"jobs/zwp.fio:1: "time_based" is before the first [section]"#);
    file("include x\n", r#"jobs/zwp.fio:1: "include x" is before the first [section]"#);
    file("\n[a\n", r#"jobs/zwp.fio:2: expected a section such as [job], found "[a""#);
    file("[a] b\n", r#"jobs/zwp.fio:1: expected a section such as [job], found "[a] b""#);
    let no_job = "no job is defined: a job file needs a [section], the command line needs --name";
    file("", &format!("jobs/zwp.fio: {no_job}"));
    file("[global]\nbs=4k\n", &format!("jobs/zwp.fio: {no_job}"));
    line("--bs=4k", no_job);
    line(
        "--section=zz jobs/file.fio",
        "command line: --section=zz: the job files have no such section",
    );
}

#[test]
fn includes() {
    file("[a]\ninclude none.fio\n", "jobs/zwp.fio:2: include none.fio: entity not found");
    file("[a]\ninclude self.fio\n", "jobs/self.fio:2: include self.fio: the file includes itself");
    file("[a]\ninclude zwp.fio\n", "jobs/zwp.fio:2: include zwp.fio: entity not found");
    file("[a]\ninclude ping.fio\n", "jobs/pong.fio:2: include ping.fio: the file includes itself");
    file(
        "[a]\ninclude section.fio\n",
        "jobs/section.fio:2: an included file cannot have [sections]",
    );
    file(
        "[a]\ninclude wrong.fio\n",
        r#"jobs/wrong.fio:2: iodepth: expected a whole number, found "none""#,
    );
    file("[a]\ninclude 0\n", "jobs/14:1: include 15: includes are nested more than 16 deep");
}

#[test]
fn files() {
    let error = parse_file("none.fio".as_ref(), &env()).expect_err("no such file");
    assert_eq!(error.to_string(), "none.fio: entity not found");
    let error = parse_file("bytes.fio".as_ref(), &env()).expect_err("no text");
    assert_eq!(error.to_string(), "bytes.fio: line 3 is not valid UTF-8");
}

#[test]
fn command_lines() {
    line("--name=a --bs=4x", r#"command line: bs: expected a size such as 4k, found "4x""#);
    line("--name=a --bs", "command line: bs: expected a size such as 4k, found no value");
    line("--name= --bs=4k", "command line: name: expected the name of a job, found no value");
    line("--section", "command line: section: expected the name of a section, found no value");
    line("--name=a none.fio", "none.fio: entity not found");
}
