/* check_barrier.c - what the barrier module does when events were lost, and of which ranks it
 * knows: an instance on a handle of the test's own. */
#include "config.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "libflux/module.h"
#include "libflux/test/fake.h"
#include "libutil/test/steps.h"
#include "libutil/test/suite.h"

extern const struct flux_module flux_module_barrier;

struct bed {
    struct fake f;
    void *ctx;
    flux_watcher_t *stop;
    int errnum; /* of the last response to a participant, -1: none */
    char text[256];
    flux_msg_t *asked; /* overlay.status, to be answered */
    unsigned aborted;  /* responses that a participant went away, */
    unsigned until;    /* of which this many end the run */
    bool ends;         /* the list ends the run */
    unsigned pages;
    size_t listed;
};

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    size_t len;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        const char *text = flux_msg_payload(msg, &len);
        b->errnum = flux_msg_errnum(msg);
        if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
            b->pages++;
            for (const char *p = text; (p = strstr(p, "\"nprocs\":3,\"entered\":1,")); p++)
                b->listed++;
        }
        b->aborted += text && strstr(text, "a participant of rank 0 went away");
        if (b->ends ? b->errnum == ENODATA : b->until && b->aborted == b->until)
            flux_reactor_stop(b->f.r, 0);
        snprintf(b->text, sizeof(b->text), "%.*s", text ? (int)len : 0, text ? text : "");
    } else if (strcmp(flux_msg_topic(msg), "overlay.status") == 0) {
        ck_assert_ptr_null(b->asked);
        b->asked = msg;
        return;
    }
    flux_msg_destroy(msg);
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static struct bed *bed_create(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    errmsg_t err;

    ck_assert_ptr_nonnull(b);
    b->f.user = b;
    b->f.hook = sent;
    b->errnum = -1;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(b->f.h = flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, 0, 4, 42));
    (void)fake_ops;
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f.r, stop_cb, b));
    ck_assert_int_eq(flux_module_barrier.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    return b;
}

static void bed_free(struct bed *b)
{
    flux_module_barrier.fini(b->f.h, b->ctx);
    flux_msg_destroy(b->asked);
    flux_watcher_destroy(b->stop);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b->f.sent);
    free(b);
}

static void ask(struct bed *b, const char *topic, uint32_t sender, uint32_t roles, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    static uint32_t tag;

    flux_msg_set_cred(msg, 0, roles);
    flux_msg_set_matchtag(msg, ++tag);
    flux_msg_route_push(msg, sender);
    flux_msg_set_json(msg, json);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
}

static void event(struct bed *b, const char *topic, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    flux_msg_set_json(msg, json);
    flux_handle_deliver(b->f.h, msg);
}

/* What overlay.status says when it is asked. */
static void lost_ranks(struct bed *b, const char *lost)
{
    char json[300];
    flux_msg_t *resp;

    ck_assert_ptr_nonnull(b->asked);
    resp = flux_msg_response_create(b->asked, 0);
    flux_msg_destroy(b->asked);
    b->asked = NULL;
    snprintf(json, sizeof(json),
             "{\"rank\":0,\"size\":4,\"state\":\"up\",\"up\":\"0-1,3\",\"lost\":\"%s\","
             "\"topology\":\"kary:2\"}",
             lost);
    flux_msg_set_json(resp, json);
    flux_handle_deliver(b->f.h, resp);
    flux_timer_start(b->stop, 0.005, 0.);
    flux_reactor_run(b->f.r);
}

#define CLIENT (1u << 28 | 7)

/* The list has n barriers of three, with one participant each. */
static void list(struct bed *b, size_t n)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "barrier.list");

    flux_msg_set_cred(msg, 0, FLUX_ROLE_OWNER);
    flux_msg_set_matchtag(msg, 1u << 20);
    flux_msg_route_push(msg, CLIENT + 2);
    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    b->listed = 0;
    b->ends = true;
    flux_handle_deliver(b->f.h, msg);
    flux_reactor_run(b->f.r);
    ck_assert_uint_eq(b->listed, n);
}

/* The event that told of the loss of a rank is one of those that were lost. */
START_TEST(loss_unheard)
{
    struct bed *b = bed_create();

    ask(b, "barrier.enter", CLIENT, FLUX_ROLE_OWNER,
        "{\"name\":\"x\",\"nprocs\":4,\"ranks\":\"0-3\"}");
    event(b, "event.lost", "{\"from\":3,\"to\":7}");
    lost_ranks(b, "");
    ck_assert_int_eq(b->errnum, -1);
    event(b, "event.lost", "{\"from\":8,\"to\":9}");
    lost_ranks(b, "2");
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ck_assert_ptr_nonnull(strstr(b->text, "rank 2 is lost"));
    bed_free(b);
}
END_TEST

/* Ranks are those that the participants name, here or below. */
START_TEST(ranks_of_participants)
{
    struct bed *b = bed_create();
    const uint32_t owner = FLUX_ROLE_OWNER;

    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":3,\"ranks\":\"0-1\"}");
    event(b, "overlay.down", "{\"ranks\":\"3\"}");
    ck_assert_int_eq(b->errnum, -1);
    ask(b, "barrier.join", 1, FLUX_ROLE_BROKER,
        "{\"name\":\"x\",\"nprocs\":3,\"seq\":1,\"total\":1,\"ranks\":\"2-3\"}");
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ck_assert_ptr_nonnull(strstr(b->text, "rank 3 is lost"));
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":3,\"ranks\":\"3\"}");
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"0\"}");
    ck_assert_int_eq(b->errnum, 0);
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"4\"}");
    ck_assert_int_eq(b->errnum, EINVAL);
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"a\"}");
    ck_assert_int_eq(b->errnum, EINVAL);
    bed_free(b);
}
END_TEST

/* Who goes away takes down the barriers that it has entered, and no others. */
START_TEST(participant_gone)
{
    struct bed *b = bed_create();
    const uint32_t owner = FLUX_ROLE_OWNER;

    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"x\",\"nprocs\":3,\"ranks\":\"0\"}");
    ask(b, "barrier.enter", CLIENT, owner, "{\"name\":\"y\",\"nprocs\":3,\"ranks\":\"0\"}");
    ask(b, "barrier.enter", CLIENT + 1, owner, "{\"name\":\"z\",\"nprocs\":3,\"ranks\":\"0\"}");
    ask(b, "barrier.disconnect", CLIENT, FLUX_ROLE_BROKER, "{}");
    /* They have failed before their names are used again. */
    ask(b, "barrier.enter", CLIENT + 1, owner, "{\"name\":\"x\",\"nprocs\":1,\"ranks\":\"0\"}");
    ck_assert_int_eq(b->errnum, 0);
    list(b, 1);
    ck_assert_uint_eq(b->aborted, 2);
    bed_free(b);
}
END_TEST

/* A long list has several pages. */
START_TEST(list_slices)
{
    enum { MANY = 3000 };
    struct bed *b = bed_create();
    char json[80];

    list(b, 0);
    ck_assert_uint_eq(b->pages, 1);
    for (int i = 0; i < MANY; i++) {
        snprintf(json, sizeof(json), "{\"name\":\"b%d\",\"nprocs\":3,\"ranks\":\"0\"}", i);
        ask(b, "barrier.enter", CLIENT, FLUX_ROLE_OWNER, json);
    }
    b->pages = 0;
    step_ns = 500000;
    list(b, MANY);
    step_ns = 0;
    ck_assert_uint_gt(b->pages, MANY / 100);
    /* Its end fails them all, in slices. */
    step_ns = 500000;
    ask(b, "barrier.disconnect", CLIENT, FLUX_ROLE_BROKER, "{}");
    ck_assert_uint_eq(b->aborted, 0);
    list(b, 0);
    ck_assert_uint_lt(b->aborted, MANY);
    step_ns = 0;
    b->ends = false;
    b->until = MANY;
    flux_reactor_run(b->f.r);
    ck_assert_uint_eq(b->aborted, MANY);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("barrier", loss_unheard, ranks_of_participants, participant_gone, list_slices);
}
