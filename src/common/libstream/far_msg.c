/* far_msg.c - the messages of a connection between hosts (format: doc/stream-format.rst).
 *
 * Decoding is strict: a table lists, for each type of message, the numbers that are used and the
 * maximum length of the payload; all other numbers must be 0.  Nothing here allocates memory, and a
 * decoded message contains the length of its payload, so memory is allocated only for valid
 * messages.
 *
 * Failure: EPROTO.
 */
#include "config.h"
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "libstream/far_msg.h"
#include "libstream/lane.h"
#include "libutil/invariant.h"
#include "libutil/le.h"

#define FAR_VERSION 1
#define FLAG_SECURE 1u
#define FLAG_OFF 2u
#define FLAG_RESUME 4u
#define FLAG_FOLLOW 8u
#define FLAG_RECORD 16u
#define FLAGS (FLAG_SECURE | FLAG_OFF | FLAG_RESUME | FLAG_FOLLOW | FLAG_RECORD)
#define HELLO_NAMES 96
#define HELLO_PROVED (HELLO_NAMES + KNOCK_NAMES_LEN) /* bytes before the proof */
#define WELCOME_PROVED 32

_Static_assert(HELLO_PROVED + FAR_KEY_LEN == FAR_HELLO_LEN, "the proof is the end");

static const char magic[8] = {'F', 'L', 'U', 'X', 'S', 'T', 'R', 'F'};

static int inval(void)
{
    errno = EPROTO;
    return -1;
}

static void head_put(unsigned char *buf, size_t len)
{
    memset(buf, 0, len);
    memcpy(buf, magic, sizeof(magic));
    le_put32(buf + 8, FAR_VERSION);
}

static bool head_ok(const unsigned char *buf)
{
    return memcmp(buf, magic, sizeof(magic)) == 0 && le_get32(buf + 8) == FAR_VERSION;
}

static void random_put(unsigned char *buf, size_t len)
{
    while (getrandom(buf, len, 0) != (ssize_t)len) /* at most 256 bytes: only signals delay it */
        ;
}

/* --- joining --- */

void far_greeting_make(unsigned char greeting[FAR_GREETING_LEN])
{
    head_put(greeting, FAR_GREETING_LEN);
    random_put(greeting + 16, 32);
}

int far_greeting_check(const unsigned char greeting[FAR_GREETING_LEN])
{
    return head_ok(greeting) && le_get32(greeting + 12) == 0 ? 0 : inval();
}

static void hello_prove(unsigned char proof[FAR_KEY_LEN], const unsigned char *hello,
                        const unsigned char *secret, const unsigned char *greeting)
{
    far_key_hash(proof, secret, "hello", greeting, FAR_GREETING_LEN, hello, HELLO_PROVED);
}

void far_hello_make(unsigned char hello[FAR_HELLO_LEN], const struct far_hello *h,
                    const unsigned char *secret, const unsigned char greeting[FAR_GREETING_LEN])
{
    head_put(hello, FAR_HELLO_LEN);
    le_put32(hello + 12, (h->secure ? FLAG_SECURE : 0) | (h->want.off ? FLAG_OFF : 0) |
                             (h->resume ? FLAG_RESUME : 0) | (h->want.follow ? FLAG_FOLLOW : 0) |
                             (h->want.by_record ? FLAG_RECORD : 0));
    le_put32(hello + 16, (uint32_t)h->want.policy);
    le_put32(hello + 20, h->want.every);
    le_put32(hello + 24, h->want.depth);
    le_put32(hello + 28, knock_number(&h->want) | h->want.size << 16);
    le_put64(hello + 32, h->want.bytes);
    le_put64(hello + 40, h->reader);
    le_put64(hello + 48, h->expires);
    le_put64(hello + 56, h->resume ? h->have : h->want.seen);
    random_put(hello + 64, 32);
    knock_names_encode(&h->want, hello + HELLO_NAMES);
    hello_prove(hello + HELLO_PROVED, hello, secret, greeting);
}

int far_hello_read(const unsigned char hello[FAR_HELLO_LEN], struct far_hello *h)
{
    *h = (struct far_hello){.secure = le_get32(hello + 12) & FLAG_SECURE,
                            .want = {.policy = (enum knock_policy)le_get32(hello + 16),
                                     .every = le_get32(hello + 20),
                                     .depth = le_get32(hello + 24),
                                     .size = le_get32(hello + 28) >> 16,
                                     .bytes = le_get64(hello + 32),
                                     .reader = le_get64(hello + 40),
                                     .off = le_get32(hello + 12) & FLAG_OFF,
                                     .follow = le_get32(hello + 12) & FLAG_FOLLOW,
                                     .by_record = le_get32(hello + 12) & FLAG_RECORD},
                            .reader = le_get64(hello + 40),
                            .expires = le_get64(hello + 48),
                            .resume = le_get32(hello + 12) & FLAG_RESUME};
    *(h->resume ? &h->have : &h->want.seen) = le_get64(hello + 56);
    if (!head_ok(hello) || le_get32(hello + 12) & ~FLAGS || !knock_want_ok(&h->want) ||
        knock_names_decode(hello + HELLO_NAMES, le_get32(hello + 28) & 0xffff, &h->want) < 0)
        return inval();
    return 0;
}

bool far_hello_proves(const unsigned char hello[FAR_HELLO_LEN], const unsigned char *secret,
                      const unsigned char greeting[FAR_GREETING_LEN])
{
    unsigned char proof[FAR_KEY_LEN];

    hello_prove(proof, hello, secret, greeting);
    return far_key_equal(proof, hello + HELLO_PROVED);
}

static void welcome_prove(unsigned char proof[FAR_KEY_LEN], const unsigned char *welcome,
                          const unsigned char *secret, const unsigned char *hello)
{
    far_key_hash(proof, secret, "welcome", hello, FAR_HELLO_LEN, welcome, WELCOME_PROVED);
}

void far_welcome_make(unsigned char welcome[FAR_WELCOME_LEN], const struct far_welcome *w,
                      const unsigned char *secret, const unsigned char hello[FAR_HELLO_LEN])
{
    head_put(welcome, FAR_WELCOME_LEN);
    le_put32(welcome + 12, (uint32_t)w->errnum);
    le_put32(welcome + 16, w->secure ? FLAG_SECURE : 0);
    welcome_prove(welcome + WELCOME_PROVED, welcome, secret, hello);
}

/* Whoever could forge it could close the connection as well. */
void far_refusal_make(unsigned char welcome[FAR_WELCOME_LEN])
{
    head_put(welcome, FAR_WELCOME_LEN);
    le_put32(welcome + 12, EACCES);
}

int far_welcome_read(const unsigned char welcome[FAR_WELCOME_LEN], struct far_welcome *w,
                     const unsigned char *secret, const unsigned char hello[FAR_HELLO_LEN])
{
    unsigned char proof[FAR_KEY_LEN];
    unsigned char refusal[FAR_WELCOME_LEN];

    far_refusal_make(refusal);
    if (memcmp(welcome, refusal, sizeof(refusal)) == 0) {
        *w = (struct far_welcome){.errnum = EACCES};
        return 0;
    }
    welcome_prove(proof, welcome, secret, hello);
    if (!far_key_equal(proof, welcome + WELCOME_PROVED) || !head_ok(welcome) ||
        le_get32(welcome + 12) > 4095 || le_get32(welcome + 16) & ~FLAG_SECURE ||
        le_get32(welcome + 20) != 0 || le_get64(welcome + 24) != 0)
        return inval();
    *w = (struct far_welcome){.errnum = (int)le_get32(welcome + 12),
                              .secure = le_get32(welcome + 16) & FLAG_SECURE};
    return 0;
}

void far_keys_make(struct far_keys *keys, const unsigned char *secret,
                   const unsigned char hello[FAR_HELLO_LEN],
                   const unsigned char greeting[FAR_GREETING_LEN])
{
    far_key_hash(keys->to_writer, secret, "to the writer", greeting, FAR_GREETING_LEN, hello,
                 FAR_HELLO_LEN);
    far_key_hash(keys->to_reader, secret, "to the reader", greeting, FAR_GREETING_LEN, hello,
                 FAR_HELLO_LEN);
}

/* --- messages --- */

enum { NUMBER = 1, STEP = 2, LEN = 4 };

/* The numbers and the payload of each type of message. */
static const struct {
    bool of_writer;
    unsigned uses;
    uint32_t payload; /* maximum size */
} types[] = {
    [FAR_STEP] = {true, NUMBER | STEP | LEN, FAR_FIRST_MAX},
    [FAR_AGAIN] = {true, NUMBER | STEP | LEN, 0},
    [FAR_NOTHING] = {true, 0, 0},
    [FAR_DATA] = {true, NUMBER | LEN, 0},
    [FAR_END] = {true, NUMBER, 0},
    [FAR_TAKE] = {false, 0, 0},
    [FAR_WAIT] = {false, 0, 0},
    [FAR_RELEASE] = {false, NUMBER, 0},
    [FAR_BYTES] = {false, NUMBER | STEP | LEN, 0},
    [FAR_BOX] = {false, NUMBER | STEP, FAR_BOX_MAX},
    [FAR_PINNED] = {true, NUMBER, FAR_PINNED_MAX},
    [FAR_CLAIM] = {false, STEP | LEN, 0},
    [FAR_NOTE] = {true, STEP | LEN, 0},
    [FAR_PARTS] = {true, STEP, 0},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

void far_msg_encode(const struct far_msg *m, unsigned char head[FAR_HEAD_LEN])
{
    INVARIANT(1, m->type > 0 && m->type < TYPES && m->payload <= types[m->type].payload);
    le_put32(head, (uint32_t)m->type);
    le_put32(head + 4, m->payload);
    le_put64(head + 8, m->number);
    le_put64(head + 16, m->step);
    le_put64(head + 24, m->len);
}

int far_msg_decode(const unsigned char head[FAR_HEAD_LEN], bool from_writer, struct far_msg *m)
{
    uint32_t type = le_get32(head);
    unsigned unused;

    *m = (struct far_msg){.type = (enum far_type)type,
                          .payload = le_get32(head + 4),
                          .number = le_get64(head + 8),
                          .step = le_get64(head + 16),
                          .len = le_get64(head + 24)};
    if (type == 0 || type >= TYPES || types[type].of_writer != from_writer ||
        m->payload > types[type].payload)
        return inval();
    unused = ~types[type].uses;
    if ((unused & NUMBER && m->number != 0) || (unused & STEP && m->step != 0) ||
        (unused & LEN && m->len != 0))
        return inval();
    if ((type == FAR_STEP && m->payload > m->len) || (type == FAR_BOX && m->payload % 24 != 0) ||
        (type == FAR_END && (m->number < LANE_CLOSED || m->number > LANE_FAILED)))
        return inval();
    return 0;
}
