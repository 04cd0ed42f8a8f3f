#!/usr/bin/env bash
# flux kvs dump and restore: what was dumped comes back as the same root; what is malformed is
# refused.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start kvs

root() {
    kvs version "$@" | cut -d ' ' -f 2
}
hold 2

# --- a store with one of everything ---

kvs put a=1 b.c=two 'b.key with blanks=3' 'b.#c=4' 'b."q"=5' 'b.back\slash=6' end=7 'b.end=8' \
    'umläut.ключ=wert' 'arrow.->=9' e= 'b.#=10' quote='say "hi" \ twice' cr=$'a\rb' esc=$'\e[1m'
kvs put lines="$(seq 1 40)" long="$(head -c 5000 /dev/zero | tr '\0' x)" \
    wide="$(for ((i = 0; i < 3000; i++)); do printf ä; done)"
printf 'a\0b' | kvs put nul=-
printf '\377\376' | kvs put latin=-
printf 'text, then the half of a letter: \303' | kvs put half=-
head -c 100000 /dev/urandom >random
kvs put random=- <random
head -c 32768 random | kvs put chunk=-
head -c 32769 random | kvs put chunk1=-
seq 1 300000 >numbers
kvs put numbers=- <numbers
for ((i = 0; i < 60000; i++)); do printf 'ключ и замок '; done >wide
kvs put wider=- <wide
head -c 2500000 /dev/urandom >large
kvs put large=- <large
kvs mkdir empty.dir 'b.an empty one'
kvs link b.c lnk
kvs link 'b.key with blanks' 'lnk with blanks'
kvs put deep.a.b.c.d.e.f.g=1
want=$(root)

ok "dump" kvs dump archive
ok "dump to standard output" sh -c "'$FLUX' kvs dump - >archive2"
ok "is the same" cmp archive archive2
is "$(stat -c %a archive)" 600 "the file is for its owner"
is "$(sed -n 1p archive)" "flux-kvs-archive 1" "the first line"
like "$(sed -n 2p archive)" "^# namespace primary, version [0-9]+, root $want\$" "says what it is"
is "$(tail -n 1 archive)" end "the last line"
is "$(grep -ax 'a = "1"' archive)" 'a = "1"' "a value in one line"
is "$(grep -ax 'lnk -> b.c' archive)" 'lnk -> b.c' "a link"
is "$(grep -ax 'empty.dir\.' archive)" 'empty.dir.' "an empty directory"
is "$(grep -ax '"b.key with blanks" = "3"' archive)" '"b.key with blanks" = "3"' "a key in quotes"
is "$(grep -ax '"end" = "7"' archive)" '"end" = "7"' "a key that is not an end"
is "$(grep -ax 'nul = base64 YQBi' archive)" 'nul = base64 YQBi' "bytes"
is "$(grep -A 3 -ax 'lines =' archive)" 'lines =
  "1\n"
  "2\n"
  "3\n"' "a text of several lines"
is "$(wc -L <archive | awk '{ print $1 < 5000 }')" 1 "no line is long"
ok "all of it is text" sh -c 'iconv -f UTF-8 -t UTF-8 <archive >/dev/null'

# --- there and back ---

kvs namespace create copy copy2 copy3
ok "restore" kvs restore -N copy archive
is "$out" "" "says nothing"
is "$(root -N copy)" "$want" "makes the same root"
ok "restore from standard input" sh -c "'$FLUX' kvs restore -N copy2 - <archive"
is "$(root -N copy2)" "$want" "makes the same root"
ok "restore through a pipe" sh -c "cat archive | '$FLUX' kvs restore --json -N copy3 -"
like "$out" "\"rootref\": \"$want\"" "makes the same root and prints it"
ok "again" kvs restore -N copy archive
is "$(root -N copy)" "$want" "changes nothing"
ok "bytes are as they were" sh -c "'$FLUX' kvs get -N copy --raw large | cmp - large &&
    '$FLUX' kvs get -N copy --raw random | cmp - random &&
    '$FLUX' kvs get -N copy --raw numbers | cmp - numbers &&
    '$FLUX' kvs get -N copy --raw wider | cmp - wide"
kvs put -N copy a=other more=1
ok "restore over something" kvs restore -N copy archive
is "$(kvs get -N copy a more)" "1
1" "puts what it has, and leaves what it has not"
ok "restore into a directory" kvs restore -N copy --at-key=in.dir archive
is "$(kvs get -N copy in.dir.b.c)" two "is there"
ok "dump of a directory" kvs dump -N copy --at-key=in.dir part
is "$(grep -v '^#' part | cksum)" "$(grep -v '^#' archive | cksum)" "has the same in it"
ok "dump of an empty directory" kvs dump --at-key=empty.dir part
ok "restored" kvs restore -N copy --at-key=in.other part
is "$(kvs ls -N copy in)" "dir.
other." "is an empty one"
ok "dump of an empty store" sh -c "'$FLUX' kvs namespace create none && '$FLUX' kvs dump -N none part"
is "$(grep -vc '^#' part)" 2 "is empty"
exits 1 "dump of what is not a directory" kvs dump --at-key=a part2
exits 1 "dump of what is not there" kvs dump --at-key=nothing part2
ok "leaves no file" [ ! -e part2 ]
is "$(find . -name 'part2*' | wc -l)" 0 "under no name"
exits 1 "dump to nowhere" kvs dump nowhere/archive
exits 1 "dump to a full disk" sh -c "'$FLUX' kvs dump - >/dev/full"
kvs put a=changed
ok "dump --at" kvs dump --at="$want" archive2
ok "is of then" bash -c 'cmp <(grep -v "^#" archive) <(grep -v "^#" archive2)'

# --- by hand ---

kvs namespace create hand
cat >hand <<'END'
flux-kvs-archive 1
# a comment

x.y	=	"tab"  
x."not quoted = "1"
end
END
exits 1 "a quote in a key" kvs restore -N hand hand
like "$err" 'hand: line 5: ' "has its line number"
cat >hand <<'END'
flux-kvs-archive 1
	# comments and empty lines, also

x.y	=	"tab"  
"x.\x7a" = base64    AA==
pieces = "one, " 
    "two, "
# between
	base64 dGhyZWU=

l	->	"x.y"
"d d".
end
# done
END
ok "what a person may write" kvs restore -N hand hand
is "$(kvs dir -R -N hand)" "d d.
l -> x.y
pieces = one, two, three
x.y = tab
x.z = <1 bytes>" "is understood"

# --- malformed ---

want=$(root -N hand)
n=0
refused() {
    local line=$1 desc=$2
    n=$((n + 1))
    printf 'flux-kvs-archive 1\nbefore = "1"\n%b\nend\n' "$3" >bad
    exits 1 "$desc" kvs restore -N hand bad
    like "$err" "^flux kvs restore: bad: line $line: " "is refused with its line"
}
refused 4 "no value before the next line" 'a =\nb = "1"'
refused 3 "no sign" 'a'
refused 3 "no sign but a value" 'a "1"'
refused 3 "a value without quotes" 'a = 1'
refused 3 "an open quote" 'a = "1'
refused 3 "more after a value" 'a = "1" 2'
refused 3 "an unknown escape" 'a = "\\q"'
refused 3 "half an escape" 'a = "\\x1"'
refused 3 "base64 of five" 'a = base64 AAAAA'
refused 3 "base64 that is none" 'a = base64 AA!A'
refused 3 "base64 with padding within" 'a = base64 AA==AAAA'
refused 3 "base64 with stray bits" 'a = base64 AB=='
refused 3 "base64 of nothing" 'a = base64 '
refused 3 "a bad key" 'a..b = "1"'
refused 3 "the root" '. = "1"'
refused 3 "a key with a control character" '"a\\x01" = "1"'
refused 3 "a key with a NUL" '"a\\x00" = "1"'
refused 3 "a key that is too long" "$(printf 'k%.0s' {1..300}) = \"1\""
refused 3 "a link without a target" 'a ->'
refused 3 "a link to a directory's dot" 'a -> b.'
refused 3 "more after a link" 'a -> b c'
refused 3 "more after a directory" 'a. b'
refused 4 "a piece after a link" 'a -> b\n  "piece"'
refused 4 "something after the end" 'end\na = "1"'
refused 3 "a NUL byte" 'a = "\0"'
refused 3 "bytes that are not text in a key" 'a\0377 = "1"'
refused 3 "a carriage return" 'a = "1"\r'
note "$n malformed archives"
is "$(root -N hand)" "$want" "nothing was changed by any of them"
head -n 5 archive >bad
exits 1 "an archive without its end" kvs restore -N hand bad
like "$err" "line 6: .*incomplete" "is incomplete"
echo "something else" >bad
exits 1 "something else" kvs restore -N hand bad
like "$err" "line 1: .*flux-kvs-archive 1" "is told from an archive"
: >bad
exits 1 "nothing" kvs restore -N hand bad
exits 1 "no file" kvs restore -N hand nowhere
exits 1 "a directory" kvs restore -N hand .
{
    printf 'flux-kvs-archive 1\na = "'
    head -c 1100000 /dev/zero | tr '\0' x
    printf '"\nend\n'
} >bad
exits 1 "a line that is too long" kvs restore -N hand bad
like "$err" "line 2: .*1 MiB" "is refused"
is "$(root -N hand)" "$want" "nothing was changed"
printf 'flux-kvs-archive 1\na = "1"\na.b = "2"\nend\n' >bad
exits 1 "a value with something below it" kvs restore -N hand bad
is "$(root -N hand)" "$want" "does not go"

# Many keys through a pipe, and one bad line at the end: what was committed is said.
{
    echo flux-kvs-archive 1
    seq 1 120000 | sed 's/.*/many.k& = "&"/'
    echo bad
} >bad
exits 1 "a bad line after many" sh -c "cat bad | '$FLUX' kvs restore -N hand -"
like "$err" "line 120002: " "has its number"
like "$err" "in [12] commits, have been restored" "and says what stays"
kvs unlink -R -N hand many
sed -i '$s/.*/end/' bad
ok "120000 keys" kvs restore -N hand bad
ok "dump them" kvs dump -N hand --at-key=many many
ok "all are there" bash -c "cmp <(grep '=' many | sort) <(sed -n 's/^many.//p' bad | sort)"

release
is "$status" 0 "the session ends well"

# --- a store that an earlier version of copy made deeper than keys may be ---

mkdir -m 700 state
gzip -dc "$SRCDIR/t/kvs/deep.sqlite.gz" >state/content.sqlite
chmod 600 state/content.sqlite
hold 1 --statedir="$TEST_DIR/state"
exits 1 "the dump of a store with keys that are too long" kvs dump archive
like "$err" "left out: .*more than 64 names" "says what is left out"
like "$err" "lacks 1 keys" "and that the rest is there"
is "$(grep -c '^zz = "last"$' archive)" 1 "what comes after it is there"
is "$(grep -c '^# left out, too long: b[.]1[.]2' archive)" 1 "and a comment in the place of the key"
is "$(tail -n 1 archive)" end "the archive is whole"
kvs namespace create shallow
ok "the archive is restored" kvs restore -N shallow archive
is "$(kvs get -N shallow ok)" fine "with what it has"
k=$(seq -s . 1 40)
exits 1 "copy makes no keys that are too long" kvs copy a "c.$k"
like "$err" "keys below it would have 82 names" "and says so"
exits 1 "nor does move" kvs move b c.d
ok "what is too deep can be moved up" kvs move "b.$k" high
is "$(kvs get "high.more.$k.deep")" 1 "and read there"
ok "then all can be dumped" kvs dump archive
fails "what was not made is not there" kvs get c
release
is "$status" 0 "that session ends well, too"
finish
