# `zonal serve --ublk` in the guest. Sourced by suites.
# shellcheck shell=bash

# serve_ublk ID SPEC OPTION...: serves a device as /dev/ublkbID until stop_ublk or kill_ublk.
serve_ublk() {
    local id=$1
    shift
    rm -f "/tmp/ready.$id" "/tmp/code.$id"
    {
        /job/zonal serve "$@" "--ublk=$id" >"/tmp/ready.$id" 2>>"/out/ublk$id.log" &
        echo $! >"/tmp/pid.$id"
        local code=0
        wait $! || code=$?
        echo "$code" >"/tmp/code.$id"
    } &
    until_true 60 test -s "/tmp/ready.$id" -o -e "/tmp/code.$id"
    cat "/out/ublk$id.log"
    equal "place" "$(head -n 1 "/tmp/ready.$id")" "/dev/ublkb$id"
    until_true 10 test -b "/dev/ublkb$id"
}

# stop_ublk ID: the server exits with code 0 and leaves nothing behind.
stop_ublk() {
    kill "$(cat "/tmp/pid.$1")"
    until_true 30 test -s "/tmp/code.$1"
    equal "exit code" "$(cat "/tmp/code.$1")" 0
    fails test -e "/dev/ublkb$1"
    fails test -e "/dev/ublkc$1"
    fails test -e "/proc/$(cat "/tmp/pid.$1")"
}

kill_ublk() {
    kill -KILL "$(cat "/tmp/pid.$1")"
    until_true 30 test -e "/tmp/code.$1"
}

# refused WORDS ARGUMENT...: zonal exits with code 2 and a message that has these words.
refused() {
    local words=$1 code=0
    shift
    /job/zonal "$@" 2>/tmp/refused || code=$?
    cat /tmp/refused
    equal "exit code" "$code" 2
    grep -F -e "$words" /tmp/refused
}

# read_more DISK NUMBER: it has completed more reads than that.
read_more() {
    local reads
    read -r reads _ <"/sys/block/${1##*/}/stat"
    ((reads > $2))
}

# stopped_under ID READS OPTION...: stops the server while fio, with these options, has its device
# open, after that many reads. Stopping does not wait for those who have the device open.
stopped_under() {
    local id=$1 reads=$2 job
    shift 2
    fio --name=under --filename="/dev/ublkb$id" --allow_file_create=0 --direct=1 \
        --ioengine=libaio --size=64M --time_based --runtime=60 "$@" >/tmp/under 2>&1 &
    job=$!
    until_true 60 read_more "/dev/ublkb$id" "$reads"
    stop_ublk "$id"
    kill "$job" || true
    wait "$job" || true
    cat /tmp/under
}

tracing=/tmp/tracing

# events NAME: the number of traced events.
events() {
    grep -c " $1[:(]" "$tracing/trace" || true
}

# counted COMMAND...: sets $fixed to the number of transfers to and from registered buffers meanwhile,
# and $copies to the number of calls with which threads of a ublk device copy data.
counted() {
    local of
    mkdir -p "$tracing"
    mountpoint -q "$tracing" || mount -t tracefs tracefs "$tracing"
    echo 32768 >"$tracing/buffer_size_kb"
    echo >"$tracing/trace"
    # IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED
    echo 'opcode == 4 || opcode == 5' >"$tracing/events/io_uring/io_uring_submit_req/filter"
    for of in pread64 pwrite64; do
        echo 'comm ~ "ublk-*"' >"$tracing/events/syscalls/sys_enter_$of/filter"
    done
    for of in io_uring/io_uring_submit_req syscalls/sys_enter_pread64 syscalls/sys_enter_pwrite64; do
        echo 1 >"$tracing/events/$of/enable"
    done
    "$@"
    for of in io_uring/io_uring_submit_req syscalls/sys_enter_pread64 syscalls/sys_enter_pwrite64; do
        echo 0 >"$tracing/events/$of/enable"
    done
    fixed=$(events io_uring_submit_req)
    copies=$(($(events sys_pread64) + $(events sys_pwrite64)))
    echo "transfers to and from buffers: $fixed; calls that copy: $copies"
}

# serve_lent ID SPEC OPTION...: serves a device with zero copy.
serve_lent() {
    : >"/out/ublk$1.log"
    serve_ublk "$@"
    grep -F "/dev/ublkb$1: zero copy" "/out/ublk$1.log"
}

# zonal logs it when it has to copy.
nothing_was_copied() {
    fails grep -F "data are copied" "/out/ublk$1.log"
}
