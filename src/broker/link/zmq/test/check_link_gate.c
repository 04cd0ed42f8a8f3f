/* check_link_gate.c - which peers may connect to a link: unknown keys, wrong keys, false claims,
 * peers that are slow to authenticate. */
#include "link_bed.h"
#include "libutil/test/suite.h"

START_TEST(test_unknown_key)
{
    errmsg_t err = {""};

    create(0, 2, "flat", true);
    create(1, 2, "flat", true);
    bind_node(0, true);
    bind_node(1, true);
    /* Rank 0 expects another key. */
    char pub[41], sec[41];
    ck_assert_int_eq(zmq_curve_keypair(pub, sec), 0);
    ck_assert_int_eq(link_allow(node[0].link, 1, pub, &err), 0);
    allow_all(1);
    connect_node(0);
    connect_node(1);
    ck_assert_int_eq(link_start(node[0].link, &err), 0);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    send_from(1, CORE_TREE, 0, 1, 10, false);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    ck_assert_uint_eq(node[0].core.event_up[1], 0);
    ck_assert_ptr_nonnull(strstr(node[0].log, "refused"));
}
END_TEST

START_TEST(test_false_claim)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.claim");
    char buf[256];
    void *ctx = zmq_ctx_new();
    void *s;

    two_of_three();
    ck_assert_uint_le(flux_msg_encoded_size(msg), sizeof(buf));
    flux_msg_encode(msg, buf);
    /* Rank 1's key, rank 2's name. */
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\2intruder", LINK_ID_SIZE);
    zmq_send(s, buf, flux_msg_encoded_size(msg), 0);
    run_for(0.5);
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    ck_assert_uint_eq(link_of(0)->stats.misclaimed, 1);
    ck_assert_ptr_nonnull(strstr(node[0].log, "the key of another rank"));
    zmq_close(s);
    zmq_ctx_term(ctx);
    flux_msg_destroy(msg);
}
END_TEST

/* Frames that no broker sends, from an authenticated peer. */
START_TEST(test_malformed)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.good");
    size_t len = flux_msg_encoded_size(msg);
    char buf[256], junk[256];
    void *ctx = zmq_ctx_new(), *s, *odd;

    two_of_three();
    flux_msg_encode(msg, buf);
    memset(junk, 0xa5, sizeof(junk));
    odd = intruder(ctx, node[1].key.pub, node[1].key.sec, NULL, 0); /* ZeroMQ's own kind of id */
    zmq_send(odd, buf, len, 0);
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1intruder", LINK_ID_SIZE);
    zmq_send(s, junk, sizeof(junk), 0); /* not a message */
    zmq_send(s, junk, 7, 0);            /* not a control word */
    zmq_send(s, "", 0, 0);              /* nothing, which is allowed */
    zmq_send(s, buf, len - 1, 0);       /* truncated */
    zmq_send(s, buf, len, ZMQ_SNDMORE); /* too many parts */
    zmq_send(s, buf, len, 0);
    memcpy(junk, buf, len);
    zmq_send(s, junk, sizeof(junk), 0); /* one message, and junk behind it */
    zmq_send(s, buf, len, 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 2, PATIENCE));
    run_for(0.3);
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 2);
    ck_assert_str_eq(node[0].core.last_topic, "check.good");
    ck_assert_uint_eq(link_of(0)->stats.malformed, 5);
    ck_assert_uint_eq(link_of(0)->stats.misclaimed, 1);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    zmq_close(s);
    zmq_close(odd);
    zmq_ctx_term(ctx);
    flux_msg_destroy(msg);
}
END_TEST

/* A neighbor whose messages have another format is refused with a reason, and counts as lost. */
START_TEST(test_other_version)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.old");
    size_t len = flux_msg_encoded_size(msg);
    char buf[256], word[64] = "";
    void *ctx = zmq_ctx_new(), *s;

    two_of_three();
    ck_assert_uint_le(len, sizeof(buf));
    flux_msg_encode(msg, buf);
    buf[1]--;
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1intruder", LINK_ID_SIZE);
    zmq_send(s, buf, len, 0);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    ck_assert_ptr_nonnull(strstr(node[0].log, "rank 1 is refused: the message format is 1"));
    run_for(0.1);
    ck_assert_int_gt(zmq_recv(s, word, sizeof(word) - 1, 0), 0);
    ck_assert_str_eq(word, LINK_WORD_REFUSED LINK_WHY_VERSION);
    zmq_close(s);
    zmq_ctx_term(ctx);
    flux_msg_destroy(msg);
}
END_TEST

/* A TCP connection of a stranger to the ROUTER of rank 0. */
static int stranger(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = strrchr(link_tree_uri(node[0].link), ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    in.sin_port = htons(atoi(port + 1));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Read what has come; true at the end of the connection. */
static bool ended(int fd)
{
    char buf[256];
    ssize_t n;

    while ((n = read(fd, buf, sizeof(buf))) > 0)
        ;
    return n == 0 || errno == ECONNRESET;
}

static bool ends(int fd)
{
    for (int i = 0; i < PATIENCE * 50 && !ended(fd); i++)
        run_for(0.02);
    return ended(fd);
}

/* A stranger cannot make a broker allocate memory by announcing a large frame. */
START_TEST(test_stranger_large)
{
    static const char large[] = "\6\0\0\0\0\1\0\0\0\5HELLO"; /* a command of 16 MiB */
    unsigned char greeting[64] = {0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                  0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};
    int fd;

    two_of_three();
    fd = stranger();
    ck_assert_int_eq(write(fd, greeting, sizeof(greeting)), sizeof(greeting));
    ck_assert_int_eq(write(fd, large, sizeof(large) - 1), sizeof(large) - 1);
    ck_assert(ends(fd));
    close(fd);
}
END_TEST

/* Many strangers at one address: the oldest are cut off, and neighbors can still connect. */
START_TEST(test_strangers)
{
    enum { MANY = 60, MAX = 2 * 2 + 1 + 16 };
    int fds[MANY];
    errmsg_t err = {""};
    unsigned open = 0;

    two_of_three();
    bind_node(2, true);
    for (int i = 0; i < MANY; i++) {
        fds[i] = stranger();
        run_for(0.005);
    }
    ck_assert(ends(fds[0]));
    ck_assert(ends(fds[MANY - MAX - 1]));
    connect_node(1);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    for (int i = 0; i < MANY; i++) {
        open += !ended(fds[i]);
        close(fds[i]);
    }
    ck_assert_uint_le(open, MAX);
    ck_assert_uint_gt(open, 0);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
}
END_TEST

START_TEST(test_patience)
{
    link_patience_t *p = link_patience_create(10., 60.);
    char name[16];

    ck_assert_ptr_nonnull(p);
    ck_assert_double_eq(link_patience_limit(p, "a", 0.), 10.);
    link_patience_over(p, "a", 10., 10.);
    link_patience_over(p, "a", 10., 10.); /* at the same time */
    ck_assert_double_eq(link_patience_limit(p, "a", 10.), 20.);
    ck_assert_double_eq(link_patience_limit(p, "b", 10.), 10.);
    link_patience_over(p, "a", 20., 30.);
    link_patience_over(p, "a", 40., 70.);
    ck_assert_double_eq(link_patience_limit(p, "a", 70.), 60.);
    link_patience_over(p, "a", 60., 130.);
    ck_assert_double_eq(link_patience_limit(p, "a", 130.), 60.);
    ck_assert_double_eq(link_patience_limit(p, "a", 1000.), 10.);
    link_patience_known(p, "b", 1000.);
    ck_assert_double_eq(link_patience_limit(p, "b", 1059.), 60.);
    ck_assert_double_eq(link_patience_limit(p, "b", 1061.), 10.);
    /* Many addresses displace only the entry that was changed longest ago. */
    link_patience_over(p, "c", 10., 1061.);
    for (int i = 0; i < 1023; i++) {
        snprintf(name, sizeof(name), "%d", i);
        link_patience_over(p, name, 10., 1062.);
    }
    ck_assert_double_eq(link_patience_limit(p, "c", 1062.), 20.);
    link_patience_over(p, "d", 10., 1062.);
    ck_assert_double_eq(link_patience_limit(p, "c", 1062.), 10.);
    ck_assert_double_eq(link_patience_limit(p, "0", 1062.), 20.);
    link_patience_destroy(p);
}
END_TEST

/* A road on which each connection is silent at first, as from a busy host; the first one forever.
 */
struct slow_road {
    int listening;
    uint16_t port;
    struct lane {
        int fd[2]; /* of the caller, of the broker; -1 */
        double since;
    } lane[64];
    unsigned n; /* number of callers */
    double silence;
    bool all; /* the first one is not silent forever */
};

static void pass_on(int from, int to)
{
    char buf[4096];
    ssize_t n;

    while ((n = read(from, buf, sizeof(buf))) > 0)
        (void)send(to, buf, (size_t)n, MSG_NOSIGNAL);
    if (n == 0)
        shutdown(to, SHUT_WR);
}

static void road_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct slow_road *road = arg;
    int fd = accept4(road->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    double now = flux_reactor_now(r);

    if (fd >= 0) {
        ck_assert_uint_lt(road->n, 64);
        road->lane[road->n++] = (struct lane){{fd, stranger()}, now};
    }
    for (unsigned i = 0; i < road->n; i++) {
        struct lane *l = &road->lane[i];

        if ((i > 0 || road->all) && now - l->since >= road->silence)
            pass_on(l->fd[0], l->fd[1]);
        pass_on(l->fd[1], l->fd[0]);
    }
}

static void road_open(struct slow_road *road)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);

    road->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(road->listening, 0);
    ck_assert_int_eq(bind(road->listening, (struct sockaddr *)&in, sizeof(in)), 0);
    ck_assert_int_eq(listen(road->listening, 64), 0);
    ck_assert_int_eq(getsockname(road->listening, (struct sockaddr *)&in, &len), 0);
    road->port = ntohs(in.sin_port);
}

/* A neighbor that is slower than the first limit joins after some tries. */
START_TEST(test_slow_handshake)
{
    struct slow_road road = {.silence = 2.5};
    flux_watcher_t *w = flux_timer_create(reactor, road_cb, &road);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.slow");
    void *ctx = zmq_ctx_new(), *s = zmq_socket(ctx, ZMQ_DEALER);
    char buf[256], uri[64];
    int zero = 0;

    handshake = 1.;
    two_of_three();
    road_open(&road);
    flux_timer_start(w, 0., 0.01);
    flux_msg_encode(msg, buf);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_ROUTING_ID, "T\0\0\0\1intruder", LINK_ID_SIZE);
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, node[0].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, node[1].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, node[1].key.sec, 40);
    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u", road.port);
    ck_assert_int_eq(zmq_connect(s, uri), 0);
    zmq_send(s, buf, flux_msg_encoded_size(msg), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, 6 * PATIENCE));
    ck_assert_uint_gt(road.n, 1);
    zmq_close(s);
    zmq_ctx_term(ctx);
    flux_watcher_destroy(w);
    for (unsigned i = 0; i < road.n; i++) {
        close(road.lane[i].fd[0]);
        close(road.lane[i].fd[1]);
    }
    close(road.listening);
    flux_msg_destroy(msg);
}
END_TEST

/* A message that takes longer than a silent neighbor is borne, and of which the link sees nothing
 * until all of it is there: its sender is not silent. */
START_TEST(test_long_message)
{
    const size_t size = 1200000; /* at most 4 KB in 10 ms */
    struct slow_road road = {.all = true};
    flux_watcher_t *w = flux_timer_create(reactor, road_cb, &road);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.long");
    void *ctx = zmq_ctx_new(), *s = zmq_socket(ctx, ZMQ_DEALER);
    size_t len, done = 0;
    char *buf, uri[64];
    int zero = 0;

    silent_for(1.5);
    two_of_three();
    road_open(&road);
    flux_timer_start(w, 0., 0.01);
    ck_assert_int_eq(flux_msg_take_raw(msg, calloc(1, size + 1), size), 0);
    len = flux_msg_encoded_size(msg);
    buf = malloc(len);
    flux_msg_encode(msg, buf);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_ROUTING_ID, "T\0\0\0\1intruder", LINK_ID_SIZE);
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, node[0].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, node[1].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, node[1].key.sec, 40);
    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u", road.port);
    ck_assert_int_eq(zmq_connect(s, uri), 0);
    zmq_send(s, "", 0, 0);
    while (done < len) {
        size_t n = len - done > LINK_FRAME_MAX ? LINK_FRAME_MAX : len - done;

        ck_assert_int_eq(zmq_send(s, buf + done, n, done + n < len ? ZMQ_SNDMORE : 0), (int)n);
        done += n;
    }
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, 6 * PATIENCE));
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE)); /* now it is */
    zmq_close(s);
    zmq_ctx_term(ctx);
    flux_watcher_destroy(w);
    for (unsigned i = 0; i < road.n; i++) {
        close(road.lane[i].fd[0]);
        close(road.lane[i].fd[1]);
    }
    close(road.listening);
    free(buf);
    flux_msg_destroy(msg);
}
END_TEST

/* Wait for the reason with which rank 0 refuses this connection. */
static void refused_for(void *s, const char *why)
{
    char word[64] = "";

    for (int i = 0; i < PATIENCE * 50; i++) {
        if (zmq_recv(s, word, sizeof(word) - 1, ZMQ_DONTWAIT) > 0)
            break;
        run_for(0.02);
    }
    ck_assert_msg(strncmp(word, "refused: ", 9) == 0 && strstr(word, why), "got '%s'", word);
}

/* A connection with the key of a rank to the XPUB of rank 0. */
static void *subscriber(void *ctx, uint32_t rank, const char *topic)
{
    void *s = zmq_socket(ctx, ZMQ_SUB);
    int zero = 0;

    ck_assert_ptr_nonnull(s);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, topic, strlen(topic));
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, node[0].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, node[rank].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, node[rank].key.sec, 40);
    ck_assert_int_eq(zmq_connect(s, link_event_uri(node[0].link)), 0);
    return s;
}

/* Rank 1 cannot keep rank 2's subscription from its parent, end it, or take its place. */
START_TEST(test_false_events)
{
    void *ctx = zmq_ctx_new(), *s, *t;
    errmsg_t err = {""};

    two_of_three();
    bind_node(2, true);
    s = subscriber(ctx, 1, "up.2.696e747275646572");
    for (int i = 0; i < PATIENCE * 50 && !strstr(node[0].log, "the key of another rank"); i++)
        run_for(0.02);
    ck_assert_ptr_nonnull(strstr(node[0].log, "127.0.0.1:"));
    ck_assert_uint_eq(node[0].core.event_up[2], 0);
    t = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\2intruder", LINK_ID_SIZE);
    zmq_send(t, "", 0, 0);
    refused_for(t, "the key");
    allow_all(2);
    connect_node(2);
    ck_assert_int_eq(link_start(node[2].link, &err), 0);
    ck_assert_int_eq(send_from(2, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    zmq_close(s);
    zmq_close(t);
    run_for(0.3);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 0);
    zmq_ctx_term(ctx);
}
END_TEST

static void connect_to_parent(uint32_t rank, const char *key)
{
    errmsg_t err = {""};

    ck_assert_int_eq(link_connect(node[rank].link, CORE_TREE, 0, link_tree_uri(node[0].link),
                                  link_event_uri(node[0].link), key, &err),
                     0);
    ck_assert_int_eq(link_start(node[rank].link, &err), 0);
}

/* A second broker with the rank and the key of the first is refused at once, with one line in the
 * log, as long as the first is connected; the first one goes on undisturbed.  When it is lost
 * another takes its place. */
START_TEST(test_name_taken)
{
    void *ctx = zmq_ctx_new(), *s, *sub, *t;
    const struct link_peer *p;
    const char *said;

    two_of_three();
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1thefirst", LINK_ID_SIZE);
    zmq_send(s, "", 0, 0);
    sub = subscriber(ctx, 1, "up.1.7468656669727374"); /* thefirst */
    p = link_inbound(node[0].link, CORE_TREE, 1);
    for (int i = 0; i < PATIENCE * 50 && !(p->named && p->connected); i++)
        run_for(0.02);
    t = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1another1", LINK_ID_SIZE);
    zmq_send(t, "", 0, 0);
    zmq_send(t, "", 0, 0);
    refused_for(t, "the rank is connected");
    run_for(0.1);
    said = strstr(node[0].log, "rank 1, which has another connection");
    ck_assert_msg(said && !strstr(said + 1, "rank 1, which has"), "%s", node[0].log);
    zmq_close(t);
    connect_to_parent(1, node[0].key.pub);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_msg(strstr(node[1].log,
                         "refused this broker: the rank is connected: stop one of the two") != NULL,
                  "%s", node[1].log);
    run_for(0.3);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    zmq_close(s);
    zmq_close(sub);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1thethird", LINK_ID_SIZE);
    zmq_send(s, "", 0, 0);
    ck_assert(run_until(&node[0].core.back[CORE_TREE][1], 1, PATIENCE));
    zmq_close(s);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 2, PATIENCE));
    s = intruder(ctx, node[2].key.pub, node[2].key.sec, "T\0\0\0\1afourth1", LINK_ID_SIZE);
    zmq_send(s, "", 0, 0);
    refused_for(s, LINK_WHY_KEY);
    ck_assert_uint_eq(node[0].core.back[CORE_TREE][1], 1);
    ck_assert_uint_ge(link_of(0)->stats.misclaimed, 2);
    zmq_close(s);
    zmq_ctx_term(ctx);
}
END_TEST

/* A connection of this attempt of rank 2. */
static void *attempt(void *ctx, char number)
{
    char id[] = "T\0\0\0\2this\0\0\0?";
    void *s;

    id[LINK_ID_SIZE - 1] = number;
    s = intruder(ctx, node[2].key.pub, node[2].key.sec, id, LINK_ID_SIZE);
    zmq_send(s, "", 0, 0);
    return s;
}

/* Frames that were dropped because they were of earlier attempts. */
static bool run_until_outdated(uint64_t n)
{
    for (int i = 0; i < PATIENCE * 50 && link_of(0)->stats.outdated < n; i++)
        run_for(0.02);
    return link_of(0)->stats.outdated >= n;
}

/* A broker that has lost its parent has tried several times.  Its connections are seen in any
 * order: those of one attempt belong together, and earlier ones count no more. */
START_TEST(test_outdated)
{
    void *ctx = zmq_ctx_new(), *s[4], *old;
    struct core *c = &node[0].core;
    const struct link_peer *p;
    errmsg_t err = {""};

    create(0, 3, "chain", true);
    create(2, 3, "chain", true);
    bind_node(0, true);
    c->keys[2] = node[2].key.pub;
    c->adopts = 2;
    ck_assert_int_eq(link_start(node[0].link, &err), 0);
    s[0] = subscriber(ctx, 2, "up.2.7468697300000002");
    ck_assert(run_until(&c->event_now[2], 1, PATIENCE));
    p = link_inbound(node[0].link, CORE_TREE, 2);
    old = attempt(ctx, 1);
    ck_assert(run_until_outdated(1));
    zmq_close(old);
    ck_assert(!p->named && p->connected);
    s[1] = attempt(ctx, 2);
    for (int i = 0; i < PATIENCE * 50 && !p->named; i++)
        run_for(0.02);
    ck_assert(p->named && p->connected);
    ck_assert_uint_eq(c->event_up[2], 1);
    ck_assert_uint_eq(c->lost[CORE_TREE][2], 0);
    s[2] = attempt(ctx, 3);
    ck_assert(run_until(&c->back[CORE_TREE][2], 1, PATIENCE));
    ck_assert_uint_eq(c->lost[CORE_TREE][2], 1);
    ck_assert_uint_eq(c->event_now[2], 0);
    old = subscriber(ctx, 2, "up.2.7468697300000001");
    ck_assert(run_until_outdated(link_of(0)->stats.outdated + 1));
    zmq_close(old);
    ck_assert_uint_eq(c->event_now[2], 0);
    s[3] = subscriber(ctx, 2, "up.2.7468697300000003");
    ck_assert(run_until(&c->event_now[2], 1, PATIENCE));
    ck_assert_uint_eq(c->lost[CORE_TREE][2], 1);
    for (int i = 0; i < 4; i++)
        zmq_close(s[i]);
    zmq_ctx_term(ctx);
}
END_TEST

/* A child that has a wrong public key of its parent: both log it. */
START_TEST(test_wrong_parent_key)
{
    char pub[41], sec[41];

    two_of_three();
    allow_all(1);
    ck_assert_int_eq(zmq_curve_keypair(pub, sec), 0);
    connect_to_parent(1, pub);
    for (int i = 0; i < PATIENCE * 50 && !(node[0].log[0] && node[1].log[0]); i++)
        run_for(0.02);
    ck_assert_msg(strstr(node[0].log, "refused a connection from 127.0.0.1:") != NULL, "%s",
                  node[0].log);
    ck_assert_ptr_nonnull(strstr(node[0].log, "a different public key"));
    ck_assert_ptr_nonnull(strstr(node[1].log, "rank 0 at tcp://127.0.0.1"));
    ck_assert_ptr_nonnull(strstr(node[1].log, "key"));
    ck_assert_uint_eq(node[1].core.lost[CORE_TREE][0], 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("link_gate");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_unknown_key);
    tcase_add_test(tc, test_false_claim);
    tcase_add_test(tc, test_malformed);
    tcase_add_test(tc, test_other_version);
    tcase_add_test(tc, test_stranger_large);
    tcase_add_test(tc, test_strangers);
    tcase_add_test(tc, test_patience);
    tcase_add_test(tc, test_slow_handshake);
    tcase_add_test(tc, test_long_message);
    tcase_add_test(tc, test_false_events);
    tcase_add_test(tc, test_name_taken);
    tcase_add_test(tc, test_outdated);
    tcase_add_test(tc, test_wrong_parent_key);
    return run_case("link_gate", tc);
}
