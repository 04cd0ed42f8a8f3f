/* bench_heal.c - for how long brokers inside the tree are missed when they die or stop.
 *
 *    bench_heal kill|stop|leave|job|jobstop|many COUNT SEED
 *
 * Purpose.  It runs at rank 0 of a session with --topology=kary:2 whose brokers are started again
 * when they die (flux start --restart).  Its victims are brokers with children, chosen by the seed,
 * each of them once, so that their children are still those of the shape.
 *
 *    kill     one after the other, by SIGKILL; each is waited for before the next one
 *    stop     likewise, by SIGSTOP; SIGKILL ends it when it has been declared lost
 *    leave    likewise, by SIGTERM; nothing starts it again, so that the session gets smaller
 *    job      as `kill`, while a job has a task at the victim and one at the last rank
 *    jobstop  likewise, by SIGSTOP; SIGKILL ends the victim when the job has been told
 *    many     COUNT at once, by SIGKILL
 *
 * After each victim (after all of them, for `many`) the same is measured without Flux: a process
 * that has a UNIX socket to another one kills it, notices that, connects to a third process, and
 * has an answer from it; and /bin/true is started and waited for.
 *
 * Format: lines of a word and milliseconds, for bench_heal.sh, which makes figures of them.
 *
 *    verdict    from the SIGSTOP until rank 0 has declared the broker lost
 *    left       from the SIGTERM until rank 0 counts the broker among those that have left
 *    answered   from the SIGKILL (or the verdict) until a child of the broker has the answer of
 *               rank 0 to a request that it sent then
 *    back       from the SIGKILL until the broker that is started in its place answers rank 0
 *    lost       (not a time) how many events a client of that child has not got, of all that were
 *               published from before the SIGKILL (or the SIGSTOP) until after `whole`
 *    whole      from the SIGKILLs (the verdict, or the SIGTERM) until all other ranks that are
 *               up have answered rank 0
 *    exception  from the SIGKILL (or the verdict) until a client of rank 0 that follows the event
 *               log of the job reads the exception node-lost
 *    bare       without Flux: from the SIGKILL until the third process has answered
 *    exec       fork, exec and wait of /bin/true
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "libflux/dispatch.h"
#include "libflux/event.h"
#include "libflux/future.h"
#include "libflux/overlay_wire.h"
#include "libidset/idset.h"
#include "libjob/job.h"
#include "libjob/jobspec_build.h"
#include "libkvs/kvs.h"

extern char **environ;

#define PATIENCE 60. /* seconds for anything: then the session does not heal */
#define RANKS_MAX 4096

static void print(const char *what, double begin_us)
{
    printf("%s %.3f\n", what, (bench_now_us() - begin_us) * 1e-3);
    fflush(stdout);
}

/* --- the same without Flux --- */

struct peer {
    pid_t pid;
    struct sockaddr_un addr; /* abstract, and chosen by the kernel */
    socklen_t len;
};

/* A process that answers one client after the other. */
static void peer_start(struct peer *p)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), conn;
    char c;

    p->addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    p->len = sizeof(p->addr);
    if (fd < 0 || bind(fd, (struct sockaddr *)&p->addr, sizeof(sa_family_t)) < 0 ||
        getsockname(fd, (struct sockaddr *)&p->addr, &p->len) < 0 || listen(fd, 8) < 0)
        bench_die("socket: %s", strerror(errno));
    if ((p->pid = bench_fork()) == 0) {
        while ((conn = accept(fd, NULL, NULL)) >= 0) {
            while (read(conn, &c, 1) == 1 && write(conn, &c, 1) == 1)
                ;
            close(conn);
        }
        _exit(1);
    }
    close(fd);
}

static void peer_end(struct peer *p)
{
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
}

/* A connection on which it has answered. */
static int peer_connect(const struct peer *p)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char c = 0;

    if (fd < 0 || connect(fd, (const struct sockaddr *)&p->addr, p->len) < 0 ||
        write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
        bench_die("a process does not answer: %s", strerror(errno));
    return fd;
}

static void measure_bare(void)
{
    struct peer parent, ancestor;
    double begin;
    pid_t pid;
    char c;
    int fd;

    peer_start(&parent);
    peer_start(&ancestor);
    fd = peer_connect(&parent);
    begin = bench_now_us();
    kill(parent.pid, SIGKILL);
    if (read(fd, &c, 1) > 0)
        bench_die("a dead process has answered");
    close(fd);
    fd = peer_connect(&ancestor);
    print("bare", begin);
    close(fd);
    peer_end(&parent);
    peer_end(&ancestor);
    begin = bench_now_us();
    if ((pid = fork()) == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) < 0)
        bench_die("fork: %s", strerror(errno));
    print("exec", begin);
}

/* --- requests --- */

static bool ping(flux_t *h, uint32_t rank)
{
    flux_future_t *f = flux_rpc(h, "broker.ping", NULL, rank, 0);
    errmsg_t err = {"out of memory"};
    bool ok = f && flux_future_wait(f, PATIENCE) == 0 && flux_rpc_get(f, &err) == 0;

    if (!ok && f && flux_future_errnum(f) != EHOSTUNREACH)
        bench_die("rank %u: %s", rank, flux_future_error(f));
    flux_future_destroy(f);
    return ok;
}

/* A request that ends with EHOSTUNREACH is sent again, as a program would. */
static void until_answered(flux_t *h, uint32_t rank)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    double begin = bench_now_us();

    while (!ping(h, rank)) {
        if (bench_now_us() - begin > PATIENCE * 1e6)
            bench_die("rank %u cannot be reached", rank);
        nanosleep(&pause, NULL);
    }
}

/* Rank 0 runs the program before all others have heard that the session runs; a broker that has not
 * ends it on SIGTERM. */
static void until_runs(flux_t *h, uint32_t rank)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    bool runs = false;

    for (unsigned i = 0; !runs; i++) {
        flux_future_t *f = flux_rpc(h, "overlay.status", NULL, rank, 0);
        struct overlay_status s;
        errmsg_t err = {"out of memory"};

        if (!f || flux_rpc_wait_struct(f, PATIENCE, &overlay_status_schema, &s, &err) < 0)
            bench_die("overlay.status: %s", err.text);
        runs = strcmp(s.state, "run") == 0;
        flux_future_destroy(f);
        if (!runs && i == 1000)
            bench_die("rank %u does not run", rank);
        if (!runs)
            nanosleep(&pause, NULL);
    }
}

/* It is not up any more; or it has left in order. */
static bool is_gone(flux_t *h, uint32_t rank, bool in_order)
{
    flux_future_t *f = flux_rpc(h, "overlay.status", NULL, 0, 0);
    struct overlay_status s;
    errmsg_t err = {"out of memory"};
    const char *text;
    idset_t *gone;
    bool yes;

    if (!f || flux_rpc_wait_struct(f, PATIENCE, &overlay_status_schema, &s, &err) < 0)
        bench_die("overlay.status: %s", err.text);
    text = in_order ? s.left : s.lost;
    if (!(gone = idset_parse(text ? text : "", &err)))
        bench_die("overlay.status: %s", err.text);
    yes = idset_test(gone, rank);
    idset_destroy(gone);
    flux_future_destroy(f);
    return yes;
}

static void until_gone(flux_t *h, uint32_t rank, bool in_order)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    double begin = bench_now_us();

    while (!is_gone(h, rank, in_order)) {
        if (bench_now_us() - begin > PATIENCE * 1e6)
            bench_die("rank %u is %s, and rank 0 has not noticed", rank,
                      in_order ? "told to end" : "stopped");
        nanosleep(&pause, NULL);
    }
}

static pid_t broker_of(flux_t *h, uint32_t rank)
{
    flux_t *other = bench_open_rank(h, rank, NULL);
    pid_t pid = bench_broker_pid(other);

    flux_close(other);
    return pid;
}

/* `count` ranks of those with two children, in random order. */
static void choose(uint32_t *victims, size_t count, uint32_t size, unsigned *seed)
{
    uint32_t inner = (size - 1) / 2, ranks[RANKS_MAX];

    if (size > RANKS_MAX || inner < 2 || count > inner - 1)
        bench_die("a session of %u has fewer than %zu brokers inside the tree", size, count);
    for (uint32_t i = 1; i < inner; i++)
        ranks[i] = i;
    for (size_t i = 0; i < count; i++) {
        uint32_t pick = 1 + (uint32_t)rand_r(seed) % (inner - 1 - (uint32_t)i);

        victims[i] = ranks[pick];
        ranks[pick] = ranks[inner - 1 - i];
    }
}

/* All ranks but these have answered rank 0. */
static void until_whole(flux_t *h, const uint32_t *without, size_t count)
{
    uint32_t ranks[RANKS_MAX];
    double begin = bench_now_us();
    size_t n = 0;

    for (uint32_t rank = 0; rank < flux_size(h); rank++) {
        bool out = false;

        for (size_t i = 0; i < count; i++)
            out = out || without[i] == rank;
        if (!out)
            ranks[n++] = rank;
    }
    while (n > 0) {
        flux_future_t *f = flux_mrpc(h, "broker.ping", NULL, ranks, n, 0);
        size_t left = 0;
        errmsg_t err;

        if (!f)
            bench_die("out of memory");
        do {
            if (flux_future_wait(f, PATIENCE) < 0)
                bench_die("rank %u does not answer", flux_mrpc_rank(f));
            if (flux_rpc_get(f, &err) < 0)
                ranks[left++] = flux_mrpc_rank(f);
        } while (flux_future_next(f) == 0);
        flux_future_destroy(f);
        n = left;
        if (bench_now_us() - begin > PATIENCE * 1e6)
            bench_die("%zu ranks cannot be reached", n);
    }
}

/* --- jobs --- */

/* Submit a job that has a task on each of two nodes, and does not end by itself. */
static uint64_t submit(flux_t *h, uint32_t one, uint32_t other)
{
    const char *const argv[] = {"sleep", "3600", NULL};
    struct jobspec_parts p;
    errmsg_t err = {"out of memory"};
    char ranks[32], *text;
    flux_future_t *f;
    json_t *spec;
    uint64_t id;

    snprintf(ranks, sizeof(ranks), "%u,%u", one, other);
    jobspec_parts_init(&p);
    p.argv = argv;
    p.cwd = "/";
    p.nnodes = 2;
    p.ranks = ranks;
    if (!(spec = jobspec_build(&p, &err)) || !(text = jobspec_encode(spec, NULL)) ||
        !(f = flux_job_submit(h, text, strlen(text), (const char *const *)environ,
                              JOB_URGENCY_DEFAULT, 0, &err)) ||
        flux_future_wait(f, PATIENCE) < 0 || flux_job_submit_get(f, &id, &err) < 0)
        bench_die("no job could be submitted: %s", err.text);
    flux_future_destroy(f);
    free(text);
    json_decref(spec);
    return id;
}

/* Read events up to one of this name, for an exception of this type. */
static void until_event(flux_future_t *f, const char *name, const char *type)
{
    bool found = false;

    while (!found) {
        struct job_event ev;
        struct job_log log;
        const char *data;
        errmsg_t err = {"no event for a minute"};
        size_t len;
        int rc;

        if (flux_future_wait(f, PATIENCE) < 0)
            bench_die("event log: %s", err.text);
        if (flux_kvs_watch_absent(f)) {
            flux_future_next(f);
            continue;
        }
        if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
            bench_die("event log: %s", err.text);
        job_log_init(&log, data, len);
        while ((rc = job_log_next(&log, &ev, &err)) > 0 && !found)
            found = strcmp(ev.name, name) == 0 && (!type || strcmp(ev.type, type) == 0);
        if (rc < 0)
            bench_die("event log: %s", err.text);
        job_log_done(&log);
        if (flux_future_next(f) < 0 && !found)
            bench_die("the event log ends without the event %s", name);
    }
}

/* --- victims --- */

static void one_job(flux_t *h, uint32_t victim, bool stop)
{
    uint64_t id = submit(h, victim, flux_size(h) - 1);
    pid_t pid = broker_of(h, victim);
    char key[FLUX_JOB_KEY_MAX];
    flux_future_t *f = flux_kvs_watch(h, NULL, flux_job_key(id, "eventlog", key, sizeof(key)),
                                      FLUX_KVS_WATCH_APPEND);
    double begin;

    if (!f)
        bench_die("out of memory");
    until_event(f, "start", NULL);
    kill(pid, stop ? SIGSTOP : SIGKILL);
    if (stop)
        until_gone(h, victim, false);
    begin = bench_now_us();
    until_event(f, "exception", "node-lost");
    print("exception", begin);
    flux_future_destroy(f);
    if (stop)
        kill(pid, SIGKILL);
    until_answered(h, victim);
}

#define BURST 10

/* What a subscriber to all events has got. */
struct seen {
    uint64_t last; /* 0: nothing */
    uint64_t lost;
};

static void event_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct seen *seen = arg;
    uint64_t seq = flux_msg_seq(msg);

    if (strcmp(flux_msg_topic(msg), "event.lost") == 0)
        return; /* the next one shows how many */
    if (seen->last > 0 && seq <= seen->last)
        bench_die("event %" PRIu64 " came after %" PRIu64, seq, seen->last);
    seen->lost += seen->last > 0 ? seq - seen->last - 1 : 0;
    seen->last = seq;
}

static const struct flux_handler handlers[] = {{FLUX_MSG_EVENT, "", event_cb, 0}, FLUX_HANDLER_END};

static void subscribe(flux_t *h, struct seen *seen)
{
    flux_future_t *f;
    errmsg_t err = {"out of memory"};

    if (!flux_handlers_add(h, handlers, seen))
        bench_die("handlers: %s", strerror(errno));
    if (!(f = flux_event_subscribe(h, "")) ||
        flux_rpc_wait_struct(f, PATIENCE, NULL, NULL, &err) < 0)
        bench_die("subscribe: %s", err.text);
    flux_future_destroy(f);
}

static void publish(flux_t *h, flux_future_t *out[BURST])
{
    for (unsigned i = 0; i < BURST; i++) {
        if (!(out[i] = flux_event_publish(h, "heal.bench", NULL)))
            bench_die("out of memory");
    }
}

/* The number of the last one. */
static uint64_t published(flux_future_t *out[BURST])
{
    uint64_t seq = 0;
    errmsg_t err = {"no answer"};

    for (unsigned i = 0; i < BURST; i++) {
        if (flux_future_wait(out[i], PATIENCE) < 0 || flux_event_get_seq(out[i], &seq, &err) < 0)
            bench_die("publish: %s", err.text);
        flux_future_destroy(out[i]);
    }
    return seq;
}

/* The subscriber gets events while it waits for answers. */
static void until_seen(flux_t *h, const struct seen *seen, uint64_t seq)
{
    double begin = bench_now_us();

    while (seen->last < seq) {
        if (bench_now_us() - begin > PATIENCE * 1e6)
            bench_die("event %" PRIu64 " does not come", seq);
        ping(h, flux_rank(h));
    }
}

static void one(flux_t *h, uint32_t victim, bool stop)
{
    flux_t *orphan = bench_open_rank(h, 2 * victim + 1, NULL);
    pid_t pid = broker_of(h, victim);
    flux_future_t *before[BURST], *after[BURST];
    struct seen seen = {0, 0};
    double begin;

    subscribe(orphan, &seen);
    publish(h, before);
    until_seen(orphan, &seen, published(before));
    publish(h, before);
    begin = bench_now_us();
    if (stop) {
        kill(pid, SIGSTOP);
        until_gone(h, victim, false);
        print("verdict", begin);
        begin = bench_now_us();
    } else {
        kill(pid, SIGKILL);
    }
    until_answered(orphan, 0);
    print("answered", begin);
    until_whole(h, &victim, 1);
    print("whole", begin);
    publish(h, after);
    published(before);
    until_seen(orphan, &seen, published(after));
    printf("lost %" PRIu64 "\n", seen.lost);
    flux_close(orphan);
    if (stop)
        kill(pid, SIGKILL);
    until_answered(h, victim);
    if (!stop)
        print("back", begin);
}

/* `victims` up to the last one: those before have left already. */
static void one_leaves(flux_t *h, const uint32_t *victims, size_t count)
{
    uint32_t victim = victims[count - 1];
    pid_t pid = broker_of(h, victim);
    double begin;

    until_runs(h, victim);
    begin = bench_now_us();
    kill(pid, SIGTERM);
    until_gone(h, victim, true);
    print("left", begin);
    until_whole(h, victims, count);
    print("whole", begin);
}

static void many(flux_t *h, const uint32_t *victims, size_t count)
{
    pid_t pids[RANKS_MAX];
    double begin;

    for (size_t i = 0; i < count; i++)
        pids[i] = broker_of(h, victims[i]);
    begin = bench_now_us();
    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    until_whole(h, victims, count);
    print("whole", begin);
    for (size_t i = 0; i < count; i++)
        until_answered(h, victims[i]);
    measure_bare();
}

int main(int argc, char **argv)
{
    uint32_t victims[RANKS_MAX];
    size_t count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned seed = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    flux_t *h;

    if (count == 0 || count > RANKS_MAX)
        bench_die("usage: bench_heal kill|stop|leave|job|jobstop|many COUNT SEED");
    h = bench_open();
    choose(victims, count, flux_size(h), &seed);
    if (strcmp(argv[1], "many") == 0)
        many(h, victims, count);
    for (size_t i = 0; i < count && strcmp(argv[1], "many") != 0; i++) {
        if (strncmp(argv[1], "job", 3) == 0)
            one_job(h, victims[i], strcmp(argv[1], "jobstop") == 0);
        else if (strcmp(argv[1], "leave") == 0)
            one_leaves(h, victims, i + 1);
        else
            one(h, victims[i], strcmp(argv[1], "stop") == 0);
        measure_bare();
    }
    flux_close(h);
    return 0;
}
