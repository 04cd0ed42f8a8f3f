#!/usr/bin/env bash
# scripts/deps.sh, as ./demo and ./check use it: what is missing is found, by a shell that ends when
# a command fails, too.
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
finish
