/* check_mailbox.c - messages from many threads to one. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "libutil/test/suite.h"
#include "src/broker/mailbox.h"

#define THREADS 4
#define EACH 20000

static bool readable(mailbox_t *m)
{
    struct pollfd p = {.fd = mailbox_fd(m), .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

START_TEST(one_thread)
{
    mailbox_t *m = mailbox_create(true);
    struct envelope *l;
    size_t n = 99;
    int a, b;

    ck_assert_ptr_nonnull(m);
    ck_assert(!readable(m));
    mailbox_take(m, &n);
    ck_assert_uint_eq(n, 0);
    for (int i = 0; i < 1000; i++) {
        flux_msg_t *msg = i % 2 ? flux_msg_create(FLUX_MSG_EVENT, "e") : NULL;
        ck_assert_int_eq(mailbox_put(m, i % 3 ? &a : &b, msg, i, 0), 0);
        ck_assert(readable(m));
    }
    ck_assert_uint_eq(mailbox_count(m), 1000);
    l = mailbox_take(m, &n);
    ck_assert_uint_eq(n, 1000);
    ck_assert(!readable(m));
    ck_assert_uint_eq(mailbox_count(m), 0);
    /* what is put while the reader works is for the next time */
    ck_assert_int_eq(mailbox_put(m, NULL, NULL, -5, 0), 0);
    ck_assert(readable(m));
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(l[i].code, i);
        ck_assert_ptr_eq(l[i].from, i % 3 ? &a : &b);
        ck_assert((l[i].msg != NULL) == (i % 2 == 1));
        flux_msg_destroy(l[i].msg);
    }
    l = mailbox_take(m, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(l[0].code, -5);
    mailbox_take(m, &n);
    ck_assert_uint_eq(n, 0);
    mailbox_destroy(m);
    errno = 11;
    mailbox_destroy(NULL);
    ck_assert_int_eq(errno, 11);
}
END_TEST

/* Without a descriptor. */
START_TEST(quiet)
{
    mailbox_t *m = mailbox_create(false);
    size_t n;

    ck_assert_ptr_nonnull(m);
    ck_assert_int_eq(mailbox_fd(m), -1);
    ck_assert_int_eq(mailbox_post(m, NULL, NULL, 1, 0), 1);
    ck_assert_int_eq(mailbox_put(m, NULL, NULL, 2, 0), 0);
    mailbox_again(m);
    mailbox_wake(m);
    ck_assert_int_eq(mailbox_take(m, &n)[1].code, 2);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(mailbox_post(m, NULL, NULL, 3, 0), 1);
    mailbox_destroy(m);
}
END_TEST

START_TEST(bound)
{
    mailbox_t *m = mailbox_create(true);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "e");
    size_t n;

    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(mailbox_put(m, NULL, flux_msg_incref(msg), 0, 10), 0);
    errno = 0;
    ck_assert_int_eq(mailbox_put(m, NULL, msg, 0, 10), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert_int_eq(mailbox_put(m, NULL, NULL, 7, 0), 0); /* news always */
    struct envelope *l = mailbox_take(m, &n);
    ck_assert_uint_eq(n, 11);
    for (size_t i = 0; i < n; i++)
        flux_msg_destroy(l[i].msg);
    ck_assert_int_eq(mailbox_put(m, NULL, msg, 0, 10), 0);
    mailbox_destroy(m); /* with that one in it */
}
END_TEST

START_TEST(later)
{
    mailbox_t *m = mailbox_create(true);
    size_t n;

    ck_assert_int_eq(mailbox_post(m, NULL, NULL, 1, 0), 1);
    ck_assert_int_eq(mailbox_post(m, NULL, NULL, 2, 0), 1);
    ck_assert(!readable(m));
    ck_assert_int_eq(mailbox_put(m, NULL, NULL, 3, 0), 0); /* whoever puts tells of all */
    ck_assert(readable(m));
    ck_assert_int_eq(mailbox_post(m, NULL, NULL, 4, 0), 0);
    mailbox_take(m, &n);
    ck_assert_uint_eq(n, 4);
    mailbox_wake(m); /* of nothing */
    ck_assert(!readable(m));
    ck_assert_int_eq(mailbox_post(m, NULL, NULL, 5, 0), 1);
    mailbox_wake(m);
    ck_assert(readable(m));
    mailbox_take(m, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert(!readable(m));
    mailbox_destroy(m);
}
END_TEST

/* What the reader sets aside counts until it is done, and can wake it again. */
START_TEST(set_aside)
{
    mailbox_t *m = mailbox_create(true);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "e");
    size_t size = flux_msg_encoded_size(msg);
    size_t n;

    ck_assert(!mailbox_has_new(m));
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(mailbox_put(m, NULL, flux_msg_incref(msg), 0, 10), 0);
    ck_assert(mailbox_has_new(m));
    struct envelope *l = mailbox_take(m, &n);
    ck_assert_uint_eq(n, 10);
    ck_assert(!mailbox_has_new(m) && !readable(m));
    for (size_t i = 0; i < n; i++)
        flux_msg_destroy(l[i].msg);
    mailbox_set_aside(m, 10, 10 * size);
    ck_assert_uint_eq(mailbox_count(m), 10);
    ck_assert_int_eq(mailbox_put(m, NULL, msg, 0, 10), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert(!mailbox_has_new(m));
    mailbox_done(m, 1, size);
    ck_assert_int_eq(mailbox_put(m, NULL, flux_msg_incref(msg), 0, 10), 0);
    ck_assert_int_eq(mailbox_put(m, NULL, msg, 0, 10), -1);
    ck_assert_uint_eq(mailbox_count(m), 10);
    l = mailbox_take(m, &n);
    ck_assert_uint_eq(n, 1);
    flux_msg_destroy(l[0].msg);
    mailbox_done(m, 9, 9 * size);
    ck_assert_uint_eq(mailbox_count(m), 0);
    /* The same in bytes. */
    mailbox_set_aside(m, 1, 10 * MAILBOX_BYTES_EACH);
    ck_assert_int_eq(mailbox_put(m, NULL, msg, 0, 10), -1);
    mailbox_done(m, 1, 10 * MAILBOX_BYTES_EACH);
    mailbox_again(m);
    ck_assert(readable(m));
    ck_assert_int_eq(mailbox_post(m, NULL, msg, 0, 10), 0); /* it is awake */
    mailbox_take(m, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert(!readable(m));
    flux_msg_destroy(msg);
    mailbox_destroy(m);
}
END_TEST

struct writer {
    mailbox_t *m;
    int number;
    pthread_t thread;
};

static void *write_all(void *arg)
{
    struct writer *w = arg;

    for (int i = 0; i < EACH; i++) {
        flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "a.b");
        if (!msg)
            return NULL;
        flux_msg_set_matchtag(msg, (uint32_t)i);
        /* a bounded queue makes writers wait for the reader */
        while (mailbox_put(w->m, w, msg, i, w->number == 0 ? 100 : 0) < 0)
            sched_yield();
    }
    return w;
}

/* A reader that waits for the descriptor gets everything, each writer's messages in order. */
START_TEST(many_threads)
{
    mailbox_t *m = mailbox_create(true);
    struct writer w[THREADS];
    int next[THREADS] = {0};
    size_t got = 0;
    void *done;

    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct writer){.m = m, .number = i};
        ck_assert_int_eq(pthread_create(&w[i].thread, NULL, write_all, &w[i]), 0);
    }
    while (got < (size_t)THREADS * EACH) {
        struct pollfd p = {.fd = mailbox_fd(m), .events = POLLIN};
        size_t n;
        struct envelope *l;

        ck_assert_msg(poll(&p, 1, 20000) == 1, "nothing came after %zu", got);
        l = mailbox_take(m, &n);
        for (size_t i = 0; i < n; i++) {
            struct writer *from = l[i].from;
            ck_assert_int_eq(l[i].code, next[from->number]++);
            ck_assert_uint_eq(flux_msg_matchtag(l[i].msg), (uint32_t)l[i].code);
            flux_msg_destroy(l[i].msg);
        }
        got += n;
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(w[i].thread, &done), 0);
        ck_assert_ptr_eq(done, &w[i]);
    }
    ck_assert_uint_eq(mailbox_count(m), 0);
    mailbox_destroy(m);
}
END_TEST

struct pong {
    mailbox_t *in;
    mailbox_t *out;
};

static void *pong_all(void *arg)
{
    struct pong *p = arg;
    int left = 5000;

    while (left > 0) {
        struct pollfd fd = {.fd = mailbox_fd(p->in), .events = POLLIN};
        size_t n;
        if (poll(&fd, 1, 20000) != 1)
            return NULL;
        struct envelope *l = mailbox_take(p->in, &n);
        for (size_t i = 0; i < n; i++, left--) {
            flux_msg_set_nodeid(l[i].msg, 77);
            int rc = mailbox_post(p->out, NULL, l[i].msg, 0, 0);
            if (rc < 0)
                return NULL;
            if (rc == 1)
                mailbox_wake(p->out);
        }
    }
    return p;
}

/* One at a time, there and back: no wake-up is ever lost. */
START_TEST(there_and_back)
{
    struct pong p = {mailbox_create(true), mailbox_create(true)};
    pthread_t thread;
    void *done;

    ck_assert_int_eq(pthread_create(&thread, NULL, pong_all, &p), 0);
    for (int i = 0; i < 5000; i++) {
        struct pollfd fd = {.fd = mailbox_fd(p.out), .events = POLLIN};
        size_t n = 0;
        struct envelope *l = NULL;

        ck_assert_int_eq(mailbox_put(p.in, NULL, flux_msg_create(FLUX_MSG_REQUEST, "a"), 0, 0), 0);
        while (n == 0) { /* one wake-up too many is not an error */
            ck_assert_int_eq(poll(&fd, 1, 20000), 1);
            l = mailbox_take(p.out, &n);
        }
        ck_assert_uint_eq(n, 1);
        ck_assert_uint_eq(flux_msg_nodeid(l[0].msg), 77);
        flux_msg_destroy(l[0].msg);
    }
    ck_assert_int_eq(pthread_join(thread, &done), 0);
    ck_assert_ptr_eq(done, &p);
    mailbox_destroy(p.in);
    mailbox_destroy(p.out);
}
END_TEST

int main(void)
{
    RUN_SUITE("mailbox", one_thread, quiet, bound, later, set_aside, many_threads, there_and_back);
}
