# File systems under the crash lab: a workload that syncs after each operation, and what must be there
# after a loss of power. Sourced by suites, and by lib/crash_state for each state.
#
# Operations are numbered from 0. Operation K is followed by a mark `synced K` once its fsync has
# returned, and the files are then as in $reference/K. Whatever state the drive is left in, the files
# have to be those of the last mark; files of the operation after it may be as before, as after, or,
# where they are written in place, in between.
# shellcheck shell=bash

place=/mnt/crash
# Where workloads of `zonal crash generate` are, if they are played instead.
workloads=/tmp/workloads
reference=/tmp/reference
# Of a hunt: a disk with what has been found so far, which outlives the guest.
keep=/keep
database_blocks=16

# Of programs with libraries an emulated guest starts a few a second; of busybox's many.
quick_programs() {
    local program
    for program in cat cmp dmesg grep head mount rm sed seq sha256sum sleep sort sync tail umount uniq wc; do
        eval "$program() { busybox $program \"\$@\"; }"
    done
}

# text K BYTES: what operation K writes; no block of it is in another one.
text() {
    head -c "$2" < <(seq -s " $1:" 1 "$2")
}

# The size of what operation K writes to a file that it creates, appends to or replaces.
size_of() {
    echo $((($1 * 37 % 24 + 1) * 4096 - $1 % 3 * 1000))
}

# The block of `database` that operation K overwrites, with the one after it.
block_of() {
    echo $(($1 * 7 % (database_blocks - 1)))
}

# files_of K: the files that operation K changes.
files_of() {
    case $(($1 % 5)) in
    0) echo "new$1" ;;
    1) echo "journal" ;;
    2) echo "settings settings.new" ;;
    3) echo "database" ;;
    4) echo "new$(($1 - 4))" ;;
    esac
}

# Operation K, until it is durable.
operation() {
    local number=$1 size
    size=$(size_of "$number")
    cd "$place" || return
    if ((number == 0)); then
        text 0 $((database_blocks * 4096)) >database
        touch journal settings
    fi
    case $((number % 5)) in
    0) text "$number" "$size" | dd of="new$number" bs=64k iflag=fullblock conv=fsync ;;
    1) text "$number" "$size" | dd of=journal bs=64k iflag=fullblock oflag=append conv=notrunc,fsync ;;
    2)
        text "$number" "$size" | dd of=settings.new bs=64k iflag=fullblock conv=fsync
        mv settings.new settings
        sync "$place"
        ;;
    3)
        text "$number" 8192 | dd of=database bs=4096 seek="$(block_of "$number")" iflag=fullblock \
            conv=notrunc,fdatasync
        ;;
    4)
        rm "new$((number - 4))"
        sync "$place"
        ;;
    esac
    # Now and then the whole file system: btrfs commits a transaction, f2fs writes a checkpoint.
    ((number % 8)) || sync --file-system "$place"
    cd /
}

sums() {
    (
        shopt -s nullglob
        cd "$place" || exit
        set -- *
        (($# == 0)) || sha256sum "$@"
    )
}

# workload OPERATIONS MARK_COMMAND...: the command gets the text of each mark.
workload() {
    local last=$(($1 - 1)) number
    shift
    mkdir -p "$reference"
    for number in $(seq 0 "$last"); do
        operation "$number"
        "$@" "synced $number"
        sums >"$reference/$number"
        cp "$place/database" "$reference/database.$number"
    done
    cp "$place/journal" "$reference/journal"
}

# The files are those of the last mark in the file MARKS.
verify() {
    local marks=$1 number file
    number=$(sed -n 's/^synced //p' "$marks" | tail -n 1)
    sums >/tmp/found
    # Lines that are in one of them only.
    LC_ALL=C sort /tmp/found "$reference/$number" | uniq -u | sed 's/.*  //' | sort -u >/tmp/changed
    while read -r file; do
        [[ " $(files_of $((number + 1))) " == *" $file "* ]] ||
            { echo "after \`synced $number\`: $file is not as it was synced" && return 1; }
        between "$file" "$number" ||
            { echo "after \`synced $number\`: $file is neither as before nor as after" && return 1; }
    done </tmp/changed
}

# between FILE NUMBER: the file, which the operation after NUMBER changes, may be as it is.
between() {
    local file=$1 number=$2 old new
    case $file in
    new* | settings.new)
        # It comes or goes; while it comes, any part of it may be there.
        ;;
    settings)
        new=$(grep "  $file\$" "$reference/$((number + 1))")
        [[ $(grep "  $file\$" /tmp/found) == "$new" ]]
        ;;
    journal)
        # What was synced before is its beginning.
        old=$(length_of_journal "$number")
        (($(wc -c <"$place/journal") >= old)) &&
            cmp -n "$old" "$place/journal" "$reference/journal"
        ;;
    database)
        # Each block is as before or as after.
        old=$(other_blocks "$reference/database.$number") || return
        new=$(other_blocks "$reference/database.$((number + 1))") || return
        [[ $(wc -c <"$place/database") == $((database_blocks * 4096)) ]] &&
            [[ -z $(echo -n "$old"$'\n'"$new" | grep . | sort | uniq -d) ]]
        ;;
    esac
}

# other_blocks FILE: the blocks in which the database is not as in the file.
other_blocks() {
    { cmp -l "$place/database" "$1" || true; } |
        busybox awk '{ blocks[int(($1 - 1) / 4096)] } END { for (block in blocks) print block }'
}

# How much was appended up to an operation.
length_of_journal() {
    local number length=0
    for number in $(seq 1 5 "$1"); do
        length=$((length + $(size_of "$number")))
    done
    echo "$length"
}

# On files of which an operation is missing the check fails, without a device.
losses_are_seen() {
    local place=/tmp/losses/files reference=/tmp/losses/reference number
    mkdir -p "$place"
    workload 12 keep_files
    for number in $(seq 2 11); do
        head -n $((number + 1)) /tmp/losses/marks >/tmp/losses/some
        place=/tmp/losses/$number
        verify /tmp/losses/some
        place=/tmp/losses/$((number - 1))
        fails verify /tmp/losses/some
    done
}

keep_files() {
    echo "$1" >>/tmp/losses/marks
    cp -r "$place" "/tmp/losses/${1#synced }"
}

# record_ublk TYPE OPERATIONS SPEC MKFS...: records the workload, or those in $workloads, on a file system on a ublk
# device, with the kernel's own trace of its I/O in /out. MKFS is a command that gets the device. Needs lib/ublk.sh.
record_ublk() {
    local type=$1 operations=$2 spec=$3
    shift 3
    serve_ublk 0 "$spec" --record "/tmp/$type.zlog" --ctl /tmp/ctl
    modprobe "$type"
    "$@" /dev/ublkb0
    mkdir -p "$place"
    mount -t "$type" /dev/ublkb0 "$place"
    trace_io /dev/ublkb0
    if [[ -d $workloads ]]; then
        /job/zonal crash play "$workloads" "$place" --ctl /tmp/ctl
    else
        workload "$operations" mark_ublk
    fi
    cp "${tracing:?}/trace" "/out/$type.trace"
    umount "$place"
    stop_ublk 0
    cp "/tmp/$type.zlog" /out
}

record_f2fs() {
    record_ublk f2fs "$1" null:zones=64,conventional=8,zone_size=8M,lba=4096,memory=true mkfs.f2fs -f -m
}

# The data section, in conventional zones, has at least 300 MiB.
record_xfs() {
    record_ublk xfs "$1" null:zones=96,conventional=48,zone_size=8M,lba=4096,memory=true \
        newer xfsprogs mkfs.xfs -f -r zoned=1
}

# A mark in the log and in the trace.
mark_ublk() {
    /job/zonal ctl /tmp/ctl mark "$1"
    echo "$1" >"${tracing:?}/trace_marker"
}

# trace_io DISK: the kernel traces from now on when it queues, issues and completes I/O.
trace_io() {
    local device event
    device=$(((0x$(stat -c %t "$1") << 20) + 0x$(stat -c %T "$1")))
    mkdir -p "${tracing:?}"
    mountpoint -q "$tracing" || mount -t tracefs tracefs "$tracing"
    for event in block_bio_queue block_rq_issue block_rq_complete; do
        echo "dev == $device" >"$tracing/events/block/$event/filter"
        echo 1 >"$tracing/events/block/$event/enable"
    done
}

# check_state TYPE IMAGE MARKS STATE: examines a state on a ublk device.
check_state() {
    local type=$1 image=$2 marks=$3
    # For end_state, when this function has returned.
    state=$4
    mounted=failed
    fsck="not reached"
    rm -f /tmp/state.ready
    begin_state "$image" "$state"
    dmesg -c >/tmp/before
    /job/zonal serve "$image" --ublk=9 >/tmp/state.ready 2>/tmp/state.log &
    server=$!
    trap end_state EXIT
    for _ in {1..300}; do
        [[ ! -s /tmp/state.ready ]] || break
        kill -0 "$server" 2>/dev/null || { cat /tmp/state.log && return 1; }
        sleep 0.05
    done
    examine "$type" /dev/ublkb9 "$marks" "$state"
}

# examine TYPE DISK MARKS STATE: mounts a state, compares, writes, and checks the file system. Sets $mounted and $fsck.
# With few processes: of those an emulated guest, or a kernel of user-mode Linux, starts less than a hundred a second.
examine() {
    local type=$1 disk=$2 marks=$3 begin
    complained=
    begin=${EPOCHREALTIME/./}
    mount -t "$type" "$disk" "$place"
    mounted="$(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
    if [[ $type == zonefs ]]; then
        judge_zonefs "$marks"
        write_zonefs
    else
        judge_files "$marks"
    fi
    umount "$place"
    fsck=failed
    case $type in
    btrfs) check_btrfs "$disk" "$4" ;;
    ext4) e2fsck -f -n "$disk" ;;
    f2fs) fsck.f2fs --dry-run "$disk" ;;
    xfs) newer xfsprogs xfs_repair -n "$disk" ;;
    esac
    fsck=passed
    look_for_complaints
    ((complained == 0))
}

# judge_files MARKS: compares the files, and writes one: the file system is not only there to be read.
judge_files() {
    if [[ -d $workloads ]]; then
        /job/zonal crash judge "$workloads" "$place" --marks "$1"
    else
        verify "$1"
    fi
    printf %020000d 1 >"$place/later"
    sync -f "$place"
}

# verdict CODE: the line of a state that was examined, which ended with this exit code.
verdict() {
    [[ -n ${complained-} ]] || look_for_complaints >/dev/null
    echo "$state: exit code $1, mount $mounted, check of the file system $fsck," \
        "$complained complaints of the kernel"
}

# Prints the complaints of the kernel, and sets $complained to their number. That the zones of a btrfs block group with
# two copies end differently is no fault after a loss of power: btrfs says so and writes no more to it.
look_for_complaints() {
    local lines line
    dmesg -c >/tmp/dmesg
    mapfile -t lines </tmp/dmesg
    complained=0
    for line in "${lines[@]}"; do
        [[ $line != *"$differing"* && $line =~ $forbidden ]] || continue
        echo "$line"
        complained=$((complained + 1))
    done
}
differing='zoned: write pointer offset mismatch of zones in DUP profile'

# What a kernel may not say of a state; the last are those of lockdep and of the hung task detector.
forbidden='WARNING:|BUG:|Oops|Call Trace|(BTRFS|EXT4-fs|F2FS-fs|XFS|zonefs).*([Cc]orrupt|error|ERROR|critical)'
forbidden+='|possible (circular|recursive) locking|inconsistent lock state|blocked for more than'

# begin_state IMAGE STATE: which state it is can be told after the kernel has hung. The image is NUMBER.img.
begin_state() {
    [[ -d $keep ]] || return 0
    echo "${1##*/}" "$2" >"$keep/now"
    sync "$keep/now" "$keep/states.journal"
}

# Ends the check of a state, however it ended. A line for the state goes with the verdicts.
end_state() {
    local code=$?
    umount "$place" 2>/dev/null || true
    if [[ -d $keep ]]; then
        verdict "$code" >>"$keep/verdicts"
        sync "$keep/verdicts"
    fi
    kill "$server" || true
    wait "$server" || true
}

# A state at which the kernel hung or died has failed: for the file of `zonal crash --resume`.
add_hung_state() {
    local image state
    [[ -s $keep/now && -s $keep/states.journal ]] || return 0
    read -r image state <"$keep/now"
    echo "$state: the kernel hung or died" >>"$keep/verdicts"
    # Of `state.img`, of the smallest failure, there is no number.
    [[ $image =~ ^([0-9]+)\.img$ ]] || return 0
    printf '\n{"number":%s,"verdict":{"state":"%s","failure":"%s","output":"","seconds":0.0}}\n' \
        "${BASH_REMATCH[1]}" "$state" "the kernel hung or died" >>"$keep/states.journal"
}

# check_btrfs DISK STATE: `btrfs check`, but for one complaint. Where a torn write of nodes has ended, btrfs
# goes on with the next node, which is then not at a multiple of its size (docs/crash-lab.md). Such
# states are listed in $misplaced. Of a file system with two copies that end differently it cannot open any (6.14).
check_btrfs() {
    local said=/tmp/btrfs.check code=0
    btrfs check --readonly "$1" >"$said" 2>&1 || code=$?
    ((code != 0)) || return 0
    cat "$said"
    if grep -q '^bad metadata .* crossing stripe boundary$' "$said"; then
        code=0
        grep -v -E -e '^(WARNING: tree block|bad metadata) .* (not nodesize aligned|crossing stripe)' \
            -e '^ERROR: errors found in extent allocation tree' -e '^\[[1-8]/8\] checking ' \
            -e '^(Opening|Checking) filesystem|^UUID: |^found .* bytes used, error' \
            -e '^total |^btree space waste|^file data blocks|^ referenced' "$said" && code=1
        ((code != 0)) || echo "$2" >>"${misplaced:-/out/misplaced}"
    fi
    ! grep -q -F "$differing" "$said" || code=0
    return "$code"
}

# first_cut LOG: the number of the event with the first mark. What comes before is mkfs.
first_cut() {
    /job/zonal crash "$1" --events | busybox awk '$2 == "mark" && !first { first = $1 } END { print first }'
}

# check_states NAME TYPE LOG STATES OPTION...: with options of `zonal crash`; all states, if there are fewer. The results
# are /out/NAME.*.
check_states() {
    local results=/out/$1 type=$2 log=$3 states=$4 first there checked code=0
    shift 4
    first=$(first_cut "$log")
    there=$(/job/zonal crash "$log" --cuts "$first-99999999" "$@" | sed -n 's/.* events, \([0-9]*\) states$/\1/p')
    ((states <= there)) || states=$there
    mkdir -p "$place"
    [[ -e /bin/sh ]] || ln -s bash /bin/sh
    [[ ! -d $keep ]] || set -- "$@" --resume "$keep/states.journal"
    /job/zonal crash "$log" --cuts "$first-99999999" --sample "$states" --jobs 1 --timeout 120 \
        --work /tmp --json "$results.json" --junit "$results.xml" --html "$results.html" \
        --check "bash /job/lib/crash_state $type {image} {marks} {state}" "$@" >"$results.txt" || code=$?
    tail -n 1 "$results.txt"
    checked=$(grep -o '<testcase ' "$results.xml" | wc -l)
    ((checked == states)) || { echo "$checked states, expected $states" && return 2; }
    return "$code"
}
