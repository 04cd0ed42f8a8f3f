#!/usr/bin/env bash
# scripts/deps.sh and scripts/build.sh, as ./demo and ./check use them: what is missing is found, by a shell that
# ends when a command fails, too; `configure` looks again once something has been installed.
# shellcheck disable=SC2016 # the inner shells expand
. "$(dirname "$0")/lib.sh"
need dpkg-query

missing() {
    run bash -c "$1"'; . "$0/scripts/deps.sh"; deps_missing "${@:1}"; echo done' "$SRCDIR" "${@:2}"
}
for mode in 'set -u' 'set -eu -o pipefail'; do
    missing "$mode" bash coreutils
    is "$status/$out" "0/done" "$mode: nothing is missing of what is installed"
    missing "$mode" bash no-such-package-anywhere
    is "$status/$out" $'0/no-such-package-anywhere\ndone' "$mode: a package that nobody knows is missing"
    missing "$mode" no-such-package-anywhere
    is "$status/$out" $'0/no-such-package-anywhere\ndone' "$mode: ... when it is the only one, too"
done

# A host with an apt of our own, and a `configure` that counts.
mkdir bin
cat >bin/dpkg-query <<'END'
#!/bin/sh
for name; do [ ! -e "installed.$name" ] || echo "installed $name"; done
END
printf '#!/bin/sh\n[ "$1" = update ] || : >installed.sphinx\n' >bin/apt-get
printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
printf '#!/bin/sh\n>Makefile; >config.status; echo "$*" >>"$OLDPWD/configured"\n' >configure
chmod +x bin/* configure
cat >use.sh <<'END'
set -eu -o pipefail
. "$0/scripts/deps.sh"
. "$0/scripts/build.sh"
DEPS_BUILD=(gcc) DEPS_CHECK=(sphinx)
deps_install "$1"
build_configure out --with-x
END
: >installed.gcc
use() {
    run env PATH="$PWD/bin:$PATH" bash -c '. ./use.sh' "$SRCDIR" "$1"
}
use build
is "$status/$(wc -l <configured)" 0/1 "a directory is configured"
use build
is "$status/$(wc -l <configured)" 0/1 "... once"
use check
is "$status/$(wc -l <configured)" 0/2 "... and again when a package has been installed since"
use check
is "$status/$(wc -l <configured)" 0/2 "... which is then known"
finish
