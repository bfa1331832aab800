# Fetches Debian source packages, which hold the tests of what they are sources of. Sourced by
# suites on this side; needs lib/packages.sh.
# shellcheck shell=bash

# fetch_source PACKAGE PROGRAM RELEASE...: the sources and the program of a package into
# $cache/PACKAGE, from the first of the releases whose sources the mirror has; a mirror may have
# lists of sources and not their files. What is there is not fetched again.
fetch_source() {
    local package=$1 program=$2 place=${cache:?}/$1 release
    shift 2
    [[ ! -e $place/release ]] || return 0
    for release in "$@"; do
        rm -rf "$place" "${archives:?}"
        mkdir -p "$place/source" "$archives/partial"
        update_sources "$release"
        if (cd "$archives" && own_apt apt-get "$release-source" source --quiet=2 --download-only \
            --tar-only --target-release "$release" "$package" &&
            own_apt apt-get "$release-source" download --quiet=2 "$package") 2>"$place/errors"; then
            tar -x -f "$archives/$package"_*.orig.tar.* -C "$place/source" --strip-components 1
            dpkg-deb --fsys-tarfile "$archives/$package"_*.deb |
                tar -x -C "$place" --transform 's|.*/||' ".$program"
            echo "$release" >"$place/release"
            rm -rf "$archives"
            return
        fi
        cat "$place/errors" >&2
    done
    rm -rf "$place"
    unusable "the mirror has no sources of $package in $*"
}

# The lists of a release's packages and sources, fetched anew.
update_sources() {
    local state=$cache/apt/$1-source uri
    uri=$(mirror) || unusable "apt's sources name no mirror of Debian with main, .../debian"
    mkdir -p "$state/lists/partial" "$cache/apt/none"
    : >"$state/status"
    printf "%s [signed-by=${keyring:?}] $uri $1 main\n" deb deb-src >"$state.list"
    own_apt apt-get "$1-source" update --quiet=2 || unusable "apt-get cannot read $1 from $uri"
}
