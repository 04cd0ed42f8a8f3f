#!/usr/bin/env bash
# Bytes that are no requests of the key-value store: an error with a sentence, and it goes on.
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

# Transactions: 'T' 1 0 0, number of operations, operations.
bad kvs.commit '' EPROTO "empty"
bad kvs.commit 54 EPROTO "too short"
bad kvs.commit 5801000000000000 EPROTO "wrong magic"
bad kvs.commit 5402000000000000 EPROTO "wrong version"
bad kvs.commit 5401000001000000 EPROTO "an operation too few"
bad kvs.commit 540100000000000000 EPROTO "a byte too many"
bad kvs.commit "54010000ffffffff" '(EPROTO|EMSGSIZE)' "a huge number of operations"
bad kvs.commit "54010000010000000100020005000000$key" EPROTO "an operation that is cut off"
bad kvs.commit "54010000010000006300020000000000$key" EPROTO "an unknown operation"
bad kvs.commit "54010000010000000100020000000000612e" EINVAL "a bad key"

# Look-ups: flags, length of reference, u16 length of key, both.
for topic in kvs.lookup kvs.readdir kvs.watch; do
    bad "$topic" '' EPROTO "empty"
    bad "$topic" "00000300$key" EPROTO "a key too short"
    bad "$topic" "00000100$key" EPROTO "a key too long"
    bad "$topic" "f0000200$key" EPROTO "unknown flags"
    bad "$topic" "00000000" EINVAL "no key"
    bad "$topic" "000002002e2e" EINVAL "empty names"
    bad "$topic" "000002000a62" EINVAL "a control character"
done
bad kvs.watch "00000200$key" EPROTO "not streaming"
bad kvs.lookup "00020200$key$key" EINVAL "a reference that is none"

# Fences: nprocs, count, rank, flags, length of name, 0, name, transaction.
txn=5401000000000000
bad kvs.fence '' EPROTO "empty"
bad kvs.fence "010000000100000000000000000200006162" EPROTO "no transaction"
bad kvs.fence "0000000000000000000000000002000${key}$txn" '(EINVAL|EPROTO)' "of none"
bad kvs.fence "02000000010000000000000000000000$txn" EINVAL "without a name"
bad kvs.fence "02000000020000000000000000020000$key$txn" EPROTO "for two"
bad kvs.fence "02000000010000000000000001020000$key$txn" EPERM "as an instance of the service"
bad kvs.fence "02000000030000000000000001020000$key$txn" EINVAL "for more than all"
bad kvs.fence "020000000100000000000000f0020000$key$txn" EPROTO "unknown flags"

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
