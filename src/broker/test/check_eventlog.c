/* check_eventlog.c - what a broker keeps of past events. */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "src/broker/eventlog.h"

static flux_msg_t *event(uint64_t seq, size_t len)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "an.event");
    char *data = calloc(1, len + 1);

    ck_assert_ptr_nonnull(msg);
    memset(data, 'a' + (int)(seq % 26), len);
    flux_msg_set_seq(msg, seq);
    flux_msg_set_nodeid(msg, 7);
    ck_assert_int_eq(flux_msg_set_raw(msg, data, len), 0);
    free(data);
    return msg;
}

struct expect {
    uint64_t seq;
    size_t count;
    size_t stop; /* after as many */
};

static int check(void *arg, flux_msg_t *msg)
{
    struct expect *x = arg;
    size_t len;
    const char *data = flux_msg_payload(msg, &len);

    ck_assert_uint_eq(flux_msg_seq(msg), x->seq);
    ck_assert_uint_eq(flux_msg_nodeid(msg), 7);
    ck_assert_str_eq(flux_msg_topic(msg), "an.event");
    ck_assert_uint_eq(len, 100);
    ck_assert_int_eq(data[99], 'a' + (int)(x->seq % 26));
    x->seq++;
    x->count++;
    flux_msg_destroy(msg);
    return x->count == x->stop ? -1 : 0;
}

static void append(eventlog_t *l, uint64_t seq, size_t len)
{
    flux_msg_t *msg = event(seq, len);

    ck_assert_int_eq(eventlog_append(l, msg), 0);
    flux_msg_destroy(msg);
}

START_TEST(bounded)
{
    flux_msg_t *msg = event(1, 100);
    size_t size = flux_msg_encoded_size(msg);
    eventlog_t *l = eventlog_create(10000 * size);

    flux_msg_destroy(msg);
    ck_assert_ptr_nonnull(l);
    ck_assert_uint_eq(eventlog_count(l), 0);
    for (uint64_t seq = 1; seq <= 35000; seq++) {
        struct expect x = {.seq = seq < 10000 ? 1 : seq - 9999};
        append(l, seq, 100);
        ck_assert_uint_eq(eventlog_count(l), seq < 10000 ? seq : 10000);
        if (seq % 5000 == 1 || seq == 9999 || seq == 10000) {
            ck_assert_int_eq(eventlog_each(l, 0, check, &x), 0);
            ck_assert_uint_eq(x.count, eventlog_count(l));
            ck_assert_uint_eq(x.seq, seq + 1);
        }
    }
    struct expect x = {.seq = 35000 - 9999 + 4321, .stop = 3};
    ck_assert_int_eq(eventlog_each(l, 4321, check, &x), -1);
    ck_assert_uint_eq(x.count, 3);
    x.count = 0;
    ck_assert_int_eq(eventlog_each(l, 10000, check, &x), 0);
    ck_assert_uint_eq(x.count, 0);
    eventlog_clear(l);
    ck_assert_uint_eq(eventlog_count(l), 0);
    append(l, 5, 100);
    ck_assert_uint_eq(eventlog_count(l), 1);
    eventlog_destroy(l);
    eventlog_destroy(NULL);
}
END_TEST

/* One that is larger than all that may be kept stays until the next one comes. */
START_TEST(large)
{
    eventlog_t *l = eventlog_create(1000);
    struct expect x = {.seq = 4};

    append(l, 1, 100);
    append(l, 2, 1000000);
    ck_assert_uint_eq(eventlog_count(l), 1);
    append(l, 3, 500000);
    ck_assert_uint_eq(eventlog_count(l), 1);
    append(l, 4, 100);
    ck_assert_uint_eq(eventlog_count(l), 1);
    append(l, 5, 100);
    ck_assert_uint_eq(eventlog_count(l), 2);
    ck_assert_int_eq(eventlog_each(l, 0, check, &x), 0);
    ck_assert_uint_eq(x.count, 2);
    eventlog_destroy(l);
}
END_TEST

int main(void)
{
    RUN_SUITE("eventlog", bounded, large);
}
