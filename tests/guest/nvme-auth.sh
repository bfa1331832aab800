# A Linux host authenticates with DH-HMAC-CHAP, one way, both ways and again while it is connected,
# and is refused with another secret. Sourced by tests/guest/run; hash=sha512 group=ffdhe8192 before
# it chooses others than sha256 and ffdhe2048.
# shellcheck shell=bash disable=SC2034

# What the kernel asks for by name, not by dependency, or has built in.
modules_wanted=(nvme-tcp crc32c_generic hmac sha256_generic sha512_generic dh_generic)
programs_wanted=(blkzone)

host=nqn.2026-11.org.example:linux
host_secret=DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:
controller_secret=DHHC-1:02:d4gmzh5i0I3npDMWAmJX/nAvAw7ioKmS2w44ceutFeObYDFG/r6zOB3UW0FLzevsI7XDJg==:

before() {
    (umask 077 && echo "$host $host_secret $controller_secret" >"$work/secrets")
    serve null:zones=32,zone_size=4M,lba=4096,memory=true null:zones=8,zone_size=4M,lba=4096 \
        --nvme-tcp 127.0.0.1:0 --nqn nqn.2026-11.org.example:guest --verbose \
        --dhchap-secrets "$work/secrets" --dhchap-hash "${hash:-sha256}" \
        --dhchap-dhgroup "${group:-ffdhe2048}"
}

guest_script() {
    local address=${ready#nvme-tcp://}
    local port=${address%%/*}
    echo "options=transport=tcp,traddr=10.0.2.2,trsvcid=${port##*:},nqn=${address#*/}"
    echo "secret=$host_secret controller=$controller_secret host=$host"
    cat <<'GUEST'
options=$options,hostnqn=$host,hostid=01234567-89ab-cdef-0123-456789abcdef,nr_io_queues=2
attach() {
    echo "$options$1" >/dev/nvme-fabrics
    for try in $(seq 100); do
        [ "$(ls /sys/block | grep -cE '^nvme[0-9]+n[0-9]+$')" = 2 ] && break
        sleep 0.1
    done
    blkzone report -c 1 "/dev/$(ls /sys/block | grep -E '^nvme[0-9]+n1$')"
    controller_path=$(echo /sys/class/nvme/nvme[0-9]*)
    echo "$secret" >"$controller_path/dhchap_secret"
    sleep 2
    [ "$(cat "$controller_path/state")" = live ]
    blkzone report -c 1 "/dev/$(ls /sys/block | grep -E '^nvme[0-9]+n2$')"
    echo 1 >"$(echo /sys/class/nvme/nvme[0-9]*/delete_controller)"
}
refused() {
    if echo "$options$1" >/dev/nvme-fabrics 2>/dev/null; then
        echo "attached $2"
        exit 1
    fi
    echo "refused $2"
}
attach ",dhchap_secret=$secret"
echo "the host authenticated, and once more"
[ "$(dmesg | grep -c 'qid 0: authenticated with')" = 2 ]
attach ",dhchap_secret=$secret,dhchap_ctrl_secret=$controller"
echo "both sides authenticated, and once more"
refused "" "without a secret"
refused ",dhchap_secret=$controller" "with another secret"
refused ",dhchap_secret=$secret,dhchap_ctrl_secret=$secret" "by the host: the controller has another"
dmesg | grep -E 'nvme.*(authent|qid)' | tail -n 20
GUEST
}
