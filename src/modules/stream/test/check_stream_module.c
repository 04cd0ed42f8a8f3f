/* check_stream_module.c - the bounds on the clients of the module stream, the work that it does per
 * turn, and the notices of writers and readers: an instance on a handle and a clock of the test. */
#include "config.h"
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>

#include "libflux/module.h"
#include "libflux/slice.h"
#include "libflux/test/fake.h"
#include "libflux/test/still.h"
#include "libutil/hex.h"
#include "libutil/hmap.h"
#include "libutil/test/suite.h"

extern const struct flux_module flux_module_stream;

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PEERS_MAX 20000

/* The sender of a request, by its match tag. */
struct peer {
    enum { NONE, WRITER, READER } kind;
    uint32_t client;
    uint32_t rank;
    uint64_t number; /* number of a writer; 0: unknown */
    uint64_t last;   /* the largest number of a writer in the responses to a reader */
    unsigned told;   /* number of responses, */
    unsigned items;  /* and of the items in them */
    hmap_t *knows;   /* a reader: the writers; a writer: the readers and their demands */
    bool paused;
    int errnum; /* error that has ended the request */
};

struct bed {
    struct fake f;
    struct still still;
    void *ctx;
    int errnum; /* error of the last response; -1: none */
    char text[400];
    struct peer *peers;
    uint32_t tag;    /* match tag of the last request */
    uint32_t answer; /* match tag of the last response */
    unsigned did;    /* number of responses and of the items in them */
    json_t *list;    /* the last list */
};

static void wants(hmap_t *knows, const json_t *o)
{
    static int on, off;
    uint64_t reader = (uint64_t)json_integer_value(json_object_get(o, "reader"));

    ck_assert_int_eq(
        hmap_put_u64(knows, reader, json_is_true(json_object_get(o, "off")) ? &off : &on), 0);
    ck_assert_ptr_nonnull(json_object_get(o, "policy"));
}

/* Take a response to a reader: it names a writer once, and the end only of a known writer. */
static void take_reader(struct peer *p, const json_t *o)
{
    const json_t *gone = json_object_get(o, "gone");
    const json_t *writers = json_object_get(o, "writers");
    const json_t *item;
    size_t i;

    ck_assert(json_array_size(gone) + json_array_size(writers) > 0 ||
              json_object_get(o, "attached"));
    json_array_foreach(gone, i, item)
    {
        uint64_t n = (uint64_t)json_integer_value(json_object_get(item, "writer"));

        ck_assert_ptr_nonnull(hmap_take_u64(p->knows, n));
    }
    json_array_foreach(writers, i, item)
    {
        uint64_t n = (uint64_t)json_integer_value(json_object_get(item, "writer"));

        ck_assert_uint_gt(n, p->last);
        p->last = n;
        ck_assert_int_eq(hmap_put_u64(p->knows, n, p), 0);
    }
    p->items += (unsigned)(json_array_size(gone) + json_array_size(writers));
}

static void take_writer(struct peer *p, const json_t *o)
{
    const json_t *item;
    size_t i;

    p->number = (uint64_t)json_integer_value(json_object_get(o, "writer"));
    p->paused = json_is_true(json_object_get(o, "paused"));
    json_array_foreach(json_object_get(o, "gone"), i, item)
    {
        (void)hmap_take_u64(p->knows, (uint64_t)json_integer_value(item));
    }
    json_array_foreach(json_object_get(o, "readers"), i, item)
    {
        wants(p->knows, item);
    }
    p->items += (unsigned)(json_array_size(json_object_get(o, "gone")) +
                           json_array_size(json_object_get(o, "readers")));
}

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    const char *text = flux_msg_json(msg);
    struct peer *p;
    unsigned before;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        b->errnum = flux_msg_errnum(msg);
        b->answer = flux_msg_matchtag(msg);
        b->did++;
        snprintf(b->text, sizeof(b->text), "%s", text ? text : "");
        p = &b->peers[b->answer];
        if (b->errnum == 0 && (strcmp(flux_msg_topic(msg), "stream.list") == 0 ||
                               strcmp(flux_msg_topic(msg), "stream.readers") == 0)) {
            json_decref(b->list);
            ck_assert_ptr_nonnull(b->list = json_loads(text, 0, NULL));
        }
        if (p->kind != NONE && b->errnum) {
            p->errnum = b->errnum;
        } else if (p->kind != NONE) {
            json_t *o = json_loads(text, 0, NULL);

            ck_assert_ptr_nonnull(o);
            before = p->items;
            p->told++;
            (p->kind == READER ? take_reader : take_writer)(p, o);
            b->did += p->items - before;
            json_decref(o);
        }
    }
    flux_msg_destroy(msg);
}

static struct bed *bed_create(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    errmsg_t err;

    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_nonnull(b->peers = calloc(PEERS_MAX, sizeof(*b->peers)));
    b->f.user = b;
    b->f.hook = sent;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create_ops(&still_ops, &b->still));
    ck_assert_ptr_nonnull(b->f.h = flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, 0, 4, 42));
    (void)fake_ops;
    ck_assert_int_eq(flux_module_stream.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    return b;
}

static void bed_free(struct bed *b)
{
    flux_module_stream.fini(b->f.h, b->ctx);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b->f.sent);
    for (size_t i = 0; i < PEERS_MAX; i++)
        hmap_destroy(b->peers[i].knows);
    json_decref(b->list);
    free(b->peers);
    free(b);
}

/* Send a request of one of several clients.  Returns the errno of the last response, or -1. */
static int ask_tag(struct bed *b, const char *topic, uint32_t client, unsigned flags,
                   const char *json, uint32_t tag)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    ck_assert_ptr_nonnull(msg);
    ck_assert_uint_lt(tag, PEERS_MAX);
    flux_msg_set_flags(msg, flags);
    flux_msg_set_cred(msg, 42, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER);
    flux_msg_set_matchtag(msg, tag);
    ck_assert_int_eq(flux_msg_route_push(msg, 1u << 28 | client), 0);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    return b->errnum;
}

static int ask(struct bed *b, const char *topic, uint32_t client, unsigned flags, const char *json)
{
    return ask_tag(b, topic, client, flags, json, ++b->tag);
}

static void event(struct bed *b, const char *topic, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    flux_msg_set_json(msg, json);
    flux_handle_deliver(b->f.h, msg);
}

static struct peer *peer_new(struct bed *b, int kind, uint32_t client)
{
    struct peer *p = &b->peers[++b->tag];

    p->kind = kind;
    p->client = client;
    ck_assert_ptr_nonnull(p->knows = hmap_create_u64(NULL));
    return p;
}

/* A task of a job (0: none) joins as a writer. */
static int write_task(struct bed *b, uint32_t client, const char *name, uint32_t rank,
                      uint32_t size, uint64_t job)
{
    struct peer *p = peer_new(b, WRITER, client);
    char json[400];

    p->rank = rank;
    snprintf(json, sizeof(json),
             "{\"name\":\"%s\",\"rank\":%u,\"size\":%u,\"host\":\"h\",\"place\":\"p\","
             "\"address\":\"a%u\",\"far\":\"f\",\"key\":\"%s\",\"job\":%" PRIu64 ",\"task\":%u}",
             name, rank, size, rank, KEY, job, rank);
    return ask_tag(b, "stream.write", client, FLUX_MSGF_STREAMING, json, b->tag);
}

static int write_stream(struct bed *b, uint32_t client, const char *name, uint32_t rank,
                        uint32_t size)
{
    return write_task(b, client, name, rank, size, 0);
}

/* Send a request to read.  The number of the reader is its match tag; its place is another one if
 * the tag is even. */
static int read_stream(struct bed *b, uint32_t client, const char *name, const char *onoff)
{
    char json[400];

    (void)peer_new(b, READER, client);
    snprintf(json, sizeof(json),
             "{\"name\":\"%s\",\"reader\":%u,\"place\":\"%s\",\"far\":false,"
             "\"host\":\"h\",\"pid\":1,\"policy\":\"block\",\"onoff\":\"%s\"}",
             name, b->tag, b->tag % 2 ? "p" : "q", onoff);
    return ask_tag(b, "stream.read", client, FLUX_MSGF_STREAMING, json, b->tag);
}

/* The request of a reader with the number of an earlier one. */
static int read_again(struct bed *b, uint32_t client, const char *name, uint32_t number,
                      const char *host)
{
    char json[400];

    (void)peer_new(b, READER, client);
    snprintf(json, sizeof(json),
             "{\"name\":\"%s\",\"reader\":%u,\"place\":\"%s\",\"far\":false,"
             "\"host\":\"%s\",\"pid\":1,\"policy\":\"block\",\"onoff\":\"\"}",
             name, number, number % 2 ? "p" : "q", host);
    return ask_tag(b, "stream.read", client, FLUX_MSGF_STREAMING, json, b->tag);
}

static int define(struct bed *b, uint32_t client, const char *name, size_t len)
{
    char *json = malloc(len + 100);
    int at = snprintf(json, 100, "{\"name\":\"%s\",\"format\":\"", name);
    int rc;

    memset(json + at, 'x', len);
    snprintf(json + at + len, 10, "\"}");
    rc = ask(b, "stream.define", client, 0, json);
    free(json);
    return rc;
}

static void disconnect(struct bed *b, uint32_t client)
{
    ask(b, "stream.disconnect", client, FLUX_MSGF_NORESPONSE, "{}");
}

/* The way from a client is lost. */
static void lose_way(struct bed *b, uint32_t client)
{
    ask(b, "stream.disconnect", client, FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT, "{}");
}

/* Turn the reactor until the module has no work left.  Returns the number of turns.  No turn does
 * more work than fits into a slice, and the end of each listener's turn. */
static unsigned settle(struct bed *b)
{
    unsigned turns = 0;

    while (b->still.n > 0) {
        b->did = 0;
        still_turn(&b->still);
        ck_assert_uint_le(b->did, 2 * FLUX_SLICE_THINGS);
        turns++;
    }
    return turns;
}

/* All formats together are bounded, and the bytes of a stream are given back at its end. */
START_TEST(formats)
{
    struct bed *b = bed_create();
    const size_t each = 512 * 1024;
    char name[20];

    for (unsigned i = 0; i <= 128; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        ck_assert_int_eq(write_stream(b, i, name, 0, 2), 0);
        ck_assert_int_eq(define(b, i, name, each), i < 128 ? 0 : EBUSY);
    }
    ck_assert_ptr_nonnull(strstr(b->text, "'s128' cannot be defined"));
    ck_assert_int_eq(define(b, 0, "s0", each + 1), E2BIG);
    ck_assert_int_eq(define(b, 0, "s0", each), 0);
    ck_assert_int_eq(define(b, 0, "s0", each - 100), 0);
    ck_assert_int_eq(define(b, 128, "s128", 101), EBUSY);
    ck_assert_int_eq(define(b, 128, "s128", 100), 0);
    disconnect(b, 1);
    ck_assert_int_eq(define(b, 128, "s128", each), 0);
    bed_free(b);
}
END_TEST

static int format_of(struct bed *b, const char *name)
{
    char json[60];

    snprintf(json, sizeof(json), "{\"name\":\"%s\"}", name);
    return ask(b, "stream.format", 9, 0, json);
}

/* Define a format of records with this text, or another one's id; or ask for that. */
static int records_of(struct bed *b, uint32_t client, const char *topic, const char *text,
                      bool other)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char id[17], json[200];

    crypto_hash_sha256(hash, (const unsigned char *)text, strlen(text));
    hash[7] ^= other;
    *hex_encode(id, hash, 8) = '\0';
    if (strcmp(topic, "stream.define") == 0)
        snprintf(json, sizeof(json), "{\"name\":\"s\",\"format\":\"%s\",\"id\":\"%s\"}", text, id);
    else
        snprintf(json, sizeof(json), "{\"name\":\"s\",\"id\":\"%s\"}", id);
    return ask(b, topic, client, 0, json);
}

/* Formats of records are found by their ids, also those of earlier groups, as long as there is room
 * for them. */
START_TEST(record_formats)
{
    struct bed *b = bed_create();
    char text[20];

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0);
    read_stream(b, 9, "s", "");
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", false), ENODATA);
    ck_assert_int_eq(define(b, 1, "s", 10), 0);
    ck_assert_int_eq(records_of(b, 1, "stream.define", "f0", true), EINVAL);
    ck_assert_ptr_nonnull(strstr(b->text, "does not have the id"));
    for (unsigned i = 0; i <= 256; i++) {
        snprintf(text, sizeof(text), "f%u", i);
        ck_assert_int_eq(records_of(b, 1, "stream.define", text, false), i < 256 ? 0 : EBUSY);
    }
    ck_assert_int_eq(records_of(b, 1, "stream.define", "f7", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", true), ENODATA);
    ck_assert_int_eq(format_of(b, "s"), 0);
    disconnect(b, 1);
    ck_assert_int_eq(write_stream(b, 2, "s", 0, 1), 0);
    ck_assert_int_eq(records_of(b, 2, "stream.define", "f0", false), 0); /* is used again, */
    ck_assert_int_eq(records_of(b, 2, "stream.define", "new", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f1", false), ENODATA); /* not this one */
    ck_assert_int_eq(records_of(b, 9, "stream.format", "new", false), 0);
    disconnect(b, 2);
    disconnect(b, 9);
    bed_free(b);
}
END_TEST

/* No client takes all room for formats, not even when it inherits the formats of clients that
 * leave. */
START_TEST(format_shares)
{
    struct bed *b = bed_create();
    const size_t each = 512 * 1024;
    char name[20];

    for (unsigned i = 0; i <= 32; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        ck_assert_int_eq(write_stream(b, 2, name, 0, 2), 0);
        ck_assert_int_eq(define(b, 1, name, each), i < 32 ? 0 : EBUSY);
    }
    ck_assert_ptr_nonnull(strstr(b->text, "one client has defined have at most 16777216 bytes"));
    ck_assert_int_eq(define(b, 1, "s0", each), 0); /* replaces a format */
    ck_assert_int_eq(define(b, 1, "s0", each - 10), 0);
    ck_assert_int_eq(define(b, 1, "s32", 11), EBUSY);
    ck_assert_int_eq(define(b, 2, "s32", 11), 0);
    disconnect(b, 1); /* the formats count for client 2, which has no room for the last one, s0 */
    for (unsigned i = 0; i <= 32; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        ck_assert_int_eq(format_of(b, name), i == 0 ? ENODATA : 0);
    }
    ck_assert_int_eq(define(b, 2, "s0", each), EBUSY);
    ck_assert_int_eq(define(b, 1, "s0", each), 0);

    read_stream(b, 3, "s1", "");
    disconnect(b, 2); /* only the readers of s1 are left */
    ck_assert_int_eq(format_of(b, "s1"), 0);
    ck_assert_int_eq(format_of(b, "s2"), ENOENT);
    disconnect(b, 3);
    ck_assert_int_eq(format_of(b, "s1"), ENOENT);
    bed_free(b);
}
END_TEST

/* No client takes all places of writers and readers. */
START_TEST(shares)
{
    struct bed *b = bed_create();

    for (uint32_t i = 0; i < 16384; i++)
        ck_assert_int_eq(write_stream(b, 1, "s", i, 65536), 0);
    ck_assert_int_eq(write_stream(b, 1, "s", 16384, 65536), EBUSY);
    ck_assert_ptr_nonnull(strstr(b->text, "a client has at most 16384 writers and readers"));
    ck_assert_int_eq(write_stream(b, 2, "s", 16384, 65536), 0);
    disconnect(b, 1);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 65536), 0);
    bed_free(b);
}
END_TEST

/* Return the epoch in the last response to the writer, which the reader finds in its last response
 * as well. */
static unsigned epoch_of(struct bed *b)
{
    const char *at = strstr(b->text, "\"epoch\":");
    unsigned epoch = 0;

    ck_assert_msg(at && sscanf(at, "\"epoch\":%u", &epoch) == 1, "%s", b->text);
    return epoch;
}

/* The epoch of a stream rises when a rank joins again, or a group begins.  Writers that are
 * restarted together have one epoch.  An instance that did not know the earlier epochs learns
 * them. */
START_TEST(epochs)
{
    static const struct {
        uint32_t client; /* client that leaves first; 0: none */
        uint32_t rank;   /* rank that joins then */
        unsigned epoch;
    } joins[] = {{0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {1, 0, 2}, {2, 1, 2}, {1, 0, 3}, {3, 2, 3}};
    struct bed *b = bed_create();
    char json[200];

    read_stream(b, 9, "s", "");
    for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++) {
        if (joins[i].client > 0)
            disconnect(b, joins[i].client);
        write_stream(b, joins[i].rank + 1, "s", joins[i].rank, 3);
        ck_assert_uint_eq(epoch_of(b), joins[i].epoch);
    }
    snprintf(
        json, sizeof(json),
        "{\"name\":\"s\",\"writer\":%d,\"step\":1,\"need\":1,\"epoch\":20,\"steps\":1,\"bytes\":0,"
        "\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,\"blocked\":0.0,"
        "\"held\":0.0,\"sent\":0,\"connections\":0,\"queues\":[]}",
        (int)b->peers[b->tag].number);
    ck_assert_int_eq(ask(b, "stream.count", 3, 0, json), 0);
    for (uint32_t client = 1; client <= 3; client++)
        disconnect(b, client);
    write_stream(b, 2, "s", 1, 2);
    ck_assert_uint_eq(epoch_of(b), 21);
    settle(b);
    ck_assert_ptr_nonnull(strstr(b->text, "\"rank\":1,\"epoch\":21"));
    bed_free(b);
}
END_TEST

/* A task that comes when the others of its job have left already begins with their first step. */
START_TEST(late_tasks)
{
    static const struct {
        uint32_t rank, size;
        uint64_t job;
        unsigned step; /* with which it begins; each counts one step */
    } joins[] = {
        {0, 3, 7, 0}, {2, 3, 7, 0}, /* the same job */
        {1, 3, 8, 2},               /* another one, */
        {0, 3, 8, 2}, {1, 3, 8, 4}, /* and a rank of it that has been there: another group */
        {0, 2, 8, 5},               /* another number of writers */
        {1, 2, 0, 6}, {0, 2, 0, 7}, /* nobody knows to what these belong */
    };
    struct bed *b = bed_create();
    char json[300];

    read_stream(b, 9, "s", "");
    for (unsigned i = 0; i < sizeof(joins) / sizeof(joins[0]); i++) {
        write_task(b, joins[i].rank + 1, "s", joins[i].rank, joins[i].size, joins[i].job);
        snprintf(json, sizeof(json), "\"step\":%u,", joins[i].step);
        ck_assert_msg(strstr(b->text, json) != NULL, "%u: %s", i, b->text);
        snprintf(json, sizeof(json),
                 "{\"name\":\"s\",\"writer\":%d,\"step\":%u,\"need\":0,\"epoch\":1,\"steps\":1,"
                 "\"bytes\":0,"
                 "\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,\"blocked\":0.0,"
                 "\"held\":0.0,\"sent\":0,\"connections\":0,\"queues\":[]}",
                 (int)b->peers[b->tag].number, i + 1);
        ck_assert_int_eq(ask(b, "stream.count", joins[i].rank + 1, 0, json), 0);
        disconnect(b, joins[i].rank + 1);
        settle(b);
    }
    bed_free(b);
}
END_TEST

/* Count for the last writer of stream "s", which has `n` entries for a reader. */
static int count_queue(struct bed *b, uint32_t client, uint64_t writer, uint64_t reader,
                       uint64_t queue, unsigned n)
{
    char json[4000];
    int at = snprintf(json, sizeof(json),
                      "{\"name\":\"s\",\"writer\":%" PRIu64
                      ",\"step\":1,\"need\":1,\"epoch\":1,\"steps\":1,"
                      "\"bytes\":0,\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,"
                      "\"blocked\":0.0,\"held\":0.0,\"sent\":7,\"connections\":2,\"queues\":[",
                      writer);

    for (unsigned i = 0; i < n; i++)
        at += snprintf(json + at, sizeof(json) - (size_t)at,
                       "%s{\"reader\":%" PRIu64 ",\"queue\":%" PRIu64
                       ",\"dropped\":1,\"blocked\":0.5}",
                       i > 0 ? "," : "", reader, queue);
    snprintf(json + at, sizeof(json) - (size_t)at, "]}");
    return ask(b, "stream.count", client, 0, json);
}

/* What the list of readers has for the i-th one. */
static json_int_t reader_int(struct bed *b, size_t i, const char *key)
{
    ask(b, "stream.readers", 99, 0, "{\"name\":\"s\"}");
    settle(b);
    return json_integer_value(
        json_object_get(json_array_get(json_object_get(b->list, "readers"), i), key));
}

/* The queue of a reader is the sum of what its writers have counted last; what it did not get adds
 * up.  A count names at most 16 readers, and of one that is not known nothing is kept. */
START_TEST(queues)
{
    struct bed *b = bed_create();
    uint64_t writer[2];

    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(write_stream(b, i, "s", i, 2), 0);
        writer[i] = b->peers[b->tag].number;
    }
    read_stream(b, 5, "s", "");
    uint64_t reader = b->tag;
    settle(b);
    ck_assert_int_eq(count_queue(b, 0, writer[0], reader, 100, 1), 0);
    ck_assert_int_eq(count_queue(b, 1, writer[1], reader, 30, 1), 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 130);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 130);
    ck_assert_int_eq(reader_int(b, 0, "dropped"), 2);
    ck_assert_int_eq(count_queue(b, 1, writer[1], reader, 20, 20), 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 100 + 16 * 20);
    ck_assert_int_eq(reader_int(b, 0, "dropped"), 2 + 16);
    ck_assert_int_eq(count_queue(b, 0, writer[0], reader + 1, 50, 1), 0);
    ck_assert_int_eq(count_queue(b, 1, writer[1], reader, 0, 1), 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 0);
    ck_assert_int_eq(count_queue(b, 0, writer[0], reader, 8, 1), 0);
    disconnect(b, 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 0);
    ask(b, "stream.list", 99, 0, "{}");
    settle(b);
    json_t *one = json_array_get(json_object_get(b->list, "streams"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "sent")), 7);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "connections")), 2);
    bed_free(b);
}
END_TEST

static void count_steps(struct bed *b, uint32_t client, uint64_t writer, unsigned step,
                        unsigned need)
{
    char json[400];

    snprintf(json, sizeof(json),
             "{\"name\":\"s\",\"writer\":%" PRIu64 ",\"step\":%u,\"need\":%u,\"epoch\":1,"
             "\"steps\":1,\"bytes\":0,\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,"
             "\"blocked\":0.0,\"held\":0.0,\"sent\":0,\"connections\":0,\"queues\":[]}",
             writer, step, need);
    ck_assert_int_eq(ask(b, "stream.count", client, 0, json), 0);
}

static uint64_t write_rank(struct bed *b, uint32_t client, uint32_t rank, unsigned *step)
{
    const char *at;

    ck_assert_int_eq(write_stream(b, client, "s", rank, 2), 0);
    at = strstr(b->text, "\"step\":");
    ck_assert_msg(at && sscanf(at, "\"step\":%u", step) == 1, "%s", b->text);
    return b->peers[b->tag].number;
}

/* A writer that comes after one that died begins with the first step that a group may need, as long
 * as members of groups stay; and is told which these are. */
START_TEST(needs)
{
    struct bed *b = bed_create();
    uint64_t writer[2];
    unsigned step;

    read_stream(b, 9, "s", "");
    writer[0] = write_rank(b, 0, 0, &step);
    writer[1] = write_rank(b, 1, 1, &step);
    count_steps(b, 0, writer[0], 20, 12);
    count_steps(b, 1, writer[1], 22, 11);
    disconnect(b, 0);
    writer[0] = write_rank(b, 0, 0, &step);
    ck_assert_uint_eq(step, 22); /* nobody needs steps again */
    ck_assert_ptr_nonnull(strstr(b->text, "\"shares\":0"));
    count_steps(b, 0, writer[0], 30, 25);
    (void)peer_new(b, READER, 8);
    ask_tag(b, "stream.read", 8, FLUX_MSGF_STREAMING,
            "{\"name\":\"s\",\"reader\":77,\"place\":\"p\",\"far\":false,\"host\":\"h\","
            "\"pid\":1,\"policy\":\"group:g\",\"onoff\":\"\",\"stay\":true}",
            b->tag);
    settle(b);
    disconnect(b, 1);
    writer[1] = write_rank(b, 1, 1, &step);
    ck_assert_uint_eq(step, 11); /* this is what rank 1 had counted */
    ck_assert_ptr_nonnull(strstr(b->text, "\"shares\":1"));
    ck_assert_ptr_nonnull(strstr(b->text, "\"reader\":77,\"policy\":\"group:g\""));
    count_steps(b, 1, writer[1], 28, 27);
    settle(b);
    disconnect(b, 0);
    disconnect(b, 1);
    writer[1] = write_rank(b, 1, 1, &step);
    ck_assert_uint_eq(step, 25); /* all begin with the same number */
    writer[0] = write_rank(b, 0, 0, &step);
    ck_assert_uint_eq(step, 25);
    settle(b);
    disconnect(b, 8);
    disconnect(b, 0);
    writer[0] = write_rank(b, 0, 0, &step);
    ck_assert_uint_eq(step, 30);
    bed_free(b);
}
END_TEST

/* Send a request to attach transforms; reader 0: to the writers. */
static int attach(struct bed *b, uint32_t reader, const char *transforms)
{
    char json[5000];

    snprintf(json, sizeof(json), "{\"name\":\"s\",\"reader\":%u,\"transforms\":\"%s\"}", reader,
             transforms);
    return ask(b, "stream.attach", 98, 0, json);
}

static bool says(struct bed *b, const char *text)
{
    return strstr(b->text, text) != NULL;
}

/* Transforms are told to the writers, also later ones, or to one reader, with a number that
 * rises. */
START_TEST(attached)
{
    struct bed *b = bed_create();
    char text[4200];
    uint32_t reader;

    ck_assert_int_eq(attach(b, 0, "a.lua"), ENOENT);
    read_stream(b, 5, "s", "");
    reader = b->tag;
    settle(b);
    ck_assert_int_eq(attach(b, 0, "a.lua"), -1); /* the answer waits for its turn */
    settle(b);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    ck_assert(says(b, "\"attached\":1,\"transforms\":\"a.lua\""));
    settle(b);
    attach(b, 0, "");
    still_turn(&b->still);
    ck_assert_int_eq(b->answer, b->tag);
    ck_assert_uint_eq(b->peers[b->tag - 1].told, 2);
    ck_assert_int_eq(write_stream(b, 2, "s", 1, 2), 0);
    ck_assert(says(b, "\"attached\":2,\"transforms\":\"\""));
    settle(b);
    ck_assert_int_eq(attach(b, reader + 1, "b.so"), ENOENT);
    ck_assert_int_eq(attach(b, reader, "b.so:1|c.lua"), 0);
    ck_assert_uint_eq(b->answer, reader);
    ck_assert(says(b, "\"writers\":[],\"size\":2,\"off\":false,\"attached\":1,\"transforms\":"
                      "\"b.so:1|c.lua\""));
    memset(text, 'x', 4097);
    text[4097] = '\0';
    ck_assert_int_eq(attach(b, 0, text), EINVAL);
    ck_assert_int_eq(attach(b, reader, text), EINVAL);
    settle(b);
    attach(b, 0, text + 1);
    settle(b);
    ck_assert_int_eq(b->errnum, 0);
    ask(b, "stream.list", 99, 0, "{}");
    settle(b);
    json_t *one = json_array_get(json_object_get(b->list, "streams"), 0);
    ck_assert_uint_eq(json_string_length(json_object_get(one, "transforms")), 4096);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "faults")), 0);
    bed_free(b);
}
END_TEST

static int attach_all(struct bed *b, const char *transforms)
{
    char json[200];

    snprintf(json, sizeof(json), "{\"name\":\"s\",\"readers\":true,\"transforms\":\"%s\"}",
             transforms);
    return ask(b, "stream.attach", 99, 0, json);
}

/* Transforms for all readers, with or without writers; one that comes later has what there is, and
 * one that comes after they were taken away keeps its own. */
START_TEST(attached_all)
{
    struct bed *b = bed_create();
    uint32_t first;

    read_stream(b, 5, "s", "");
    first = b->tag;
    settle(b);
    ck_assert_uint_eq(b->peers[first].told, 0);
    ck_assert_int_eq(attach_all(b, "a.lua"), 0);
    settle(b);
    ck_assert_uint_eq(b->peers[first].told, 1);
    ck_assert(says(b, "\"writers\":[],\"size\":0,\"off\":false,\"attached\":1,\"transforms\":"
                      "\"a.lua\""));
    write_stream(b, 1, "s", 0, 1);
    settle(b);
    read_stream(b, 6, "s", "");
    settle(b);
    ck_assert_uint_eq(b->peers[first + 2].told, 1);
    ck_assert(says(b, "\"attached\":1,\"transforms\":\"a.lua\""));
    ck_assert_int_eq(attach(b, first, "b.lua"), 0);
    ck_assert(says(b, "\"attached\":2,\"transforms\":\"b.lua\""));
    ck_assert_int_eq(attach_all(b, ""), 0);
    settle(b);
    ck_assert(says(b, "\"transforms\":\"\""));
    read_stream(b, 7, "s", "");
    settle(b);
    ck_assert(!says(b, "attached"));
    bed_free(b);
}
END_TEST

#define MANY 3000

/* Many writers: it takes many turns to notify the readers of them, to notify them of a pause, and
 * to list the stream; the answer follows when all work is done. */
START_TEST(many_writers)
{
    struct bed *b = bed_create();
    char want[80];

    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(write_stream(b, i, "s", i, MANY), 0);
    ck_assert_int_eq(read_stream(b, MANY, "s", ""), -1);
    ck_assert_int_eq(read_stream(b, MANY, "s", ""), -1);
    ck_assert_uint_ge(settle(b), 2 * MANY / FLUX_SLICE_THINGS);
    for (unsigned i = MANY + 1; i <= MANY + 2; i++) {
        ck_assert_uint_eq(b->peers[i].items, MANY);
        ck_assert_uint_gt(b->peers[i].told, 1);
        ck_assert_uint_eq(hmap_count(b->peers[i].knows), MANY);
    }
    ck_assert_int_eq(ask(b, "stream.pause", 1, 0, "{\"name\":\"s\",\"paused\":true}"), -1);
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_uint_eq(b->answer, b->tag);
    for (unsigned i = 1; i <= MANY; i++)
        ck_assert(b->peers[i].paused);
    ck_assert_int_eq(ask(b, "stream.list", 1, 0, "{}"), -1);
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    snprintf(want, sizeof(want), "{\"streams\":[{\"name\":\"s\",\"writers\":%d,\"size\":%d,", MANY,
             MANY);
    ck_assert_msg(strncmp(b->text, want, strlen(want)) == 0, "%s", b->text);
    ck_assert_int_eq(ask(b, "stream.remove", 1, 0, "{\"name\":\"s\"}"), -1);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0); /* another stream of the same name */
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    for (unsigned i = 1; i <= MANY + 2; i++)
        ck_assert_int_eq(b->peers[i].errnum, ECANCELED);
    ck_assert_int_eq(b->peers[b->tag].errnum, 0);
    bed_free(b);
}
END_TEST

/* Many readers that name a switch. */
START_TEST(many_readers)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(read_stream(b, 2 + i, "s", "x"), -1);
    settle(b);
    ck_assert_uint_eq(b->peers[1].items, MANY);
    ck_assert_int_eq(write_stream(b, 1, "s", 1, 2), 0);
    ck_assert_uint_gt(b->peers[b->tag].items, 0);
    ck_assert_uint_lt(b->peers[b->tag].items, FLUX_SLICE_THINGS);
    settle(b);
    ck_assert_uint_eq(b->peers[b->tag].items, MANY);
    event(b, "stream.switch", "{\"name\":\"x\",\"on\":true}");
    ck_assert_uint_ge(settle(b), 3 * MANY / FLUX_SLICE_THINGS);
    ck_assert_uint_eq(b->peers[1].items, 2 * MANY);
    ck_assert_uint_eq(b->peers[b->tag].items, 2 * MANY);
    ck_assert_int_eq(ask(b, "stream.readers", 1, 0, "{\"name\":\"s\"}"), -1);
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    ck_assert_ptr_nonnull(b->list);
    ck_assert_uint_eq(json_array_size(json_object_get(b->list, "readers")), MANY);
    bed_free(b);
}
END_TEST

/* A list continues while streams come and go around its place, and its writers. */
START_TEST(list_meanwhile)
{
    struct bed *b = bed_create();
    const char *before = "", *now;
    const json_t *item;
    unsigned turns = 0, stayed = 0;
    char name[20];
    size_t at;

    for (unsigned i = 0; i < 400; i++) {
        snprintf(name, sizeof(name), "s%03u", i);
        write_stream(b, i, name, 0, 1);
        read_stream(b, i, name, "");
    }
    settle(b);
    ask(b, "stream.list", 1000, 0, "{}");
    for (; !b->list; turns++) {
        still_turn(&b->still);
        disconnect(b, turns);
        disconnect(b, 399 - turns);
        disconnect(b, 100 * turns + 60); /* near the place of the list */
        snprintf(name, sizeof(name), "a%03u", turns);
        write_stream(b, 1000, name, 0, 1);
    }
    ck_assert_uint_gt(turns, 2);
    ck_assert_uint_lt(turns, 40);
    json_array_foreach(json_object_get(b->list, "streams"), at, item)
    {
        now = json_string_value(json_object_get(item, "name"));
        ck_assert_int_lt(strcmp(before, now), 0);
        stayed += *now == 's' && json_integer_value(json_object_get(item, "readers")) == 1;
        before = now;
    }
    ck_assert_uint_ge(stayed, 400 - 3 * turns);
    ask(b, "stream.readers", 1000, 0, "{\"name\":\"s200\"}");
    disconnect(b, 200);
    settle(b);
    ck_assert_int_eq(b->errnum, ENOENT);
    bed_free(b);
}
END_TEST

/* --- random operations --- */

#define RANKS 12

struct world {
    struct bed *b;
    unsigned seed;
    uint32_t writers[RANKS]; /* tags of the writers; 0: none */
    uint32_t readers[RANKS];
    bool on;
};

static void leave(struct world *w, uint32_t *tag)
{
    struct bed *b = w->b;

    disconnect(b, b->peers[*tag].client);
    ck_assert_int_eq(b->peers[*tag].errnum, ENODATA);
    *tag = 0;
}

static void change(struct world *w)
{
    uint32_t i = (uint32_t)rand_r(&w->seed) % RANKS;
    struct bed *b = w->b;
    char json[100];

    switch (rand_r(&w->seed) % 8) {
    case 0:
    case 1:
        if (w->writers[i])
            leave(w, &w->writers[i]);
        else if (write_stream(b, 1000 + b->tag, "s", i, RANKS) == 0)
            w->writers[i] = b->answer;
        break;
    case 2:
    case 3:
        if (w->readers[i]) {
            leave(w, &w->readers[i]);
        } else {
            read_stream(b, 1000 + b->tag, "s", rand_r(&w->seed) % 2 ? "x" : "");
            w->readers[i] = b->tag;
        }
        break;
    case 4:
        w->on = !w->on;
        snprintf(json, sizeof(json), "{\"name\":\"x\",\"on\":%s}", w->on ? "true" : "false");
        event(b, "stream.switch", json);
        break;
    case 5:
        if (w->readers[i]) {
            snprintf(json, sizeof(json), "{\"name\":\"s\",\"reader\":%u,\"policy\":\"latest\"}",
                     w->readers[i]);
            ask(b, "stream.policy", 1, 0, json);
        }
        break;
    default:
        still_turn(&b->still);
    }
}

/* Check that each reader knows exactly the present writers, and all writers have the same knowledge
 * of readers. */
static void agree(struct world *w)
{
    struct bed *b = w->b;
    const struct peer *first = NULL;

    settle(b);
    for (int i = 0; i < RANKS; i++) {
        const struct peer *p = &b->peers[w->writers[i]];

        if (!w->writers[i])
            continue;
        for (int k = 0; k < RANKS; k++) {
            const struct peer *r = &b->peers[w->readers[k]];

            if (w->readers[k])
                ck_assert_ptr_nonnull(hmap_get_u64(r->knows, p->number));
            if (w->readers[k] && first)
                ck_assert_ptr_eq(hmap_get_u64(p->knows, w->readers[k]),
                                 hmap_get_u64(first->knows, w->readers[k]));
        }
        if (first)
            ck_assert_uint_eq(hmap_count(p->knows), hmap_count(first->knows));
        ck_assert_uint_le(hmap_count(p->knows), RANKS);
        first = p;
    }
    for (int k = 0; k < RANKS; k++) {
        size_t n = 0;

        for (int i = 0; i < RANKS; i++)
            n += w->writers[i] > 0;
        if (w->readers[k])
            ck_assert_uint_eq(hmap_count(b->peers[w->readers[k]].knows), n);
    }
}

/* A broker on the way of a writer and a reader is lost: nobody is told that they are gone, they are
 * known by what they send again, and are told everything once more. */
START_TEST(away)
{
    struct bed *b = bed_create();
    uint32_t first, reader, other, again;

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    first = b->tag;
    read_stream(b, 2, "s", "");
    reader = b->tag;
    read_stream(b, 3, "s", "");
    other = b->tag;
    settle(b);
    lose_way(b, 1);
    lose_way(b, 2);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 1);
    ck_assert_int_eq(write_stream(b, 4, "s", 0, 2), EEXIST);
    ck_assert_int_eq(write_stream(b, 4, "s", 1, 2), 0);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    ck_assert_uint_eq(b->peers[b->tag].number, b->peers[first].number);
    ck_assert_int_eq(read_again(b, 2, "s", reader, "elsewhere"), EEXIST);
    read_again(b, 2, "s", reader, "h");
    again = b->tag;
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[again].knows), 2);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 2);

    /* One that does not come back is gone, in the end; one that has come back is not. */
    lose_way(b, 1);
    lose_way(b, 2);
    b->still.passed = 30.;
    read_again(b, 2, "s", reader, "h");
    again = b->tag;
    flux_watcher_fire(b->still.timer);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 2);
    b->still.passed = 61.;
    flux_watcher_fire(b->still.timer);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 1);
    ck_assert_uint_eq(hmap_count(b->peers[again].knows), 1);
    ck_assert_int_eq(b->peers[again].errnum, 0);

    /* Its client ends while it is away. */
    lose_way(b, 4);
    disconnect(b, 4);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 0);
    bed_free(b);
}
END_TEST

START_TEST(chance)
{
    for (unsigned run = 0; run < suite_runs(16); run++) {
        struct world w = {.b = bed_create(), .seed = 100 + run};

        for (unsigned i = 0; i < 1000; i++) {
            change(&w);
            if (i % 50 == 0)
                agree(&w);
        }
        agree(&w);
        bed_free(w.b);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("stream module", formats, record_formats, format_shares, shares, epochs, late_tasks,
              queues, needs, attached, attached_all, many_writers, many_readers, list_meanwhile,
              away, chance);
}
