# A Linux host authenticates with DH-HMAC-CHAP, in one direction and in both, with each hash and with
# groups of several sizes, and is refused without the right secret.
# shellcheck shell=bash

# The first is an example from the specification.
host_secret=DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:
controller_secret=DHHC-1:02:d4gmzh5i0I3npDMWAmJX/nAvAw7ioKmS2w44ceutFeObYDFG/r6zOB3UW0FLzevsI7XDJg==:
# Names of what is served: HASH_GROUP. An emulated processor needs longer for the largest group than the 30 seconds
# that the server waits.
ways=(sha384_null sha256_ffdhe2048 sha512_ffdhe3072 sha384_ffdhe4096)
[[ ${accel:?} == tcg ]] || ways+=(sha256_ffdhe8192)

before() {
    give accel "$accel"
    local way secrets=${work:?}/secrets device=null:zones=16,zone_size=4M,lba=4096,memory=true
    if ! "${zonal:?}" serve --help | grep -q dhchap-secrets; then
        give authenticates false
        return
    fi
    give authenticates true
    (umask 077 && echo "nqn.2026-11.org.example:linux $host_secret $controller_secret" >"$secrets")
    for way in "${ways[@]}"; do
        serve "$way" "$device" --dhchap-secrets "$secrets" \
            --dhchap-hash "${way%_*}" --dhchap-dhgroup "${way#*_}"
    done
}

# comes_in NAME OPTION...: authenticates with these options, attaches, writes, reads, detaches.
comes_in() {
    local before
    before=$(times_authenticated "$1")
    attach "$@"
    (($(times_authenticated "$1") > before))
    write_and_read "$(disk_of "$1")"
    detach "$1"
}

# times_authenticated NAME: how often the kernel has logged it, with this hash and group.
times_authenticated() {
    dmesg | grep -c "authenticated with hash hmac(${1%_*}) dhgroup ${1#*_}$" || true
}

authenticated_more() {
    (($(times_authenticated "$1") > $2))
}

# again NAME: writing the secret again makes the kernel re-authenticate while connected.
again() {
    local before
    attach "$1" "--dhchap-secret=$host_secret"
    before=$(times_authenticated "$1")
    echo "$host_secret" >"/sys/class/nvme/$(basename "$(controller_of "$1")")/dhchap_secret"
    until_true 20 authenticated_more "$1" "$before"
    write_and_read "$(disk_of "$1")"
    detach "$1"
}

guest() {
    # shellcheck source=tests/guest/lib/nvme.sh
    source /job/lib/nvme.sh
    # shellcheck source=tests/guest/lib/zoned.sh
    source /job/lib/zoned.sh
    if ! "${authenticates:?}"; then
        skip "authentication" "zonal serve has no --dhchap-secrets"
        return
    fi
    local host=--dhchap-secret=$host_secret controller=--dhchap-ctrl-secret=$controller_secret name
    for name in "${ways[@]}"; do
        check "the host authenticates ($name)" comes_in "$name" "$host"
        check "both authenticate ($name)" comes_in "$name" "$host" "$controller"
    done
    check "re-authentication while connected" again "$name"
    name=${ways[0]}
    check "refused without a secret" fails attach "$name"
    check "refused with another secret" fails attach "$name" --dhchap-secret="$controller_secret"
    check "the host refuses a controller with another secret" \
        fails attach "$name" "$host" --dhchap-ctrl-secret="$host_secret"
    check "attaches after the refusals" comes_in "$name" "$host" "$controller"
}
