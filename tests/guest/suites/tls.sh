# A Linux host attaches over TLS 1.3 with pre-shared keys, whose handshake is tlshd's (ktls-utils), and is
# refused without the right key, and where it may not come without TLS.
# shellcheck shell=bash

# The first two are from the tests of libnvme.
sha256=NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:
sha384=NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:
other=NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:
dhchap=DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:
discovery=nqn.2014-08.org.nvmexpress.discovery

before() {
    local device=null:zones=32,zone_size=4M,lba=4096,memory=true keys=${work:?}/keys
    if [[ $("${zonal:?}" --version) != *tls* ]]; then
        give has_tls false
        return
    fi
    give has_tls true
    # shellcheck source=tests/guest/lib/packages.sh
    source "${here:?}/lib/packages.sh"
    # shellcheck source=tests/guest/lib/programs.sh
    source "$here/lib/programs.sh"
    fetch_programs tls trixie ktls-utils libnl-genl-3-200
    printf '[debug]\nloglevel=1\n[authenticate]\nkeyrings=.nvme\n' >"${job:?}/tlshd.conf"
    (
        umask 077
        echo "nqn.2026-11.org.example:linux $sha256" >"$keys.256"
        echo "nqn.2026-11.org.example:linux $sha384" >"$keys.384"
        echo "nqn.2026-11.org.example:another $sha256" >"$keys.another"
        echo "nqn.2026-11.org.example:linux $dhchap" >"$keys.dhchap"
    )
    serve sha256 null:zones=128,zone_size=8M,lba=4096,memory=true --tls-psk "$keys.256"
    serve wrong "$device" --tls-psk "$keys.256"
    serve sha384 "$device" --tls-psk "$keys.384"
    serve both "$device" --tls-psk "$keys.256" --dhchap-secrets "$keys.dhchap"
    serve optional "$device" --tls-psk "$keys.another" --tls optional
    serve plain "$device"
}

start_tlshd() {
    LD_LIBRARY_PATH=/job/tls/usr/lib/x86_64-linux-gnu /job/tls/usr/sbin/tlshd \
        --stderr --config /job/tlshd.conf >/out/tlshd.log 2>&1 </dev/null &
}

# A handshake whose outcome does not count. The first one loads what tlshd needs, which an emulated processor that is
# shared with other work does not do within the seconds that both sides wait.
warms_up() {
    attach sha256 --tls && detach sha256
}

# insert KEY NQN: for connections to a subsystem, into the keyring .nvme.
insert() {
    load_nvme
    nvme check-tls-key --identity=1 --insert --keydata="$1" --subsysnqn="$2" "${host_names[@]:0:2}"
}

# over_tls NAME: the kernel has a key for the connection.
over_tls() {
    local key
    key=$(cat "/sys/class/nvme/$(basename "$(controller_of "$1")")/tls_key")
    [[ -n $key && $key != 00000000 ]]
}

# comes_in NAME KEY OPTION...: attaches with the key, writes, reads, detaches.
comes_in() {
    local name=$1 key=$2
    shift 2
    insert "$key" "$(nqn_of "$name")"
    attach "$name" --tls "$@"
    over_tls "$name"
    write_and_read "$(disk_of "$name")"
    detach "$name"
}

# attached NAME KEY: stays so.
attached() {
    insert "$2" "$(nqn_of "$1")"
    attach "$1" --tls
    over_tls "$1"
}

# refused_with NAME KEY: with TLS.
refused_with() {
    insert "$2" "$(nqn_of "$1")"
    fails attach "$1" --tls
}

resets() {
    reset_controller "$(basename "$(controller_of "$1")")"
    over_tls "$1"
    write_and_read "$(disk_of "$1")"
}

discovers_tls() {
    load_nvme
    equal discovered "$(of nvme discover -t tcp -a "$address" -s "$(port_of optional)" \
        "${host_names[@]}" '.records[] | "\(.treq), \(.sectype)"')" "not required, tls13"
}

discovers_over_tls() {
    insert "$sha256" "$discovery"
    equal discovered "$(of nvme discover --tls -t tcp -a "$address" -s "$(port_of sha256)" \
        "${host_names[@]}" '.records[] | "\(.treq), \(.sectype)"')" "required, tls13"
}

guest() {
    # shellcheck source=tests/guest/lib/nvme.sh
    source /job/lib/nvme.sh
    # shellcheck source=tests/guest/lib/nvme_cli.sh
    source /job/lib/nvme_cli.sh
    # shellcheck source=tests/guest/lib/zoned.sh
    source /job/lib/zoned.sh
    # shellcheck source=tests/guest/lib/filesystems.sh
    source /job/lib/filesystems.sh
    if ! "${has_tls:?}"; then
        skip "TLS" "zonal was built without the feature tls"
        return
    fi
    load_nvme
    modprobe tls
    echo 60 >/sys/module/nvme_tcp/parameters/tls_handshake_timeout
    start_tlshd
    insert "$sha256" "$(nqn_of sha256)"
    until_true 120 warms_up &>/out/warms_up.log || true
    check "attaches with a key of SHA-256" comes_in sha256 "$sha256"
    # Without this function GnuTLS takes all keys to be of SHA-256.
    if grep -q gnutls_psk_allocate_client_credentials2 /job/tls/usr/sbin/tlshd; then
        check "attaches with a key of SHA-384" comes_in sha384 "$sha384"
    else
        skip "attaches with a key of SHA-384" "this tlshd has keys of SHA-256 only"
    fi
    check "digests inside TLS" comes_in sha256 "$sha256" --hdr-digest --data-digest
    check "authentication inside TLS" comes_in both "$sha256" --dhchap-secret="$dhchap"
    check "the discovery log says that TLS is offered" discovers_tls
    check "the discovery log is read over TLS" discovers_over_tls
    check "a host without a key attaches where TLS is optional" attach optional
    check "and writes and reads" write_and_read "$(disk_of optional)"
    check "and detaches" detach optional
    check "refused without TLS where it is required" fails attach sha256
    check "refused with TLS where there is none" refused_with plain "$sha256"
    check "refused with another key" refused_with wrong "$other"
    check "attaches after the refusals" attached sha256 "$sha256"
    check "a controller that is reset" resets sha256
    check "fio, in order, with verification" fio_verify "$(disk_of sha256)" 24m
    check "btrfs: files after a remount" btrfs_files "$(disk_of sha256)"
    check "detaches" detach sha256
}
