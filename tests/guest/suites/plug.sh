# Three columns: a published figure, ours in virtual time, and the guest's kernel on our disk in real time
# (docs/evidence/linux-as-judge.md), of an SMR disk, of XFS on it, and of a ZNS drive; and how long one zone keeps the writes of
# another waiting. Results stay in the cache, a line a cell, and another run goes on where one ended; PLUG_FRESH=1 begins
# anew, PLUG_SECONDS=N measures each cell for that long.
# shellcheck shell=bash

before() {
    local library
    for library in packages qemu; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    use_new_qemu
    needs_zoned_xfs
    # Buffers of 16 jobs with 32 MiB each, in huge pages.
    ((${memory:?} >= 2048)) || memory=2048
    ((${limit:?} >= 5400)) || limit=5400
    share_memory
    cells=${cache:?}/plug.csv
    [[ -z ${PLUG_FRESH-} ]] || rm -f "$cells"
    waits=$cache/plug-waits.csv
    [[ -z ${PLUG_FRESH-} ]] || rm -f "$waits"
    touch "$cells" "$waits"
    give done_waits "$(cut -d , -f 1 "$waits")"
    give done_cells "$(cut -d , -f 1-5 "$cells")"
    give seconds "${PLUG_SECONDS:-24}"
    add_drive zns zns-1t --zone-write plug --ctl "${work:?}/zns.ctl"
    add_plug_disk plug 0x10 smr-30t
    # As in zonal reproduce smr-xfs, with room for the metadata. What fio writes are zeroes, which take no memory.
    add_plug_disk xfs 0x11 smr-30t:max_io=10752K,conventional=512,memory=true
}

# add_plug_disk NAME SLOT SPEC
add_plug_disk() {
    serve_at --vhost-user "$1" "$3" --serial "$1" --zone-write plug --ctl "${work:?}/$1.ctl"
    qemu_options+=(-chardev "socket,id=$1,path=$work/$1.sock"
        -device "${zoned_disk/num_vqs=2/num_vqs=1},chardev=$1,addr=$2")
}

# stat_of NAME: a count of the model that is measured.
stat_of() {
    "${zonal:?}" ctl "${work:?}/$measured.ctl" stat | sed -n "s/^$1: //p"
}

# begin SERVER: a cell of its model begins now. cell KEY MBS KIB: it has ended, with this bandwidth and length of
# requests.
on_begin() {
    measured=$1
    begun=$(stat_of model_completions) late_before=$(stat_of model_late_completions)
    sum_before=$(stat_of model_lateness_ns)
}
on_cell() {
    local commands late sum
    commands=$(($(stat_of model_completions) - begun))
    late=$((($(stat_of model_late_completions) - late_before) * 100 / (commands > 0 ? commands : 1)))
    sum=$((($(stat_of model_lateness_ns) - sum_before) / (commands > 0 ? commands : 1) / 1000))
    echo "$1,$2,$3,$late,$sum" >>"${cells:?}"
}

# wait KEY MS: the longest that a write took of two jobs with a zone each.
on_wait() {
    echo "$1,$2" >>"${waits:?}"
}

# The tables of all cells so far, in Markdown.
after() {
    local virtual=${cache:?}/plug-virtual.csv
    [[ -s $virtual && $virtual -nt ${zonal:?} ]] ||
        "$zonal" reproduce smr-seq-qd smr-rnd-zones smr-xfs zwp-zns --format csv >"$virtual"
    check_after "table" awk -f "${here:?}/plug.awk" "$virtual" "$cells"
    cat "${out:?}/after-table.log"
    check_after "waits" longest_waits
    cat "$out/after-waits.log"
}

# The longest that a write of two jobs took, here and in the kernel.
longest_waits() {
    local policy waited options=()
    echo "| Policy | Here, virtual time | The kernel |"
    echo "|---|---|---|"
    read -r -a options <<<"${two_jobs:?}"
    for policy in plug qd1; do
        waited=$("$zonal" run --clock virtual --device smr-30t --zone-write "$policy" --name=two --rw=write \
            --bs=1m --zonemode=zbd --time_based --runtime="${PLUG_SECONDS:-24}" --output-format=json "${options[@]}" |
            sed -n '/"clat_ns"/,/}/s/.*"max" *: *\([0-9]*\).*/\1/p' | sort --numeric-sort | tail -n 1)
        echo "| $policy | $((waited / 1000000)) ms | $(sed -n "s/^$policy,//p" "$waits" | tail -n 1) ms |"
    done
}
# Options of both.
two_jobs="--iodepth=8 --numjobs=2 --offset_increment=1000z --size=1000z --group_reporting=0"

disk_stat() {
    read -r -a stat <"/sys/block/${disk##*/}/stat"
    # Writes, and sectors written.
    echo "${stat[4]} ${stat[6]}"
}

# cell TABLE SCHEDULER QD1 MAX_KB X RUN OPTION...: unless it is there.
cell() {
    local table=$1 scheduler=$2 qd1=$3 kb=$4 x=$5 run=$6 key before after bandwidth
    shift 6
    key="$table,$scheduler,$qd1,$kb,$x-$run"
    ! grep --quiet --line-regexp --fixed-strings "$key" <<<"${done_cells?}" || return 0
    case $table in
    smr-xfs) check "$key" measure_xfs ;;
    *) check "$key" measure "$@" ;;
    esac
}

# queue_is SCHEDULER QD1 MAX_KB: and all zones are empty.
queue_is() {
    local queue=/sys/block/${disk##*/}/queue
    echo "$1" >"$queue/scheduler"
    [[ ! -e $queue/zoned_qd1_writes ]] || echo "$2" >"$queue/zoned_qd1_writes"
    echo "$3" >"$queue/max_sectors_kb"
    blkzone reset "$disk"
}

measure() {
    queue_is "$scheduler" "$qd1" "$kb"
    ask begin "$server"
    read -r -a before < <(disk_stat)
    fio --name=plug --filename="$disk" --direct=1 --ioengine=libaio --zonemode=zbd --bs=1m --mem=shmhuge --zero_buffers=1 \
        --group_reporting --time_based --ramp_time=4 --runtime="${seconds:?}" --randseed="$run" \
        --output-format=json --output=/tmp/fio.json "$@"
    read -r -a after < <(disk_stat)
    report_cell
}

report_cell() {
    bandwidth=$(jq '.jobs[0].write.bw_bytes / 1e6' /tmp/fio.json)
    ask cell "$key" "$(printf %.1f "$bandwidth")" \
        "$(((after[1] - before[1]) / 2 / (after[0] - before[0])))"
}

# The cells of XFS: files through the page cache, each job one after another.
of_xfs() {
    local size qd1 disk server=xfs
    check "the driver finds the disk of XFS" until_true 60 virtio_disk_of xfs
    disk=$(virtio_disk_of xfs)
    modprobe xfs
    for size in 256 4..128 2..8; do
        for qd1 in 0 1; do
            cell smr-xfs none "$qd1" 10752 "$size" 1
        done
    done
}

measure_xfs() {
    local range=${size/../m-}m before after place=/mnt/plug
    queue_is "$scheduler" "$qd1" "$kb"
    # Half a terabyte for files: each zone has inodes, which an emulated processor takes long to make.
    newer xfsprogs mkfs.xfs -f -q -K -r zoned=1,size=512g "$disk"
    mkdir -p "$place"
    mount "$disk" "$place"
    ask begin "$server"
    read -r -a before < <(disk_stat)
    fio --name=xfs --directory="$place" --ioengine=psync --rw=write --bs=1m --zero_buffers=1 --numjobs=8 \
        --openfiles=1 --file_service_type=sequential --nrfiles=2000 --filesize="$range" --fallocate=none \
        --create_on_open=1 --group_reporting --time_based --ramp_time=6 --runtime="${seconds:?}" \
        --output-format=json --output=/tmp/fio.json
    read -r -a after < <(disk_stat)
    umount "$place"
    report_cell
}

# wait_cell POLICY QD1: unless it is there.
wait_cell() {
    ! grep --quiet --line-regexp --fixed-strings "$1" <<<"${done_waits?}" || return 0
    check "two jobs, $1" measure_wait "$@"
}

measure_wait() {
    local options=()
    read -r -a options <<<"$two_jobs"
    queue_is none "$2" 1280
    fio --name=two --filename="$disk" --direct=1 --ioengine=libaio --zonemode=zbd --bs=1m --mem=shmhuge \
        --zero_buffers=1 --rw=write --time_based --runtime="${seconds:?}" --output-format=json \
        --output=/tmp/fio.json "${options[@]}"
    ask wait "$1" "$(jq '[.jobs[].write.clat_ns.max] | max / 1e6 | round' /tmp/fio.json)"
}

# The cells of the ZNS drive.
of_zns() {
    local scheduler depth disk server=zns
    modprobe nvme-core multipath=N
    modprobe nvme
    modprobe bfq 2>/dev/null || true
    check "the driver finds the drive" until_true 60 disk_of zns
    disk=$(disk_of zns)
    for depth in 1 16; do
        for scheduler in none mq-deadline bfq; do
            cell zwp-zns "$scheduler" 0 1024 "$depth" 1 --rw=write --iodepth="$depth"
        done
    done
}

guest() {
    local library qd1 depth zones run disk server=plug
    for library in virtio nvme programs; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "the driver finds the disk" until_true 60 virtio_disk_of plug
    disk=$(virtio_disk_of plug)
    check "the kernel has QD=1" test -e "/sys/block/${disk##*/}/queue/zoned_qd1_writes"
    modprobe mq-deadline 2>/dev/null || true
    echo 300 >/proc/sys/vm/nr_hugepages
    for depth in 128 32 8 64; do
        for qd1 in 0 1; do
            cell smr-seq-qd none "$qd1" 1280 "$depth" 1 --rw=write --iodepth="$depth"
        done
    done
    for zones in 4 8 2 16; do
        for qd1 in 0 1; do
            for run in 1 2; do
                cell smr-rnd-zones none "$qd1" 1280 "$zones" "$run" --rw=randwrite --iodepth=32 \
                    --numjobs=16 --max_open_zones="$zones"
            done
        done
    done
    wait_cell plug 0
    wait_cell qd1 1
    of_zns
    of_xfs
    for depth in 128 32; do
        cell smr-seq-qd none 0 4096 "$depth" 1 --rw=write --iodepth="$depth"
        cell smr-seq-qd none 1 4096 "$depth" 1 --rw=write --iodepth="$depth"
        cell smr-seq-qd mq-deadline 0 1280 "$depth" 1 --rw=write --iodepth="$depth"
    done
}
