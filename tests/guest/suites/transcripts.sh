# What a Linux host sends to the byte as nvme-cli lets it discover and attach, for the tests of
# crates/frontend/tests/nvme_tcp/transcripts.rs: discovery.txt and attach.txt among the results.
# shellcheck shell=bash

before() {
    command -v python3 >/dev/null || unusable "missing: python3"
    serve host null:zones=16,zone_size=8M,lba=4096,max_open=8,memory=true
    mkdir "${work:?}/sent"
    # shellcheck disable=SC2154
    python3 "$here/relay.py" "${server_ports[host]}" "$work/sent" >"$work/relayed" {turn}>&- &
    # It ends as the servers do.
    # shellcheck disable=SC2034,SC2154
    server_pids[relay]=$!
    until [[ -s $work/relayed ]]; do
        sleep 0.1
    done
    give relayed_port "$(cat "$work/relayed")"
}

# discover_relayed: the subsystem is found. It names the port of the server, where attaching is not seen.
discover_relayed() {
    load_nvme
    equal discovered "$(of nvme discover -t tcp -a "${address:?}" -s "${relayed_port:?}" \
        "${host_names[@]:?}" '.records[].subnqn')" "$(nqn_of host)"
}

# attach_relayed: a slow guest would lose its controller after the usual 5 seconds without Keep Alive.
attach_relayed() {
    load_nvme
    nvme connect -t tcp -a "$address" -s "$relayed_port" -n "$(nqn_of host)" "${host_names[@]}" \
        --nr-io-queues=2 --keep-alive-tmo=600
    until_true 300 disk_of host
}

guest() {
    local library
    for library in nvme nvme_cli; do
        # shellcheck source=/dev/null
        source "/job/lib/$library.sh"
    done
    check "discovery" discover_relayed
    check "attach" attach_relayed
    check "detach" detach host
    echo "$(uname -r), $(nvme version | head -n 1)" >/out/versions
}

# transcript TITLE FILE: lines of 63 bytes.
transcript() {
    echo "# $(cat "${out:?}/versions"), $1: all that it sent."
    od -A n -v -t x1 -w63 "$2" | tr -d ' '
}

after() {
    check_after "two admin queues and two I/O queues were seen" test -s "${work:?}/sent/3"
    transcript "discovery" "$work/sent/0" >"${out:?}/discovery.txt"
    transcript "admin queue" "$work/sent/1" >"$out/attach.txt"
}
