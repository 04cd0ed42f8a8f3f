/* ends.c - writers and readers of tests: see ends.h.
 *
 * Step n has STEP_LEN - n bytes, each of which is n.  A writer that is closed does not wait for its
 * readers on other hosts, since they are in the same thread.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "ends.h"
#include "libstream/far_msg.h"
#include "libutil/clock.h"

const unsigned char ends_key[KNOCK_KEY_LEN] = "the capability of this stream...";
enum way ends_way = RING;
errmsg_t err;

static char address[FAR_ADDR_MAX]; /* of the writer that was opened last, by TCP */

outlet_t *writer(double evict, uint32_t keep)
{
    struct outlet_opts opts = {.key = ends_key, .space = 64 << 20, .evict = evict, .keep = keep};
    outlet_t *o;

    if (ends_way != RING) {
        opts.far = (struct outlet_far_opts){
            .stream = "test", .secure = ends_way == TCP_SECURE, .linger = 0.01};
        opts.far.listen = far_addr_listen("127.0.0.1", NULL, address, &err);
        ck_assert_msg(opts.far.listen >= 0, "%s", err.text);
    }
    o = outlet_create(&opts, &err);
    ck_assert_msg(o != NULL, "%s", err.text);
    return o;
}

const char *writer_address(const outlet_t *o)
{
    return ends_way == RING ? outlet_name(o) : address;
}

inlet_t *reader_try(const char *where, const struct knock_want *w)
{
    struct far_grant g = {"test", 7, (uint64_t)clock_wall() + 60};
    unsigned char secret[FAR_KEY_LEN];
    struct inlet_far_opts far = {
        .address = where, .secret = secret, .reader = g.reader, .expires = g.expires};

    if (ends_way == RING)
        return inlet_connect(where, ends_key, w, 30., &err);
    far_key_grant(secret, ends_key, &g);
    return inlet_connect_far(&far, w, 30., &err);
}

inlet_t *reader(outlet_t *o, const char *policy, uint32_t depth)
{
    struct knock_want w;
    inlet_t *i;

    knock_want_init(&w);
    ck_assert_int_eq(knock_policy_parse(&w, policy, &err), 0);
    if (depth > 0)
        w.depth = depth;
    i = reader_try(writer_address(o), &w);
    ck_assert_msg(i != NULL, "%s", err.text);
    return i;
}

int put_wait(outlet_t *o, uint64_t step, double timeout)
{
    void *buf;
    int rc = outlet_begin(o, step, STEP_LEN, timeout, &buf, &err);

    if (rc == 0) {
        memset(buf, (int)step, STEP_LEN);
        ck_assert_int_eq(outlet_commit(o, STEP_LEN - step), 0);
    }
    return rc;
}

void put(outlet_t *o, uint64_t step)
{
    ck_assert_msg(put_wait(o, step, 0.) == 0, "%s", err.text);
}

void check(const struct inlet_step *s, uint64_t step)
{
    const unsigned char *p = s->data;
    unsigned differ = 0;

    ck_assert_uint_eq(s->step, step);
    ck_assert_uint_eq(s->len, STEP_LEN - step);
    for (uint64_t i = 0; i < s->len; i++)
        differ |= p[i] ^ (unsigned char)step;
    ck_assert_uint_eq(differ, 0);
}

struct inlet_step get(inlet_t *i, uint64_t step)
{
    struct inlet_step s;
    struct inlet_value v = {0};

    ck_assert_msg(inlet_next(i, 30., &s, &err) == 1, "%s", err.text);
    v.len = s.len;
    ck_assert_msg(inlet_fetch(i, &s, &v, &err) == 0, "%s", err.text);
    check(&s, step);
    return s;
}

void get_release(inlet_t *i, uint64_t step)
{
    struct inlet_step s = get(i, step);

    ck_assert_int_eq(inlet_release(i, &s), 0);
}

void get_error(inlet_t *i, int errnum)
{
    struct inlet_step s;

    ck_assert_int_eq(inlet_next(i, errnum == ETIMEDOUT ? 0. : 30., &s, &err), -1);
    ck_assert_msg(errno == errnum, "%s", err.text);
}

int accept_reader(int l, const unsigned char *secret)
{
    int fd = accept(l, NULL, NULL);
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char hello[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];
    struct far_welcome w = {0};

    far_greeting_make(greeting);
    ck_assert_int_eq(send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL), sizeof(greeting));
    ck_assert_int_eq(recv(fd, hello, sizeof(hello), MSG_WAITALL), sizeof(hello));
    far_welcome_make(welcome, &w, secret, hello);
    ck_assert_int_eq(send(fd, welcome, sizeof(welcome), MSG_NOSIGNAL), sizeof(welcome));
    return fd;
}
