/* A transport in memory, for tests of handles: sent messages are collected in `sent`, or go to
 * `hook`; a wait delivers the messages of `inbox` one by one.
 */
#ifndef FLUX_TEST_FAKE_H
#define FLUX_TEST_FAKE_H

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/handle.h"

struct fake {
    flux_t *h;
    flux_reactor_t *r;
    flux_msg_t **sent;
    size_t nsent;
    size_t cap;
    int fail; /* errno of sends to come; 0: they succeed */
    bool destroyed;
    bool lost_when_empty;
    void (*hook)(struct fake *f, flux_msg_t *msg); /* takes over */
    flux_msg_t *inbox[64];
    size_t inbox_first;
    size_t inbox_count;
    int waits;
    void *user;
};

static inline void fake_keep(struct fake *f, flux_msg_t *msg)
{
    if (f->nsent == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 16;
        f->sent = realloc(f->sent, f->cap * sizeof(*f->sent));
        ck_assert_ptr_nonnull(f->sent);
    }
    f->sent[f->nsent++] = msg;
}

static inline int fake_send(void *impl, flux_msg_t *msg)
{
    struct fake *f = impl;

    if (f->fail) {
        flux_msg_destroy(msg);
        errno = f->fail;
        return -1;
    }
    if (f->hook)
        f->hook(f, msg);
    else
        fake_keep(f, msg);
    return 0;
}

static inline int fake_wait(void *impl, double timeout)
{
    struct fake *f = impl;

    f->waits++;
    if (f->inbox_first < f->inbox_count) {
        flux_handle_deliver(f->h, f->inbox[f->inbox_first++]);
        return 0;
    }
    if (f->lost_when_empty) {
        flux_handle_lost(f->h, "end of file");
        errno = EPIPE;
        return -1;
    }
    ck_assert_msg(timeout >= 0., "waiting for ever for nothing");
    poll(NULL, 0, (int)(timeout * 1000.) + 1);
    return 0;
}

static inline void fake_destroy(void *impl)
{
    ((struct fake *)impl)->destroyed = true;
}

static const struct flux_handle_ops fake_ops = {
    .send = fake_send,
    .wait = fake_wait,
    .destroy = fake_destroy,
};
/* As that of a module. */
static const struct flux_handle_ops fake_nowait_ops = {
    .send = fake_send,
    .destroy = fake_destroy,
};

static inline struct fake *fake_create_ops(const struct flux_handle_ops *ops)
{
    struct fake *f = calloc(1, sizeof(*f));

    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(f->r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(f->h = flux_handle_create(ops, f, f->r, 3, 8, 42));
    return f;
}

static inline struct fake *fake_create(void)
{
    (void)fake_nowait_ops;
    return fake_create_ops(&fake_ops);
}

static inline void fake_clear(struct fake *f)
{
    for (size_t i = 0; i < f->nsent; i++)
        flux_msg_destroy(f->sent[i]);
    f->nsent = 0;
}

static inline void fake_free(struct fake *f)
{
    flux_close(f->h);
    ck_assert(f->destroyed);
    flux_reactor_destroy(f->r);
    fake_clear(f);
    free(f->sent);
    free(f);
}

/* A response to sent message `i`. */
static inline flux_msg_t *fake_answer(struct fake *f, size_t i, int errnum, unsigned flags,
                                      const char *json)
{
    flux_msg_t *msg = flux_msg_response_create(f->sent[i], errnum);

    ck_assert_ptr_nonnull(msg);
    flux_msg_set_flags(msg, flags);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    return msg;
}

static inline void fake_respond(struct fake *f, size_t i, int errnum, unsigned flags,
                                const char *json)
{
    flux_handle_deliver(f->h, fake_answer(f, i, errnum, flags, json));
}

static inline void fake_inbox(struct fake *f, flux_msg_t *msg)
{
    ck_assert_uint_lt(f->inbox_count, 64);
    f->inbox[f->inbox_count++] = msg;
}

/* A request as it comes in. */
static inline flux_msg_t *fake_request(const char *topic, const char *json, uint32_t roles)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    ck_assert_ptr_nonnull(msg);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_msg_set_cred(msg, 1000, roles);
    flux_msg_set_matchtag(msg, 77);
    ck_assert_int_eq(flux_msg_route_push(msg, 1u << 28 | 5), 0);
    return msg;
}

#endif
