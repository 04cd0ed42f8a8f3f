/* boot_nursery_ssh.c - the brokers of the nursery on other hosts, and those that start late.
 *
 * Purpose: where the child of a rank is a process of ssh (boot_ssh.h), there may be no broker
 * behind it yet, or never; and ranks may have no host until one is added.
 *
 * rank       what it is                                        left when present    ssh was started
 * with the session                  ssh ends before the greeting: absent,
 *                                                              or the session does not start
 * absent     no broker could be started on its host; ssh is    ssh greets: it has come
 *            tried again
 * vacant     it has no host                                    rank 0 asks for one: it is being
 * added adding     ssh was started for the host that was added       ssh greets: it has come; or
 * ends:
 *                                                              vacant again
 *
 * Invariants:
 *  1. With `quorum`, a host on which no broker can be started does not end the session as long as
 *     enough are left: the rank is absent, and PMI's barrier completes without it, as without a
 *     vacant one.  Once the barrier is over, ssh is tried again, after LATER_MIN seconds and then
 *     after up to LATER_MAX.
 *  2. Each request of rank 0 (boot_add.h) gets one result, and another one if the broker that was
 *     started for it ends.
 *  3. A host belongs to one rank that was added.  If its broker ends, it can be added again, and
 *     has the same rank.
 *
 * Failure: a running session does not end if an ssh connection is lost: the broker behind it goes
 * on.  If the connection to rank 0 ends, no more hosts can be added.
 */
#include "config.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot_add.h"
#include "boot_nursery_private.h"
#include "boot_ssh_wire.h"
#include "libutil/clock.h"

#define LATER_MIN 1.
#define LATER_MAX 60.

uint32_t nursery_first_size(const struct nursery *n)
{
    return n->cfg->ssh ? boot_hosts_listed(n->cfg->ssh->hosts) : n->cfg->size;
}

/* A rank is absent: when is its host to be tried again? */
void nursery_try_later(struct nursery *n, uint32_t rank)
{
    struct child *c = &n->child[rank];

    c->pause = c->pause <= 0. ? LATER_MIN : c->pause * 2. < LATER_MAX ? c->pause * 2. : LATER_MAX;
    c->again = clock_now() + c->pause;
}

/* Enter the barrier for a broker that is absent.  Its card leads to it as soon as it is there. */
int nursery_stand_in(struct nursery *n, uint32_t rank, errmsg_t *err)
{
    static const char enter_barrier[] = "cmd=init pmi_version=1 pmi_subversion=1\n"
                                        "cmd=barrier_in\n";
    const char *host = boot_hosts_name(n->cfg->ssh->hosts, rank);

    if (boot_late_absent(n->late, rank, host, n->pmi, err) < 0)
        return -1;
    n->child[rank].absent = true;
    if (host) {
        n->absent++;
        nursery_try_later(n, rank);
    }
    return pmi_server_input(n->pmi, rank, enter_barrier, strlen(enter_barrier));
}

/* No broker can be started on a host.  Without `quorum` of them, the session cannot be. */
static void not_started(struct nursery *n, uint32_t rank, const char *why)
{
    errmsg_t err;

    if (n->phase != SERVE)
        return;
    if (n->cfg->quorum > 0 && nursery_first_size(n) - n->absent > n->cfg->quorum) {
        SAY(n, "rank %u is absent: %s", rank, why);
        if (nursery_stand_in(n, rank, &err) == 0)
            return;
        why = err.text;
    }
    SAY(n, "broker %u was not started: %s", rank, why);
    n->complained = true;
    nursery_give_up(n);
}

/* --- hosts that are added --- */

/* Are brokers started while the session runs? */
bool nursery_starts_later(const struct nursery *n)
{
    return n->phase == SERVE && n->interrupts == 0 &&
           (n->cfg->restart || n->absent > 0 || n->add[0] >= 0);
}

/* Tell rank 0 what has become of a request; `why` is NULL: the broker has been started. */
static void added(struct nursery *n, uint32_t request, uint32_t rank, int errnum, const char *why)
{
    const struct boot_add_result res = {
        .id = request, .rank = rank, .errnum = errnum, .text = why ? why : ""};

    if (n->add[0] >= 0 &&
        boot_add_send(n->add[0], BOOT_FRAME_ADDED, &boot_add_result_schema, &res) < 0)
        SAY(n, "rank 0 does not learn what has become of rank %u: %s", rank, strerror(errno));
}

/* A broker that was started for a request has ended. */
static void added_failed(struct nursery *n, uint32_t rank, int errnum, const char *why)
{
    struct child *c = &n->child[rank];

    if (c->request == 0)
        return;
    added(n, c->request, rank, errnum, why);
    c->request = 0;
}

void nursery_added_ended(struct nursery *n, uint32_t rank, int status)
{
    const struct child *c = &n->child[rank];
    const char *line = c->ssh ? boot_ssh_last(c->ssh) : "";
    bool killed = WIFSIGNALED(status);
    errmsg_t why;

    if (c->request == 0)
        return;
    errmsg_fail(&why, ECHILD, "host %.64s: its broker, rank %u, %s %d before it was up%s%.120s",
                boot_hosts_name(n->cfg->ssh->hosts, rank), rank,
                killed ? "was killed by signal" : "ended with exit code",
                killed ? WTERMSIG(status) : WEXITSTATUS(status), line[0] ? ": " : "", line);
    added_failed(n, rank, ECHILD, why.text);
}

/* The broker of a rank that was absent has been started. */
void nursery_has_come(struct nursery *n, uint32_t rank)
{
    struct child *c = &n->child[rank];

    c->absent = false;
    if (!c->added)
        n->absent--;
    if (c->adding)
        added(n, c->request, rank, 0, NULL);
    c->adding = false;
    SAY(n, "broker %u starts %s on host %s", rank, c->added ? "now" : "late",
        boot_hosts_name(n->cfg->ssh->hosts, rank));
}

/* No broker could be started on the host of a rank that is absent. */
void nursery_has_not_come(struct nursery *n, uint32_t rank, int errnum, const char *why)
{
    struct child *c = &n->child[rank];

    added_failed(n, rank, errnum, why);
    c->adding = false;
    if (c->added)
        boot_hosts_remove(n->cfg->ssh->hosts, rank);
    else
        nursery_try_later(n, rank);
}

/* Which rank will a host have?  It may have one already, whose broker can be started (again). */
static int place_host(struct nursery *n, const char *host, uint32_t *rank, errmsg_t *err)
{
    struct child *c;

    if (!nursery_starts_later(n))
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
            err, ENOTSUP,
            "host %.64s is rank %u of the session already, and its broker has ended: "
            "one that was there from the start cannot be started again",
            host, *rank);
    return 0;
}

static void add_host(struct nursery *n, const struct boot_add_request *in)
{
    errmsg_t err;
    uint32_t rank = 0;
    struct child *c;

    if (place_host(n, in->host, &rank, &err) < 0) {
        added(n, in->id, rank, errno, err.text);
        return;
    }
    c = &n->child[rank];
    c->request = in->id;
    c->added = rank >= nursery_first_size(n);
    if (!c->absent && !c->added)
        n->absent++;
    c->absent = c->adding = true;
    if (c->pid <= 0)
        c->again = clock_now(); /* by restart_due() */
}

void nursery_add_close(struct nursery *n)
{
    if (n->add[0] >= 0)
        close(n->add[0]);
    n->add[0] = -1;
}

/* Rank 0 asks for hosts. */
void nursery_add_readable(struct nursery *n)
{
    void *p = buf_reserve(n->add_in, BOOT_ADD_FRAME_MAX);
    ssize_t len = p && n->add[0] >= 0 ? recv(n->add[0], p, BOOT_ADD_FRAME_MAX, MSG_DONTWAIT) : -1;
    struct boot_add_request in = {0};
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
            add_host(n, &in);
        json_decref(owner);
        buf_consume(n->add_in, used);
    }
    if (len <= 0 || rc < 0)
        nursery_add_close(n);
}

void nursery_ssh_readable(struct nursery *n, uint32_t rank)
{
    struct child *c = &n->child[rank];
    boot_ssh_t *s = c->ssh;
    const char *data;
    errmsg_t err;
    size_t len;
    int more, rc;

    while ((more = boot_ssh_read(s, &err)) > 0) {
        if (c->absent && boot_ssh_greeted(s))
            nursery_has_come(n, rank);
        while ((rc = boot_ssh_pmi_next(s, &data, &len)) > 0) {
            if (nursery_pmi_input(n, rank, data, len) < 0)
                break;
        }
        if (rc < 0)
            nursery_pmi_eof(n, rank);
    }
    if (more < 0 && err.text[0]) {
        if (!c->absent)
            not_started(n, rank, err.text);
        boot_ssh_signal(s, SIGTERM);
    }
}

int nursery_start_ssh(struct nursery *n, uint32_t rank, errmsg_t *err)
{
    struct child *c = &n->child[rank];

    boot_ssh_destroy(c->ssh);
    if (!(c->ssh = boot_ssh_start(n->cfg->ssh, rank, c->late != NULL, &n->old_signals, err)))
        return -1;
    c->pid = boot_ssh_pid(c->ssh);
    n->left++;
    return 0;
}

/* ssh has ended.  Was that only the end of the connection?  Says so. */
bool nursery_ssh_ended(struct nursery *n, uint32_t rank, int status)
{
    errmsg_t err;
    int errnum;

    nursery_ssh_readable(n, rank);
    if (!boot_ssh_lost(n->child[rank].ssh, status, &err))
        return false;
    errnum = errno;
    if (n->phase != SERVE)
        return true;
    if (n->child[rank].absent)
        nursery_has_not_come(n, rank, errnum, err.text);
    else if (!boot_ssh_greeted(n->child[rank].ssh))
        not_started(n, rank, err.text);
    else if (nursery_fragile(n)) {
        SAY(n, "broker %u has failed: %s", rank, err.text);
        n->complained = true;
        nursery_give_up(n);
    } else {
        SAY(n, "%s; broker %u goes on without it", err.text, rank);
        added_failed(n, rank, errnum, err.text);
    }
    return true;
}

int nursery_prepare_adding(struct nursery *n, errmsg_t *err)
{
    if (nursery_first_size(n) == n->cfg->size)
        return 0;
    if (!(n->add_in = buf_create(0)) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, n->add) < 0)
        return errmsg_fail(err, errno, "cannot connect to rank 0: %s", strerror(errno));
    return 0;
}
