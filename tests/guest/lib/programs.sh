# Programs of a newer release of Debian than the guest's, with the libraries that they need. `before`
# fetches them, the guest runs them. Sourced by suites, on both sides.
# shellcheck shell=bash

# fetch_programs NAME RELEASE PACKAGE...: unpacks packages, the libraries among them, and gives them to
# the guest as NAME. What is there is not fetched again. Needs lib/packages.sh.
fetch_programs() {
    local name=$1 place=${cache:?}/programs/$1 release=$2 package
    shift 2
    if [[ ! -d $place ]]; then
        rm -rf "$place.new" "${archives:?}"
        mkdir -p "$place.new" "$archives"
        update "$release"
        (cd "$archives" && own_apt apt-get "$release" download --quiet=2 "$@") ||
            unusable "apt-get cannot fetch $* of $release"
        for package in "$archives"/*.deb; do
            dpkg-deb -x "$package" "$place.new"
        done
        rm -rf "$archives" "$place.new"/usr/share
        mv "$place.new" "$place"
    fi
    cp -r "$place" "${job:?}/$name"
}

# XFS on zones takes xfsprogs 6.15 or newer.
fetch_xfsprogs() {
    fetch_programs xfsprogs sid xfsprogs libblkid1 libc6 libinih1 liburcu8t64 libuuid1
}

# newer NAME PROGRAM ARGUMENT...: runs one of them.
newer() {
    local place=/job/$1/usr program=$2
    shift 2
    "$place/lib64/ld-linux-x86-64.so.2" --library-path "$place/lib/x86_64-linux-gnu" \
        "$place/sbin/$program" "$@"
}
