/* share.c - one PMIx server for the brokers of a host: how their launchers find each other.
 *
 * Purpose: MPI libraries share memory only among the tasks of one PMIx server, since a server does
 * not pass on the information that a task puts for its neighbors only.  So among the nodes of a job
 * on one host (hosts.c), the first one, the leader, runs a server for the tasks of all.  The other
 * nodes, the followers, ask the launcher of the leader for the server when they need it, at sockets
 * in the abstract namespace whose names contain the name of the launch:
 *
 *    flux-pmix/NAME/NODE      NAME: pmi_job_name(); NODE: number of the node in the job
 *
 * Order: a leader listens from the start, and then tries to connect to each follower: a follower
 * that listens was there earlier and waits.  A follower tries to connect to the leader.  If nobody
 * listens there, it listens itself, tries once more, and then waits for a connection.  So they find
 * each other in any order of start, and a follower that does not need a server costs nothing.
 *
 *    the follower sends    u32 its node, with one end of a socket pair, through which the server
 *                          exchanges frames with it as with the launcher that started it
 *                          (exec_wire.h)
 *    the leader answers    one byte, with the gate for the connections of tasks (offer.c); with
 *                          --mpi=pmix nothing, because the server listens
 *
 *    state of a follower   left when                                           by
 *    idle                  it needs a server                                   share_ask
 *    asking                it is connected to the leader                       connected
 *    asked                 the answer arrives; with --mpi=pmix at once         link_ready, say
 *    served                the job ends                                        share_destroy
 *
 * Invariants:
 *  1. A peer of another user is turned away.
 *  2. A leader accepts each follower once, and only nodes of its host.
 *
 * Failure: a leader that cannot serve a follower fails the job, with an error message.  A follower
 * whose leader or server is lost waits for the end of the job, which the leader's node causes.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libutil/fdpass.h"
#include "libutil/fdutil.h"

struct share {
    struct nodejob *job;
    uint32_t *numbers; /* numbers of the hosts of all nodes */
    uint32_t host;     /* number of the host of this node */
    uint32_t leader;
    struct source door;
    /* members of a leader */
    uint8_t *joined; /* followers that have joined, by node */
    uint32_t nfollowers;
    struct list_node peers;
    /* members of a follower */
    struct source link;
    int offered; /* descriptor that is to go to the server; -1: it is sent */
    bool gate;   /* the answer brings a gate */
};

/* A follower, until it has been answered. */
struct peer {
    struct list_node node;
    struct share *share;
    struct source src;
};

static void door_ready(struct source *s, uint32_t events);
static void link_ready(struct source *s, uint32_t events);

/* --- addresses --- */

static socklen_t address_of(const struct share *sh, uint32_t node, struct sockaddr_un *sun)
{
    char name[64];
    int n;

    memset(sun, 0, sizeof(*sun));
    sun->sun_family = AF_UNIX;
    pmi_job_name(sh->job, name, sizeof(name));
    n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "flux-pmix/%s/%u", name, node);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int call_node(const struct share *sh, int fd, uint32_t node)
{
    struct sockaddr_un sun;
    socklen_t len = address_of(sh, node, &sun);

    return connect(fd, (struct sockaddr *)&sun, len);
}

static int open_door(struct share *sh)
{
    struct sockaddr_un sun;
    socklen_t len = address_of(sh, sh->job->run.node, &sun);
    int fd = new_socket(), saved;

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&sun, len) == 0 && listen(fd, SOMAXCONN) == 0 &&
        launcher_source_start(sh->job->l, &sh->door, fd, EPOLLIN, door_ready) == 0)
        return 0;
    saved = errno;
    sh->door.fd = -1;
    close(fd);
    errno = saved;
    return -1;
}

static bool same_user(int fd)
{
    errmsg_t err;

    return fd_check_peer(fd, "a launcher", &err) == 0;
}

/* --- the leader --- */

static void peer_free(struct peer *p)
{
    list_remove(&p->node);
    launcher_source_close(p->share->job->l, &p->src);
    free(p);
}

static void serve(struct peer *p, uint32_t node, int fd)
{
    struct share *sh = p->share;
    struct nodejob *j = sh->job;
    uint8_t byte = 0;
    errmsg_t err;
    int gate;

    if (node >= j->run.nnodes || node == sh->leader || sh->numbers[node] != sh->host ||
        sh->joined[node])
        return;
    sh->joined[node] = 1;
    if (pmix_join(j, node, fd, &gate, &err) < 0 ||
        (gate >= 0 && fdpass_send(p->src.fd, &byte, 1, gate) < 0 &&
         errmsg_fail(&err, errno, "%s", strerror(errno)) < 0 && errno != EPIPE))
        launcher_send_fail(j, 1, -1, 0, "node %u cannot share the PMIx server of node %u: %s", node,
                           j->run.node, err.text);
}

static void peer_ready(struct source *s, uint32_t events)
{
    struct peer *p = (struct peer *)((char *)s - offsetof(struct peer, src));
    uint32_t node;
    int fd;
    ssize_t n = fdpass_recv(s->fd, &node, sizeof(node), &fd, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == sizeof(node) && fd >= 0)
        serve(p, node, fd);
    if (fd >= 0)
        close(fd);
    peer_free(p);
}

/* Take a connection, with its descriptor `fd`. */
static void add_peer(struct share *sh, int fd)
{
    struct peer *p = same_user(fd) ? calloc(1, sizeof(*p)) : NULL;

    if (!p) {
        close(fd);
        return;
    }
    p->share = sh;
    list_append(&sh->peers, &p->node);
    if (launcher_source_start(sh->job->l, &p->src, fd, EPOLLIN, peer_ready) < 0)
        peer_free(p);
}

/* Connect to the followers that were there before this leader. */
static int call_followers(struct share *sh)
{
    int fd = -1;

    for (uint32_t i = sh->leader + 1; i < sh->job->run.nnodes; i++) {
        if (sh->numbers[i] != sh->host)
            continue;
        if (fd < 0 && (fd = new_socket()) < 0)
            return -1;
        if (call_node(sh, fd, i) == 0) {
            add_peer(sh, fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        close(fd);
    return 0;
}

/* --- a follower --- */

static void say(struct share *sh)
{
    if (fdpass_send(sh->link.fd, &sh->job->run.node, sizeof(sh->job->run.node), sh->offered) < 0) {
        if (errno != EPIPE && errno != ECONNRESET)
            launcher_send_fail(sh->job, 1, -1, 0,
                               "node %u cannot ask node %u of the same host for its PMIx server: "
                               "%s",
                               sh->job->run.node, sh->leader, strerror(errno));
        launcher_source_close(sh->job->l, &sh->link);
    }
    close(sh->offered);
    sh->offered = -1;
    if (!sh->gate)
        launcher_source_close(sh->job->l, &sh->link);
}

/* Take the connection to the leader, with its descriptor `fd`. */
static void connected(struct share *sh, int fd)
{
    if (!same_user(fd) || sh->link.fd >= 0 || sh->offered < 0 ||
        launcher_source_start(sh->job->l, &sh->link, fd, EPOLLIN, link_ready) < 0) {
        if (sh->link.fd == fd)
            sh->link.fd = -1;
        close(fd);
        return;
    }
    say(sh);
}

static void link_ready(struct source *s, uint32_t events)
{
    struct share *sh = (struct share *)((char *)s - offsetof(struct share, link));
    uint8_t byte;
    int fd;
    ssize_t n = fdpass_recv(s->fd, &byte, sizeof(byte), &fd, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    launcher_source_close(sh->job->l, &sh->link);
    if (fd >= 0)
        pmix_answered(sh->job, fd);
}

int share_ask(struct share *sh, int fd, bool gate, errmsg_t *err)
{
    int s = new_socket();

    sh->offered = fd;
    sh->gate = gate;
    if (s < 0)
        goto fail;
    if (call_node(sh, s, sh->leader) == 0 ||
        (errno == ECONNREFUSED && open_door(sh) == 0 && call_node(sh, s, sh->leader) == 0)) {
        connected(sh, s);
        return 0;
    }
    if (errno != ECONNREFUSED)
        goto fail;
    close(s);
    return 0;
fail:
    errmsg_fail(err, errno, "node %u cannot ask node %u of the same host for its PMIx server: %s",
                sh->job->run.node, sh->leader, strerror(errno));
    if (s >= 0)
        close(s);
    close(fd);
    sh->offered = -1;
    return -1;
}

/* --- leader and follower --- */

static void door_ready(struct source *s, uint32_t events)
{
    struct share *sh = (struct share *)((char *)s - offsetof(struct share, door));
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (share_leads(sh))
        add_peer(sh, fd);
    else
        connected(sh, fd);
}

int share_create(struct nodejob *j, errmsg_t *err)
{
    uint32_t *numbers, nhosts;
    struct share *sh;

    if (hosts_number(j, &numbers, &nhosts) < 0)
        goto nomem;
    if (!numbers)
        return 0;
    if (!(sh = calloc(1, sizeof(*sh))) || !(sh->joined = calloc(j->run.nnodes, 1))) {
        free(numbers);
        free(sh);
        goto nomem;
    }
    sh->job = j;
    sh->numbers = numbers;
    sh->host = numbers[j->run.node];
    sh->door.fd = sh->link.fd = sh->offered = -1;
    list_init(&sh->peers);
    while (numbers[sh->leader] != sh->host)
        sh->leader++;
    for (uint32_t i = sh->leader + 1; i < j->run.nnodes; i++)
        sh->nfollowers += numbers[i] == sh->host;
    j->share = sh;
    if (sh->nfollowers && share_leads(sh) && (open_door(sh) < 0 || call_followers(sh) < 0))
        return errmsg_fail(err, errno, "cannot share a PMIx server with the nodes of this host: %s",
                           strerror(errno));
    return 0;
nomem:
    return errmsg_fail(err, ENOMEM, "no memory for the hosts of a job");
}

void share_destroy(struct nodejob *j)
{
    struct share *sh = j->share;
    struct list_node *n;

    if (!sh)
        return;
    while ((n = list_first(&sh->peers)))
        peer_free(list_entry(n, struct peer, node));
    launcher_source_close(j->l, &sh->door);
    launcher_source_close(j->l, &sh->link);
    if (sh->offered >= 0)
        close(sh->offered);
    free(sh->joined);
    free(sh->numbers);
    free(sh);
    j->share = NULL;
}

bool share_leads(const struct share *sh)
{
    return !sh || sh->leader == sh->job->run.node;
}

uint32_t share_followers(const struct share *sh)
{
    return sh && share_leads(sh) ? sh->nfollowers : 0;
}

uint32_t share_host(const struct nodejob *j)
{
    return j->share ? j->share->host : j->run.node;
}

uint32_t share_hosts(const struct nodejob *j)
{
    uint32_t n = 0;

    if (!j->share)
        return j->run.nnodes;
    for (uint32_t i = 0; i < j->run.nnodes; i++)
        if (j->share->numbers[i] >= n)
            n = j->share->numbers[i] + 1;
    return n;
}
