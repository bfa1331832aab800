# Where things are and how to say that something is missing. Sourced by prepare and run.
# shellcheck shell=bash

cache=$(realpath -m "${ZONAL_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/zonal-guest}")
kernels=(6.12 6.1 7)

# Ends with exit code 2: the input or the machine is not as it must be.
unusable() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

is_kernel() {
    [[ " ${kernels[*]} " == *" $1 "* ]]
}

# Ends unless the option has a value and, with a second argument, one that looks like that.
option_value() {
    [[ -n ${2-} && ${2-} =~ ${3:-.} ]] || unusable "$1: found \`${2-}\`, expected $4"
}

# One at a time, for as long as this process lives.
take_turn() {
    mkdir -p "$cache"
    exec {turn}>"$cache/lock"
    flock --nonblock "$turn" && return
    echo "another guest is at work; waiting for it"
    flock --timeout 3600 "$turn" || unusable "another guest has been at work for an hour ($cache/lock)"
}
