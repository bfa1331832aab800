# Namespaces with two paths over NVMe/TCP, whose ANA states change. Sourced by suites, on both sides.
# shellcheck shell=bash

# serve_twice NAME SPEC: at two ports, $NAME_port and $NAME_other.
serve_twice() {
    serve "$1" "$2" --nvme-tcp 127.0.0.1:0 --ctl "${work:?}/$1.sock"
    give "${1}_other" "$(sed -E '1 s|^nvme-tcp://127.0.0.1:([0-9]+),.*|\1|; q' "$work/$1.ready")"
}

# ana NAME PORT STATE
on_ana() {
    "${zonal:?}" ctl "$work/$1.sock" ana "127.0.0.1:$2" "$3"
}

other_of() {
    local port=${1}_other
    echo "${!port}"
}

# attach_both NAME
attach_both() {
    attach "$1" --keep-alive-tmo=5 --reconnect-delay=1
    attach "$1" --keep-alive-tmo=5 --reconnect-delay=1 --trsvcid="$(other_of "$1")"
    until_true 20 has_state "$(port_of "$1")" optimized
    until_true 20 has_state "$(other_of "$1")" optimized
}

# ana_states: port and state of each path.
ana_states() {
    local path port
    for path in /sys/class/nvme/nvme*/nvme*c*n*/ana_state; do
        [[ -e $path ]] || continue
        port=$(sed -E 's/.*trsvcid=([0-9]+).*/\1/' "${path%/*/*}/address")
        echo "$port $(cat "$path")"
    done
}

# has_state PORT STATE: the kernel knows that the path has this ANA state.
has_state() {
    # Not --quiet, which would end the pipe early.
    ana_states | grep --line-regexp "$1 $2"
}

# set_ana NAME PORT STATE: the kernel has the state when this returns.
set_ana() {
    ask ana "$1" "$2" "$3"
    until_true 10 has_state "$2" "$3"
}
