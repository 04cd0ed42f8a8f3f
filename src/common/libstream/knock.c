/* knock.c - the messages by which a reader joins a writer of its host.
 *
 * Numbers are little-endian.  The socket preserves message boundaries (SOCK_SEQPACKET), so a
 * message is never incomplete.
 *
 *    knock, 88 bytes, reader to writer:
 *       0  "FLUXSTRM"     8  version, 4     12  policy    16  every    20  depth
 *      24  bytes         32  capability, 32 bytes
 *      64  number of the reader           72  1: it is off, else 0
 *      76  of a member of a group the sum of 1: another writer hands out the steps, and 2: members
 *          divide the records of a step; else 0
 *      80  last complete step that it has had of writers before, plus 1, below 2^62; 0: none
 *    knock of a member of a group, 288 bytes: the same, with policy block, and
 *      88  group, 64 bytes         152  key, 128 bytes: names, filled with zeros
 *     280  seconds that the group is held, at most 65535               284  0 (4 bytes)
 *    knock of a member of a team, 288 bytes: the same, with any policy, and
 *      88  team, 64 bytes: a name, filled with zeros                    152  0 (128 bytes)
 *     280  rank          284  size of the team, above the rank, at most 1024
 *    claim, 16 bytes, of a member that has joined a writer that does not hand out the steps:
 *       0  step, or 2^64 - 1               8  floor
 *    welcome, 40 bytes, with the descriptor of the memory unless errnum is not 0:
 *       0  "FLUXSTRM"     8  version, 4     12  errnum    16  size
 *      24  0 (16 bytes)
 *
 * Decoding is strict: another length, version or magic number, a value out of range, and other
 * bytes in place of zeros are errors.
 *
 * Failure: EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "libstream/knock.h"
#include "libstream/lane.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

#define KNOCK_VERSION 4
#define SEEN_MAX ((uint64_t)1 << 62)
#define DEFAULT_BYTES ((uint64_t)64 << 20)

_Static_assert(sizeof(((struct knock_want *)0)->group) + sizeof(((struct knock_want *)0)->key) ==
                   KNOCK_NAMES_LEN,
               "the names fill the message");

static const char magic[8] = {'F', 'L', 'U', 'X', 'S', 'T', 'R', 'M'};

void knock_want_init(struct knock_want *w)
{
    *w = (struct knock_want){
        .policy = KNOCK_BLOCK, .every = 1, .depth = LANE_SLOTS, .bytes = DEFAULT_BYTES};
}

static const char *const policies[] = {
    [KNOCK_BLOCK] = "block",
    [KNOCK_DROP_OLDEST] = "drop-oldest",
    [KNOCK_DROP_NEWEST] = "drop-newest",
    [KNOCK_LATEST] = "latest",
};

int knock_policy_parse(struct knock_want *w, const char *text, errmsg_t *err)
{
    for (unsigned i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (strcmp(text, policies[i]) == 0) {
            w->policy = (enum knock_policy)i;
            w->every = 1;
            return 0;
        }
    }
    if (str_starts(text, "sample:") && str2u32(text + strlen("sample:"), &w->every) == 0 &&
        w->every > 0) {
        w->policy = KNOCK_SAMPLE;
        return 0;
    }
    return errmsg_fail(err, EINVAL,
                       "'%.40s' is not a policy of a stream: use block, drop-oldest, drop-newest, "
                       "latest or sample:K",
                       text);
}

/* 1 to `max` bytes of printable ASCII without blanks. */
static bool name_ok(const char *name, size_t max)
{
    size_t n = 0;

    while (name[n] > ' ' && name[n] < 127 && n <= max)
        n++;
    return n > 0 && n <= max && name[n] == '\0';
}

int knock_group_set(struct knock_want *w, const char *group, const char *key, errmsg_t *err)
{
    if (!name_ok(group, KNOCK_GROUP_MAX))
        return errmsg_fail(err, EINVAL, "the name of a group has 1 to %d characters without blanks",
                           KNOCK_GROUP_MAX);
    if (key && !name_ok(key, KNOCK_VAR_MAX))
        return errmsg_fail(err, EINVAL, "'%.127s' is not the name of a variable", key);
    if (w->policy != KNOCK_BLOCK)
        return errmsg_fail(err, EINVAL, "the policy of a group is block");
    strcpy(w->group, group);
    strcpy(w->key, key ? key : "");
    w->depth = 1;
    return 0;
}

int knock_by_set(struct knock_want *w, const char *by, errmsg_t *err)
{
    w->by_record = strcmp(by, "record") == 0;
    if (!w->by_record && strcmp(by, "step") != 0)
        return errmsg_fail(err, EINVAL,
                           "'%.40s' is not what the members of a group share: use step or record",
                           by);
    return 0;
}

int knock_team_set(struct knock_want *w, const char *team, uint32_t rank, uint32_t size,
                   errmsg_t *err)
{
    if (!name_ok(team, KNOCK_GROUP_MAX))
        return errmsg_fail(err, EINVAL, "the name of a team has 1 to %d characters without blanks",
                           KNOCK_GROUP_MAX);
    if (size == 0 || size > KNOCK_TEAM_SIZE_MAX || rank >= size)
        return errmsg_fail(err, EINVAL,
                           "rank %u of %u readers is not possible: a team has at most %d, and the "
                           "first one has rank 0",
                           rank, size, KNOCK_TEAM_SIZE_MAX);
    strcpy(w->team, team);
    w->rank = rank;
    w->size = size;
    return 0;
}

int knock_refused(const struct knock_want *w, int errnum, errmsg_t *err)
{
    if (errnum == EEXIST && w->size > 0)
        return errmsg_fail(err, EEXIST, "team '%s' of the stream has a reader of rank %u already",
                           w->team, w->rank);
    if (errnum == EINVAL && w->size > 0)
        return errmsg_fail(err, EINVAL,
                           "team '%s' of the stream has another size than %u, or another policy: "
                           "all members have the same",
                           w->team, w->size);
    if (errnum == EINVAL && w->group[0] != '\0')
        return errmsg_fail(err, EINVAL,
                           "group '%s' of the stream does not share the work by %s: all members "
                           "share it in the same way",
                           w->group, w->by_record ? "record" : "step");
    if (errnum == EEXIST)
        return errmsg_fail(err, EEXIST,
                           "group '%s' of the stream has another key than '%s': all members have "
                           "the same",
                           w->group, w->key);
    return errmsg_fail(err, errnum, "the writer does not admit this reader: %s", strerror(errnum));
}

bool knock_want_ok(const struct knock_want *w)
{
    return (uint32_t)w->policy <= KNOCK_SAMPLE && w->every > 0 &&
           (w->policy == KNOCK_SAMPLE || w->every == 1) && w->depth > 0 && w->depth <= LANE_SLOTS &&
           w->seen < SEEN_MAX;
}

static void head_put(unsigned char *buf)
{
    memcpy(buf, magic, sizeof(magic));
    le_put32(buf + 8, KNOCK_VERSION);
}

static bool head_ok(const unsigned char *buf)
{
    return memcmp(buf, magic, sizeof(magic)) == 0 && le_get32(buf + 8) == KNOCK_VERSION;
}

size_t knock_encode(const struct knock *k, unsigned char buf[KNOCK_MAX])
{
    head_put(buf);
    le_put32(buf + 12, (uint32_t)k->want.policy);
    le_put32(buf + 16, k->want.every);
    le_put32(buf + 20, k->want.depth);
    le_put64(buf + 24, k->want.bytes);
    memcpy(buf + 32, k->key, KNOCK_KEY_LEN);
    le_put64(buf + 64, k->want.reader);
    le_put32(buf + 72, k->want.off);
    le_put32(buf + 76, k->want.follow | k->want.by_record << 1);
    le_put64(buf + 80, k->want.seen);
    if (k->want.group[0] == '\0' && k->want.size == 0)
        return KNOCK_LEN;
    knock_names_encode(&k->want, buf + KNOCK_LEN);
    le_put32(buf + KNOCK_LEN + KNOCK_NAMES_LEN, knock_number(&k->want));
    le_put32(buf + KNOCK_LEN + KNOCK_NAMES_LEN + 4, k->want.size);
    return KNOCK_MAX;
}

uint32_t knock_number(const struct knock_want *w)
{
    return w->size > 0 ? w->rank : w->hold;
}

void knock_names_encode(const struct knock_want *w, unsigned char buf[KNOCK_NAMES_LEN])
{
    memset(buf, 0, KNOCK_NAMES_LEN);
    strcpy((char *)buf, w->size > 0 ? w->team : w->group);
    strcpy((char *)buf + sizeof(w->group), w->key);
}

/* Decode a name that is padded with zeros. */
static bool name_get(char *name, const unsigned char *buf, size_t size)
{
    memcpy(name, buf, size);
    for (size_t i = strnlen(name, size); i < size; i++) {
        if (name[i] != '\0')
            return false;
    }
    return name[0] == '\0' || name_ok(name, size - 1);
}

int knock_names_decode(const unsigned char buf[KNOCK_NAMES_LEN], uint32_t number,
                       struct knock_want *w)
{
    bool ok = name_get(w->size > 0 ? w->team : w->group, buf, sizeof(w->group)) &&
              name_get(w->key, buf + sizeof(w->group), sizeof(w->key));

    if (ok &&
        (w->group[0] != '\0' ? w->policy == KNOCK_BLOCK && !w->off
                             : w->key[0] == '\0' && !w->follow && !w->by_record) &&
        (w->size > 0 ? w->team[0] != '\0' && number < w->size && w->size <= KNOCK_TEAM_SIZE_MAX
                     : number <= (w->group[0] != '\0' ? KNOCK_HOLD_MAX : 0))) {
        *(w->size > 0 ? &w->rank : &w->hold) = number;
        return 0;
    }
    errno = EPROTO;
    return -1;
}

int knock_decode(const unsigned char *buf, size_t len, struct knock *k)
{
    uint32_t number = 0;

    if ((len != KNOCK_LEN && len != KNOCK_MAX) || !head_ok(buf))
        goto inval;
    k->want = (struct knock_want){.policy = (enum knock_policy)le_get32(buf + 12),
                                  .every = le_get32(buf + 16),
                                  .depth = le_get32(buf + 20),
                                  .bytes = le_get64(buf + 24),
                                  .reader = le_get64(buf + 64),
                                  .seen = le_get64(buf + 80),
                                  .off = le_get32(buf + 72) == 1,
                                  .follow = le_get32(buf + 76) & 1,
                                  .by_record = le_get32(buf + 76) & 2};
    if (len == KNOCK_MAX) {
        number = le_get32(buf + KNOCK_LEN + KNOCK_NAMES_LEN);
        k->want.size = le_get32(buf + KNOCK_LEN + KNOCK_NAMES_LEN + 4);
    }
    if (!knock_want_ok(&k->want) || le_get32(buf + 72) > 1 || le_get32(buf + 76) > 3 ||
        (len == KNOCK_LEN && (k->want.follow || k->want.by_record)) ||
        (len == KNOCK_MAX && (knock_names_decode(buf + KNOCK_LEN, number, &k->want) < 0 ||
                              (k->want.group[0] == '\0' && k->want.size == 0))))
        goto inval;
    memcpy(k->key, buf + 32, KNOCK_KEY_LEN);
    return 0;
inval:
    errno = EPROTO;
    return -1;
}

void knock_claim_encode(const struct knock_claim *c, unsigned char buf[KNOCK_CLAIM_LEN])
{
    le_put64(buf, c->step);
    le_put64(buf + 8, c->floor);
}

void knock_claim_decode(const unsigned char buf[KNOCK_CLAIM_LEN], struct knock_claim *c)
{
    *c = (struct knock_claim){.step = le_get64(buf), .floor = le_get64(buf + 8)};
}

bool knock_key_equal(const unsigned char *a, const unsigned char *b)
{
    unsigned char differ = 0;

    for (int i = 0; i < KNOCK_KEY_LEN; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

void knock_welcome_encode(const struct knock_welcome *w, unsigned char buf[KNOCK_WELCOME_LEN])
{
    head_put(buf);
    le_put32(buf + 12, (uint32_t)w->errnum);
    le_put64(buf + 16, w->size);
    le_put64(buf + 24, 0);
    le_put64(buf + 32, 0);
}

int knock_welcome_decode(const unsigned char *buf, size_t len, struct knock_welcome *w)
{
    if (len != KNOCK_WELCOME_LEN || !head_ok(buf) || le_get32(buf + 12) > 4095 ||
        le_get64(buf + 24) != 0 || le_get64(buf + 32) != 0) {
        errno = EPROTO;
        return -1;
    }
    *w = (struct knock_welcome){.errnum = (int)le_get32(buf + 12), .size = le_get64(buf + 16)};
    return 0;
}
