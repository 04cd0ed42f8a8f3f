/* check_log.c - pages of the log, and followers, in slices: an instance on a handle of the test's
 * own. */
#include "config.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "libflux/log_wire.h"
#include "libflux/module.h"
#include "libflux/test/fake.h"
#include "libutil/test/steps.h"
#include "libutil/test/suite.h"

#define CLIENT (1u << 28 | 7)
#define ENTRIES 2000
#define IN_A_SLICE 100 /* more than a slice of a few looks at the clock finds */

extern const struct flux_module flux_module_log;

struct bed {
    struct fake f;
    void *ctx;
    unsigned answers;
    flux_msg_t *last;
    uint32_t tag;
    /* of a stream of responses */
    uint64_t first, next; /* numbers of entries */
    size_t largest, count;
    size_t until; /* number of entries at which the run ends */
};

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    struct log_entries out;
    struct log_entry e;
    const char *json;
    json_t *owner, *o;
    size_t len, i;
    errmsg_t err;

    if (flux_msg_type(msg) != FLUX_MSG_RESPONSE) {
        flux_msg_destroy(msg);
        return;
    }
    b->answers++;
    flux_msg_destroy(b->last);
    b->last = msg;
    if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING) || flux_msg_errnum(msg) != 0)
        return;
    json = flux_msg_payload(msg, &len);
    owner = flux_schema_decode(&log_entries_schema, json, len, &out, &err);
    ck_assert_ptr_nonnull(owner);
    json_array_foreach(out.entries, i, o)
    {
        ck_assert_int_eq(flux_schema_decode_json(&log_entry_schema, o, &e, &err), 0);
        if (b->count++ == 0)
            b->first = e.seq;
        else
            ck_assert_uint_eq(e.seq, b->next);
        b->next = e.seq + 1;
    }
    if (i > b->largest)
        b->largest = i;
    if (b->count >= b->until)
        flux_reactor_stop(b->f.r, 0);
    json_decref(owner);
}

static flux_msg_t *request(struct bed *b, const char *topic, uint8_t flags, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    flux_msg_set_cred(msg, 0, FLUX_ROLE_OWNER);
    flux_msg_set_matchtag(msg, ++b->tag);
    flux_msg_route_push(msg, CLIENT);
    if (flags)
        flux_msg_set_flags(msg, flags);
    flux_msg_set_json(msg, json);
    return msg;
}

static void ask(struct bed *b, const char *topic, uint8_t flags, const char *json)
{
    flux_handle_deliver(b->f.h, request(b, topic, flags, json));
}

static void append(struct bed *b, unsigned n)
{
    char json[100];

    for (unsigned i = 0; i < n; i++) {
        snprintf(json, sizeof(json), "{\"level\":%u,\"source\":\"test\",\"text\":\"entry\"}",
                 i % 1000 == 0 ? 3 : 6);
        ask(b, "log.append", 0, json);
    }
}

static struct bed *bed_create(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    char *argv[] = {"ring-size=2000", "ring-bytes=64M", NULL};
    errmsg_t err = {""};

    ck_assert_ptr_nonnull(b);
    step_ns = 0;
    b->f.user = b;
    b->f.hook = sent;
    (void)fake_ops;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(b->f.h = flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, 0, 1, 42));
    ck_assert_msg(flux_module_log.init(b->f.h, 2, argv, &b->ctx, &err) == 0, "%s", err.text);
    append(b, ENTRIES + 10);
    b->answers = 0;
    return b;
}

static void bed_free(struct bed *b)
{
    step_ns = 0;
    flux_module_log.fini(b->f.h, b->ctx);
    flux_msg_destroy(b->last);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b->f.sent);
    free(b);
}

static void decode(struct bed *b, struct log_page *page, json_t **owner)
{
    size_t len;
    const char *json = flux_msg_payload(b->last, &len);
    errmsg_t err;

    ck_assert_int_eq(flux_msg_errnum(b->last), 0);
    *owner = flux_schema_decode(&log_page_schema, json, len, page, &err);
    ck_assert_msg(*owner != NULL, "%s", err.text);
}

static uint64_t seq_at(const json_t *entries, size_t i)
{
    return (uint64_t)json_integer_value(json_object_get(json_array_get(entries, i), "seq"));
}

/* All pages of a query.  The number of entries, and of pages. */
static size_t dump(struct bed *b, const char *query, bool down, unsigned *pages, uint64_t *first)
{
    uint64_t from = 0, to = INT64_MAX, next = 0;
    struct log_page page;
    size_t n = 0;
    char json[200];
    json_t *owner;

    for (*pages = 0; from <= to; ++*pages) {
        snprintf(json, sizeof(json), "{%s\"from\":%llu,\"to\":%llu}", query,
                 (unsigned long long)from, (unsigned long long)to);
        ask(b, "log.dump", 0, json);
        decode(b, &page, &owner);
        for (size_t i = 0; i < json_array_size(page.entries); i++, n++) {
            uint64_t seq = seq_at(page.entries, i);

            if (n == 0)
                *first = seq;
            else
                ck_assert(down ? seq < next : seq > next);
            next = seq;
        }
        from = page.from;
        to = page.to;
        ck_assert_uint_eq(page.dropped, 10);
        json_decref(owner);
    }
    return n;
}

/* A page has what one slice finds. */
START_TEST(dump_slices)
{
    struct bed *b = bed_create();
    unsigned pages;
    uint64_t first = 0;

    ck_assert_uint_eq(dump(b, "", false, &pages, &first), ENTRIES);
    ck_assert_uint_eq(first, 11);
    step_ns = 500000;
    ck_assert_uint_eq(dump(b, "", false, &pages, &first), ENTRIES);
    ck_assert_uint_eq(first, 11);
    ck_assert_uint_gt(pages, ENTRIES / IN_A_SLICE);
    ck_assert_uint_eq(dump(b, "\"level\":3,", false, &pages, &first), ENTRIES / 1000);
    ck_assert_uint_eq(first, 1001);
    ck_assert_uint_gt(pages, ENTRIES / IN_A_SLICE);
    ck_assert_uint_eq(dump(b, "\"level\":3,\"count\":9,", true, &pages, &first), ENTRIES / 1000);
    ck_assert_uint_eq(first, ENTRIES + 1);
    ck_assert_uint_gt(pages, ENTRIES / IN_A_SLICE);
    ck_assert_uint_eq(dump(b, "\"count\":3,", true, &pages, &first), 3);
    ck_assert_uint_eq(first, ENTRIES + 10);
    ck_assert_uint_eq(pages, 1);
    /* Without numbers: the first page.  Nothing is there beyond the end. */
    ask(b, "log.dump", 0, "{}");
    ck_assert_uint_eq(dump(b, "\"source\":\"other\",", false, &pages, &first), 0);
    ask(b, "log.clear", 0, "{}");
    ck_assert_uint_eq(dump(b, "", false, &pages, &first), 0);
    ck_assert_uint_eq(pages, 1);
    bed_free(b);
}
END_TEST

/* Run until n entries have come. */
static void run(struct bed *b, size_t n)
{
    b->until = n;
    flux_reactor_run(b->f.r);
    ck_assert_uint_eq(b->count, n);
}

/* A follower gets the buffer in slices, and what comes meanwhile after it. */
START_TEST(follow_slices)
{
    struct bed *b = bed_create();

    step_ns = 500000;
    ask(b, "log.follow", FLUX_MSGF_STREAMING, "{}");
    ck_assert_uint_eq(b->answers, 0);
    run(b, ENTRIES);
    ck_assert_uint_gt(b->answers, ENTRIES / IN_A_SLICE);
    ck_assert_uint_eq(b->first, 11);
    ck_assert_uint_lt(b->largest, IN_A_SLICE);
    step_ns = 0;
    append(b, 1);
    run(b, ENTRIES + 1);
    ck_assert_uint_eq(b->next, ENTRIES + 12);
    bed_free(b);
}
END_TEST

/* The last ones are searched for in slices; what comes meanwhile comes after them. */
START_TEST(follow_last)
{
    struct bed *b = bed_create();

    step_ns = 500000;
    ask(b, "log.follow", FLUX_MSGF_STREAMING, "{\"count\":2}");
    append(b, 100);
    run(b, 102);
    ck_assert_uint_eq(b->first, ENTRIES + 9);
    ck_assert_uint_eq(b->next, ENTRIES + 111);
    bed_free(b);
}
END_TEST

/* Who finds none is told so, and a stream can be ended. */
START_TEST(follow_none)
{
    struct bed *b = bed_create();
    uint32_t tag;
    char json[40];

    ask(b, "log.clear", 0, "{}");
    ask(b, "log.follow", FLUX_MSGF_STREAMING, "{\"source\":\"other\"}");
    tag = b->tag;
    b->answers = 0;
    run(b, 0);
    ck_assert_uint_eq(b->answers, 1);
    ck_assert_int_eq(flux_msg_errnum(b->last), 0);
    append(b, ENTRIES);
    b->answers = 0;
    snprintf(json, sizeof(json), "{\"matchtag\":%u}", tag);
    ask(b, "log.cancel", 0, json);
    ck_assert_uint_eq(b->answers, 2);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("log", dump_slices, follow_slices, follow_last, follow_none);
}
