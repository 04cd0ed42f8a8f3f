/* check_stream_module.c - what clients may take of the module stream: an instance on a handle of
 * the test's own. */
#include "config.h"
#include <stdio.h>

#include "libflux/module.h"
#include "libflux/test/fake.h"
#include "libutil/test/suite.h"

extern const struct flux_module flux_module_stream;

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct bed {
    struct fake f;
    void *ctx;
    int errnum; /* of the last response; -1: none */
    char text[200];
    uint32_t tag;
};

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    const char *text = flux_msg_json(msg);

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        b->errnum = flux_msg_errnum(msg);
        snprintf(b->text, sizeof(b->text), "%s", text ? text : "");
    }
    flux_msg_destroy(msg);
}

static struct bed *bed_create(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    errmsg_t err;

    ck_assert_ptr_nonnull(b);
    b->f.user = b;
    b->f.hook = sent;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create(false));
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
    free(b);
}

/* A request of one of several clients; returns the errno of the last response, or -1. */
static int ask(struct bed *b, const char *topic, uint32_t client, unsigned flags, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    ck_assert_ptr_nonnull(msg);
    flux_msg_set_flags(msg, flags);
    flux_msg_set_cred(msg, 42, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER);
    flux_msg_set_matchtag(msg, ++b->tag);
    ck_assert_int_eq(flux_msg_route_push(msg, 1u << 28 | client), 0);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    return b->errnum;
}

static int write_stream(struct bed *b, uint32_t client, const char *name, uint32_t rank,
                        uint32_t size)
{
    char json[400];

    snprintf(json, sizeof(json),
             "{\"name\":\"%s\",\"rank\":%u,\"size\":%u,\"host\":\"h\",\"place\":\"p\","
             "\"address\":\"a%u\",\"far\":\"f\",\"key\":\"%s\"}",
             name, rank, size, rank, KEY);
    return ask(b, "stream.write", client, FLUX_MSGF_STREAMING, json);
}

static int define(struct bed *b, const char *name, size_t len)
{
    char *json = malloc(len + 100);
    int at = snprintf(json, 100, "{\"name\":\"%s\",\"format\":\"", name);
    int rc;

    memset(json + at, 'x', len);
    snprintf(json + at + len, 10, "\"}");
    rc = ask(b, "stream.define", 1, 0, json);
    free(json);
    return rc;
}

static int disconnect(struct bed *b, uint32_t client)
{
    return ask(b, "stream.disconnect", client, FLUX_MSGF_NORESPONSE, "{}");
}

/* All formats together are bounded, and what a stream has had is given back. */
START_TEST(formats)
{
    struct bed *b = bed_create();
    const size_t each = 512 * 1024;
    char name[20];

    for (unsigned i = 0; i <= 128; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        ck_assert_int_eq(write_stream(b, i, name, 0, 2), 0);
        ck_assert_int_eq(define(b, name, each), i < 128 ? 0 : EBUSY);
    }
    ck_assert_ptr_nonnull(strstr(b->text, "'s128' cannot be defined"));
    ck_assert_int_eq(define(b, "s0", each + 1), E2BIG);
    ck_assert_int_eq(define(b, "s0", each), 0);
    ck_assert_int_eq(define(b, "s0", each - 100), 0);
    ck_assert_int_eq(define(b, "s128", 101), EBUSY);
    ck_assert_int_eq(define(b, "s128", 100), 0);
    disconnect(b, 1);
    ck_assert_int_eq(define(b, "s128", each), 0);
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

int main(void)
{
    RUN_SUITE("stream module", formats, shares);
}
