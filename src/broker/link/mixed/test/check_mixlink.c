/* check_mixlink.c - UNIX sockets and ZeroMQ in one link: the tests of all links on either, and on
 * both together; which one carries whom, and that there is never a second one. */
#define TRANSPORT transport_mixed
#define OWN_ADDRESSES

#include "broker/link/test/common.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "broker/link/unix/ulink.h"
#include "broker/link/unix/ulink_private.h"

static const char *place[NODES]; /* NULL: one for all, or (tcp) one for each */

static void addresses(uint32_t i, bool tcp, char tree[200], char event[200])
{
    char own[20];

    snprintf(own, sizeof(own), "host%u", tcp ? i : 0);
    snprintf(tree, 200, "tcp://127.0.0.1:*+unix://%s/t%u@%s", dir, i, place[i] ? place[i] : own);
    snprintf(event, 200, "tcp://127.0.0.1:*");
}

static void two_hosts(void)
{
    place[0] = place[1] = "here";
    place[2] = place[3] = "there";
}

static void says(uint32_t i, const char *line)
{
    node[i].log[0] = '\0';
    transport->ops->running(node[i].link);
    ck_assert_str_eq(node[i].log, line);
}

/* 0 and 1 are on one host, 2 is on another one. */
START_TEST(both)
{
    two_hosts();
    start_all(3, _i ? "chain" : "flat", false, true);
    if (_i == 0) {
        exchange();
    } else {
        ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
        ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
        /* Events have a connection of their own: 1 can send down once it has heard 2. */
        ck_assert_int_eq(send_from(2, CORE_TREE, 1, 1, 100000, false), 0);
        ck_assert(run_until(&node[1].core.got[CORE_TREE], 1, PATIENCE));
        ck_assert_int_eq(send_from(1, CORE_TREE, 2, 1, 100000, false), 0);
        ck_assert(run_until(&node[2].core.got[CORE_TREE], 1, PATIENCE));
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 100000, false), 0);
        ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    }
    ck_assert_int_eq(send_from(0, CORE_RING, 1, 1, 10, false), 0);
    ck_assert_int_eq(send_from(2, CORE_RING, 0, 2, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_RING], 1, PATIENCE));
    says(0, "neighbors on this host, by UNIX sockets: 1; others, by ZeroMQ: 2");
    says(1, "neighbors on this host, by UNIX sockets: 0; others, by ZeroMQ: 2");
    says(2, ""); /* it has nobody on its host */
    /* Each loss is seen by each neighbor, whatever carried the lost one. */
    transport->ops->destroy(node[1].link);
    node[1].link = NULL;
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert(run_until(&node[2].core.lost[CORE_RING][1], 1, PATIENCE));
    if (_i == 0) {
        transport->ops->destroy(node[2].link);
        node[2].link = NULL;
        ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    }
    run_for(0.1);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 1);
}
END_TEST

START_TEST(both_idle)
{
    silent_for(1.);
    two_hosts();
    start_all(4, "chain", false, true);
    ck_assert(run_until(&node[2].core.event_up[3], 1, PATIENCE));
    run_for(3.);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            ck_assert_uint_eq(node[i].core.lost[CORE_TREE][k] + node[i].core.lost[CORE_RING][k], 0);
}
END_TEST

/* Ranks 0 and 1 are created, and 1 is not connected yet. */
static void two(void)
{
    for (uint32_t i = 0; i < 2; i++)
        create(i, 2, "flat", true);
    for (uint32_t i = 0; i < 2; i++) {
        bind_node(i, false);
        allow_all(i);
    }
}

static void start_two(void)
{
    errmsg_t err = {""};

    for (uint32_t i = 0; i < 2; i++) {
        connect_node(i);
        ck_assert_int_eq(transport->ops->start(node[i].link, &err), 0);
    }
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_int_eq(send_from(0, CORE_TREE, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_TREE], 1, PATIENCE));
}

/* The socket of a broker on this host cannot be reached, as from another mount namespace. */
START_TEST(out_of_reach)
{
    char path[200];

    two();
    snprintf(path, sizeof(path), "%s/t0", dir);
    ck_assert_int_eq(unlink(path), 0);
    start_two();
    ck_assert_int_eq(send_from(0, CORE_RING, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_RING], 1, PATIENCE));
    transport->ops->running(node[1].link);
    ck_assert_ptr_nonnull(
        strstr(node[1].log, "rank 0 is on the same host, but is reached by ZeroMQ: unix://"));
    ck_assert_ptr_nonnull(strstr(node[1].log, "cannot be reached: No such file or directory"));
    ck_assert_uint_eq(node[1].lines, 2); /* and one of all neighbors */
    /* In the ring 0 reaches 1: each direction is chosen by itself. */
    says(0, "neighbors on this host, by UNIX sockets: 1; others, by ZeroMQ: 1");
}
END_TEST

/* Nobody listens there any more: the file is that of a broker that was killed. */
START_TEST(stale)
{
    struct sockaddr_un sun;
    socklen_t len;
    char uri[200];
    errmsg_t err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(uri, sizeof(uri), "unix://%s/stale", dir);
    ck_assert_int_eq(ulink_address(uri, &sun, &len, &err), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, len), 0);
    ck_assert_int_eq(ulink_reach(uri, &err), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    ck_assert_int_eq(listen(fd, 0), 0);
    for (int i = 0; i < 3; i++) /* also when its queue is full */
        ck_assert_msg(ulink_reach(uri, &err) == 0, "%s", err.text);
    close(fd);
    ck_assert_int_eq(ulink_reach("tcp://127.0.0.1:1", &err), -1);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* This broker cannot listen at a UNIX socket: all neighbors use ZeroMQ. */
START_TEST(no_socket)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/t0", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    two();
    start_two();
    ck_assert_ptr_null(strstr(transport->ops->tree_uri(node[0].link), "unix:"));
    transport->ops->running(node[0].link);
    ck_assert_ptr_nonnull(strstr(node[0].log, "neighbors on this host are reached by ZeroMQ"));
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

/* A neighbor whose address has no UNIX socket. */
START_TEST(plain_address)
{
    char uri[200], whole[200];
    errmsg_t err;

    two();
    snprintf(uri, sizeof(uri), "%s", transport->ops->tree_uri(node[0].link));
    *strstr(uri, "+unix") = '\0';
    ck_assert(!transport->is_address(uri) && transport_zmq.is_address(uri));
    snprintf(whole, sizeof(whole), "%s", transport->ops->tree_uri(node[0].link));
    ck_assert(transport->is_address(whole) && !transport_zmq.is_address(whole));
    transport_zmq.trim(whole);
    ck_assert_str_eq(whole, uri);
    ck_assert_int_eq(transport->ops->connect(node[1].link, CORE_TREE, 0, uri,
                                             transport->ops->event_uri(node[0].link),
                                             node[0].key.pub, &err),
                     0);
    ck_assert_int_eq(transport->ops->start(node[0].link, &err), 0);
    ck_assert_int_eq(transport->ops->start(node[1].link, &err), 0);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    says(0, "");
}
END_TEST

/* A second broker with the rank and the key of rank 1, on ZeroMQ or on UNIX sockets: node 3. */
static void impostor(const struct transport *t)
{
    char uri[200];
    errmsg_t err = {""};
    struct link_config cfg = {
        .curve = true,
        .public_key = node[1].key.pub,
        .secret_key = node[1].key.sec,
        .live = live,
        .queue_max = queue_max,
        .log = log_cb,
        .log_arg = &node[3],
    };
    const char *both = transport->ops->tree_uri(node[0].link);
    const char *local = strstr(both, "+unix") + 1;

    topology_destroy(node[3].core.topo);
    memset(&node[3].core, 0, sizeof(node[3].core));
    node[3].core.rank = 1;
    node[3].core.r = reactor;
    node[3].core.topo = topology_create("flat", 2, &err);
    if (t == &transport_unix)
        snprintf(uri, sizeof(uri), "%.*s", (int)(strrchr(local, '@') - local), local);
    else
        snprintf(uri, sizeof(uri), "%.*s", (int)(local - both - 1), both);
    node[3].link = t->create(&node[3].core, &cfg, &err);
    ck_assert_msg(node[3].link != NULL, "%s", err.text);
    ck_assert_msg(t->ops->connect(node[3].link, CORE_TREE, 0, uri,
                                  transport->ops->event_uri(node[0].link), node[0].key.pub,
                                  &err) == 0,
                  "%s", err.text);
    ck_assert_int_eq(t->ops->start(node[3].link, &err), 0);
    ck_assert(run_until(&node[3].core.lost[CORE_TREE][0], 1, PATIENCE));
    t->ops->destroy(node[3].link);
    node[3].link = NULL;
}

/* A neighbor is carried by one link only, and stays lost on both. */
START_TEST(once)
{
    const struct transport *other = _i ? &transport_unix : &transport_zmq;

    place[0] = "here";
    place[1] = _i ? "there" : "here"; /* by ZeroMQ, or by UNIX sockets */
    two();
    start_two();
    impostor(other);
    ck_assert_msg(strstr(node[0].log, "another link"), "%s", node[0].log);
    ck_assert_uint_eq(node[0].core.event_up[1], 1);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 2, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 2, PATIENCE));
    transport->ops->destroy(node[1].link);
    node[1].link = NULL;
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    impostor(other);
    ck_assert_uint_eq(node[0].core.event_up[1], 1);
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 2);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 1);
}
END_TEST

/* Sockets whose files were removed are made again, for neighbors that connect later. */
START_TEST(socket_removed)
{
    char path[200];
    errmsg_t err = {""};

    two();
    snprintf(path, sizeof(path), "%s/t0", dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 1);
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 0);
    start_two();
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 1);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 2, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 2, PATIENCE));
    says(1, "neighbors on this host, by UNIX sockets: 0; others, by ZeroMQ: none");
}
END_TEST

static unsigned threads(void)
{
    DIR *d = opendir("/proc/self/task");
    unsigned n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* ZeroMQ ends where nobody is remote: everything goes on without it. */
START_TEST(nobody_remote)
{
    errmsg_t err;

    start_all(3, "flat", false, true);
    exchange();
    ck_assert_int_eq(send_from(0, CORE_RING, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_RING], 2, PATIENCE));
    ck_assert_int_eq(send_from(2, CORE_RING, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_RING], 1, PATIENCE));
    ck_assert_uint_gt(threads(), 3);
    for (uint32_t i = 0; i < 3; i++)
        transport->ops->running(node[i].link);
    ck_assert_uint_eq(threads(), 3); /* ".", "..", this one */
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 2, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 2, PATIENCE));
    publish(0, "more");
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 2, PATIENCE));
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 0);
    node[0].core.ops->drop(node[0].core.arg, CORE_TREE, 1);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    transport->ops->destroy(node[2].link);
    node[2].link = NULL;
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
}
END_TEST

/* The parent of rank 3 ends, and it connects to the broker above: on its host or not, as the parent
 * was or not.  Where all neighbors are on its host, it has ended ZeroMQ. */
START_TEST(moved)
{
    struct control_card card = {.rank = 0}, gone = {.rank = 0};
    unsigned before;
    char tree[300];
    errmsg_t err = {""};

    place[0] = place[3] = "here";
    place[2] = _i & 1 ? "there" : "here";
    place[1] = _i & 2 ? "there" : "here";
    start_all(4, "chain", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    ck_assert(run_until(&node[2].core.event_up[3], 1, PATIENCE));
    ck_assert_int_eq(send_from(3, CORE_RING, 0, 1, 10, false), 0);
    ck_assert_int_eq(send_from(2, CORE_RING, 3, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_RING], 1, PATIENCE));
    ck_assert(run_until(&node[3].core.got[CORE_RING], 1, PATIENCE));
    before = threads();
    for (uint32_t i = 0; i < 4; i++)
        transport->ops->running(node[i].link);
    /* Ranks 0 and 1 have some below their children, who may have to come from elsewhere. */
    ck_assert_uint_eq(before - threads(), _i == 0 ? 4 : _i == 2 ? 2 : 0);
    ck_assert_int_eq(transport->ops->card(node[2].link, &gone), 0);
    gone.rank = 2;
    snprintf(tree, sizeof(tree), "%s", gone.tree);
    gone = (struct control_card){2, tree, "tcp://127.0.0.1:1", node[2].key.pub, ""};
    end_node(2);
    ck_assert(run_until(&node[3].core.lost[CORE_TREE][2], 1, PATIENCE));
    if (_i & 1) { /* nobody is there */
        ck_assert_int_eq(transport->ops->move(node[3].link, &gone, &err), 0);
        ck_assert(run_until(&node[3].core.lost[CORE_TREE][2], 2, PATIENCE));
    } else {
        ck_assert_int_eq(transport->ops->move(node[3].link, &gone, &err), -1);
        ck_assert_int_eq(errno, EHOSTUNREACH);
    }
    node[1].core.adopts = 3;
    node[1].core.keys[3] = node[3].key.pub;
    ck_assert_int_eq(transport->ops->card(node[1].link, &card), 0);
    card.rank = 1;
    ck_assert_msg(transport->ops->move(node[3].link, &card, &err) == 0, "%s", err.text);
    ck_assert(run_until(&node[1].core.event_up[3], 1, PATIENCE));
    ck_assert_int_eq(send_from(3, CORE_TREE, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_uint_eq(node[1].core.last_from, 3);
    ck_assert_int_eq(send_from(1, CORE_TREE, 3, 1, 10, false), 0);
    ck_assert(run_until(&node[3].core.got[CORE_TREE], 1, PATIENCE));
    publish(1, "news");
    ck_assert(run_until(&node[3].core.got[CORE_EVENT], 1, PATIENCE));
    ck_assert_int_eq(send_from(3, CORE_RING, 0, 2, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_RING], 2, PATIENCE));
    end_node(3);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][3], 1, PATIENCE));
}
END_TEST

/* The second parent, the first one, or rank 2 is on another host than all others.  In the first
 * case rank 2 has ended ZeroMQ before. */
START_TEST(second_parent_elsewhere)
{
    for (uint32_t i = 0; i < NODES; i++)
        place[i] = "here";
    place[_i] = "there";
    start_all(4, "chain", false, true);
    for (uint32_t i = 0; i + 1 < NODES; i++)
        ck_assert(run_until(&node[i].core.event_up[i + 1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_RING, 2, 0, 10, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_RING], 1, PATIENCE));
    transport->ops->running(node[2].link);
    second_parent();
}
END_TEST

/* Nobody else gets in by the UNIX socket of a broker on several hosts. */
START_TEST(false_key)
{
    struct ulink_hello hello = {ULINK_VERSION, 1, "tree", node[0].key.pub};
    const char *local;
    char uri[200];
    struct sockaddr_un sun;
    socklen_t len;
    errmsg_t err = {""};
    flux_msg_t *msg;
    outq_t *q = outq_create();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    two();
    ck_assert_int_eq(transport->ops->start(node[0].link, &err), 0);
    local = strstr(transport->ops->tree_uri(node[0].link), "+unix") + 1;
    snprintf(uri, sizeof(uri), "%.*s", (int)(strrchr(local, '@') - local), local);
    ck_assert_int_eq(ulink_address(uri, &sun, &len, &err), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sun, len), 0);
    msg = ulink_word_create(ULINK_HELLO, &hello);
    ck_assert_int_eq(outq_send(q, fd, msg), 0);
    ck_assert(run_until(&node[0].lines, 1, PATIENCE));
    ck_assert_ptr_nonnull(strstr(node[0].log, "the key is not that of rank 1"));
    ck_assert_uint_eq(node[0].core.event_up[1], 0);
    flux_msg_destroy(msg);
    outq_destroy(q);
    close(fd);
}
END_TEST

/* A port that is kept free for a listener, with the descriptor that keeps it. */
static unsigned keep_port(int *fd)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    int one = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
    ck_assert_int_eq(bind(*fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
    ck_assert_int_eq(getsockname(*fd, (struct sockaddr *)&sin, &len), 0);
    return ntohs(sin.sin_port);
}

/* Rank 0 begins when rank 1 has sent it as much as is held for it, messages or bytes: with a UNIX
 * socket that has a name only, or without one. */
START_TEST(parent_later)
{
    int held[2];
    unsigned port = keep_port(&held[0]), event_port = keep_port(&held[1]);
    char event[64], uri[200];
    errmsg_t err = {""};
    size_t size = _i == 2 ? 4 * 1024 * 1024 : 10;
    uint32_t tag = 1;

    queue_max = 10;
    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u+unix://@check-mixlink-%d@host0", port,
             (int)getpid());
    snprintf(event, sizeof(event), "tcp://127.0.0.1:%u", event_port);
    for (uint32_t i = 0; i < 2; i++)
        create(i, 2, "flat", true);
    bind_node(1, false);
    allow_all(1);
    for (int plane = CORE_TREE; plane <= CORE_RING; plane++)
        if (plane != CORE_EVENT)
            ck_assert_int_eq(
                transport->ops->connect(node[1].link, plane, 0, uri, event, node[0].key.pub, &err),
                0);
    ck_assert_int_eq(transport->ops->start(node[1].link, &err), 0);
    while (send_from(1, CORE_TREE, 0, tag, size, false) == 0)
        ck_assert_uint_le(++tag, queue_max + 1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_eq(tag, _i == 2 ? 3 : queue_max + 1);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, tag, size, true), 0); /* may not be refused */
    run_for(0.05);
    ck_assert_uint_eq(node[1].lines, 0);
    if (_i == 1)
        *strchr(uri, '+') = '\0';
    ck_assert_int_eq(transport->ops->bind(node[0].link, uri, event, &err), 0);
    allow_all(0);
    connect_node(0);
    ck_assert_int_eq(transport->ops->start(node[0].link, &err), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], tag, PATIENCE));
    ck_assert(node[0].core.ordered);
    ck_assert_uint_eq(node[1].core.writable, 1);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_RING, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_RING], 1, PATIENCE));
    transport->ops->running(node[1].link);
    ck_assert(run_until(&node[1].lines, 1, PATIENCE));
    if (_i == 1)
        ck_assert_ptr_nonnull(
            strstr(node[1].log, "rank 0 is on the same host, but is reached by ZeroMQ"));
    else
        ck_assert_str_eq(node[1].log, "neighbors on this host, by UNIX sockets: 0; others, by "
                                      "ZeroMQ: none");
    close(held[0]);
    close(held[1]);
}
END_TEST

/* Nobody comes: what is held is dropped with the link. */
START_TEST(parent_never)
{
    int held;
    unsigned port = keep_port(&held);
    char uri[200];
    errmsg_t err = {""};

    snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u+unix://%s/none@host0", port, dir);
    create(1, 2, "flat", true);
    bind_node(1, false);
    ck_assert_int_eq(
        transport->ops->connect(node[1].link, CORE_TREE, 0, uri, uri, node[0].key.pub, &err), 0);
    ck_assert_int_eq(
        transport->ops->connect(node[1].link, CORE_TREE, 0, uri, uri, node[0].key.pub, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(transport->ops->start(node[1].link, &err), 0);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert_int_eq(send_from(1, CORE_RING, 0, 1, 10, false), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
    if (_i) {
        node[1].core.ops->drop(node[1].core.arg, CORE_TREE, 0);
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, true), -1);
        ck_assert_int_eq(errno, EHOSTUNREACH);
    }
    close(held);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("mixlink");

    add_common(tc, 2);
    tcase_add_loop_test(tc, both, 0, 2);
    tcase_add_test(tc, both_idle);
    tcase_add_test(tc, out_of_reach);
    tcase_add_test(tc, stale);
    tcase_add_test(tc, no_socket);
    tcase_add_test(tc, plain_address);
    tcase_add_loop_test(tc, once, 0, 2);
    tcase_add_test(tc, socket_removed);
    tcase_add_test(tc, nobody_remote);
    tcase_add_loop_test(tc, moved, 0, 4);
    tcase_add_loop_test(tc, second_parent_elsewhere, 0, 3);
    tcase_add_test(tc, false_key);
    tcase_add_loop_test(tc, parent_later, 0, 3);
    tcase_add_loop_test(tc, parent_never, 0, 2);
    return run_case("mixlink", tc);
}
