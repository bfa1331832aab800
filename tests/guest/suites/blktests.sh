# The zoned group of blktests, tests 1 to 6, on ublk devices. They are not
# packaged: BLKTESTS names a checkout. The other tests of the group create devices of their own.
# shellcheck shell=bash

before() {
    local from=${BLKTESTS-} expected="the directory of a checkout of blktests" file
    [[ -n $from ]] || unusable "BLKTESTS: found nothing, expected $expected"
    for file in check common/rc tests/zbd/{rc,00{1..6}} src/zbdioctl.c; do
        [[ -f $from/$file ]] || unusable "BLKTESTS: found \`$from\` without $file, expected $expected"
    done
    mkdir -p "${job:?}/blktests"
    (cd "$from" && cp -r --parents check common tests/zbd src/zbdioctl.c "$job/blktests")
    # The guest has a different C library.
    cc -static -o "$job/blktests/src/zbdioctl" "$from/src/zbdioctl.c" ||
        unusable "BLKTESTS: cc cannot build $from/src/zbdioctl.c"
    cp "${zonal:?}" "$job/zonal"
}

# zbd_tests NAME SPEC: each test on a device is a result.
zbd_tests() {
    local name=$1 place=/out/$1 test outcome said
    check "$name: serve" serve_ublk 0 "$2"
    for test in zbd/00{1..6}; do
        said=$(cd /job/blktests && ./check -o "$place" "$test" 2>&1) || true
        outcome=$(sed -n 's/^status\t//p' "$place/ublkb0/$test" 2>/dev/null) || true
        case $outcome in
        pass) report "ok $name $test" ;;
        "not run") report "skip $name $test: $(sed -n 's/^    //p' <<<"$said" | tail -n 1)" ;;
        *) report "not ok $name $test" && echo "$said" ;;
        esac
    done
    check "$name: stop" stop_ublk 0
}

guest() {
    # shellcheck source=tests/guest/lib/ublk.sh
    source /job/lib/ublk.sh
    modprobe ublk_drv
    # The tests request it by an older name, which loads nothing.
    modprobe mq-deadline
    # The guest's programs were unpacked, not installed, and zgrep is a script of /bin/sh.
    [[ -e /bin/sh ]] || ln -s bash /bin/sh
    echo "TEST_DEVS=(/dev/ublkb0)" >/job/blktests/config
    zbd_tests conventional null:zones=64,conventional=4,zone_size=4M,lba=4096,memory=true
    zbd_tests limited \
        null:zones=64,zone_size=4M,zone_capacity=3M,lba=4096,max_open=8,max_active=12,memory=true
}
