# Fetches Debian packages of a given release with an apt state of our own. Sourced by prepare.
# shellcheck shell=bash

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
archives=${cache:?}/apt/archives

# apt with nothing of this machine but its mirror and proxy: no package is installed as it sees it.
own_apt() {
    local program=$1 suite=$2
    shift 2
    "$program" -o Dir::Etc::sourcelist="$cache/apt/$suite.list" -o Dir::Etc::sourceparts=- \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$cache/apt/none" \
        -o Dir::State="$cache/apt/$suite" -o Dir::State::status="$cache/apt/$suite/status" \
        -o Dir::Cache="$cache/apt/$suite" -o Dir::Cache::archives="$archives" \
        -o APT::Sandbox::User=root -o Acquire::Languages=none -o APT::Get::List-Cleanup=false \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# The mirror that this machine takes Debian itself from; without its lists too.
mirror() {
    # shellcheck disable=SC2016
    apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Identifier: Packages' \
        'Component: main' | grep -m 1 -E '/debian/?$'
}

# The lists of a release, fetched anew.
update() {
    local suite=$1 uri
    uri=$(mirror) || unusable "apt's sources name no mirror of Debian with main, .../debian"
    mkdir -p "$cache/apt/$suite/lists/partial" "$cache/apt/none"
    : >"$cache/apt/$suite/status"
    echo "deb [signed-by=$keyring] $uri $suite main" >"$cache/apt/$suite.list"
    own_apt apt-get "$suite" update --quiet=2 || unusable "apt-get cannot read $suite from $uri"
}

# Packages of a release and all that they depend on, into $archives.
fetch() {
    local suite=$1
    shift
    rm -rf "$archives"
    mkdir -p "$archives/partial"
    update "$suite"
    own_apt apt-get "$suite" install --quiet=2 --yes --no-install-recommends --download-only "$@" ||
        unusable "apt-get cannot fetch packages of $suite"
}

# The newest kernel of a series that a release has, alone, into $archives. Some have their modules in
# packages of their own.
fetch_kernel() {
    local suite=$1 series=$2 packages name='[0-9.]+(-[0-9]+|\+deb[0-9]+)-amd64'
    rm -rf "$archives"
    mkdir -p "$archives"
    update "$suite"
    packages=$(own_apt apt-cache "$suite" pkgnames "linux-image-$series." |
        grep -x -E "linux-image-$name" | sort --version-sort | tail -n 1) ||
        unusable "$suite has no kernel of the series $series"
    packages+=" $(own_apt apt-cache "$suite" depends --important "$packages" |
        sed -n -E "s/^ *Depends: (linux-(base|binary|modules)-$name)$/\1/p")"
    # shellcheck disable=SC2086
    (cd "$archives" && own_apt apt-get "$suite" download --quiet=2 $packages) ||
        unusable "apt-get cannot fetch $packages"
}
