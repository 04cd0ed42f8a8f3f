/* check_msg.c - encoded messages decode to equal messages, and other bytes are refused. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/msg.h"
#include "libutil/test/suite.h"

/* xorshift: the same messages at every run */
static uint64_t rng = 88172645463325252u;

static uint64_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static flux_msg_t *random_msg(void)
{
    static const enum flux_msg_type types[] = {FLUX_MSG_REQUEST, FLUX_MSG_RESPONSE, FLUX_MSG_EVENT,
                                               FLUX_MSG_CONTROL};
    enum flux_msg_type type = types[rnd() % 4];
    char topic[FLUX_MSG_TOPIC_MAX + 1];
    size_t len = rnd() % 8 ? 1 + rnd() % 20 : 1 + rnd() % FLUX_MSG_TOPIC_MAX;
    flux_msg_t *msg;

    for (size_t i = 0; i < len; i++)
        topic[i] = (char)('!' + rnd() % 94);
    topic[len] = '\0';
    ck_assert_ptr_nonnull(msg = flux_msg_create(type, topic));
    flux_msg_set_flags(msg, (unsigned)rnd());
    flux_msg_set_nodeid(msg, (uint32_t)rnd());
    flux_msg_set_matchtag(msg, (uint32_t)rnd());
    flux_msg_set_cred(msg, (uint32_t)rnd(), (uint32_t)rnd());
    flux_msg_set_errnum(msg, (int)(rnd() % 4096));
    flux_msg_set_seq(msg, rnd());
    flux_msg_set_incarnation(msg, (uint32_t)rnd());
    flux_msg_set_term(msg, (uint32_t)rnd());
    if (type == FLUX_MSG_REQUEST || type == FLUX_MSG_RESPONSE) {
        size_t n = rnd() % 4 ? rnd() % 10 : rnd() % (FLUX_MSG_ROUTES_MAX + 1);
        while (n-- > 0)
            ck_assert_int_eq(flux_msg_route_push(msg, (uint32_t)rnd()), 0);
    }
    len = rnd() % 3 ? rnd() % 100 : rnd() % 5000;
    char *data = malloc(len + 1);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)rnd();
    data[len] = '\0';
    if (rnd() % 2)
        ck_assert_int_eq(flux_msg_set_raw(msg, data, len), 0);
    else
        ck_assert_int_eq(flux_msg_set_json(msg, data), 0);
    free(data);
    return msg;
}

static void assert_equal(const flux_msg_t *a, const flux_msg_t *b)
{
    size_t la, lb;
    const void *pa = flux_msg_payload(a, &la);
    const void *pb = flux_msg_payload(b, &lb);

    ck_assert_int_eq(flux_msg_type(a), flux_msg_type(b));
    ck_assert_str_eq(flux_msg_topic(a), flux_msg_topic(b));
    ck_assert_uint_eq(flux_msg_flags(a), flux_msg_flags(b));
    ck_assert_uint_eq(flux_msg_nodeid(a), flux_msg_nodeid(b));
    ck_assert_uint_eq(flux_msg_matchtag(a), flux_msg_matchtag(b));
    ck_assert_int_eq(flux_msg_errnum(a), flux_msg_errnum(b));
    ck_assert_uint_eq(flux_msg_seq(a), flux_msg_seq(b));
    ck_assert_uint_eq(flux_msg_incarnation(a), flux_msg_incarnation(b));
    ck_assert_uint_eq(flux_msg_term(a), flux_msg_term(b));
    ck_assert_uint_eq(flux_msg_userid(a), flux_msg_userid(b));
    ck_assert_uint_eq(flux_msg_rolemask(a), flux_msg_rolemask(b));
    ck_assert_uint_eq(flux_msg_route_count(a), flux_msg_route_count(b));
    for (size_t i = 0; i < flux_msg_route_count(a); i++)
        ck_assert_uint_eq(flux_msg_route_at(a, i), flux_msg_route_at(b, i));
    ck_assert_uint_eq(la, lb);
    ck_assert(!pa == !pb);
    if (pa) {
        ck_assert_int_eq(memcmp(pa, pb, la), 0);
        ck_assert_int_eq(((const char *)pa)[la], 0);
        ck_assert_int_eq(((const char *)pb)[lb], 0);
    }
}

/* In memory of exactly its size, so that a sanitizer sees every step beside it. */
static uint8_t *encode(const flux_msg_t *msg, size_t *len)
{
    uint8_t *buf;

    *len = flux_msg_encoded_size(msg);
    ck_assert_ptr_nonnull(buf = malloc(*len));
    flux_msg_encode(msg, buf);
    return buf;
}

START_TEST(round_trip)
{
    for (int i = 0; i < 3000; i++) {
        flux_msg_t *msg = random_msg();
        size_t len;
        uint8_t *buf = encode(msg, &len);
        flux_msg_t *back = flux_msg_decode(buf, len, NULL);
        flux_msg_t *copy = flux_msg_copy(msg);
        size_t len2;
        uint8_t *buf2;

        ck_assert_int_eq(flux_msg_frame_size(buf, len, NULL), (ssize_t)len);
        ck_assert_int_eq(flux_msg_frame_size(buf, FLUX_MSG_HEADER_SIZE, NULL), (ssize_t)len);
        ck_assert_ptr_nonnull(back);
        ck_assert_ptr_nonnull(copy);
        assert_equal(msg, back);
        assert_equal(msg, copy);
        buf2 = encode(back, &len2);
        ck_assert_uint_eq(len, len2);
        ck_assert_int_eq(memcmp(buf, buf2, len), 0);
        flux_msg_destroy(msg);
        assert_equal(back, copy); /* a copy shares nothing */
        flux_msg_destroy(back);
        flux_msg_destroy(copy);
        free(buf);
        free(buf2);
    }
}
END_TEST

START_TEST(truncated)
{
    for (int i = 0; i < 40; i++) {
        flux_msg_t *msg = random_msg();
        size_t len;
        uint8_t *buf = encode(msg, &len);

        for (size_t n = 0; n < len; n++) {
            uint8_t *part = malloc(n ? n : 1);
            errmsg_t err = {""};
            ssize_t size;

            ck_assert_ptr_nonnull(part);
            memcpy(part, buf, n);
            errno = 0;
            ck_assert_ptr_null(flux_msg_decode(part, n, &err));
            ck_assert_int_eq(errno, EPROTO);
            ck_assert_str_ne(err.text, "");
            size = flux_msg_frame_size(part, n, NULL);
            ck_assert_int_eq(size, n < FLUX_MSG_HEADER_SIZE ? 0 : (ssize_t)len);
            free(part);
        }
        uint8_t *more = malloc(len + 1);
        ck_assert_ptr_nonnull(more);
        memcpy(more, buf, len);
        more[len] = 0;
        ck_assert_ptr_null(flux_msg_decode(more, len + 1, NULL));
        ck_assert_int_eq(errno, EPROTO);
        free(more);
        free(buf);
        flux_msg_destroy(msg);
    }
}
END_TEST

/* Every byte of the header with every value, and others at random: refused with an error message,
 * or a message that encodes to just these bytes. */
static void try_bytes(const uint8_t *buf, size_t len)
{
    errmsg_t err = {""};
    flux_msg_t *msg;

    errno = 0;
    if ((msg = flux_msg_decode(buf, len, &err))) {
        size_t len2;
        uint8_t *buf2 = encode(msg, &len2);
        ck_assert_uint_eq(len2, len);
        ck_assert_int_eq(memcmp(buf, buf2, len), 0);
        free(buf2);
        flux_msg_destroy(msg);
    } else {
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_str_ne(err.text, "");
    }
}

START_TEST(corrupted)
{
    for (int i = 0; i < 20; i++) {
        flux_msg_t *msg = random_msg();
        size_t len;
        uint8_t *buf = encode(msg, &len);

        for (size_t pos = 0; pos < FLUX_MSG_HEADER_SIZE; pos++) {
            uint8_t was = buf[pos];
            for (int v = 0; v < 256; v++) {
                buf[pos] = (uint8_t)v;
                try_bytes(buf, len);
            }
            buf[pos] = was;
        }
        for (int k = 0; k < 500; k++) {
            size_t pos = rnd() % len;
            uint8_t was = buf[pos];
            buf[pos] = (uint8_t)rnd();
            try_bytes(buf, len);
            if (k % 50)
                buf[pos] = was;
        }
        free(buf);
        flux_msg_destroy(msg);
    }
}
END_TEST

START_TEST(refused_headers)
{
    static const struct {
        enum flux_msg_type type;
        size_t pos;
        uint8_t value;
        const char *says;
    } bad[] = {
        {FLUX_MSG_REQUEST, 0, 0xf0, "first byte"},
        {FLUX_MSG_REQUEST, 1, 1, "format is 1"},
        {FLUX_MSG_REQUEST, 2, 3, "type 3"},
        {FLUX_MSG_REQUEST, 2, 0, "type 0"},
        {FLUX_MSG_REQUEST, 20, 1, "error number"},
        {FLUX_MSG_RESPONSE, 22, 1, "error number"},
        {FLUX_MSG_REQUEST, 28, 1, "incarnation"},
        {FLUX_MSG_RESPONSE, 31, 1, "sequence"},
        {FLUX_MSG_REQUEST, 32, 0, "topic length"},
        {FLUX_MSG_REQUEST, 33, 1, "topic length"},
        {FLUX_MSG_REQUEST, 35, 5, "routes"},
        {FLUX_MSG_EVENT, 34, 1, "routes"},
        {FLUX_MSG_CONTROL, 34, 1, "routes"},
        {FLUX_MSG_REQUEST, 39, 0x20, "payload of"},
        {FLUX_MSG_REQUEST, 36, 1, "truncated or has"},
        {FLUX_MSG_REQUEST, 44, ' ', "blanks"},
        {FLUX_MSG_REQUEST, 44, 0, "blanks"},
        {FLUX_MSG_REQUEST, 45, 0x7f, "unprintable"},
        {FLUX_MSG_REQUEST, 45, 0x80, "unprintable"},
        {FLUX_MSG_REQUEST, 47, 0, "NUL"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        flux_msg_t *msg = flux_msg_create(bad[i].type, "abc");
        size_t len;
        uint8_t *buf;
        errmsg_t err = {""};

        ck_assert_int_eq(flux_msg_set_json(msg, "{}"), 0);
        buf = encode(msg, &len);
        buf[bad[i].pos] = bad[i].value;
        ck_assert_ptr_null(flux_msg_decode(buf, len, &err));
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "case %zu: %s", i, err.text);
        free(buf);
        flux_msg_destroy(msg);
    }
    /* A stream is known to be bad from its first bytes. */
    ck_assert_int_eq(flux_msg_frame_size("\xf2", 1, NULL), -1);
    ck_assert_int_eq(flux_msg_frame_size("\xf1\x01", 2, NULL), -1);
    ck_assert_int_eq(flux_msg_frame_size("\xf1\x02", 2, NULL), 0);
    ck_assert_int_eq(flux_msg_frame_size(NULL, 0, NULL), 0);
}
END_TEST

START_TEST(topics)
{
    char longest[FLUX_MSG_TOPIC_MAX + 2];
    flux_msg_t *msg;
    static const char *const bad[] = {"", "a b", "a\tb", "a\n", "\x7f", "\xc3\xa4", NULL};

    for (size_t i = 0; bad[i]; i++) {
        errno = 0;
        ck_assert_ptr_null(flux_msg_create(FLUX_MSG_REQUEST, bad[i]));
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_ptr_null(flux_msg_create(FLUX_MSG_REQUEST, NULL));
    memset(longest, 'x', sizeof(longest));
    longest[FLUX_MSG_TOPIC_MAX + 1] = '\0';
    ck_assert_ptr_null(flux_msg_create(FLUX_MSG_REQUEST, longest));
    longest[FLUX_MSG_TOPIC_MAX] = '\0';
    ck_assert_ptr_nonnull(msg = flux_msg_create(FLUX_MSG_REQUEST, longest));
    ck_assert_str_eq(flux_msg_topic(msg), longest);
    flux_msg_destroy(msg);
    for (int t = 0; t < 20; t++) {
        bool ok = t == 1 || t == 2 || t == 4 || t == 8;
        msg = flux_msg_create((enum flux_msg_type)t, "a");
        ck_assert(ok == (msg != NULL));
        flux_msg_destroy(msg);
    }
    ck_assert(flux_topic_prefix("kvs.get", ""));
    ck_assert(flux_topic_prefix("kvs.get", "kvs"));
    ck_assert(flux_topic_prefix("kvs.get", "kvs.get"));
    ck_assert(!flux_topic_prefix("kvs.get", "kvs.get2"));
    ck_assert(!flux_topic_prefix("kvs", "vs"));
}
END_TEST

START_TEST(properties)
{
    flux_msg_t *req = flux_msg_create(FLUX_MSG_REQUEST, "a.b");
    flux_msg_t *ev = flux_msg_create(FLUX_MSG_EVENT, "a.b");
    flux_msg_t *resp;

    ck_assert_uint_eq(flux_msg_nodeid(req), FLUX_NODEID_ANY);
    ck_assert_uint_eq(flux_msg_userid(req), FLUX_USERID_UNKNOWN);
    ck_assert_uint_eq(flux_msg_rolemask(req), 0);
    ck_assert_uint_eq(flux_msg_matchtag(req), FLUX_MATCHTAG_NONE);
    /* Only a response has an error, only an event a number, and only a request an incarnation. */
    flux_msg_set_errnum(req, 5);
    ck_assert_int_eq(flux_msg_errnum(req), 0);
    flux_msg_set_seq(req, 5);
    ck_assert_uint_eq(flux_msg_seq(req), 0);
    flux_msg_set_incarnation(req, 7);
    ck_assert_uint_eq(flux_msg_incarnation(req), 7);
    ck_assert_uint_eq(flux_msg_seq(req), 0);
    flux_msg_set_incarnation(ev, 7);
    ck_assert_uint_eq(flux_msg_incarnation(ev), 0);
    flux_msg_set_seq(ev, UINT64_MAX);
    ck_assert_uint_eq(flux_msg_seq(ev), UINT64_MAX);
    /* Unknown flags do not stick. */
    flux_msg_set_flags(req, ~0u);
    ck_assert_uint_eq(flux_msg_flags(req), FLUX_MSGF_ALL & ~FLUX_MSGF_RAW);
    flux_msg_set_matchtag(req, 9);
    flux_msg_set_nodeid(req, 4);
    for (uint32_t i = 0; i < 9; i++)
        ck_assert_int_eq(flux_msg_route_push(req, i), 0);
    ck_assert_ptr_nonnull(resp = flux_msg_response_create(req, ENOENT));
    ck_assert_int_eq(flux_msg_type(resp), FLUX_MSG_RESPONSE);
    ck_assert_int_eq(flux_msg_errnum(resp), ENOENT);
    ck_assert_uint_eq(flux_msg_matchtag(resp), 9);
    ck_assert_uint_eq(flux_msg_flags(resp), 0);
    ck_assert_str_eq(flux_msg_topic(resp), "a.b");
    ck_assert_uint_eq(flux_msg_route_count(resp), 9);
    ck_assert_uint_eq(flux_msg_route_at(resp, 8), 8);
    ck_assert_uint_eq(flux_msg_route_at(resp, 9), 0);
    flux_msg_set_errnum(resp, -1);
    flux_msg_set_errnum(resp, 4096);
    ck_assert_int_eq(flux_msg_errnum(resp), ENOENT);
    ck_assert_ptr_null(flux_msg_response_create(resp, 0));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(flux_msg_response_create(req, -1));
    ck_assert_ptr_null(flux_msg_response_create(req, 4096));
    flux_msg_destroy(req);
    flux_msg_destroy(resp);
    flux_msg_destroy(ev);
}
END_TEST

/* RAW belongs to the payload: it cannot be set or cleared separately. */
START_TEST(raw_flag)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "a");
    size_t len;

    flux_msg_set_flags(msg, FLUX_MSGF_RAW | FLUX_MSGF_STREAMING);
    ck_assert_uint_eq(flux_msg_flags(msg), FLUX_MSGF_STREAMING);
    errno = 0;
    ck_assert_ptr_null(flux_msg_json(msg));
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(flux_msg_set_raw(msg, "a\0b", 3), 0);
    ck_assert(flux_msg_has_flag(msg, FLUX_MSGF_RAW));
    ck_assert_ptr_null(flux_msg_json(msg));
    flux_msg_set_flags(msg, 0);
    ck_assert_uint_eq(flux_msg_flags(msg), FLUX_MSGF_RAW);
    ck_assert_mem_eq(flux_msg_payload(msg, &len), "a\0b", 4);
    ck_assert_uint_eq(len, 3);
    ck_assert_int_eq(flux_msg_set_json(msg, "{\"a\":1}"), 0);
    ck_assert_uint_eq(flux_msg_flags(msg), 0);
    ck_assert_str_eq(flux_msg_json(msg), "{\"a\":1}");
    /* from its own payload */
    ck_assert_int_eq(flux_msg_set_json(msg, flux_msg_json(msg) + 1), 0);
    ck_assert_str_eq(flux_msg_json(msg), "\"a\":1}");
    ck_assert_int_eq(flux_msg_set_raw(msg, "x", 1), 0);
    ck_assert_int_eq(flux_msg_set_raw(msg, NULL, 0), 0);
    ck_assert_uint_eq(flux_msg_flags(msg), 0);
    ck_assert_ptr_null(flux_msg_payload(msg, &len));
    ck_assert_uint_eq(len, 0);
    ck_assert_int_eq(flux_msg_set_json(msg, "1"), 0);
    ck_assert_int_eq(flux_msg_set_json(msg, NULL), 0);
    ck_assert_ptr_null(flux_msg_payload(msg, NULL));

    char *own = malloc(4);
    memcpy(own, "xyz", 3);
    ck_assert_int_eq(flux_msg_take_raw(msg, own, 3), 0);
    ck_assert_ptr_eq(flux_msg_payload(msg, &len), own);
    ck_assert_int_eq(own[3], 0);
    ck_assert_int_eq(flux_msg_take_raw(msg, malloc(1), 0), 0);
    ck_assert_ptr_null(flux_msg_payload(msg, &len));
    flux_msg_destroy(msg);
}
END_TEST

START_TEST(limits)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "a");
    flux_msg_t *copy;
    flux_msg_t *ev;
    uint32_t id;
    size_t len;
    uint8_t *buf;

    ck_assert_int_eq(flux_msg_route_pop(msg, &id), -1);
    ck_assert_int_eq(errno, ENOENT);
    for (uint32_t i = 0; i < FLUX_MSG_ROUTES_MAX; i++)
        ck_assert_int_eq(flux_msg_route_push(msg, i), 0);
    ck_assert_int_eq(flux_msg_route_push(msg, 0), -1);
    ck_assert_int_eq(errno, EOVERFLOW);
    buf = encode(msg, &len);
    ck_assert_ptr_nonnull(copy = flux_msg_decode(buf, len, NULL));
    assert_equal(copy, msg);
    free(buf);
    for (uint32_t i = FLUX_MSG_ROUTES_MAX; i-- > 0;) {
        ck_assert_int_eq(flux_msg_route_top(copy, &id), 0);
        ck_assert_uint_eq(id, i);
        ck_assert_int_eq(flux_msg_route_pop(copy, NULL), 0);
    }
    ck_assert_int_eq(flux_msg_route_top(copy, NULL), -1);
    /* pushed again where it was full, and beyond what a decoded message had room for */
    ck_assert_int_eq(flux_msg_route_push(copy, 5), 0);
    flux_msg_route_clear(msg);
    ck_assert_uint_eq(flux_msg_route_count(msg), 0);
    flux_msg_destroy(copy);

    errno = 0;
    ck_assert_int_eq(flux_msg_set_raw(msg, "", (size_t)FLUX_MSG_PAYLOAD_MAX + 1), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_int_eq(flux_msg_set_raw(msg, "k", 1), 0);
    errno = 0;
    ck_assert_int_eq(flux_msg_take_raw(msg, malloc(1), (size_t)FLUX_MSG_PAYLOAD_MAX + 1), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_mem_eq(flux_msg_payload(msg, &len), "k", 2); /* left as it was */
    flux_msg_destroy(msg);

    /* What has no way back takes no routes: it could not be encoded. */
    ck_assert_ptr_nonnull(ev = flux_msg_create(FLUX_MSG_EVENT, "e"));
    errno = 0;
    ck_assert_int_eq(flux_msg_route_push(ev, 1), -1);
    ck_assert_int_eq(errno, EINVAL);
    flux_msg_destroy(ev);
}
END_TEST

START_TEST(largest_payload)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "a");
    char *data = calloc(1, (size_t)FLUX_MSG_PAYLOAD_MAX + 1);
    flux_msg_t *back;
    size_t len;
    uint8_t *buf;

    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(flux_msg_take_raw(msg, data, FLUX_MSG_PAYLOAD_MAX), 0);
    buf = encode(msg, &len);
    flux_msg_destroy(msg);
    ck_assert_ptr_nonnull(back = flux_msg_decode(buf, len, NULL));
    free(buf);
    flux_msg_payload(back, &len);
    ck_assert_uint_eq(len, FLUX_MSG_PAYLOAD_MAX);
    flux_msg_destroy(back);
}
END_TEST

START_TEST(references)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "e");

    ck_assert_int_eq(flux_msg_set_json(msg, "{}"), 0);
    for (int i = 0; i < 10; i++)
        ck_assert_ptr_eq(flux_msg_incref(msg), msg);
    for (int i = 0; i < 10; i++) {
        errno = 12345;
        flux_msg_destroy(msg);
        ck_assert_int_eq(errno, 12345);
        ck_assert_str_eq(flux_msg_json(msg), "{}");
    }
    flux_msg_destroy(msg);
    ck_assert_int_eq(errno, 12345);
    flux_msg_destroy(NULL);
}
END_TEST

int main(void)
{
    RUN_SUITE("msg", round_trip, truncated, corrupted, refused_headers, topics, properties,
              raw_flag, limits, largest_payload, references);
}
