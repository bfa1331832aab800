//! Options of fio's command line that are about its program, not about jobs, and that Zonal has not.

const NO_SERVER: &str = "jobs run on this machine: start the program on the other one, or `zonal serve` a device \
                         there and run them on nvme-tcp://HOST:PORT/NQN";
const NO_TRIGGER: &str =
    "no command is run: use runtime to end the jobs, and `zonal crash` for a cut of power";
const OF_FIO: &str = "it measures functions of fio itself, and no device: use fio";

/// Names, and what is to be used instead.
pub(super) const PROGRAM: &[(&str, &str)] = &[
    ("aux-path", "files of verify_state_save are in the current directory: run it in another one"),
    ("bandwidth-log", "there is no log of all jobs together: use write_bw_log for one of each"),
    ("latency-log", "fio has given it up, too: use write_lat_log"),
    ("enghelp", "engines have no options of their own: --cmdhelp=ioengine says what they do"),
    ("debug", "it shows what code of fio does: use --trace, or --explain"),
    ("inflate-log", "logs are never compressed: they can be read as they are"),
    ("merge-blktrace-only", "traces are not merged: give each to a job of its own with read_iolog"),
    ("server", NO_SERVER),
    ("server-internal", NO_SERVER),
    ("client", NO_SERVER),
    ("remote-config", NO_SERVER),
    ("daemonize", NO_SERVER),
    ("trigger", NO_TRIGGER),
    ("trigger-file", NO_TRIGGER),
    ("trigger-timeout", NO_TRIGGER),
    ("trigger-remote", NO_TRIGGER),
    ("cpuclock-test", OF_FIO),
    ("crctest", OF_FIO),
    ("memcpytest", OF_FIO),
];
