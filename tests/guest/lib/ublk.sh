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

# stop_ublk ID: the server ends well and leaves nothing.
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

# refused WORDS ARGUMENT...: zonal ends with exit code 2 and says so.
refused() {
    local words=$1 code=0
    shift
    /job/zonal "$@" 2>/tmp/refused || code=$?
    cat /tmp/refused
    equal "exit code" "$code" 2
    grep -F -e "$words" /tmp/refused
}

# read_more DISK NUMBER: it has had so many reads.
read_more() {
    local reads
    read -r reads _ <"/sys/block/${1##*/}/stat"
    ((reads > $2))
}

# stopped_under ID READS OPTION...: ends the server while fio, with these options, has its device
# open, once that has had so many reads. Whoever has the device open is not waited for.
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

# events NAME: how many of them were traced.
events() {
    grep -c " $1[:(]" "$tracing/trace" || true
}

# counted COMMAND...: leaves in $fixed how many transfers to and from buffers of a ring there were
# meanwhile, and in $copies how many calls that copy data, by threads of a ublk device.
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

# serve_lent ID SPEC OPTION...: serves a device and sees that its data will be lent.
serve_lent() {
    : >"/out/ublk$1.log"
    serve_ublk "$@"
    grep -F "/dev/ublkb$1: zero copy" "/out/ublk$1.log"
}

# What zonal copied after all it says.
nothing_was_copied() {
    fails grep -F "data are copied" "/out/ublk$1.log"
}
