/* check_knock.c - how a reader and a writer greet each other, byte by byte. */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "libstream/knock.h"
#include "libstream/lane.h"
#include "libutil/test/suite.h"

START_TEST(golden)
{
    struct knock k = {.want = {.policy = KNOCK_SAMPLE,
                               .every = 3,
                               .depth = 7,
                               .bytes = 0x0102030405060708,
                               .reader = 0x1112131415161718,
                               .seen = 0x2122232425262728,
                               .off = true}};
    struct knock out;
    unsigned char buf[KNOCK_MAX];
    static const unsigned char head[32] =
        "FLUXSTRM\4\0\0\0\4\0\0\0\3\0\0\0\7\0\0\0\x8\7\6\5\4\3\2\1";

    for (int i = 0; i < KNOCK_KEY_LEN; i++)
        k.key[i] = (unsigned char)(200 + i);
    ck_assert_uint_eq(knock_encode(&k, buf), KNOCK_LEN);
    ck_assert_mem_eq(buf, head, sizeof(head));
    ck_assert_mem_eq(buf + 32, k.key, KNOCK_KEY_LEN);
    ck_assert_mem_eq(buf + 64, "\x18\x17\x16\x15\x14\x13\x12\x11\1\0\0\0\0\0\0\0", 16);
    ck_assert_mem_eq(buf + 80, "\x28\x27\x26\x25\x24\x23\x22\x21", 8);
    ck_assert_int_eq(knock_decode(buf, KNOCK_LEN, &out), 0);
    ck_assert_mem_eq(out.key, k.key, KNOCK_KEY_LEN);
    ck_assert(out.want.policy == KNOCK_SAMPLE && out.want.every == 3 && out.want.depth == 7);
    ck_assert(out.want.bytes == k.want.bytes && out.want.reader == k.want.reader && out.want.off);
    ck_assert(out.want.seen == k.want.seen);
}
END_TEST

/* Everything but what was encoded is refused. */
START_TEST(strict)
{
    struct knock k = {.want = {.every = 1, .depth = LANE_SLOTS, .bytes = 5, .reader = 6}};
    struct knock_welcome w = {0, 1 << 20};
    struct knock out;
    struct knock_welcome wout;
    unsigned char buf[KNOCK_MAX];
    unsigned char wbuf[KNOCK_WELCOME_LEN];

    knock_encode(&k, buf);
    for (size_t len = 0; len < KNOCK_LEN; len++)
        ck_assert_int_eq(knock_decode(buf, len, &out), -1);
    for (size_t i = 0; i < KNOCK_LEN; i++) {
        if (i == 24) /* any number of bytes, capability and number of the reader */
            i = 72;
        if (i == 80) /* any step but those that are too large */
            i = 87;
        buf[i] ^= 0x80;
        errno = 0;
        ck_assert_int_eq(knock_decode(buf, KNOCK_LEN, &out), -1);
        ck_assert_int_eq(errno, EPROTO);
        buf[i] ^= 0x80;
    }
    ck_assert_int_eq(knock_decode(buf, KNOCK_LEN, &out), 0);
    knock_welcome_encode(&w, wbuf);
    ck_assert_int_eq(knock_welcome_decode(wbuf, sizeof(wbuf), &wout), 0);
    ck_assert(wout.errnum == 0 && wout.size == w.size);
    ck_assert_int_eq(knock_welcome_decode(wbuf, sizeof(wbuf) - 1, &wout), -1);
    for (size_t i = 0; i < KNOCK_WELCOME_LEN; i++) {
        if (i == 12 || (i >= 16 && i < 24))
            continue;
        wbuf[i] ^= 0x80;
        ck_assert_int_eq(knock_welcome_decode(wbuf, sizeof(wbuf), &wout), -1);
        wbuf[i] ^= 0x80;
    }
}
END_TEST

START_TEST(policies)
{
    struct knock_want w;
    errmsg_t err;

    knock_want_init(&w);
    ck_assert(w.policy == KNOCK_BLOCK && w.every == 1 && w.depth == LANE_SLOTS);
    ck_assert_int_eq(knock_policy_parse(&w, "sample:12", &err), 0);
    ck_assert(w.policy == KNOCK_SAMPLE && w.every == 12);
    ck_assert_int_eq(knock_policy_parse(&w, "latest", &err), 0);
    ck_assert(w.policy == KNOCK_LATEST && w.every == 1);
    ck_assert_int_eq(knock_policy_parse(&w, "drop-oldest", &err), 0);
    ck_assert_int_eq(w.policy, KNOCK_DROP_OLDEST);
    ck_assert_int_eq(knock_policy_parse(&w, "sample:0", &err), -1);
    ck_assert_int_eq(knock_policy_parse(&w, "sample:x", &err), -1);
    ck_assert_int_eq(knock_policy_parse(&w, "never", &err), -1);
    ck_assert_str_eq(err.text, "'never' is not a policy of a stream: use block, drop-oldest, "
                               "drop-newest, latest or sample:K");
}
END_TEST

/* A member of a group. */
START_TEST(groups)
{
    struct knock k = {.key = "0123456789"};
    struct knock out;
    unsigned char buf[KNOCK_MAX];
    char name[KNOCK_VAR_MAX + 2];
    errmsg_t err;

    knock_want_init(&k.want);
    memset(name, 'x', sizeof(name));
    name[KNOCK_VAR_MAX + 1] = '\0';
    ck_assert_int_eq(knock_group_set(&k.want, name, NULL, &err), -1);
    ck_assert_str_eq(err.text, "the name of a group has 1 to 63 characters without blanks");
    ck_assert_int_eq(knock_group_set(&k.want, "", NULL, &err), -1);
    ck_assert_int_eq(knock_group_set(&k.want, "a b", NULL, &err), -1);
    ck_assert_int_eq(knock_group_set(&k.want, "g", name, &err), -1);
    ck_assert_int_eq(knock_group_set(&k.want, "g", "", &err), -1);
    k.want.policy = KNOCK_LATEST;
    ck_assert_int_eq(knock_group_set(&k.want, "g", NULL, &err), -1);
    k.want.policy = KNOCK_BLOCK;
    name[KNOCK_VAR_MAX] = '\0';
    ck_assert_int_eq(knock_group_set(&k.want, name + KNOCK_VAR_MAX - KNOCK_GROUP_MAX, name, &err),
                     0);
    ck_assert_uint_eq(k.want.depth, 1);
    ck_assert_int_eq(knock_by_set(&k.want, "records", &err), -1);
    ck_assert_str_eq(err.text,
                     "'records' is not what the members of a group share: use step or record");
    ck_assert_int_eq(knock_by_set(&k.want, "record", &err), 0);
    ck_assert_uint_eq(knock_encode(&k, buf), KNOCK_MAX);
    ck_assert_mem_eq(buf + 76, "\2\0\0\0", 4);
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), 0);
    ck_assert(out.want.by_record && !out.want.follow);
    buf[76] = 4;
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), -1);
    buf[76] = 2;
    ck_assert_int_eq(knock_decode(buf, KNOCK_LEN, &out), -1); /* for members of groups */
    ck_assert_int_eq(knock_by_set(&k.want, "step", &err), 0);
    ck_assert_uint_eq(knock_encode(&k, buf), KNOCK_MAX);
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), 0);
    ck_assert_str_eq(out.want.group, k.want.group);
    ck_assert_str_eq(out.want.key, k.want.key);
    ck_assert_mem_eq(out.key, k.key, KNOCK_KEY_LEN);
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX - 1, &out), -1);
    ck_assert_int_eq(knock_group_set(&k.want, "g", NULL, &err), 0);
    k.want.hold = 513;
    knock_encode(&k, buf);
    ck_assert_mem_eq(buf + KNOCK_MAX - 8, "\1\2\0\0\0\0\0\0", 8);
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), 0);
    ck_assert_uint_eq(out.want.hold, 513);
    k.want.hold = 0;
    knock_encode(&k, buf);
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), 0);
    for (size_t i = KNOCK_LEN + 1; i < KNOCK_MAX; i++) {
        if (i == KNOCK_MAX - 8) /* any time that the group is held */
            i += 2;
        if (i == KNOCK_MAX - 4) /* a size: then it is a team */
            i++;
        buf[i] = ' ';
        ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), -1);
        buf[i] = 0;
    }
    buf[12] = KNOCK_DROP_NEWEST;
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), -1);
    buf[12] = KNOCK_BLOCK;
    buf[KNOCK_LEN] = 0;
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), -1);
}
END_TEST

/* A member of a team. */
START_TEST(teams)
{
    static const unsigned char names[KNOCK_NAMES_LEN] = "solver";
    struct knock k = {.key = "0123456789"};
    struct knock out;
    unsigned char buf[KNOCK_MAX];
    errmsg_t err;

    knock_want_init(&k.want);
    k.want.policy = KNOCK_LATEST;
    k.want.off = true;
    ck_assert_int_eq(knock_team_set(&k.want, "solver", 258, 1024, &err), 0);
    ck_assert_uint_eq(knock_encode(&k, buf), KNOCK_MAX);
    ck_assert_mem_eq(buf + KNOCK_LEN, names, sizeof(names));
    ck_assert_mem_eq(buf + KNOCK_MAX - 8, "\2\1\0\0\0\4\0\0", 8);
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), 0);
    ck_assert_str_eq(out.want.team, "solver");
    ck_assert_str_eq(out.want.group, "");
    ck_assert(out.want.rank == 258 && out.want.size == 1024 && out.want.off);
    for (size_t i = KNOCK_LEN; i < KNOCK_MAX; i++) {
        if (i == KNOCK_LEN + 7) /* any name, and any rank that is below the size */
            i = KNOCK_LEN + sizeof(out.want.team);
        if (i == KNOCK_MAX - 8)
            i += 2;
        buf[i] ^= 0x80;
        ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), -1);
        buf[i] ^= 0x80;
    }
    buf[KNOCK_LEN] = 0;
    ck_assert_int_eq(knock_decode(buf, KNOCK_MAX, &out), -1);
}
END_TEST

START_TEST(keys)
{
    unsigned char a[KNOCK_KEY_LEN] = {0};
    unsigned char b[KNOCK_KEY_LEN] = {0};

    ck_assert(knock_key_equal(a, b));
    for (int i = 0; i < KNOCK_KEY_LEN; i++) {
        b[i] = 1;
        ck_assert(!knock_key_equal(a, b));
        b[i] = 0;
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("knock", golden, strict, policies, groups, teams, keys);
}
