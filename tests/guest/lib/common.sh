# Paths and errors. Sourced by prepare and run.
# shellcheck shell=bash

cache=$(realpath -m "${ZONAL_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/zonal-guest}")
kernels=(6.12 6.1 7)

# Exits with code 2: the input or the machine cannot be used.
unusable() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

is_kernel() {
    [[ " ${kernels[*]} " == *" $1 "* ]]
}

# Exits unless the option has a value, which must match the third argument if there is one.
option_value() {
    [[ -n ${2-} && ${2-} =~ ${3:-.} ]] || unusable "$1: found \`${2-}\`, expected $4"
}

# take_turn KIND: one guest at a time with `--exclusive`, and beside others with `--shared`. Holds a lock until this
# process exits.
take_turn() {
    mkdir -p "$cache"
    exec {turn}>>"$cache/lock"
    flock "$1" --nonblock "$turn" && return
    echo "another guest is running; waiting for it"
    flock "$1" --timeout 7200 "$turn" ||
        unusable "another guest has been running for two hours ($cache/lock)"
}
