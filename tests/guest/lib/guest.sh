# Functions for a suite's `guest`. Sourced by lib/start.
# shellcheck shell=bash

results=/out/results
touch "$results"
number=$(wc -l <"$results")

# check NAME COMMAND...: a test, in a subshell that exits at the first error.
check() {
    local name=$1 begin=$SECONDS status log
    shift
    number=$((number + 1))
    log=/out/$number.log
    # Not in a condition, which would disable -e.
    set +e
    (
        set -euxo pipefail
        "$@"
    ) </dev/null >"$log" 2>&1
    status=$?
    umount --all --types btrfs,f2fs,xfs,zonefs 2>/dev/null
    set -e
    if ((status == 0)); then
        report "ok $number $name ($((SECONDS - begin)) s)"
    else
        report "not ok $number $name ($((SECONDS - begin)) s): exit code $status"
        tail -n 40 "$log" | sed 's/^/    /'
    fi
}

# skip NAME REASON: a test that cannot be run here.
skip() {
    number=$((number + 1))
    report "skip $number $1: $2"
}

report() {
    echo "$1" | tee -a "$results"
}

# restart: the machine is reset, with all that goes on in it. `guest` begins again, with boot=2. Needs
# `let_reset` of lib/qemu.sh.
restart() {
    mkdir /saved
    cp -r /out/. /saved
    echo "guest: restarts"
    sync --file-system /saved
    ask reset
    sleep 60
}

# ask VERB ARGUMENT...: runs on_VERB on the other side.
ask() {
    local answer
    echo "$*" >&"${line:?}"
    read -r -u "${line:?}" answer
    [[ $answer == ok ]] || { echo "$answer" && return 1; }
}

# until_true SECONDS COMMAND...: waits until the command succeeds.
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || { echo "timed out: $*" && return 1; }
        sleep 0.2
    done
}

# The command must fail.
fails() {
    ! "$@" || { echo "succeeded: $*" && return 1; }
}

# equal WHAT FOUND EXPECTED
equal() {
    [[ $2 == "$3" ]] || { echo "$1: found $2, expected $3" && return 1; }
}

# The kernel logged no warning, bug or oops.
kernel_log() {
    dmesg >/out/dmesg
    fails grep -E 'WARNING:|BUG:|Oops' /out/dmesg
}
