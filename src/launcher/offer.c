/* offer.c - the address at which the tasks of a job find PMIx before there is a server.
 *
 * Purpose: most jobs never ask for PMIx, so an offer must be cheap: no system call, and one
 * allocation for the strings that the tasks get.  All jobs of a launcher share one listening
 * socket, the door, which is opened for the first offer and kept.  Each job has its own address of
 * the loopback network, 127.A.B.C, whose last 24 bits are its slot, so the address of a connection
 * identifies the job.  The door is bound to all addresses, but only to the loopback interface.
 *
 *    state     of an offer                                     left when (by)
 *    WAITING   tasks run, none has connected                   the first task connects: a server
 *                                                              is started with one end of a
 *                                                              socket pair, the gate (open_gate)
 *    ASKING    the server belongs to another node (share.c);   the gate arrives from there
 *              connections are held                            (offer_answered)
 *    SERVING   connections are passed through the gate         the job ends, or the server is lost
 *    CLOSED    the job has ended, or the server could not be   the offer is destroyed
 *              started and the job fails (offer_close);
 *              connections are closed
 *
 * Invariants:
 *  1. A slot belongs to one job at a time, and slots are used in turn, so a process of an earlier
 *     job does not connect to a later job.
 *  2. Connections that the gate does not accept yet are held, at most HELD_MAX per task; further
 *     connections are closed.
 *  3. The launcher never reads from a connection: the library of the server identifies the client.
 *  4. The state changes by the transitions of `moves` only.
 *
 * Failure: if the door cannot be opened there is no offer, and the job runs with PMI-1 alone.
 */
#include "config.h"
#include "launcher.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libutil/fdpass.h"
#include "libutil/invariant.h"

#define LOOPBACK 0x7f000000u
#define SLOT_MIN 0x010000u /* 127.1.0.0: other programs use the addresses below */
#define SLOT_MAX 0xfeffffu /* 127.254.255.255 */
#define ACCEPT_MAX 64      /* connections accepted per event */
#define HELD_MAX 8

struct offers {
    struct launcher *l;
    struct source door;
    unsigned port;
    int spare;     /* closed to refuse a connection when no descriptor is left */
    hmap_t *slots; /* slot -> struct offer */
    uint32_t next;
};

enum offer_state { WAITING, ASKING, SERVING, CLOSED };

struct offer {
    struct nodejob *job;
    uint32_t slot;
    struct source gate;
    enum offer_state state;
    int *held;
    size_t nheld, cap;
    char *text;  /* all strings of the offer */
    char *ranks; /* in `text`: the strings that differ from task to task */
    char *vars[];
};

/* The variables that the server of the library sets; the name of the address depends on the client
 * version. */
enum offered_kind { OFFER_NSPACE, OFFER_ADDRESS, OFFER_HOST, OFFER_DIR, OFFER_WORD };
static const struct {
    const char *name;
    enum offered_kind kind;
    const char *word;
} offered[] = {
    {"PMIX_NAMESPACE=", OFFER_NSPACE, NULL},
    {"PMIX_SERVER_URI2=", OFFER_ADDRESS, NULL},
    {"PMIX_SERVER_URI21=", OFFER_ADDRESS, NULL},
    {"PMIX_SERVER_URI3=", OFFER_ADDRESS, NULL},
    {"PMIX_SERVER_URI4=", OFFER_ADDRESS, NULL},
    {"PMIX_SERVER_URI41=", OFFER_ADDRESS, NULL},
    {"PMIX_SECURITY_MODE=", OFFER_WORD, "native"},
    {"PMIX_BFROP_BUFFER_TYPE=", OFFER_WORD, "PMIX_BFROP_BUFFER_NON_DESC"},
    {"PMIX_GDS_MODULE=", OFFER_WORD, "hash"},
    {"PMIX_VERSION=", OFFER_WORD, PMIX_VERSION_TEXT},
    {"PMIX_HOSTNAME=", OFFER_HOST, NULL},
    {"PMIX_SERVER_TMPDIR=", OFFER_DIR, NULL},
    {"PMIX_SYSTEM_TMPDIR=", OFFER_DIR, NULL},
};
#define NOFFERED (sizeof(offered) / sizeof(offered[0]))
#define NAME_MAX_LEN 32 /* of the names above */
#define RANK_SIZE 24    /* PMIX_RANK=4294967295 */

static void door_ready(struct source *s, uint32_t events);

/* --- the listening socket --- */

static int listen_loopback(unsigned *port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    struct sockaddr *sa = (struct sockaddr *)&sin;
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), saved;

    if (fd < 0)
        return -1;
    /* Kernels before 5.7 reserve this option for root: door_ready() refuses connections from
     * elsewhere. */
    (void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof("lo"));
    if (bind(fd, sa, len) == 0 && listen(fd, SOMAXCONN) == 0 && getsockname(fd, sa, &len) == 0) {
        *port = ntohs(sin.sin_port);
        return fd;
    }
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int open_door(struct launcher *l)
{
    struct offers *os = calloc(1, sizeof(*os));
    int fd;

    if (!os)
        return -1;
    os->l = l;
    os->door.fd = -1;
    os->next = SLOT_MIN;
    os->slots = hmap_create_u64(NULL);
    os->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    l->offers = os;
    fd = os->slots ? listen_loopback(&os->port) : -1;
    if (fd < 0 || launcher_source_start(l, &os->door, fd, EPOLLIN, door_ready) < 0) {
        offers_destroy(l);
        return -1;
    }
    return 0;
}

void offers_destroy(struct launcher *l)
{
    struct offers *os = l->offers;
    int saved = errno;

    if (!os)
        return;
    launcher_source_close(l, &os->door);
    if (os->spare >= 0)
        close(os->spare);
    hmap_destroy(os->slots);
    free(os);
    l->offers = NULL;
    errno = saved;
}

/* --- an offer --- */

static const struct transition moves[] = {
    {WAITING, ASKING, "open_gate"},      {WAITING, SERVING, "open_gate"},
    {ASKING, SERVING, "offer_answered"}, {WAITING, CLOSED, "offer_close"},
    {ASKING, CLOSED, "offer_close"},     {SERVING, CLOSED, "offer_close"},
    {CLOSED, CLOSED, "offer_close"},     TRANSITION_END,
};

static void set_state(struct offer *o, enum offer_state state)
{
    TRANSITION(4, moves, o->state, state);
    o->state = state;
}

static int take_slot(struct offers *os, struct offer *o)
{
    if (hmap_count(os->slots) > SLOT_MAX - SLOT_MIN)
        return errno = ENOSPC, -1;
    do {
        o->slot = os->next;
        os->next = os->next < SLOT_MAX ? os->next + 1 : SLOT_MIN;
    } while (hmap_get_u64(os->slots, o->slot));
    return hmap_put_u64(os->slots, o->slot, o);
}

void offer_address(const struct offer *o, char *buf, size_t size)
{
    snprintf(buf, size, "127.%u.%u.%u:%u", o->slot >> 16, o->slot >> 8 & 255, o->slot & 255,
             o->job->l->offers->port);
}

static int fill_strings(struct offer *o)
{
    const struct nodejob *j = o->job;
    char name[PMIX_JOB_NAME_MAX], at[32], address[160], host[24], dir[4096 + 16], *p;
    const char *words[] = {
        [OFFER_NSPACE] = name, [OFFER_ADDRESS] = address, [OFFER_HOST] = host, [OFFER_DIR] = dir};
    size_t lens[OFFER_WORD], n = j->ntasks * (size_t)RANK_SIZE;

    pmix_job_name(j, name);
    offer_address(o, at, sizeof(at));
    snprintf(address, sizeof(address), "%s.server.%u;tcp4://%s", name, share_host(j), at);
    snprintf(host, sizeof(host), "node%u", j->run.first + share_host(j));
    if ((size_t)snprintf(dir, sizeof(dir), "%s/pmix%.0u", j->dir, j->run.first) >= sizeof(dir))
        return errno = ENAMETOOLONG, -1;
    for (size_t i = 0; i < OFFER_WORD; i++)
        lens[i] = strlen(words[i]);
    for (size_t i = 0; i < NOFFERED; i++)
        if (offered[i].kind != OFFER_WORD)
            n += NAME_MAX_LEN + lens[offered[i].kind];
    if (!(o->text = malloc(n)))
        return -1;
    o->ranks = o->text;
    for (uint32_t i = 0; i < j->ntasks; i++)
        snprintf(o->ranks + i * (size_t)RANK_SIZE, RANK_SIZE, "PMIX_RANK=%u", j->tasks[i].rank);
    p = o->text + j->ntasks * (size_t)RANK_SIZE;
    for (size_t i = 0; i < NOFFERED; i++) {
        o->vars[i] = p;
        p = stpcpy(p, offered[i].name);
        p = stpcpy(p, offered[i].kind == OFFER_WORD ? offered[i].word : words[offered[i].kind]) + 1;
    }
    return 0;
}

struct offer *offer_create(struct nodejob *j)
{
    struct launcher *l = j->l;
    struct offer *o;

    if (!l->offers && open_door(l) < 0)
        return NULL;
    if (!(o = calloc(1, sizeof(*o) + NOFFERED * sizeof(o->vars[0]))))
        return NULL;
    o->job = j;
    o->gate.fd = -1;
    if (take_slot(l->offers, o) < 0 || fill_strings(o) < 0) {
        offer_destroy(o);
        return NULL;
    }
    return o;
}

size_t offer_env_max(void)
{
    return NOFFERED + 1;
}

size_t offer_env(const struct offer *o, char **vars)
{
    memcpy(vars, o->vars, NOFFERED * sizeof(*vars));
    return NOFFERED;
}

char *offer_task_env(const struct offer *o, const struct task *t)
{
    return o->ranks + (size_t)(t - o->job->tasks) * RANK_SIZE;
}

void offer_close(struct offer *o)
{
    struct launcher *l = o ? o->job->l : NULL;

    if (!o)
        return;
    launcher_source_close(l, &o->gate);
    for (size_t i = 0; i < o->nheld; i++)
        close(o->held[i]);
    o->nheld = 0;
    set_state(o, CLOSED);
}

void offer_destroy(struct offer *o)
{
    int saved = errno;

    if (!o)
        return;
    offer_close(o);
    if (o->job->l->offers && hmap_get_u64(o->job->l->offers->slots, o->slot) == o)
        hmap_take_u64(o->job->l->offers->slots, o->slot);
    free(o->held);
    free(o->text);
    free(o);
    errno = saved;
}

/* --- connections --- */

/* Pass a connection through the gate.  Returns 0; 1 if the gate accepts no more now; -1 with
 * errno. */
static int pass(struct offer *o, int fd)
{
    uint8_t byte = 0;

    if (o->gate.fd < 0)
        return 1; /* the leader has not answered yet */
    if (fdpass_send(o->gate.fd, &byte, 1, fd) >= 0)
        return 0;
    return errno == EAGAIN ? 1 : -1;
}

static void give_up(struct offer *o, const char *what)
{
    launcher_send_fail(o->job, 1, -1, 0,
                       "a task of node %u cannot be connected to its PMIx server: %s",
                       o->job->run.node, what);
    offer_close(o);
}

static void hold(struct offer *o, int fd)
{
    size_t max = HELD_MAX * (size_t)o->job->ntasks, cap = o->cap ? 2 * o->cap : 8;
    int *held;

    if (o->nheld == max) {
        close(fd);
        return;
    }
    if (o->nheld == o->cap) {
        if (!(held = realloc(o->held, cap * sizeof(*held)))) {
            close(fd);
            give_up(o, strerror(ENOMEM));
            return;
        }
        o->held = held;
        o->cap = cap;
    }
    o->held[o->nheld++] = fd;
    launcher_source_resume(o->job->l, &o->gate);
}

/* Pass the held connections.  The loss of the server is handled by pmix_reaped(). */
static void gate_ready(struct source *s, uint32_t events)
{
    struct offer *o = (struct offer *)((char *)s - offsetof(struct offer, gate));
    size_t n = 0;
    int rc = 0;

    while (n < o->nheld && (rc = pass(o, o->held[n])) == 0)
        close(o->held[n++]);
    if (rc < 0 && errno != EPIPE && errno != ECONNRESET) {
        give_up(o, strerror(errno));
        return;
    }
    o->nheld -= n;
    if (n)
        memmove(o->held, o->held + n, o->nheld * sizeof(*o->held));
    if (!o->nheld || rc < 0)
        launcher_source_pause(o->job->l, &o->gate);
}

/* The first task has connected: start a server, or ask the leader for its own. */
static int open_gate(struct offer *o)
{
    struct launcher *l = o->job->l;
    errmsg_t err;
    int sv[2];

    if (!share_leads(o->job->share)) {
        set_state(o, ASKING);
        if (pmix_wanted(o->job, -1, &err) == 0)
            return 0;
        launcher_send_fail(o->job, 1, -1, 0, "%s", err.text);
        offer_close(o);
        return -1;
    }
    set_state(o, SERVING);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
        give_up(o, strerror(errno));
        return -1;
    }
    if (launcher_source_start(l, &o->gate, sv[0], EPOLLOUT, gate_ready) < 0) {
        close(sv[1]);
        give_up(o, strerror(errno));
        return -1;
    }
    launcher_source_pause(l, &o->gate);
    if (pmix_wanted(o->job, sv[1], &err) < 0) {
        launcher_send_fail(o->job, 1, -1, 0, "%s", err.text);
        offer_close(o);
    }
    close(sv[1]);
    return o->state == CLOSED ? -1 : 0;
}

int offer_gate(struct offer *o)
{
    if (o->state == CLOSED || (o->state == WAITING && open_gate(o) < 0))
        return -1;
    return o->gate.fd;
}

void offer_answered(struct offer *o, int fd)
{
    if (o->state != ASKING) {
        close(fd);
        return;
    }
    set_state(o, SERVING);
    if (launcher_source_start(o->job->l, &o->gate, fd, EPOLLOUT, gate_ready) < 0)
        give_up(o, strerror(errno));
}

/* Take a connection of a task, with its descriptor `fd`. */
static void arrived(struct offer *o, int fd)
{
    int rc = -1;

    if (o->state != CLOSED && (o->state != WAITING || open_gate(o) == 0)) {
        rc = o->nheld ? 1 : pass(o, fd);
        if (rc > 0) {
            hold(o, fd);
            return;
        }
        if (rc < 0 && errno != EPIPE && errno != ECONNRESET)
            give_up(o, strerror(errno));
    }
    close(fd);
}

/* Refuse a waiting connection when no descriptor is left; otherwise the door would stay ready. */
static void refuse_one(struct offers *os)
{
    int fd;

    if (os->spare >= 0)
        close(os->spare);
    fd = accept4(os->door.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    os->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fprintf(stderr,
            "flux-launcher: no descriptors are left: a task's connection to its PMIx server "
            "was refused\n");
}

static void door_ready(struct source *s, uint32_t events)
{
    struct offers *os = (struct offers *)((char *)s - offsetof(struct offers, door));

    for (int i = 0; i < ACCEPT_MAX; i++) {
        struct sockaddr_in sin = {.sin_family = AF_UNSPEC};
        socklen_t len = sizeof(sin);
        struct offer *o = NULL;
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                refuse_one(os);
            return;
        }
        if (getsockname(fd, (struct sockaddr *)&sin, &len) == 0 &&
            (ntohl(sin.sin_addr.s_addr) & 0xff000000u) == LOOPBACK)
            o = hmap_get_u64(os->slots, ntohl(sin.sin_addr.s_addr) & 0xffffffu);
        if (o)
            arrived(o, fd);
        else
            close(fd);
    }
}
