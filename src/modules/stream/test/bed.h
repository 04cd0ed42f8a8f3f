/* A bed for tests of the module stream: an instance on a handle and a clock of the test, and peers
 * that join as writers and readers and keep what the responses to them say. */
#ifndef STREAM_TEST_BED_H
#define STREAM_TEST_BED_H

#include <inttypes.h>
#include <stdio.h>

#include "libflux/module.h"
#include "libflux/route.h"
#include "libflux/slice.h"
#include "libflux/test/fake.h"
#include "libflux/test/still.h"
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
    unsigned more;   /* writers of which a second notice was promised to a reader */
    char why[200];   /* a reader: the last notice of a writer that is gone */
    hmap_t *knows;   /* a reader: the writers; a writer: the readers and their demands */
    bool paused;
    bool empty; /* a reader: a response has told it of nobody */
    int errnum; /* error that has ended the request */
};

struct bed {
    struct fake f;
    struct still still;
    void *ctx;
    int errnum; /* error of the last response; -1: none */
    char text[400];
    struct peer *peers;
    uint32_t tag;         /* match tag of the last request */
    uint32_t answer;      /* match tag of the last response, */
    uint32_t by;          /* and the rank by which it goes to rank 9; 0: it stays here */
    unsigned did;         /* number of responses and of the items in them */
    json_t *list;         /* the last list */
    flux_msg_t *question; /* how a task ended: the last request wrexec.end; NULL: none */
    bool canceled;        /* it was */
    uint32_t way;         /* requests come from rank 9 by this rank; 0: from here */
};

static inline void wants(hmap_t *knows, const json_t *o)
{
    static int on, off;
    uint64_t reader = (uint64_t)json_integer_value(json_object_get(o, "reader"));

    ck_assert_int_eq(
        hmap_put_u64(knows, reader, json_is_true(json_object_get(o, "off")) ? &off : &on), 0);
    ck_assert_ptr_nonnull(json_object_get(o, "policy"));
}

/* Take a response to a reader: it names a writer once, and the end only of a known writer, or a
 * second time if that was promised. */
static inline void take_reader(struct peer *p, const json_t *o)
{
    const json_t *gone = json_object_get(o, "gone");
    const json_t *writers = json_object_get(o, "writers");
    const json_t *item;
    size_t i;

    p->empty |=
        json_array_size(gone) + json_array_size(writers) == 0 && !json_object_get(o, "attached");
    json_array_foreach(gone, i, item)
    {
        uint64_t n = (uint64_t)json_integer_value(json_object_get(item, "writer"));

        if (!hmap_take_u64(p->knows, n))
            ck_assert_uint_gt(p->more--, 0);
        p->more += json_is_true(json_object_get(item, "more"));
        snprintf(p->why, sizeof(p->why), "%s", json_string_value(json_object_get(item, "why")));
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

static inline void take_writer(struct peer *p, const json_t *o)
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

static inline void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    const char *text = flux_msg_json(msg);
    struct peer *p;
    unsigned before;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        b->errnum = flux_msg_errnum(msg);
        b->answer = flux_msg_matchtag(msg);
        b->by = flux_msg_route_count(msg) > 2 ? flux_route_value(flux_msg_route_at(msg, 2)) : 0;
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
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST && strcmp(flux_msg_topic(msg), "stream.stats") == 0)
        fake_keep(f, flux_msg_incref(msg));
    if (strcmp(flux_msg_topic(msg), "wrexec.end") == 0) {
        flux_msg_destroy(b->question);
        b->question = msg;
        return;
    }
    b->canceled |= strcmp(flux_msg_topic(msg), "wrexec.cancel") == 0;
    flux_msg_destroy(msg);
}

/* `reloaded`: it takes the place of another instance, which may have left requests. */
static inline struct bed *bed_begin(bool reloaded)
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
    if (reloaded)
        ck_assert_int_eq(flux_aux_set(b->f.h, "module::reloaded", b, NULL), 0);
    ck_assert_int_eq(flux_module_stream.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    return b;
}

static inline struct bed *bed_create(void)
{
    return bed_begin(false);
}

static inline void bed_free(struct bed *b)
{
    flux_module_stream.fini(b->f.h, b->ctx);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    fake_clear(&b->f);
    free(b->f.sent);
    for (size_t i = 0; i < PEERS_MAX; i++) {
        ck_assert(!b->peers[i].empty);
        hmap_destroy(b->peers[i].knows);
    }
    json_decref(b->list);
    flux_msg_destroy(b->question);
    free(b->peers);
    free(b);
}

/* Send a request of one of several clients.  Returns the errno of the last response, or -1. */
static inline int ask_tag(struct bed *b, const char *topic, uint32_t client, unsigned flags,
                          const char *json, uint32_t tag)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    ck_assert_ptr_nonnull(msg);
    ck_assert_uint_lt(tag, PEERS_MAX);
    flux_msg_set_flags(msg, flags);
    flux_msg_set_cred(msg, 42, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER);
    flux_msg_set_matchtag(msg, tag);
    ck_assert_int_eq(flux_msg_route_push(msg, 1u << 28 | client), 0);
    if (b->way) {
        ck_assert_int_eq(flux_msg_route_push(msg, 9), 0);
        ck_assert_int_eq(flux_msg_route_push(msg, b->way), 0);
    }
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    return b->errnum;
}

static inline int ask(struct bed *b, const char *topic, uint32_t client, unsigned flags,
                      const char *json)
{
    return ask_tag(b, topic, client, flags, json, ++b->tag);
}

static inline void event(struct bed *b, const char *topic, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    flux_msg_set_json(msg, json);
    flux_handle_deliver(b->f.h, msg);
}

static inline struct peer *peer_new(struct bed *b, int kind, uint32_t client)
{
    struct peer *p = &b->peers[++b->tag];

    p->kind = kind;
    p->client = client;
    ck_assert_ptr_nonnull(p->knows = hmap_create_u64(NULL));
    return p;
}

/* A task of a job (0: none) joins as a writer.  `launched`: its launcher has set rank and size. */
static inline int write_launched(struct bed *b, uint32_t client, const char *name, uint32_t rank,
                                 uint32_t size, uint64_t job, bool launched)
{
    struct peer *p = peer_new(b, WRITER, client);
    char json[400];

    p->rank = rank;
    snprintf(json, sizeof(json),
             "{\"name\":\"%s\",\"rank\":%u,\"size\":%u,\"host\":\"h\",\"place\":\"p\","
             "\"address\":\"a%u\",\"far\":\"f\",\"key\":\"%s\",\"job\":%" PRIu64 ",\"task\":%u,"
             "\"launched\":%s}",
             name, rank, size, rank, KEY, job, rank, launched ? "true" : "false");
    return ask_tag(b, "stream.write", client, FLUX_MSGF_STREAMING, json, b->tag);
}

static inline int write_task(struct bed *b, uint32_t client, const char *name, uint32_t rank,
                             uint32_t size, uint64_t job)
{
    return write_launched(b, client, name, rank, size, job, false);
}

static inline int write_stream(struct bed *b, uint32_t client, const char *name, uint32_t rank,
                               uint32_t size)
{
    return write_task(b, client, name, rank, size, 0);
}

/* Send a request to read.  The number of the reader is its match tag; its place is another one if
 * the tag is even. */
static inline int read_stream(struct bed *b, uint32_t client, const char *name, const char *onoff)
{
    char json[400];

    (void)peer_new(b, READER, client);
    snprintf(json, sizeof(json),
             "{\"name\":\"%s\",\"reader\":%u,\"place\":\"%s\",\"far\":false,"
             "\"host\":\"h\",\"pid\":1,\"policy\":\"block\",\"onoff\":\"%s\"}",
             name, b->tag, b->tag % 2 ? "p" : "q", onoff);
    return ask_tag(b, "stream.read", client, FLUX_MSGF_STREAMING, json, b->tag);
}

/* The last request of a reader, with this number, once more under its match tag. */
static inline int read_repeat(struct bed *b, uint32_t client, const char *name, uint32_t number,
                              const char *host)
{
    char json[400];

    snprintf(json, sizeof(json),
             "{\"name\":\"%s\",\"reader\":%u,\"place\":\"%s\",\"far\":false,"
             "\"host\":\"%s\",\"pid\":1,\"policy\":\"block\",\"onoff\":\"\"}",
             name, number, number % 2 ? "p" : "q", host);
    return ask_tag(b, "stream.read", client, FLUX_MSGF_STREAMING, json, b->tag);
}

/* The request of a reader with the number of an earlier one. */
static inline int read_again(struct bed *b, uint32_t client, const char *name, uint32_t number,
                             const char *host)
{
    (void)peer_new(b, READER, client);
    return read_repeat(b, client, name, number, host);
}

static inline void disconnect(struct bed *b, uint32_t client)
{
    ask(b, "stream.disconnect", client, FLUX_MSGF_NORESPONSE, "{}");
}

/* The way from a client is lost. */
static inline void lose_way(struct bed *b, uint32_t client)
{
    ask(b, "stream.disconnect", client, FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT, "{}");
}

/* Turn the reactor until the module has no work left.  Returns the number of turns.  No turn does
 * more work than fits into a slice, and the end of each listener's turn. */
static inline unsigned settle(struct bed *b)
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

#endif
