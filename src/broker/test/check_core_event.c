/* check_core_event.c - one order of events at every rank, whatever is lost on the way. */
#include "config.h"

#include "libutil/test/suite.h"
#include "cluster.h"

/* A request to publish or to offer an event, as clients send it. */
static flux_msg_t *event_request(uint32_t rank, const char *method, const char *topic,
                                 const char *json)
{
    flux_msg_t *ev = flux_msg_create(FLUX_MSG_EVENT, topic);
    flux_msg_t *req = flux_msg_create(FLUX_MSG_REQUEST, method);
    char *buf;
    size_t len;

    ck_assert_int_eq(flux_msg_set_json(ev, json), 0);
    flux_msg_set_nodeid(ev, rank + 100); /* not trusted */
    flux_msg_set_cred(ev, 1, FLUX_ROLE_BROKER);
    len = flux_msg_encoded_size(ev);
    buf = malloc(len + 1);
    flux_msg_encode(ev, buf);
    flux_msg_destroy(ev);
    ck_assert_int_eq(flux_msg_take_raw(req, buf, len), 0);
    flux_msg_set_nodeid(req, 0);
    flux_msg_set_matchtag(req, 1000000);
    return req;
}

static flux_msg_t *publish_request(uint32_t rank, const char *topic, const char *json)
{
    return event_request(rank, "event.publish", topic, json);
}

static void publish(struct party *p, const char *topic, const char *json)
{
    flux_msg_t *req = publish_request(core_rank(p->core), topic, json);

    flux_msg_set_matchtag(req, ++p->tag);
    core_endpoint_input(p->ep, req);
}

static void subscribe(struct party *p, const char *prefix)
{
    char json[600];

    snprintf(json, sizeof(json), "{\"prefix\":\"%s\"}", prefix);
    ask_flags(p, "event.subscribe", core_rank(p->core), 0, json);
    expect_answer(p, p->n, 0, "{}");
    flux_msg_destroy(p->kept[--p->n]);
}

/* The received events, as "seq:topic seq:topic" of those after `first`. */
static const char *events(struct party *p, char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < p->n; i++) {
        if (flux_msg_type(p->kept[i]) == FLUX_MSG_EVENT)
            n += (size_t)snprintf(buf + n, size - n, "%s%d:%s", n ? " " : "",
                                  (int)flux_msg_seq(p->kept[i]), flux_msg_topic(p->kept[i]));
    }
    return buf;
}

#define EXPECT_EVENTS(p, text)                                     \
    do {                                                           \
        char buf_[8192];                                           \
        ck_assert_str_eq(events((p), buf_, sizeof(buf_)), (text)); \
    } while (0)

START_TEST(order)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *p[7];
    char want[8192] = "";
    char topic[32];

    for (uint32_t i = 0; i < 7; i++) {
        p[i] = client(cl, i);
        subscribe(p[i], "e");
    }
    /* all publish at the same time; the first at the root is the first everywhere */
    for (int k = 0; k < 10; k++) {
        for (uint32_t i = 0; i < 7; i++) {
            snprintf(topic, sizeof(topic), "e.%u.%d", i, k);
            publish(p[i], topic, "{}");
        }
        for (int s = 0; s < k * 3; s++)
            cl_step(cl);
    }
    cl_pump(cl);
    events(p[0], want, sizeof(want));
    for (uint32_t i = 0; i < 7; i++) {
        size_t n = 0;
        EXPECT_EVENTS(p[i], want);
        ck_assert_uint_eq(core_event_seq(p[i]->core), 71);
        for (size_t k = 0; k < p[i]->n; k++) {
            const flux_msg_t *m = p[i]->kept[k];
            uint32_t rank;
            if (flux_msg_type(m) == FLUX_MSG_RESPONSE) {
                ck_assert_int_eq(flux_msg_errnum(m), 0);
                n++;
                continue;
            }
            /* stamped at the root: who it was, and where */
            ck_assert_int_eq(sscanf(flux_msg_topic(m), "e.%u", &rank), 1);
            ck_assert_uint_eq(flux_msg_nodeid(m), rank);
            ck_assert_uint_eq(flux_msg_userid(m), 1000);
            ck_assert_uint_eq(flux_msg_rolemask(m), FLUX_ROLE_OWNER);
        }
        ck_assert_uint_eq(n, 10);
    }
    cl_free(cl);
}
END_TEST

START_TEST(subscriptions)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *a = client(cl, 1);
    struct party *b = client(cl, 1);
    char longest[FLUX_MSG_TOPIC_MAX + 2];
    char json[600];

    subscribe(a, "x");
    subscribe(a, "x");
    subscribe(a, "x.y");
    subscribe(b, "");
    publish(a, "x.y", NULL);
    publish(b, "z", NULL);
    cl_pump(cl);
    party_clear(a);
    publish(b, "x.y", NULL);
    publish(b, "xx", NULL);
    publish(b, "z", NULL);
    cl_pump(cl);
    EXPECT_EVENTS(a, "4:x.y 5:xx");
    EXPECT_EVENTS(b, "2:x.y 3:z 4:x.y 5:xx 6:z");
    /* counted */
    party_clear(a);
    ask_flags(a, "event.unsubscribe", 1, 0, "{\"prefix\":\"x\"}");
    publish(b, "xx", NULL);
    cl_pump(cl);
    EXPECT_EVENTS(a, "7:xx");
    ask_flags(a, "event.unsubscribe", 1, 0, "{\"prefix\":\"x\"}");
    publish(b, "xx", NULL);
    publish(b, "x.yz", NULL);
    cl_pump(cl);
    EXPECT_EVENTS(a, "7:xx 9:x.yz");
    party_clear(a);
    ask_flags(a, "event.unsubscribe", 1, 0, "{\"prefix\":\"x\"}");
    expect_answer(a, 1, ENOENT, "no subscription to 'x'");
    ask_flags(a, "event.subscribe", 2, 0, "{\"prefix\":\"x\"}");
    cl_pump(cl);
    expect_answer(a, 2, EINVAL, "this is rank 2");
    ask_flags(a, "event.subscribe", 1, 0, "{\"prefix\":1}");
    expect_answer(a, 3, EPROTO, "'prefix'");
    memset(longest, 'q', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    snprintf(json, sizeof(json), "{\"prefix\":\"%s\"}", longest);
    ask_flags(a, "event.subscribe", 1, 0, json);
    expect_answer(a, 4, EINVAL, "cannot subscribe");
    /* an endpoint that is gone gets nothing */
    party_clear(a);
    core_endpoint_remove(a->ep, 0, "gone");
    publish(b, "x.y", NULL);
    cl_pump(cl);
    ck_assert_uint_eq(a->n, 0);
    cl_free(cl);
}
END_TEST

START_TEST(refused)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *m = party_create(cl, 1, ENDPOINT_MODULE, NULL);
    flux_msg_t *req;

    publish(c, "kvs.fake", NULL);
    cl_pump(cl);
    expect_answer(c, 1, EPERM, "topic kvs.fake is reserved");
    publish(c, "overlay.down", NULL);
    cl_pump(cl);
    expect_answer(c, 2, EPERM, "reserved");
    publish(m, "kvs.real", NULL);
    cl_pump(cl);
    expect_answer(m, 1, 0, "{\"seq\":2}");
    ask_flags(c, "event.publish", 0, 0, "{}");
    cl_pump(cl);
    expect_answer(c, 3, EPROTO, "needs an encoded event");
    ask_flags(c, "event.publish", 1, 0, "{}");
    expect_answer(c, 4, EINVAL, "published at rank 0, not at rank 1");
    req = publish_request(1, "x", NULL);
    ck_assert_int_eq(flux_msg_set_raw(req, "rubbish", 7), 0);
    core_endpoint_input(c->ep, req);
    cl_pump(cl);
    expect_answer(c, 5, EPROTO, "event.publish: ");
    /* a message, but no event */
    flux_msg_t *inner = publish_request(1, "x", NULL);
    size_t len = flux_msg_encoded_size(inner);
    char *buf = malloc(len + 1);
    flux_msg_encode(inner, buf);
    flux_msg_destroy(inner);
    req = publish_request(1, "x", NULL);
    ck_assert_int_eq(flux_msg_take_raw(req, buf, len), 0);
    core_endpoint_input(c->ep, req);
    cl_pump(cl);
    expect_answer(c, 6, EPROTO, "is not an event");
    ck_assert_uint_eq(core_event_seq(cl->nodes[0].core), 2);
    /* without waiting for the number */
    req = publish_request(1, "x", NULL);
    flux_msg_set_flags(req, FLUX_MSGF_NORESPONSE);
    core_endpoint_input(c->ep, req);
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 6);
    ck_assert_uint_eq(core_event_seq(cl->nodes[2].core), 3);
    cl_free(cl);
}
END_TEST

/* An array that opens and closes as often as its text allows. */
static char *many_values(size_t len)
{
    char *text = malloc(len + 1);

    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < len; i++)
        text[i] = "[],"[i % 3];
    text[0] = '[';
    text[len - 1] = ']';
    text[len] = '\0';
    return text;
}

/* Whoever has subscribed to an event parses it; its publisher's request is raw, so that nobody has
 * counted before. */
START_TEST(large_json)
{
    struct cluster *cl = cl_up(2, "kary:2");
    struct party *c = client(cl, 1);
    struct party *m = party_create(cl, 1, ENDPOINT_MODULE, NULL);
    char *values = many_values(900000);
    char *text = malloc((9 << 20) + 1);

    ck_assert_ptr_nonnull(text);
    memset(text, 'x', 9 << 20);
    text[0] = text[(9 << 20) - 1] = '"';
    text[9 << 20] = '\0';
    publish(c, "x", values);
    cl_pump(cl);
    expect_answer(c, 1, EMSGSIZE, "event x: the JSON payload has more than 262144 values");
    publish(c, "x", text);
    cl_pump(cl);
    expect_answer(c, 2, EMSGSIZE, "event x: a JSON payload of 94371");
    ck_assert_uint_eq(core_event_seq(cl->nodes[0].core), 1);
    /* one long string is cheap */
    text[7 << 20] = '"';
    text[(7 << 20) + 1] = '\0';
    publish(c, "x", text);
    cl_pump(cl);
    expect_answer(c, 3, 0, "{\"seq\":2}");
    /* modules know what they say */
    publish(m, "x", values);
    cl_pump(cl);
    expect_answer(m, 1, 0, "{\"seq\":3}");
    free(values);
    free(text);
    cl_free(cl);
}
END_TEST

/* Events lost on the event plane are asked for, and come in order. */
START_TEST(gap)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *pub = client(cl, 0);
    struct party *leaf = client(cl, 3);
    struct core_stats st;
    char topic[16];

    subscribe(leaf, "e");
    for (int i = 0; i < 9; i++) {
        cl->nodes[1].deaf_to_events = i % 3 != 2;
        snprintf(topic, sizeof(topic), "e%d", i);
        publish(pub, topic, NULL);
        cl_pump(cl);
    }
    EXPECT_EVENTS(leaf, "2:e0 3:e1 4:e2 5:e3 6:e4 7:e5 8:e6 9:e7 10:e8");
    core_get_stats(cl->nodes[1].core, &st);
    ck_assert_uint_eq(st.gaps, 3);
    core_get_stats(cl->nodes[0].core, &st);
    ck_assert_uint_eq(st.replays, 3);
    /* duplicate and old events are ignored */
    flux_msg_t *old = flux_msg_create(FLUX_MSG_EVENT, "e.old");
    flux_msg_set_seq(old, 10);
    flux_msg_set_term(old, FLUX_TERM_FIRST);
    core_link_input(cl->nodes[1].core, CORE_EVENT, 0, old);
    old = flux_msg_create(FLUX_MSG_EVENT, "e.old"); /* not numbered */
    flux_msg_set_term(old, FLUX_TERM_FIRST);
    core_link_input(cl->nodes[1].core, CORE_TREE, 0, old);
    cl_pump(cl);
    ck_assert_uint_eq(core_event_seq(cl->nodes[1].core), 10);
    cl_free(cl);
}
END_TEST

/* A newer event that overtakes the replay is not forgotten. */
START_TEST(overtaken)
{
    struct cluster *cl = cl_up(2, "flat");
    struct party *pub = client(cl, 0);
    struct party *leaf = client(cl, 1);
    struct frame *f;

    subscribe(leaf, "e");
    cl->nodes[1].deaf_to_events = true;
    publish(pub, "e1", NULL);
    cl->nodes[1].deaf_to_events = false;
    publish(pub, "e2", NULL);
    ck_assert(cl_step(cl)); /* the leaf asks for a replay */
    ck_assert(cl_step(cl)); /* the root has put it on the tree */
    publish(pub, "e3", NULL);
    /* e3 first: it is the last in the queue */
    struct frame **last = &cl->head;
    while ((*last)->next)
        last = &(*last)->next;
    f = *last;
    *last = NULL;
    cl->tail = last;
    core_link_input(cl->nodes[1].core, f->plane, f->from, f->msg);
    free(f);
    cl_pump(cl);
    EXPECT_EVENTS(leaf, "2:e1 3:e2 4:e3");
    cl_free(cl);
}
END_TEST

/* Events that the parent no longer keeps are skipped, with a log message, and the rest follows. */
START_TEST(skip)
{
    struct cluster *cl = cl_up(3, "chain");
    struct party *pub = client(cl, 0);
    struct party *leaf = client(cl, 2);
    char json[300] = "\"";
    char topic[16];

    memset(json + 1, 'x', sizeof(json) - 3);
    strcpy(json + sizeof(json) - 3, "\"");
    subscribe(leaf, "e");
    cl->nodes[1].deaf_to_events = true;
    for (int i = 0; i < 10; i++) {
        snprintf(topic, sizeof(topic), "e%d", i);
        publish(pub, topic, json);
    }
    cl->nodes[1].deaf_to_events = false;
    publish(pub, "e10", json);
    cl_pump(cl);
    /* the buffer of 1000 bytes holds two */
    EXPECT_EVENTS(leaf, "10:event.lost 11:e9 12:e10");
    for (size_t i = 0; i < leaf->n; i++) {
        if (strcmp(flux_msg_topic(leaf->kept[i]), "event.lost") == 0)
            ck_assert_str_eq(flux_msg_json(leaf->kept[i]), "{\"from\":2,\"to\":10}");
    }
    ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, "rank 1 missed events 2 to 10"));
    ck_assert_ptr_nonnull(strstr(cl->nodes[2].log, "rank 2 missed events 2 to 10"));
    publish(pub, "e11", NULL);
    cl_pump(cl);
    EXPECT_EVENTS(leaf, "10:event.lost 11:e9 12:e10 13:e11");
    cl_free(cl);
}
END_TEST

/* The last events are missed, and no other follows.  The parent knows that its link did not wait
 * for a child, and says which events its children should have.  Meanwhile it keeps more than usual,
 * and sends them in parts. */
START_TEST(missed_at_the_end)
{
    struct cluster *cl = cl_up(3, "chain");
    struct party *pub = client(cl, 0);
    struct party *leaf = client(cl, 2);
    const size_t size = 300000;
    char *json = malloc(size + 1);
    char want[512] = "";
    size_t n = 0;

    ck_assert_ptr_nonnull(json);
    memset(json, 'x', size);
    json[0] = json[size - 1] = '"';
    json[size] = '\0';
    subscribe(leaf, "e");
    core_event_slow(cl->nodes[0].core, true);
    core_event_slow(cl->nodes[1].core, false);
    cl->nodes[1].deaf_to_events = true;
    for (int i = 0; i < 10; i++) {
        char topic[16];

        snprintf(topic, sizeof(topic), "e%d", i);
        publish(pub, topic, json);
        n += (size_t)snprintf(want + n, sizeof(want) - n, "%s%d:%s", n ? " " : "", i + 2, topic);
    }
    cl_pump(cl);
    EXPECT_EVENTS(leaf, "");
    cl->nodes[1].deaf_to_events = false;
    cl_sleep(cl, 3.);
    EXPECT_EVENTS(leaf, want);
    free(json);
    cl_free(cl);
}
END_TEST

/* Ranks below a lost broker are told that no more events come. */
START_TEST(cut_off)
{
    struct cluster *cl = cl_up(3, "chain");
    struct party *leaf = client(cl, 2);

    subscribe(leaf, "e");
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 0, "it is gone");
    cl_pump(cl);
    EXPECT_EVENTS(leaf, "2:event.lost");
    ck_assert_str_eq(flux_msg_json(leaf->kept[leaf->n - 1]), "{\"from\":2,\"to\":0}");
    cl_free(cl);
}
END_TEST

/* A broker that joins after the first events begins after them, and so do those below it, even if
 * they said hello before it was welcomed. */
START_TEST(late_joiners)
{
    struct cluster *cl = cl_create(4, "chain");
    struct party *pub = client(cl, 0);
    struct party *leaf = client(cl, 3);

    subscribe(leaf, "e");
    for (uint32_t i = 3; i >= 2; i--)
        ck_assert_int_eq(core_start(cl->nodes[i].core), 0);
    cl_pump(cl);
    ck_assert_int_eq(core_start(cl->nodes[0].core), 0);
    for (int i = 0; i < 5; i++)
        publish(pub, "e.before", NULL);
    ck_assert_int_eq(core_start(cl->nodes[1].core), 0);
    cl_pump(cl);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(core_event_seq(cl->nodes[i].core), 5);
    publish(pub, "e.after", NULL);
    cl_pump(cl);
    EXPECT_EVENTS(leaf, "6:e.after");
    for (uint32_t i = 0; i < 4; i++) {
        struct core_stats st;
        core_get_stats(cl->nodes[i].core, &st);
        ck_assert_str_eq(cl->nodes[i].log, "");
        ck_assert_uint_eq(st.gaps, 0);
    }
    /* with the event link in place the same */
    for (uint32_t i = 1; i < 4; i++)
        cl_event_links(cl, i);
    publish(pub, "e.end", NULL);
    cl_pump(cl);
    EXPECT_EVENTS(leaf, "6:e.after 7:e.end");
    ck_assert_uint_eq(cl->sent[CORE_EVENT], 3);
    cl_free(cl);
}
END_TEST

/* Events may come by the event plane before the welcome. */
START_TEST(early)
{
    struct cluster *cl = cl_create(2, "flat");
    struct party *pub = client(cl, 0);
    struct party *leaf = client(cl, 1);

    subscribe(leaf, "");
    cl_event_links(cl, 1);
    ck_assert_int_eq(core_start(cl->nodes[0].core), 0);
    for (int i = 0; i < 1500; i++)
        publish(pub, "e", NULL);
    cl_pump(cl);
    party_clear(pub);
    ck_assert_int_eq(core_start(cl->nodes[1].core), 0);
    ck_assert(cl_step(cl)); /* the root's welcome is on its way: after 1500 */
    publish(pub, "e", NULL);
    publish(pub, "e", NULL);
    /* they overtake it */
    struct frame *welcome = cl->head;
    cl->head = welcome->next;
    cl_pump(cl);
    ck_assert_uint_eq(leaf->n, 0);
    core_link_input(cl->nodes[1].core, welcome->plane, welcome->from, welcome->msg);
    free(welcome);
    cl_pump(cl);
    EXPECT_EVENTS(leaf, "1501:e 1502:e");
    cl_free(cl);
}
END_TEST

struct trouble {
    struct party *victims[2];
    bool done;
};

static void remove_others(struct party *p, const flux_msg_t *msg)
{
    struct trouble *t = p->user;

    if (flux_msg_type(msg) == FLUX_MSG_EVENT && !t->done) {
        t->done = true;
        for (int i = 0; i < 2; i++) {
            core_endpoint_remove(t->victims[i]->ep, 0, "in the middle");
            t->victims[i]->ep = NULL;
        }
    }
}

/* A subscriber that removes others while it is called: the rest still get the event once. */
START_TEST(subscribers_go)
{
    for (int which = 0; which < 4; which++) {
        struct cluster *cl = cl_up(1, "flat");
        struct party *p[5];
        struct trouble t = {.done = false};
        int v = 0;

        for (int i = 0; i < 5; i++) {
            p[i] = client(cl, 0);
            subscribe(p[i], "e");
        }
        for (int i = 1; i < 5 && v < 2; i++) {
            if ((which + i) % 2)
                t.victims[v++] = p[which == 3 ? i - 1 : i];
        }
        int killer = which == 3 ? 4 : 0;
        if (t.victims[0] == p[killer] || t.victims[1] == p[killer])
            killer = 1;
        p[killer]->hook = remove_others;
        p[killer]->user = &t;
        publish(p[killer], "e", NULL);
        for (int i = 0; i < 5; i++) {
            size_t n = 0;
            for (size_t k = 0; k < p[i]->n; k++)
                n += flux_msg_type(p[i]->kept[k]) == FLUX_MSG_EVENT;
            if (p[i]->ep)
                ck_assert_uint_eq(n, 1);
            else
                ck_assert_uint_le(n, 1);
        }
        cl_free(cl);
    }
}
END_TEST

static void publish_more(struct party *p, const flux_msg_t *msg)
{
    if (flux_msg_type(msg) == FLUX_MSG_EVENT && flux_msg_seq(msg) < 6) {
        publish(p, "e.first", NULL);
        publish(p, "e.second", NULL);
    }
}

static void run_state(struct node *nd, enum core_state s)
{
    if (s == CORE_RUN && nd->rank == 0)
        ck_assert_int_eq(flux_event_send(core_handle(nd->core), "e.run", NULL), 0);
}

/* An event that is published while another is being delivered comes after it, for every subscriber.
 * */
START_TEST(nested)
{
    struct cluster *cl = cl_create(2, "flat");
    struct party *p[3];

    for (int i = 0; i < 3; i++) {
        p[i] = client(cl, i / 2);
        subscribe(p[i], "");
    }
    p[0]->hook = publish_more;
    cl->nodes[0].on_state = run_state;
    cl_start(cl);
    for (int i = 0; i < 2; i++)
        core_local_ready(cl->nodes[i].core);
    cl_pump(cl);
    publish(p[2], "e.start", NULL);
    cl_pump(cl);
    for (int i = 0; i < 3; i++) {
        uint64_t seq = 0;
        for (size_t k = 0; k < p[i]->n; k++) {
            if (flux_msg_type(p[i]->kept[k]) == FLUX_MSG_EVENT)
                ck_assert_uint_eq(flux_msg_seq(p[i]->kept[k]), ++seq);
        }
        ck_assert_uint_eq(seq, core_event_seq(cl->nodes[0].core));
        ck_assert_uint_ge(seq, 13);
    }
    ck_assert_uint_eq(core_event_seq(cl->nodes[1].core), core_event_seq(cl->nodes[0].core));
    cl_free(cl);
}
END_TEST

/* Offer a heartbeat at rank 0.  Returns its number, or 0: nobody awaits it, and nothing is sent. */
static uint64_t offer(struct cluster *cl, struct party *hb)
{
    uint64_t before = core_event_seq(hb->core);
    char want[64];

    cl_sleep(cl, 5.);
    memset(cl->sent, 0, sizeof(cl->sent));
    core_endpoint_input(hb->ep, event_request(0, "event.offer", "hb", "{}"));
    cl_pump(cl);
    if (core_event_seq(hb->core) == before) {
        ck_assert_uint_eq(cl->sent[CORE_TREE] + cl->sent[CORE_EVENT] + cl->sent[CORE_RING], 0);
        before = UINT64_MAX;
    }
    snprintf(want, sizeof(want), "{\"seq\":%llu}", (unsigned long long)(before + 1));
    expect_answer(hb, hb->n, 0, want);
    party_clear(hb);
    return before + 1;
}

/* The last heartbeats have reached this subscriber. */
static void expect_beat(const struct party *p, uint64_t seq)
{
    ck_assert_uint_gt(seq, 0);
    ck_assert_uint_gt(p->n, 0);
    ck_assert_str_eq(flux_msg_topic(p->kept[p->n - 1]), "hb");
    ck_assert_uint_eq(flux_msg_seq(p->kept[p->n - 1]), seq);
}

/* Heartbeats are sent while somebody has subscribed, whose broker says so once. */
START_TEST(offered)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *hb = module(cl, 0, "hb");
    struct party *p, *all;

    ck_assert_uint_eq(offer(cl, hb), 0);
    p = client(cl, 5);
    subscribe(p, "hbs");
    ck_assert_uint_eq(offer(cl, hb), 0);
    subscribe(p, "hb");
    cl_pump(cl);
    ck_assert_uint_eq(cl->sent[CORE_TREE], 2);
    memset(cl->sent, 0, sizeof(cl->sent));
    subscribe(p, "hb");
    all = client(cl, 6);
    cl_pump(cl);
    ck_assert_uint_eq(cl->sent[CORE_TREE], 0);
    subscribe(all, "");
    cl_pump(cl);
    ck_assert_uint_eq(cl->sent[CORE_TREE], 1); /* rank 2 has told rank 0 already */
    expect_beat(p, offer(cl, hb));
    ck_assert_uint_eq(cl->sent[CORE_EVENT], 6);
    ck_assert_uint_eq(cl->sent[CORE_TREE], 0);
    party_leave(p);
    expect_beat(all, offer(cl, hb));
    ck_assert_uint_eq(cl->sent[CORE_TREE], 1);
    expect_beat(all, offer(cl, hb));
    ck_assert_uint_eq(cl->sent[CORE_TREE], 0);
    party_leave(all);
    ck_assert_uint_gt(offer(cl, hb), 0); /* rank 0 learns from this one that nobody is left */
    ck_assert_uint_eq(offer(cl, hb), 0);
    p = client(cl, 0);
    subscribe(p, "h");
    expect_beat(p, offer(cl, hb));
    party_leave(p);
    ck_assert_uint_eq(offer(cl, hb), 0);
    cl_free(cl);
}
END_TEST

/* Subscribers below a broker that dies go on, and those of a dead broker are forgotten. */
START_TEST(offered_around_a_loss)
{
    struct cluster *cl;
    struct party *hb, *p, *again;

    cl_heal_timeout = 5.;
    cl_settle = 10.;
    cl = cl_up(7, "kary:2");
    hb = module(cl, 0, "hb");
    p = client(cl, 3);
    subscribe(p, "hb");
    expect_beat(p, offer(cl, hb));
    cl_kill(cl, 1);
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    expect_beat(p, offer(cl, hb));
    cl_restart(cl, 1);
    cl_pump(cl);
    core_local_ready(cl->nodes[1].core);
    cl_sleep(cl, 100.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    expect_beat(p, offer(cl, hb));
    expect_beat(p, offer(cl, hb));
    again = client(cl, 5);
    subscribe(again, "hb");
    cl_kill(cl, 3);
    cl_sleep(cl, 2.);
    expect_beat(again, offer(cl, hb));
    cl_kill(cl, 5);
    cl_restart(cl, 5);
    cl_pump(cl);
    core_local_ready(cl->nodes[5].core);
    cl_sleep(cl, 100.);
    (void)offer(cl, hb);
    ck_assert_uint_eq(offer(cl, hb), 0);
    cl_free(cl);
    cl_heal_timeout = cl_settle = 0.;
}
END_TEST

/* Only services of the broker offer events, and only heartbeats. */
START_TEST(offers_refused)
{
    struct cluster *cl = cl_up(2, "flat");
    struct party *p = client(cl, 0), *m = module(cl, 0, "hb");

    core_endpoint_input(p->ep, event_request(0, "event.offer", "hb", "{}"));
    expect_answer(p, 1, EPERM, "");
    core_endpoint_input(m->ep, event_request(0, "event.offer", "other", "{}"));
    expect_answer(m, 1, EINVAL, "the topic is hb, not other");
    cl_free(cl);
}
END_TEST

int main(void)
{
    RUN_SUITE("core_event", order, subscriptions, refused, large_json, gap, overtaken, skip,
              missed_at_the_end, cut_off, late_joiners, early, subscribers_go, nested, offered,
              offered_around_a_loss, offers_refused);
}
