#!/usr/bin/env bash
# Manual pages say what --help says: every command has a page, which names all options of the
# command and of its subcommands, and describes none that they do not have.
# shellcheck disable=SC2154 # set by ok
. "$(dirname "$0")/lib.sh"
need_flux help version
MAN=$SRCDIR/doc/man1

# To help.txt, all that `flux WORD... --help` says, and that of the subcommands that its usage
# lists. Some are other commands by another name, to whose pages the page sends the reader.
collect() {
    local word
    "$FLUX" "$@" --help >text || return 1
    cat text >>help.txt
    for word in $(sed -nE "s/^(Usage:|      ) flux $* ([a-z]+)( .*)?\$/\\2/p" text | uniq); do
        case "$* $word" in
        "wreck ls" | "wreck cancel" | "job cancel") ;;
        *) collect "$@" "$word" || return 1 ;;
        esac
    done
}

# The manual page of a command, with the files that it includes.
page_of() {
    local page=$MAN/flux-$1.rst
    case $1 in
    lsattr) page=$MAN/flux-getattr.rst ;;
    esac
    cat "$page" || return 1
    sed -n 's/^\.\. include:: //p' "$page" | while read -r name; do
        cat "$MAN/$name" || return 1
    done
}

# Print the options on which help.txt and page.txt differ.  In the one an option begins a line; the
# other describes it in a line "option::", and names it anywhere.
compare() {
    awk '
    function words(line, set) {
        while (match(line, /(^|[^A-Za-z0-9-])--?[A-Za-z0-9][a-z0-9-]*/)) {
            word = substr(line, RSTART, RLENGTH)
            sub(/^[^-]/, "", word)
            set[word] = 1
            line = substr(line, RSTART + RLENGTH)
        }
    }
    FILENAME == "help.txt" && match($0, /^ +(-[A-Za-z0-9]|-[A-Za-z0-9], --[a-z0-9-]+|--[a-z0-9-]+)/) {
        words(substr($0, 1, RLENGTH), has)
    }
    FILENAME == "page.txt" {
        words($0, named)
        if ($0 ~ /^ *\.\. option::/)
            words($0, described)
    }
    END {
        named["-h"] = named["--help"] = has["-h"] = has["--help"] = 1
        for (word in has)
            if (!(word in named))
                print word " is not in the page"
        for (word in described)
            if (!(word in has))
                print word " is not in --help"
    }' help.txt page.txt
}

for name in $("$FLUX" help | awk '/^  [a-z]/ {print $1}'); do
    case $name in
    getattr | setattr) continue ;; # with lsattr, whose page it is too
    esac
    : >help.txt
    case $name in
    lsattr) collect getattr && collect setattr ;;
    esac && collect "$name" && page_of "$name" >page.txt && differ=$(compare) ||
        differ="there is no page or no help"
    is "$differ" "" "flux $name and its page have the same options"
done

# flux help COMMAND opens the page with man, which is one of the test's own here.
mkdir bin
cat >bin/man <<'END'
#!/bin/sh
echo "$*" >>asked
exit "$(cat code)"
END
chmod +x bin/man
echo 0 >code
opens() { # COMMAND PAGE
    : >asked
    ok "flux help $1" env PATH="$PWD/bin:$PATH" "$FLUX" help "$1"
    like "$(cat asked)" "^(1 $2|-l .*/$2\\.1)\$" "... opens the page $2(1)"
    is "$out" "" "... and prints nothing itself"
}
opens config flux-config
opens setattr flux-getattr
opens flux flux
echo 16 >code # what man says of a page that is not there
ok "flux help config without a page" env PATH="$PWD/bin:$PATH" "$FLUX" help config
is "$out" "$("$FLUX" config --help)" "... prints what --help prints"
finish
