#!/bin/sh
# Check the names of external symbols in the objects of a build:
#
#  1. No two source files of src define the same one, so that any modules and libraries can be linked
#     into one program, as the simulator does.
#  2. In the rooms below each begins with the name of its file, or with the plural of it: jm_wait_flush
#     is in jm_wait.c, edges_create in edge.c.  A file that continues another one (sqlfile_rows.c) may
#     have the other's prefix.  What a loader looks up by name, and what replaces a function of the C
#     library, has the name that it must have.
#
# Usage: symbols.sh [BUILDDIR], build by default
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
prefixed='src/launcher src/modules/job src/modules/kvs src/modules/resrc src/modules/wrexec src/pmixd'

# Print "SYMBOL FILE" for each external symbol.  An object is named like its source, which may have
# been compiled for several programs (PROGRAM-FILE.o), and by libtool in a directory of its own; one
# whose source is not there any more is an old one.
list() {
    (cd "$build" && find src -name '*.o' ! -path '*/test/*' -exec nm -A -g --defined-only {} +) |
        awk 'NF == 3 && $3 != "main" { sub(/:.*/, "", $1); print $3, $1 }' |
        sed -E 's,/\.libs/,/,; s,/[^/ ]*-([^/]*)$,/\1,; s,\.o$,.c,' | LC_ALL=C sort -u |
        while read -r name file; do
            if [ -f "$file" ]; then
                echo "$name $file"
            fi
        done
}

all=$(list)
if [ -z "$all" ]; then
    echo "symbols.sh: there are no objects in $build: build first" >&2
    exit 2
fi
bad=$(
    echo "$all" | awk '$1 == name { print $1 " is defined in " file " and in " $2 }
        { name = $1; file = $2 }'
    echo "$all" | while read -r name file; do
        room=${file%/*}
        stem=${file##*/}
        stem=${stem%.c}
        case " $prefixed " in
        *" $room "*) ;;
        *) continue ;;
        esac
        case $name in
        "$stem" | "${stem}_"* | "${stem}s_"* | flux_launcher_* | flux_module_* | kvs_storage_driver)
            continue
            ;;
        esac
        case $stem/$name in
        pmixd_door/accept | pmixd_door/bind | pmixd_door/getsockname | pmixd_door/listen) continue ;;
        esac
        if [ -f "$room/${stem%_*}.c" ] && [ "${name#"${stem%_*}_"}" != "$name" ]; then
            continue
        fi
        echo "$name is defined in $file, whose prefix it does not have"
    done
)
if [ -n "$bad" ]; then
    echo "$bad"
    exit 1
fi
echo "symbols.sh: $(echo "$all" | wc -l) external symbols: nothing to complain about"
