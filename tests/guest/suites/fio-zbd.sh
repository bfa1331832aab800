# fio's own tests of zoned devices, t/zbd/test-zbd-support, on ublk devices. They are fetched
# with the sources of fio that they belong to.
# shellcheck shell=bash

before() {
    # shellcheck source=tests/guest/lib/packages.sh
    source "${here:?}/lib/packages.sh"
    # shellcheck source=tests/guest/lib/sources.sh
    source "$here/lib/sources.sh"
    fetch_source fio /usr/bin/fio trixie sid
    mkdir -p "${job:?}/fio/t"
    cp "$cache/fio/fio" "$job/fio/"
    cp -r "$cache/fio/source/t/zbd" "$job/fio/t/"
    cp "${zonal:?}" "$job/zonal"
    # The device takes 512 MiB.
    ((${memory:?} >= 2048)) || memory=2048
    ((${limit:?} >= 5400)) || limit=5400
}

# fio_tests NAME SPEC OPTION...: all of fio's tests on a device; each is one result.
fio_tests() {
    local name=$1 spec=$2 line test outcome
    local result='^Running test 0*([0-9]+) [.]{3} (PASS|SKIP|FAIL) *(.*)$'
    check "$name: serve" serve_ublk 0 "$spec"
    shift 2
    while read -r line; do
        [[ $line =~ $result ]] || continue
        test=${BASH_REMATCH[1]} outcome=${BASH_REMATCH[2]}
        case $outcome in
        PASS) outcome="ok $name $test" ;;
        SKIP) outcome="skip $name $test: ${BASH_REMATCH[3]}" ;;
        FAIL)
            cp "/job/fio/t/zbd/test-zbd-support.log.$test" "/out/$name-$test.log"
            outcome="not ok $name $test"
            ;;
        esac
        report "$outcome"
    done < <(/job/fio/t/zbd/test-zbd-support -r "$@" /dev/ublkb0 2>&1 | tee "/out/$name")
    check "$name: all tests were run" grep '^Run time' "/out/$name"
    check "$name: stop" stop_ublk 0
}

guest() {
    # shellcheck source=tests/guest/lib/ublk.sh
    source /job/lib/ublk.sh
    modprobe ublk_drv
    /job/fio/fio --version
    # Some tests need max_active = max_open. Zones that one test leaves active would exceed the
    # limit in the next, so all zones are reset before each.
    fio_tests limited null:zones=512,zone_size=1M,lba=4096,max_open=16,max_active=16,memory=true -w
    fio_tests conventional \
        null:zones=512,conventional=16,zone_size=1M,zone_capacity=768K,lba=4096,max_open=16,memory=true
    # The four tests for devices without zones.
    fio_tests without-zones null:zoned=false,size=512M,lba=4096,memory=true \
        -t 42 -t 43 -t 49 -t 56
}
