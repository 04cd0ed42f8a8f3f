#!/usr/bin/env bash
# Bytes that are not requests of the key-value store: an error with a sentence, and it goes on.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

need_flux start kvs
CLIENT=$BUILDDIR/t/kvs/kvs_client
[ -x "$CLIENT" ] || skip_all "t/kvs/kvs_client has not been built"

hold 2
bad() {
    local topic=$1 hex=$2 want=$3 what=$4 rank
    for rank in 0 1; do
        FLUX_URI=${FLUX_URI%/*/local}/$rank/local run "$CLIENT" raw "$topic" "$hex"
        if [ "$status" = 1 ] && [[ $err =~ ^$want:\ .{10} ]]; then
            pass "$topic: $what, at rank $rank"
        else
            note "$status: $out $err" >&2
            fail "$topic: $what, at rank $rank"
        fi
    done
}
key=$(printf 'ab' | od -An -tx1 | tr -d ' \n')

# Every request names a namespace.
ns=$(printf 'primary' | od -An -tx1 | tr -d ' \n')
in="07000000$ns"
bad kvs.commit '' EPROTO "empty"
bad kvs.commit "08000000$ns" EPROTO "a namespace that is cut off"
bad kvs.commit "07000100$ns" EPROTO "unknown bits"
bad kvs.commit "000000005401000000000000" EINVAL "no namespace"
bad kvs.commit "02000000612f5401000000000000" EINVAL "a bad name of one"
bad kvs.commit "0200000061615401000000000000" ENOENT "one that is not there"

# Transactions: 'T' 1 0 0, number of operations, operations.
bad kvs.commit "$in" EPROTO "empty"
bad kvs.commit "${in}54" EPROTO "too short"
bad kvs.commit "${in}5801000000000000" EPROTO "wrong magic"
bad kvs.commit "${in}5402000000000000" EPROTO "wrong version"
bad kvs.commit "${in}5401000001000000" EPROTO "an operation too few"
bad kvs.commit "${in}540100000000000000" EPROTO "a byte too many"
bad kvs.commit "${in}54010000ffffffff" '(EPROTO|EMSGSIZE)' "a huge number of operations"
bad kvs.commit "${in}54010000010000000100020005000000$key" EPROTO "an operation that is cut off"
bad kvs.commit "${in}54010000010000006300020000000000$key" EPROTO "an unknown operation"
bad kvs.commit "${in}54010000010000000100020000000000612e" EINVAL "a bad key"

# Look-ups: u16 flags, lengths of namespace, reference, u16 key, u16 cursor, u32 count, u32 0,
# u64 offset, all of them.
z4=00000000
z8=0000000000000000
for topic in kvs.lookup kvs.readdir kvs.watch; do
    bad "$topic" '' EPROTO "empty"
    bad "$topic" "0000070003000000$z4$z4$z8$ns$key" EPROTO "a key too short"
    bad "$topic" "0000070001000000$z4$z4$z8$ns$key" EPROTO "a key too long"
    bad "$topic" "00f0070002000000$z4$z4$z8$ns$key" EPROTO "unknown flags"
    bad "$topic" "1800070002000000$z4$z4$z8$ns$key" EPROTO "flags that exclude each other"
    bad "$topic" "0000070002000000${z4}01000000$z8$ns$key" EPROTO "an unused number"
    bad "$topic" "0000070002000000$z4${z4}0100000000000000$ns$key" EPROTO "an offset not asked for"
    bad "$topic" "0000000002000000$z4$z4$z8$key" EINVAL "no namespace"
    bad "$topic" "0000020002000000$z4$z4${z8}6161$key" ENOENT "an unknown namespace"
    bad "$topic" "0000070000000000$z4$z4$z8$ns" EINVAL "no key"
    bad "$topic" "0000070002000000$z4$z4$z8${ns}2e2e" EINVAL "empty names"
    bad "$topic" "0000070002000000$z4$z4$z8${ns}0a62" EINVAL "a control character"
done
bad kvs.watch "0000070002000000$z4$z4$z8$ns$key" EPROTO "not streaming"
bad kvs.lookup "0000070202000000$z4$z4$z8$ns$key$key" EINVAL "a reference that is none"

# Fences: nprocs, count, rank, number, after, flags, lengths of name and namespace, 0, length of
# ranks, length of callers, heard and before (`more`), both, ranks, transaction.
txn=5401000000000000
more=$z4$z4$z4
bad kvs.fence '' EPROTO "empty"
bad kvs.fence "010000000100000000000000000000000000000000020700${z4}${more}6162" EPROTO "no transaction"
bad kvs.fence "0000000000000000000000000000000000000000000207$ns$key$txn" EPROTO "cut off"
bad kvs.fence "000000000000000000000000000000000000000000020700$z4$more$ns$key$txn" '(EINVAL|EPROTO)' "of none"
bad kvs.fence "020000000100000000000000000000000000000000000700$z4$more$ns$txn" EINVAL "without a name"
bad kvs.fence "020000000100000000000000000000000000000000020000$z4$more$key$txn" EINVAL "without a namespace"
bad kvs.fence "020000000200000000000000000000000000000000020700$z4$more$ns$key$txn" EPROTO "for two"
bad kvs.fence "020000000100000000000000000000000000000001020700$z4$more$ns$key$txn" EPERM "as an instance of the service"
bad kvs.fence "020000000300000000000000000000000000000001020700$z4$more$ns$key$txn" EINVAL "for more than all"
bad kvs.fence "0200000001000000000000000000000000000000f0020700$z4$more$ns$key$txn" EPROTO "unknown flags"
bad kvs.fence "020000000100000000000000010000000000000000020700$z4$more$ns$key$txn" '(EPROTO|EPERM)' "with a number"
bad kvs.fence "020000000100000000000000000000000000000000020700ff000000$more$ns$key$txn" EPROTO "ranks cut off"
bad kvs.fence "02000000010000000000000000000000000000000002070001000000$more$ns${key}78$txn" '(EINVAL|EPROTO)' "no ranks"

# Pieces of values, and what is said in JSON.
bad kvs.store '' EPROTO "empty"
bad kvs.store "$in" EINVAL "no bytes"
bad kvs.store "020000006161aabb" ENOENT "an unknown namespace"
for topic in kvs.snapshot kvs.version kvs.gc kvs.stats kvs.dropcache kvs.namespace-create \
    kvs.namespace-remove; do
    bad "$topic" 00 EPROTO "no JSON"
done
json() {
    local topic=$1 text=$2 want=$3 what=$4
    run "$BUILDDIR/t/kvs/kvs_probe" call "$topic" "$text"
    if [ "$status" = 1 ] && [[ $err =~ ^$want:\ .{10} ]]; then
        pass "$topic: $what"
    else
        note "$status: $out $err" >&2
        fail "$topic: $what"
    fi
}
json kvs.version '{}' EPROTO "no namespace"
json kvs.version '{"namespace":1}' EPROTO "a number for its name"
json kvs.version '{"namespace":"primary","more":1}' EPROTO "a field too many"
json kvs.version '{"namespace":""}' EINVAL "an empty name"
json kvs.version "{\"namespace\":\"$(printf 'n%.0s' {1..65})\"}" EINVAL "a name that is too long"
json kvs.snapshot '{"namespace":"primary","rootref":""}' EPROTO "no stream"
json kvs.namespace-create '{"namespace":"x","owner":-1,"rank":0}' EPROTO "a bad owner"
json kvs.namespace-create '{"namespace":"primary","owner":0,"rank":0}' EEXIST "the primary"
json kvs.namespace-remove '{"namespace":"x"}' ENOENT "of none"
for topic in kvs.follow kvs.fence-told kvs.namespace-find kvs.namespace-open kvs.namespace-close \
    kvs.namespace-drop kvs.namespace-lost kvs.namespace-register kvs.namespace-check; do
    json "$topic" '{"namespace":"primary"}' EPERM "by a client"
done

# What only brokers may ask.
bad kvs.load "$(printf '00%.0s' {1..32})" EPERM "by a client"
bad kvs.fence-abort 00 EPERM "by a client"
bad kvs.wait-version 00 EPROTO "no JSON"
bad kvs.nonsense 00 ENOSYS "no such request"

for seed in 1 2 3; do
    ok "3000 requests of noise, seed $seed" "$CLIENT" noise "$seed" 3000
    FLUX_URI=${FLUX_URI%/*/local}/1/local ok "the same at rank 1" "$CLIENT" noise "$seed$seed" 3000
done
ok "the store goes on" "$FLUX" kvs put a=1
is "$("$FLUX" kvs get a)" 1 "and is right"
for topic in kvs.setroot kvs.other; do
    fails "a client may not publish $topic" "$FLUX" event pub "$topic"
done
is "$(FLUX_URI=${FLUX_URI%/*/local}/1/local "$FLUX" kvs get a)" 1 "at the other rank, too"
release
is "$status" 0 "the session ends well"
finish
