/* The nursery (see the header): fork the brokers, serve PMI, wait.
 *
 * With `ssh`, the children of ranks on other hosts are processes of ssh (boot_ssh.h).  They differ
 * in how PMI and signals get to the broker, and in what their end means.
 *
 * phase     what happens                                          left when
 * FORK      one child per rank is forked, each with one end of    all are forked (an error: all are
 *           a socketpair as PMI_FD                                killed)
 * SERVE     PMI requests are answered; signals and deaths         rank 0 has ended, or a broker has
 *           are handled                                           broken PMI off
 * GRACE     the other brokers may end by themselves (skipped      none is left, or after ORPHANS s
 *           if rank 0 was killed)                                 (they have lost their parent)
 * TERM      SIGTERM for those that are left                       none is left, or after `grace`
 * KILL      SIGKILL for those that are left; after CUT s, also    none is left
 *           for the ssh of hosts that do not answer
 *
 * Invariants:
 *  1. A child gets SIGTERM when this process dies (PR_SET_PDEATHSIG, with a check for a death
 *     before that call); its session then shuts down in order.
 *  2. Ranks above 0 have process groups of their own, except those in `foreground`.  A ^C at the
 *     terminal thus reaches the initial program and this process, which forwards it, but not each
 *     broker.
 *  3. A broker that dies before the session runs (before any broker has finalized PMI) ends the
 *     session: before PMI's barrier the others would wait forever, and after it only this process
 *     would know of a broker that died before connecting to its parent.  A session that may run
 *     with ranks missing (`tolerant`) instead waits for that broker until its join.timeout, once
 *     all have passed the barrier.  A running session copes with the death; it is only reported,
 *     or, with `restart`, another broker of its rank is forked: after AGAIN_MIN seconds, and after
 *     up to AGAIN_MAX if brokers of its rank fail repeatedly (boot_late.h: its PMI).
 *     With `quorum`, a host on which no broker can be started does not end the session: the rank is
 *     absent, and PMI's barrier completes without it; once the barrier is over, ssh is tried again,
 *     after LATER_MIN seconds and then after up to LATER_MAX.  Nor does a running session end if an
 *     ssh connection is lost: the broker behind it goes on.  A rank without a host enters the
 *     barrier likewise; when a host is added (boot_add.h), ssh is tried once.
 *  4. One pmi_server holds PMI's pairs for all ranks.  Its sockets block, so it waits for a client
 *     that does not read: brokers read their answers before they do anything else.
 *     Connections to ssh never block (boot_ssh.c).
 *  5. If rank 0 was killed, the initial program and its descendants are killed too.
 *  6. When all brokers are gone, files that they left in the directory are removed.
 *  7. The phase changes by the transitions of `moves` only, each made by the function that is named
 *     there.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_add.h"
#include "boot_dir.h"
#include "boot_late.h"
#include "boot_nursery.h"
#include "boot_private.h"
#include "boot_ssh_wire.h"
#include "broker.h"
#include "libpmi/pmi_server.h"
#include "libutil/buf.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"

#define DEFAULT_GRACE 10.
#define OWN_FILES 64 /* open files besides one per broker */
#define HURRY 1.     /* seconds of grace after a second signal, or a failed start */
#define CUT 2.       /* seconds after which a broker on another host no longer delays the end */
#define SIGNAL_SLOT UINT64_MAX
#define ADD_SLOT (UINT64_MAX - 1)
#define ERR_SLOT (UINT64_C(1) << 32) /* added to the rank: standard error of ssh */
#define AGAIN_MIN 0.1
#define AGAIN_MAX 10.
#define LATER_MIN 1.
#define LATER_MAX 60.
#define STEADY 30. /* seconds after which a rank no longer counts as failing repeatedly */

enum phase { SERVE, GRACE, TERM, KILL };

struct child {
    pid_t pid;           /* 0: gone */
    int fd;              /* our end of the PMI socket; -1: closed */
    bool absent;         /* no broker could be started on its host, or it has none */
    bool added;          /* its host was added, or is to be: it had none at first ... */
    bool adding;         /* ... and rank 0 waits for the result */
    boot_ssh_t *ssh;     /* of a broker on another host, and pid is that of ssh; else NULL */
    boot_dialog_t *late; /* of a broker that is started again, or late; NULL: the common server's */
    double began;        /* when it was forked */
    double pause;        /* pause before the fork; 0: it is the first broker of its rank */
    double again;        /* time at which another broker is to be forked; 0: never */
};

struct nursery {
    const struct nursery_config *cfg;
    double grace;
    char rundir[BOOT_PATH_MAX];
    struct child *child;
    uint32_t left;      /* children that are alive */
    uint32_t absent;    /* of those that have had a host from the start */
    uint32_t finalized; /* children that have finalized PMI */
    bool met;           /* all brokers have passed PMI's barrier */
    struct pmi_server *pmi;
    boot_late_t *late; /* keeps the exchange if brokers may start late */
    int epfd, sigfd;
    int add[2]; /* connection to rank 0 (boot_add.h), and its end of it; -1: none */
    buf_t *add_in;
    sigset_t signals, old_signals;
    enum phase phase;
    double deadline; /* of the phase; 0: none */
    unsigned interrupts;
    int interrupt; /* the first signal */
    bool failed;
    bool complained;
    bool had_children; /* this process had children before it became a nursery */
    bool orphans;      /* rank 0 was killed: its descendants may still run */
    int exit_code;
};

static const char *prefix(const struct nursery *n)
{
    return n->cfg->prefix ? n->cfg->prefix : "flux-broker";
}

#define ORPHANS 1.
#define SAY(n, ...) \
    (fprintf(stderr, "%s: ", prefix(n)), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

/* Ranks that have a host from the start. */
static uint32_t first_size(const struct nursery *n)
{
    return n->cfg->ssh ? boot_hosts_listed(n->cfg->ssh->hosts) : n->cfg->size;
}

static bool is_here(const struct nursery *n, uint32_t rank)
{
    return !n->cfg->ssh || boot_hosts_here(n->cfg->ssh->hosts, rank);
}

static void signal_all(struct nursery *n, int signum)
{
    for (uint32_t i = 0; i < n->cfg->size; i++) {
        if (n->child[i].pid > 0 && n->child[i].ssh)
            boot_ssh_signal(n->child[i].ssh, signum);
        else if (n->child[i].pid > 0)
            kill(n->child[i].pid, signum);
    }
}

/* End attempts to reach hosts that are absent: nobody is there who may end by himself. */
static void signal_late(struct nursery *n)
{
    for (uint32_t i = 0; i < n->cfg->size; i++) {
        if (n->child[i].pid > 0 && n->child[i].absent)
            boot_ssh_signal(n->child[i].ssh, SIGTERM);
    }
}

static void cut_all(struct nursery *n)
{
    n->deadline = 0.;
    for (uint32_t i = 0; i < n->cfg->size; i++) {
        if (n->child[i].pid > 0 && n->child[i].ssh)
            boot_ssh_cut(n->child[i].ssh);
    }
}

static const struct transition moves[] = {
    {SERVE, GRACE, "pmi_client_error, broker_ended"},
    {SERVE, TERM, "broker_ended, give_up, interrupted"},
    {GRACE, TERM, "broker_ended, give_up, interrupted, serve"},
    {TERM, KILL, "serve"},
    /* instead of TERM, before PMI's barrier */
    {SERVE, KILL, "broker_ended, give_up, interrupted"},
    {GRACE, KILL, "broker_ended, give_up, interrupted, serve"},
    TRANSITION_END,
};

static void enter(struct nursery *n, enum phase phase)
{
    /* Before the barrier, brokers block in PMI, do not handle SIGTERM, and have started nothing. */
    if (phase == TERM && !n->met)
        phase = KILL;
    TRANSITION(7, moves, n->phase, phase);
    n->phase = phase;
    n->deadline = clock_now() + (phase == KILL ? CUT : n->grace);
    if (phase == GRACE && n->grace > ORPHANS)
        n->deadline = clock_now() + ORPHANS;
    if (n->left == 0)
        return;
    if (phase == GRACE)
        signal_late(n);
    if (phase == TERM)
        signal_all(n, SIGTERM);
    if (phase == KILL)
        signal_all(n, SIGKILL);
}

/* Does the death of one broker end the session? */
static bool fragile(const struct nursery *n)
{
    return n->finalized == 0 && !(n->met && n->cfg->tolerant);
}

static void give_up(struct nursery *n)
{
    n->failed = true;
    if (n->exit_code == 0)
        n->exit_code = 1;
    if (n->phase < TERM)
        enter(n, TERM);
}

/* --- PMI --- */

static int send_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t done = send(fd, p, len, MSG_NOSIGNAL);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        p += done;
        len -= done;
    }
    return 0;
}

static int pmi_send(void *arg, size_t idx, const void *data, size_t len)
{
    const struct nursery *n = arg;

    if (n->child[idx].late || n->child[idx].absent)
        return 0; /* the common server speaks to the one that stands in for it */
    if (n->child[idx].ssh)
        return boot_ssh_pmi_send(n->child[idx].ssh, data, len);
    return send_all(n->child[idx].fd, data, len);
}

static void pmi_barrier(void *arg, const void *blob, size_t len, size_t npairs)
{
    struct nursery *n = arg;

    (void)npairs;
    n->met = true;
    if ((n->cfg->restart || n->absent > 0 || first_size(n) < n->cfg->size) &&
        boot_late_keep(n->late, blob, len) < 0)
        SAY(n, "out of memory: no broker can be started later");
    pmi_server_merge(n->pmi, blob, len); /* all ranks are served here */
    pmi_server_barrier_done(n->pmi, 0, NULL);
}

static void pmi_abort(void *arg, size_t idx, int exitcode, const char *msg)
{
    struct nursery *n = arg;

    SAY(n, "broker %zu gave up: %s", idx, msg);
    n->exit_code = exitcode ? exitcode : 1;
    give_up(n);
}

static void pmi_finalized(void *arg, size_t idx)
{
    struct nursery *n = arg;

    (void)idx;
    n->finalized++;
    if (n->cfg->verbose && n->finalized == first_size(n))
        SAY(n, "all %u brokers are running", n->finalized);
}

static void pmi_client_error(void *arg, size_t idx, const char *text)
{
    struct nursery *n = arg;

    if (n->phase != SERVE)
        return;
    if (n->cfg->verbose)
        SAY(n, "broker %zu: %s", idx, text);
    if (!fragile(n))
        return;
    /* The broker is about to print the reason and exit. */
    n->failed = true;
    n->exit_code = 1;
    enter(n, GRACE);
    n->deadline = clock_now() + HURRY;
}

static const struct pmi_server_ops pmi_ops = {
    .send = pmi_send,
    .barrier = pmi_barrier,
    .abort = pmi_abort,
    .finalized = pmi_finalized,
    .client_error = pmi_client_error,
};

static int start_pmi(struct nursery *n, errmsg_t *err)
{
    uint32_t *ranks = calloc(n->cfg->size, sizeof(ranks[0]));
    struct pmi_server_params params = {
        .kvsname = "flux", .size = n->cfg->size, .nlocal = n->cfg->size, .ranks = ranks};
    int rc = -1;

    if (!ranks)
        return errmsg_fail(err, ENOMEM, "out of memory for %u brokers", n->cfg->size);
    for (uint32_t i = 0; i < n->cfg->size; i++)
        ranks[i] = i;
    boot_late_set_one_host(n->late, !n->cfg->ssh || !boot_hosts_several(n->cfg->ssh->hosts));
    if ((n->pmi = pmi_server_create(&pmi_ops, n, &params, err)) &&
        (rc = boot_late_mapping(n->late, n->pmi)) < 0)
        errmsg_fail(err, ENOMEM, "out of memory for %u brokers", n->cfg->size);
    free(ranks);
    return rc;
}

/* --- PMI of a broker that is started again, or late --- */

static int late_send(void *arg, const void *data, size_t len)
{
    const struct child *c = arg;

    return c->ssh ? boot_ssh_pmi_send(c->ssh, data, len) : send_all(c->fd, data, len);
}

static int pmi_input(struct nursery *n, uint32_t rank, const void *data, size_t len)
{
    boot_dialog_t *late = n->child[rank].late;

    return late ? boot_dialog_input(late, data, len) : pmi_server_input(n->pmi, rank, data, len);
}

static void pmi_eof(struct nursery *n, uint32_t rank)
{
    if (n->child[rank].late)
        boot_dialog_eof(n->child[rank].late);
    else
        pmi_server_eof(n->pmi, rank);
}

static void pmi_close(struct nursery *n, uint32_t rank)
{
    if (n->child[rank].fd >= 0)
        close(n->child[rank].fd); /* closing also removes it from the epoll set */
    n->child[rank].fd = -1;
}

static void pmi_readable(struct nursery *n, uint32_t rank)
{
    char buf[4096];
    ssize_t len;

    if (n->child[rank].fd < 0)
        return;
    len = recv(n->child[rank].fd, buf, sizeof(buf), MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len > 0 && pmi_input(n, rank, buf, (size_t)len) == 0)
        return;
    if (len <= 0)
        pmi_eof(n, rank);
    pmi_close(n, rank);
}

/* A rank is absent: when is its host to be tried again? */
static void try_later(struct nursery *n, uint32_t rank)
{
    struct child *c = &n->child[rank];

    c->pause = c->pause <= 0. ? LATER_MIN : c->pause * 2. < LATER_MAX ? c->pause * 2. : LATER_MAX;
    c->again = clock_now() + c->pause;
}

/* Enter the barrier for a broker that is absent.  Its card leads to it as soon as it is there. */
static int stand_in(struct nursery *n, uint32_t rank, errmsg_t *err)
{
    static const char enter_barrier[] = "cmd=init pmi_version=1 pmi_subversion=1\n"
                                        "cmd=barrier_in\n";
    const char *host = boot_hosts_name(n->cfg->ssh->hosts, rank);

    if (boot_late_absent(n->late, rank, host, n->pmi, err) < 0)
        return -1;
    n->child[rank].absent = true;
    if (host) {
        n->absent++;
        try_later(n, rank);
    }
    return pmi_server_input(n->pmi, rank, enter_barrier, strlen(enter_barrier));
}

/* No broker can be started on a host.  Without `quorum` of them, the session cannot be. */
static void not_started(struct nursery *n, uint32_t rank, const char *why)
{
    errmsg_t err;

    if (n->phase != SERVE)
        return;
    if (n->cfg->quorum > 0 && first_size(n) - n->absent > n->cfg->quorum) {
        SAY(n, "rank %u is absent: %s", rank, why);
        if (stand_in(n, rank, &err) == 0)
            return;
        why = err.text;
    }
    SAY(n, "broker %u was not started: %s", rank, why);
    n->complained = true;
    give_up(n);
}

/* --- hosts that are added --- */

/* Are brokers started while the session runs? */
static bool starts_later(const struct nursery *n)
{
    return n->phase == SERVE && n->interrupts == 0 &&
           (n->cfg->restart || n->absent > 0 || n->add[0] >= 0);
}

/* Tell rank 0 what has become of a host; `why` is NULL: its broker has been started. */
static void added(struct nursery *n, const char *host, uint32_t rank, int errnum, const char *why)
{
    const struct boot_add_result res = {
        .host = host, .rank = rank, .errnum = errnum, .text = why ? why : ""};

    if (n->add[0] >= 0 &&
        boot_add_send(n->add[0], BOOT_FRAME_ADDED, &boot_add_result_schema, &res) < 0)
        SAY(n, "rank 0 does not learn what has become of host %.64s: %s", host, strerror(errno));
}

/* The broker of a rank that was absent has been started. */
static void has_come(struct nursery *n, uint32_t rank)
{
    struct child *c = &n->child[rank];
    const char *host = boot_hosts_name(n->cfg->ssh->hosts, rank);

    c->absent = false;
    if (!c->added)
        n->absent--;
    if (c->adding)
        added(n, host, rank, 0, NULL);
    c->adding = false;
    SAY(n, "broker %u starts %s on host %s", rank, c->added ? "now" : "late", host);
}

/* No broker could be started on the host of a rank that is absent. */
static void has_not_come(struct nursery *n, uint32_t rank, int errnum, const char *why)
{
    struct child *c = &n->child[rank];

    if (c->adding)
        added(n, boot_hosts_name(n->cfg->ssh->hosts, rank), rank, errnum, why);
    c->adding = false;
    if (c->added)
        boot_hosts_remove(n->cfg->ssh->hosts, rank);
    else
        try_later(n, rank);
}

/* Which rank will a host have?  It may have one already, whose broker can be started (again). */
static int place_host(struct nursery *n, const char *host, uint32_t *rank, errmsg_t *err)
{
    struct child *c;

    if (!starts_later(n))
        return errmsg_fail(err, ESHUTDOWN, "host %.64s cannot be added: the session is ending",
                           host);
    if (boot_hosts_add(n->cfg->ssh->hosts, host, rank, err) == 0)
        return 0;
    if (errno != EEXIST)
        return -1;
    c = &n->child[*rank];
    if (c->adding)
        return errmsg_fail(err, EINPROGRESS, "host %.64s is being added already, as rank %u", host,
                           *rank);
    if (c->pid > 0 && !c->absent) {
        errno = EEXIST;
        return -1;
    }
    if (!boot_late_has_key(n->late, *rank))
        return errmsg_fail(
            err, EEXIST,
            "host %.64s is rank %u of the session already, and its broker has ended: "
            "one that was there from the start cannot be started again",
            host, *rank);
    return 0;
}

static void add_host(struct nursery *n, const char *host)
{
    errmsg_t err;
    uint32_t rank = 0;
    struct child *c;

    if (place_host(n, host, &rank, &err) < 0) {
        added(n, host, rank, errno, err.text);
        return;
    }
    c = &n->child[rank];
    c->added = rank >= first_size(n);
    if (!c->absent && !c->added)
        n->absent++;
    c->absent = c->adding = true;
    if (c->pid <= 0)
        c->again = clock_now(); /* by restart_due() */
}

static void add_close(struct nursery *n)
{
    if (n->add[0] >= 0)
        close(n->add[0]);
    n->add[0] = -1;
}

/* Rank 0 asks for hosts. */
static void add_readable(struct nursery *n)
{
    void *p = buf_reserve(n->add_in, BOOT_ADD_FRAME_MAX);
    ssize_t len = p && n->add[0] >= 0 ? recv(n->add[0], p, BOOT_ADD_FRAME_MAX, MSG_DONTWAIT) : -1;
    struct boot_add_request in = {NULL};
    struct boot_frame f;
    size_t used;
    int rc = 0;

    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len > 0)
        buf_commit(n->add_in, (size_t)len);
    while (len > 0 &&
           (rc = boot_frame_first(buf_data(n->add_in), buf_len(n->add_in), &f, &used)) == 1) {
        json_t *owner = flux_schema_decode(&boot_add_request_schema, f.data, f.len, &in, NULL);

        if (owner)
            add_host(n, in.host);
        json_decref(owner);
        buf_consume(n->add_in, used);
    }
    if (len <= 0 || rc < 0)
        add_close(n);
}

static void ssh_readable(struct nursery *n, uint32_t rank)
{
    struct child *c = &n->child[rank];
    boot_ssh_t *s = c->ssh;
    const char *data;
    errmsg_t err;
    size_t len;
    int more, rc;

    while ((more = boot_ssh_read(s, &err)) > 0) {
        if (c->absent && boot_ssh_greeted(s))
            has_come(n, rank);
        while ((rc = boot_ssh_pmi_next(s, &data, &len)) > 0) {
            if (pmi_input(n, rank, data, len) < 0)
                break;
        }
        if (rc < 0)
            pmi_eof(n, rank);
    }
    if (more < 0 && err.text[0]) {
        if (!c->absent)
            not_started(n, rank, err.text);
        boot_ssh_signal(s, SIGTERM);
    }
}

/* --- children --- */

static int start_ssh(struct nursery *n, uint32_t rank, errmsg_t *err)
{
    struct child *c = &n->child[rank];

    boot_ssh_destroy(c->ssh);
    if (!(c->ssh = boot_ssh_start(n->cfg->ssh, rank, c->late != NULL, &n->old_signals, err)))
        return -1;
    c->pid = boot_ssh_pid(c->ssh);
    n->left++;
    return 0;
}

static int become_child(struct nursery *n, uint32_t rank, int fd, pid_t parent)
{
    char text[16];
    int null;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        return -1;
    for (uint32_t i = 0; i < n->cfg->size; i++) {
        pmi_close(n, i);
        boot_ssh_destroy(n->child[i].ssh);
        n->child[i].ssh = NULL;
    }
    if (n->sigfd >= 0)
        close(n->sigfd);
    add_close(n);
    sigprocmask(SIG_SETMASK, &n->old_signals, NULL);
    if (rank > 0 && !(n->cfg->foreground && idset_test(n->cfg->foreground, rank))) {
        setpgid(0, 0);
        if ((null = open("/dev/null", O_RDONLY)) < 0 || dup2(null, STDIN_FILENO) < 0)
            return -1;
        if (null != STDIN_FILENO)
            close(null);
    }
    snprintf(text, sizeof(text), "%d", fd);
    setenv("PMI_FD", text, 1);
    snprintf(text, sizeof(text), "%u", rank);
    setenv("PMI_RANK", text, 1);
    snprintf(text, sizeof(text), "%u", n->cfg->size);
    setenv("PMI_SIZE", text, 1);
    if (n->child[rank].late)
        setenv(BOOT_AGAIN, "1", 1);
    snprintf(text, sizeof(text), "%d", n->add[1]);
    if (rank == 0 && n->add[1] >= 0)
        setenv(BOOT_LAUNCHER, text, 1);
    return 0;
}

/* 1 in the child, 0 in the parent, -1 with an error message. */
static int fork_one(struct nursery *n, uint32_t rank, errmsg_t *err)
{
    pid_t parent = getpid();
    int fds[2];
    pid_t pid;

    if (!is_here(n, rank))
        return start_ssh(n, rank, err);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return errmsg_fail(err, errno, "cannot start broker %u of %u: %s", rank, n->cfg->size,
                           strerror(errno));
    n->child[rank].fd = fds[0];
    if ((pid = fork()) == 0) {
        if (become_child(n, rank, fds[1], parent) < 0)
            _exit(1);
        return 1;
    }
    close(fds[1]);
    if (pid < 0)
        return errmsg_fail(err, errno, "cannot start broker %u of %u: %s", rank, n->cfg->size,
                           strerror(errno));
    n->child[rank].pid = pid;
    n->child[rank].began = clock_now();
    n->left++;
    return 0;
}

/* A broker has failed: schedule the start of another broker of its rank. */
static void start_again(struct nursery *n, uint32_t rank)
{
    struct child *c = &n->child[rank];
    double now = clock_now();

    if (!n->cfg->restart || n->phase != SERVE || n->interrupts > 0 || fragile(n) ||
        !boot_late_possible(n->late))
        return;
    if (c->pause <= 0. || now - c->began > STEADY)
        c->pause = AGAIN_MIN;
    else
        c->pause = c->pause * 2. < AGAIN_MAX ? c->pause * 2. : AGAIN_MAX;
    c->again = now + c->pause;
    SAY(n, "broker %u is started again in %.1f s", rank, c->pause);
}

/* ssh has ended.  Was that only the end of the connection?  Says so. */
static bool ssh_ended(struct nursery *n, uint32_t rank, int status)
{
    errmsg_t err;

    ssh_readable(n, rank);
    if (!boot_ssh_lost(n->child[rank].ssh, status, &err))
        return false;
    if (n->phase != SERVE)
        return true;
    if (n->child[rank].absent)
        has_not_come(n, rank, errno, err.text);
    else if (!boot_ssh_greeted(n->child[rank].ssh))
        not_started(n, rank, err.text);
    else if (fragile(n)) {
        SAY(n, "broker %u has failed: %s", rank, err.text);
        n->complained = true;
        give_up(n);
    } else
        SAY(n, "%s; broker %u goes on without it", err.text, rank);
    return true;
}

static void broker_ended(struct nursery *n, uint32_t rank, int status)
{
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

    n->child[rank].pid = 0;
    n->left--;
    if (rank == 0) {
        if (n->interrupts > 0 && code == 128 + SIGTERM)
            code = 128 + n->interrupt; /* this process forwarded it as SIGTERM */
        /* If rank 0 was terminated because another broker failed, that failure is the reason. */
        if (!n->failed || (code != 0 && code != 128 + SIGTERM && !WIFSIGNALED(status)))
            n->exit_code = code;
        n->orphans = WIFSIGNALED(status);
        if (WIFSIGNALED(status) && n->phase < TERM)
            SAY(n, "broker 0 was killed by signal %d (%s)", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        if (n->phase < TERM)
            enter(n, WIFSIGNALED(status) || fragile(n) ? TERM : GRACE);
        return;
    }
    if (n->child[rank].ssh && ssh_ended(n, rank, status))
        return;
    if (n->phase == SERVE || (n->phase == GRACE && n->failed)) {
        if (WIFSIGNALED(status))
            SAY(n, "broker %u was killed by signal %d (%s)", rank, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        else if ((code != 0 && !n->complained) || n->cfg->verbose)
            SAY(n, "broker %u%s%s ended with exit code %d", rank, n->cfg->ssh ? " on host " : "",
                n->cfg->ssh ? boot_hosts_name(n->cfg->ssh->hosts, rank) : "", code);
        n->complained = true; /* usually all fail for the same reason */
        if (fragile(n))
            give_up(n);
        else if (code != 0)
            start_again(n, rank);
    }
}

static void reap(struct nursery *n)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t i = 0; i < n->cfg->size; i++) {
            if (n->child[i].pid == pid) {
                broker_ended(n, i, status);
                break;
            }
        }
    }
}

static void interrupted(struct nursery *n, int signum)
{
    if (n->interrupts++ > 0) {
        /* A broker that gets a second signal kills what it runs, and may then be killed itself. */
        n->exit_code = 128 + signum;
        n->failed = true;
        if (n->phase < TERM)
            enter(n, TERM);
        else
            signal_all(n, SIGTERM);
        if (n->phase == TERM)
            n->deadline = clock_now() + HURRY;
        return;
    }
    n->interrupt = signum;
    if (n->child[0].pid > 0)
        kill(n->child[0].pid, SIGTERM);
    /* Before the session runs, rank 0 may block in PMI and cannot tell the others. */
    if (n->finalized == 0 && n->phase < TERM) {
        n->exit_code = 128 + signum;
        give_up(n);
    }
}

static void take_signals(struct nursery *n)
{
    struct signalfd_siginfo info;

    while (read(n->sigfd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(n);
        else
            interrupted(n, (int)info.ssi_signo);
    }
}

/* Send a signal to all children of this process (0: only count them).  Returns their number. */
static unsigned each_child(int signum)
{
    char path[64], word[16];
    unsigned count = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    if (!(f = fopen(path, "re")))
        return 0;
    for (; fscanf(f, "%15s", word) == 1; count++) {
        uint32_t pid;

        if (str2u32(word, &pid) == 0 && signum)
            kill((pid_t)pid, signum);
    }
    fclose(f);
    return count;
}

/* Kill the descendants of rank 0, which this process inherited as their subreaper.  This is not
 * done if the process had children before it became a nursery (exec keeps them): they cannot be
 * told apart. */
static void kill_orphans(const struct nursery *n)
{
    if (!n->orphans || n->had_children)
        return;
    each_child(SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* --- the loop --- */

static int watch_fd(struct nursery *n, int fd, uint64_t slot, errmsg_t *err)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = slot};

    if (epoll_ctl(n->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return errmsg_fail(err, errno, "cannot watch the brokers: %s", strerror(errno));
    return 0;
}

static int watch(struct nursery *n, uint32_t rank, errmsg_t *err)
{
    const struct child *c = &n->child[rank];

    if (!c->ssh)
        return watch_fd(n, c->fd, rank, err);
    return watch_fd(n, boot_ssh_fd(c->ssh), rank, err) < 0 ||
                   watch_fd(n, boot_ssh_err(c->ssh), rank + ERR_SLOT, err) < 0
               ? -1
               : 0;
}

/* When something is to be done that is not asked for by a descriptor; 0: never. */
static double next_time(const struct nursery *n)
{
    double next = n->deadline;

    for (uint32_t i = 0; starts_later(n) && i < n->cfg->size; i++)
        if (n->child[i].again > 0. && (next <= 0. || n->child[i].again < next))
            next = n->child[i].again;
    return next;
}

static int wait_ms(const struct nursery *n)
{
    double next = next_time(n);
    double left = next - clock_now();

    if (next <= 0.)
        return -1;
    return left <= 0. ? 0 : left > 1000. ? 1000 * 1000 : (int)(left * 1000.) + 1;
}

/* Fork the brokers whose time has come.  1 in such a child, with its rank; else 0. */
static int restart_due(struct nursery *n, uint32_t *rank)
{
    errmsg_t err;

    for (uint32_t i = 0; starts_later(n) && i < n->cfg->size; i++) {
        struct child *c = &n->child[i];
        int rc;

        if (c->again <= 0. || c->again > clock_now())
            continue;
        c->again = 0.;
        if (c->absent && (!boot_late_possible(n->late) || c->pid > 0)) { /* before the barrier */
            try_later(n, i);
            continue;
        }
        pmi_close(n, i);
        boot_dialog_destroy(c->late);
        c->late = boot_dialog_create(n->late, i, late_send, c, &err);
        rc = c->late ? 0 : -1;
        if (rc == 0 && (rc = fork_one(n, i, &err)) == 1) {
            *rank = i;
            return 1;
        }
        if (rc < 0 || watch(n, i, &err) < 0) {
            SAY(n, "broker %u was not started: %s", i, err.text);
            if (c->absent && c->pid <= 0)
                has_not_come(n, i, errno, err.text);
            else if (c->absent)
                ; /* its end is noticed */
            else if (c->pid == 0)
                start_again(n, i);
        } else if (c->absent && !c->ssh)
            has_come(n, i);
    }
    return 0;
}

static void readable(struct nursery *n, uint64_t slot)
{
    if (slot == SIGNAL_SLOT)
        take_signals(n);
    else if (slot == ADD_SLOT)
        add_readable(n);
    else if (slot >= ERR_SLOT)
        boot_ssh_read_err(n->child[slot - ERR_SLOT].ssh);
    else if (n->child[slot].ssh)
        ssh_readable(n, (uint32_t)slot);
    else
        pmi_readable(n, (uint32_t)slot);
}

static void phase_over(struct nursery *n)
{
    if (n->phase == KILL) {
        cut_all(n);
        return;
    }
    if (n->phase == TERM)
        SAY(n, "%u brokers did not shut down, and are killed", n->left);
    enter(n, n->phase == TERM ? KILL : TERM);
}

/* 1 in the child that becomes another broker of *rank; 0: all is over. */
static int serve(struct nursery *n, uint32_t *rank)
{
    struct epoll_event ev[64];

    reap(n);
    while (n->left > 0) {
        if (restart_due(n, rank) == 1)
            return 1;
        int count = epoll_wait(n->epfd, ev, 64, wait_ms(n));

        for (int i = 0; i < count; i++)
            readable(n, ev[i].data.u64);
        if (count == 0 && n->deadline > 0. && clock_now() >= n->deadline)
            phase_over(n);
    }
    return 0;
}

static void destroy(struct nursery *n)
{
    for (uint32_t i = 0; n->child && i < n->cfg->size; i++) {
        pmi_close(n, i);
        boot_dialog_destroy(n->child[i].late);
        boot_ssh_destroy(n->child[i].ssh);
    }
    free(n->child);
    boot_late_destroy(n->late);
    pmi_server_destroy(n->pmi);
    if (n->epfd >= 0)
        close(n->epfd);
    if (n->sigfd >= 0)
        close(n->sigfd);
    add_close(n);
    buf_destroy(n->add_in);
}

/* Report a directory that another session uses once, not once per broker. */
static int prepare_dirs(struct nursery *n, errmsg_t *err)
{
    char path[BOOT_PATH_MAX];
    bool made;

    if (boot_dir_session(n->cfg->rundir, n->rundir, &made, err) < 0)
        return -1;
    for (uint32_t i = 0; !made && i < n->cfg->size; i++) {
        int lock;

        if (!is_here(n, i))
            continue;
        if ((lock = boot_dir_rank(n->rundir, i, path, err)) < 0) {
            n->rundir[0] = '\0'; /* it is not ours */
            return -1;
        }
        close(lock);
    }
    return 0;
}

static int prepare_adding(struct nursery *n, errmsg_t *err)
{
    if (first_size(n) == n->cfg->size)
        return 0;
    if (!(n->add_in = buf_create(0)) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, n->add) < 0)
        return errmsg_fail(err, errno, "cannot connect to rank 0: %s", strerror(errno));
    return 0;
}

static int prepare(struct nursery *n, errmsg_t *err)
{
    uint32_t need = n->cfg->size * (n->cfg->ssh ? 2 : 1) + OWN_FILES;
    struct rlimit files;

    /* Each broker takes one descriptor here, or two. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < need) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        (files.rlim_cur < BROKER_NOFILE_MIN || files.rlim_cur < need))
        return errmsg_fail(
            err, EMFILE, "the limit on open files is %lu: %u brokers need at least %u (ulimit -n)",
            (unsigned long)files.rlim_cur, n->cfg->size,
            need > BROKER_NOFILE_MIN ? need : BROKER_NOFILE_MIN);
    if (!(n->child = calloc(n->cfg->size, sizeof(n->child[0]))) ||
        !(n->late = boot_late_create(n->cfg->size)))
        return errmsg_fail(err, ENOMEM, "out of memory for %u brokers", n->cfg->size);
    for (uint32_t i = 0; i < n->cfg->size; i++)
        n->child[i].fd = -1;
    sigemptyset(&n->signals);
    sigaddset(&n->signals, SIGCHLD);
    sigaddset(&n->signals, SIGINT);
    sigaddset(&n->signals, SIGTERM);
    sigaddset(&n->signals, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &n->signals, &n->old_signals) < 0 ||
        (n->sigfd = signalfd(-1, &n->signals, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return errmsg_fail(err, errno, "cannot wait for signals: %s", strerror(errno));
    return prepare_adding(n, err) < 0 ? -1 : prepare_dirs(n, err);
}

/* Remove files that brokers could not remove themselves. */
static void remove_dirs(struct nursery *n)
{
    if (!n->rundir[0])
        return;
    for (uint32_t i = 0; i < n->cfg->size; i++) {
        if (is_here(n, i))
            boot_dir_remove_rank(n->rundir, i);
    }
    rmdir(n->rundir);
}

static void place_result(const struct nursery *n, struct nursery_place *place, uint32_t rank)
{
    place->rank = rank;
    place->exit_code = n->exit_code;
    memcpy(place->rundir, n->rundir, sizeof(place->rundir));
}

int boot_nursery_run(const struct nursery_config *cfg, struct nursery_place *place, errmsg_t *err)
{
    struct nursery n = {.cfg = cfg, .epfd = -1, .sigfd = -1, .add = {-1, -1}};
    uint32_t rank;
    int rc;

    n.had_children = each_child(0) > 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    n.grace = cfg->grace > 0. ? cfg->grace : DEFAULT_GRACE;
    rc = prepare(&n, err);
    for (uint32_t i = 0; rc == 0 && i < first_size(&n); i++) {
        if ((rc = fork_one(&n, i, err)) == 1) {
            place_result(&n, place, i);
            destroy(&n);
            return 1;
        }
    }
    if (n.add[1] >= 0)
        close(n.add[1]);
    if (rc == 0) {
        if (cfg->verbose)
            SAY(&n, "started %u brokers in %s", first_size(&n), n.rundir);
        if ((n.epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
            rc = errmsg_fail(err, errno, "cannot watch the brokers: %s", strerror(errno));
        if (rc == 0)
            rc = start_pmi(&n, err);
        if (rc == 0)
            rc = watch_fd(&n, n.sigfd, SIGNAL_SLOT, err);
        if (rc == 0 && n.add[0] >= 0)
            rc = watch_fd(&n, n.add[0], ADD_SLOT, err);
        for (uint32_t i = 0; rc == 0 && i < first_size(&n); i++)
            rc = watch(&n, i, err);
        for (uint32_t i = first_size(&n); rc == 0 && i < cfg->size; i++)
            rc = stand_in(&n, i, err);
    }
    if (rc < 0 && n.child) {
        signal_all(&n, SIGKILL);
        while (n.left > 0 && waitpid(-1, NULL, 0) > 0)
            n.left--;
    } else if (rc == 0 && serve(&n, &rank) == 1) {
        place_result(&n, place, rank);
        destroy(&n);
        return 1;
    } else {
        kill_orphans(&n);
    }
    remove_dirs(&n);
    destroy(&n);
    sigprocmask(SIG_SETMASK, &n.old_signals, NULL);
    place_result(&n, place, 0);
    return rc;
}
