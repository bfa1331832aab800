# Functions for a suite's `before`, and for requests of the guest. Sourced by run.
# shellcheck shell=bash

# By name: process, arguments, port, and servers that failed.
# shellcheck disable=SC2034
declare -A server_pids=() server_args=() server_ports=() failed_servers=()

# give NAME VALUE: sets a variable in the guest.
give() {
    printf '%s=%q\n' "$1" "$2" >>"${job:?}/env"
}

# serve NAME SPEC OPTION...: serves a device over NVMe/TCP on the loopback, as
# nqn.2026-11.org.example:NAME. The guest has its port as $NAME_port.
serve() {
    local name=$1
    shift
    server_args[$name]=$(printf '%q ' "$@")
    server_ports[$name]=0
    on_start "$name"
    give "${name}_port" "${server_ports[$name]}"
}

# serve_at OPTION NAME SPEC... OPTION...: serves devices at the socket $work/NAME.sock, which the first
# option names.
serve_at() {
    local option=$1 name=$2
    shift 2
    server_args[$name]=$(printf '%q ' "$@" "$option" "${work:?}/$name.sock")
    on_start_at "$name"
}

# The guest may `ask` for these.

# start NAME: again, on the same port.
on_start() {
    local name=$1 line args ready uuid
    # The same each time: the guest keeps its disk when a server is restarted.
    uuid=$(printf %s "$name" | md5sum | sed -E 's/(.{8})(.{4})(.{4})(.{4})(.{12}).*/\1-\2-\3-\4-\5/')
    ready=${work:?}/$name.ready
    eval "args=(${server_args[$name]})"
    rm -f "$ready"
    # shellcheck disable=SC2154
    "${zonal:?}" serve "${args[@]}" --nvme-tcp "127.0.0.1:${server_ports[$name]}" \
        --nqn "nqn.2026-11.org.example:$name" --uuid "$uuid" --verbose >"$ready" 2>>"${out:?}/$name.log" {turn}>&- &
    server_pids[$name]=$!
    for _ in $(seq 100); do
        line=$(head -n 1 "$ready" 2>/dev/null) && [[ -n $line ]] && break
        sleep 0.1
    done
    [[ $line == nvme-tcp://127.0.0.1:* ]] || unusable "zonal serve ${args[*]}: $(cat "$out/$name.log")"
    # A suite may have asked for more addresses, which come first.
    line=${line#nvme-tcp://}
    line=${line%%/*}
    server_ports[$name]=${line##*:}
}

# start_at NAME: again, at the same socket.
on_start_at() {
    local name=$1 args ready=${work:?}/$1.ready
    eval "args=(${server_args[$name]})"
    : >"$ready"
    "${zonal:?}" serve "${args[@]}" --verbose >"$ready" 2>>"${out:?}/$name.log" {turn}>&- &
    server_pids[$name]=$!
    for _ in $(seq 100); do
        [[ ! -s $ready ]] || return 0
        sleep 0.1
    done
    unusable "zonal serve ${args[*]}: $(cat "$out/$name.log")"
}

# kill NAME: without a clean shutdown.
on_kill() {
    kill -KILL "${server_pids[$1]}"
    wait "${server_pids[$1]}" 2>/dev/null || true
    unset "server_pids[$1]"
}

# stop NAME: as its user would; it must exit with code 0.
on_stop() {
    kill "${server_pids[$1]}"
    wait "${server_pids[$1]}" || return 1
    unset "server_pids[$1]"
}

# pause NAME, continue NAME: in between nothing is answered. A process has stopped when its last thread has.
on_pause() {
    kill -STOP "${server_pids[$1]}"
    while grep -q -v ') T ' /proc/"${server_pids[$1]}"/task/*/stat; do
        sleep 0.01
    done
}
on_continue() {
    kill -CONT "${server_pids[$1]}"
}

# Stops all servers; each must exit with code 0.
end_servers() {
    local name status
    for name in "${!server_pids[@]}"; do
        status=0
        kill -CONT "${server_pids[$name]}" 2>/dev/null || true
        kill "${server_pids[$name]}" 2>/dev/null || true
        wait "${server_pids[$name]}" || status=$?
        ((status == 0)) || failed_servers[$name]="exit code $status"
    done
    server_pids=()
}

# check_after NAME COMMAND...: a test on this side, for a suite's `after`. The command's output is kept.
check_after() {
    local name=$1 log result=ok
    log=${out:?}/after-$(printf %s "$name" | tr -c '[:alnum:]' _).log
    shift
    "$@" >"$log" 2>&1 || result="not ok"
    echo "$result after $name ($log)" | tee -a "$out/results"
    [[ $result == ok ]] || tail -n 40 "$log"
}

# Ends a guest that has not changed the file $watched for this many seconds in which this process ran: one that was
# stopped, with the guest, has not waited.
patience=300
idle=0
watch_progress() {
    local now
    [[ -n ${watched:-} ]] || return 0
    now=$(stat -c %y "$watched")
    idle=$((idle + 1))
    [[ $now == "${progress:-}" ]] || idle=0
    progress=$now
    if ((idle >= patience)); then
        idle=0
        kill "${guest:?}"
    fi
}

# Serves the guest's requests until it exits.
serve_questions() {
    local piece line='' words
    while kill -0 "${guest:?}" 2>/dev/null; do
        if ! read -r -t 1 -u "${asked:?}" piece; then
            line+=$piece
            watch_progress
            continue
        fi
        line+=$piece
        read -r -a words <<<"$line"
        if declare -F "on_${words[0]}" >/dev/null && "on_${words[0]}" "${words[@]:1}"; then
            echo ok >&"${answered:?}"
        else
            echo "cannot $line" >&"$answered"
        fi
        line=
    done
}

# For XFS on zones, which newer kernels have: gives the guest the xfsprogs of Debian's sid, whose mkfs.xfs makes such
# file systems, and memory.
needs_zoned_xfs() {
    local library
    [[ ${kernel:?} == 7 ]] || unusable "--kernel: found \`$kernel\`, expected 7, for XFS on zones"
    for library in packages programs; do
        # shellcheck source=/dev/null
        source "${here:?}/lib/$library.sh"
    done
    fetch_xfsprogs
    ((${memory:?} >= 2048)) || memory=2048
}
