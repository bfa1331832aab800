# A Linux host authenticates with DH-HMAC-CHAP, one way and both ways, and is refused without the
# right secret.
# shellcheck shell=bash

# The first is an example of the specification's.
host_secret=DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:
controller_secret=DHHC-1:02:d4gmzh5i0I3npDMWAmJX/nAvAw7ioKmS2w44ceutFeObYDFG/r6zOB3UW0FLzevsI7XDJg==:

before() {
    local secrets=${work:?}/secrets device=null:zones=16,zone_size=4M,lba=4096,memory=true
    if ! "${zonal:?}" serve --help | grep -q dhchap-secrets; then
        give authenticates false
        return
    fi
    give authenticates true
    (umask 077 && echo "nqn.2026-11.org.example:linux $host_secret $controller_secret" >"$secrets")
    serve short "$device" --dhchap-secrets "$secrets" --dhchap-hash sha256 --dhchap-dhgroup null
    serve long "$device" --dhchap-secrets "$secrets" --dhchap-hash sha512 --dhchap-dhgroup ffdhe2048
}

# comes_in NAME OPTION...: attaches, writes and reads, detaches.
comes_in() {
    attach "$@"
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
    for name in short long; do
        check "the host authenticates ($name)" comes_in "$name" "$host"
        check "both authenticate ($name)" comes_in "$name" "$host" "$controller"
    done
    check "refused without a secret" fails attach short
    check "refused with another secret" fails attach short --dhchap-secret="$controller_secret"
    check "the host refuses a controller with another secret" \
        fails attach short "$host" --dhchap-ctrl-secret="$host_secret"
    check "comes in after all that" comes_in short "$host" "$controller"
}
