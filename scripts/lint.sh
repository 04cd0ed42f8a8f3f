#!/bin/sh
# Look at the form of the sources: `format`, `reformat` (C, by clang-format) or `shell` (shellcheck).
#
# In a git tree the files are those that git tracks, so that somebody's half-written file does not
# fail a check; in an unpacked tarball they are all that is there.
#
# Usage: lint.sh format|reformat|shell [TOOL]
set -eu
mode=${1:?usage: lint.sh format|reformat|shell [TOOL]}
tool=${2:-}
cd "$(dirname "$0")/.."

# Print the names of the files that match the given patterns, one a line.
list_files() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -- "$@"
    else
        for pattern in "$@"; do
            find . -name "${pattern##*/}" -type f ! -path './build/*' ! -path './config/*'
        done | sed 's,^\./,,' | sort -u
    fi | while read -r file; do
        if [ -f "$file" ]; then
            echo "$file"
        fi
    done
}

# Print the names of the shell scripts: by their ending, or by their first line.  What fuzzers are
# fed with may look like one.
list_scripts() {
    list_files '*.sh' '*.t' '*.bash-completion'
    list_files '*' | grep -v '^t/fuzz/corpus/' | while read -r file; do
        case ${file##*/} in
        *.*) continue ;;
        esac
        if head -n 1 "$file" | grep -aqE '^#!.*[/ ](ba|da)?sh( |$)'; then
            echo "$file"
        fi
    done
}

case $mode in
format | reformat)
    tool=${tool:-clang-format}
    if ! command -v "$tool" >/dev/null; then
        echo "lint.sh: $tool is not installed (Debian: apt-get install clang-format)" >&2
        exit 1
    fi
    if [ "$mode" = reformat ]; then
        list_files '*.c' '*.h' | xargs -r "$tool" -i
    else
        # Each complaint begins with FILE:LINE:COLUMN.  A file that it cannot read has none.
        complaints=$(list_files '*.c' '*.h' | xargs -r "$tool" --dry-run -Werror 2>&1) || :
        bad=$(printf '%s\n' "$complaints" | sed -n 's/^\([^ :]*\.[ch]\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u)
        if [ -z "$bad" ] && [ -n "$complaints" ]; then
            printf '%s\n' "$complaints" >&2
            exit 1
        fi
        for file in $bad; do
            echo "lint.sh: $file is not in the form of .clang-format: \`make format' would do"
            "$tool" "$file" | diff -u "$file" - | sed -n '3,14p'
        done
        # clang-format leaves comments as long as they are, and does not see Python.
        # shellcheck disable=SC2016 # for awk
        long=$({ list_files '*.c' '*.h'; list_files '*.py' | grep -E '^(src|t/python)/'; } |
            xargs -r awk 'length($0) > 100 { print "lint.sh: " FILENAME ":" FNR ": over 100 columns" }')
        [ -z "$long" ] || printf '%s\n' "$long"
        [ -z "$bad$long" ] || exit 1
    fi
    ;;
shell)
    tool=${tool:-shellcheck}
    if ! command -v "$tool" >/dev/null; then
        echo "lint.sh: $tool is not installed (Debian: apt-get install shellcheck)" >&2
        exit 1
    fi
    list_scripts | sort -u | grep -v '\.t$' | xargs -r "$tool" -x -P SCRIPTDIR
    # The tests all read t/lib.sh; to follow it two hundred times takes minutes.  What cannot be known
    # without (names of variables), `set -u` finds when they run.
    list_files '*.t' | xargs -r "$tool" -e SC1091,SC2034,SC2153,SC2154
    ;;
*)
    echo "lint.sh: unknown mode '$mode': say format, reformat or shell" >&2
    exit 2
    ;;
esac
echo "lint.sh: $mode: nothing to complain about"
