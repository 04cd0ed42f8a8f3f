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
 *     Ranks may also be absent, or without a host (boot_nursery_ssh.c).
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

#include "boot_dir.h"
#include "boot_nursery_private.h"
#include "boot_private.h"
#include "broker.h"
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
#define STEADY 30. /* seconds after which a rank no longer counts as failing repeatedly */

#define ORPHANS 1.

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
bool nursery_fragile(const struct nursery *n)
{
    return n->finalized == 0 && !(n->met && n->cfg->tolerant);
}

void nursery_give_up(struct nursery *n)
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
    if ((n->cfg->restart || n->absent > 0 || nursery_first_size(n) < n->cfg->size) &&
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
    nursery_give_up(n);
}

static void pmi_finalized(void *arg, size_t idx)
{
    struct nursery *n = arg;

    (void)idx;
    n->finalized++;
    if (n->cfg->verbose && n->finalized == nursery_first_size(n))
        SAY(n, "all %u brokers are running", n->finalized);
}

static void pmi_client_error(void *arg, size_t idx, const char *text)
{
    struct nursery *n = arg;

    if (n->phase != SERVE)
        return;
    if (n->cfg->verbose)
        SAY(n, "broker %zu: %s", idx, text);
    if (!nursery_fragile(n))
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

int nursery_pmi_input(struct nursery *n, uint32_t rank, const void *data, size_t len)
{
    boot_dialog_t *late = n->child[rank].late;

    return late ? boot_dialog_input(late, data, len) : pmi_server_input(n->pmi, rank, data, len);
}

void nursery_pmi_eof(struct nursery *n, uint32_t rank)
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
    if (len > 0 && nursery_pmi_input(n, rank, buf, (size_t)len) == 0)
        return;
    if (len <= 0)
        nursery_pmi_eof(n, rank);
    pmi_close(n, rank);
}

/* --- children --- */

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
    nursery_add_close(n);
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
        return nursery_start_ssh(n, rank, err);
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

    if (!n->cfg->restart || n->phase != SERVE || n->interrupts > 0 || nursery_fragile(n) ||
        !boot_late_possible(n->late))
        return;
    if (c->pause <= 0. || now - c->began > STEADY)
        c->pause = AGAIN_MIN;
    else
        c->pause = c->pause * 2. < AGAIN_MAX ? c->pause * 2. : AGAIN_MAX;
    c->again = now + c->pause;
    SAY(n, "broker %u is started again in %.1f s", rank, c->pause);
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
            enter(n, WIFSIGNALED(status) || nursery_fragile(n) ? TERM : GRACE);
        return;
    }
    if (n->child[rank].ssh && nursery_ssh_ended(n, rank, status))
        return;
    nursery_added_ended(n, rank, status);
    if (n->phase == SERVE || (n->phase == GRACE && n->failed)) {
        if (WIFSIGNALED(status))
            SAY(n, "broker %u was killed by signal %d (%s)", rank, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        else if ((code != 0 && !n->complained) || n->cfg->verbose)
            SAY(n, "broker %u%s%s ended with exit code %d", rank, n->cfg->ssh ? " on host " : "",
                n->cfg->ssh ? boot_hosts_name(n->cfg->ssh->hosts, rank) : "", code);
        n->complained = true; /* usually all fail for the same reason */
        if (nursery_fragile(n))
            nursery_give_up(n);
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
        nursery_give_up(n);
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

    for (uint32_t i = 0; nursery_starts_later(n) && i < n->cfg->size; i++)
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

    for (uint32_t i = 0; nursery_starts_later(n) && i < n->cfg->size; i++) {
        struct child *c = &n->child[i];
        int rc;

        if (c->again <= 0. || c->again > clock_now())
            continue;
        c->again = 0.;
        if (c->absent && (!boot_late_possible(n->late) || c->pid > 0)) { /* before the barrier */
            nursery_try_later(n, i);
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
                nursery_has_not_come(n, i, errno, err.text);
            else if (c->absent)
                ; /* its end is noticed */
            else if (c->pid == 0)
                start_again(n, i);
        } else if (c->absent && !c->ssh)
            nursery_has_come(n, i);
    }
    return 0;
}

static void readable(struct nursery *n, uint64_t slot)
{
    if (slot == SIGNAL_SLOT)
        take_signals(n);
    else if (slot == ADD_SLOT)
        nursery_add_readable(n);
    else if (slot >= ERR_SLOT)
        boot_ssh_read_err(n->child[slot - ERR_SLOT].ssh);
    else if (n->child[slot].ssh)
        nursery_ssh_readable(n, (uint32_t)slot);
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
    nursery_add_close(n);
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
    return nursery_prepare_adding(n, err) < 0 ? -1 : prepare_dirs(n, err);
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
    for (uint32_t i = 0; rc == 0 && i < nursery_first_size(&n); i++) {
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
            SAY(&n, "started %u brokers in %s", nursery_first_size(&n), n.rundir);
        if ((n.epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
            rc = errmsg_fail(err, errno, "cannot watch the brokers: %s", strerror(errno));
        if (rc == 0)
            rc = start_pmi(&n, err);
        if (rc == 0)
            rc = watch_fd(&n, n.sigfd, SIGNAL_SLOT, err);
        if (rc == 0 && n.add[0] >= 0)
            rc = watch_fd(&n, n.add[0], ADD_SLOT, err);
        for (uint32_t i = 0; rc == 0 && i < nursery_first_size(&n); i++)
            rc = watch(&n, i, err);
        for (uint32_t i = nursery_first_size(&n); rc == 0 && i < cfg->size; i++)
            rc = nursery_stand_in(&n, i, err);
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
