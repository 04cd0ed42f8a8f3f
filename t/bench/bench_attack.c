/* bench_attack.c - what a client waits while another one attacks its session (t/attack/attack.c).
 *
 *    bench_attack RANK ATTACK TOPICS NAME...
 *        Latencies of requests, commits and submissions at rank 0, alone and while ATTACK runs at
 *        RANK, with the attacks named ("all": drawn one after the other, as the test does).
 *
 * What is measured is the broker's fairness, not who gets the processor: the attackers have one of
 * their own, and share with nobody.  The broker of rank 0 with its modules, and the client that is
 * measured, run on another, in both cases.  So what is longer under attack is the time that a
 * request waits in queues of the broker and its modules behind what the attackers sent, and while
 * these are served.  The brokers of the other ranks, which hear of each commit, are with the
 * attackers, alone and under attack: nobody waits for them.
 *
 * A median counts requests: one that comes in a pause of the attack is soon followed by the next,
 * so the 99% beside it say what the attack costs at its worst.
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "libflux/attr.h"
#include "libflux/future.h"
#include "libjob/job.h"
#include "libjob/jobspec_build.h"
#include "libkvs/kvs.h"

#define WARM_UP 0.3 /* seconds */
#define PERIOD 0.7
#define SAMPLES 100000
#define SERVED 0   /* processor of the broker and its client, */
#define ATTACKED 1 /* and of the attackers */

struct client {
    flux_t *h;
    const char *topic; /* of a request */
    unsigned n;        /* commits so far */
    submit_writer_t *writer;
};

static void wait_for(flux_future_t *f, const char *what)
{
    errmsg_t err;

    if (!f || flux_future_wait(f, -1.) < 0)
        bench_die("%s: %s", what, strerror(errno));
    if (flux_rpc_get(f, &err) < 0)
        bench_die("%s: %s", what, err.text);
    flux_future_destroy(f);
}

static flux_future_t *ask(struct client *c)
{
    return flux_rpc_raw(c->h, c->topic, "x", 1, FLUX_NODEID_ANY, 0);
}

static flux_future_t *commit(struct client *c)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f;
    char value[32];
    errmsg_t err;

    snprintf(value, sizeof(value), "%u", c->n++);
    if (!txn || flux_kvs_txn_put(txn, "bench-attack", value, &err) < 0)
        bench_die("no transaction could be made");
    f = flux_kvs_commit(c->h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    return f;
}

/* The same job each time, which is held. */
static void make_submission(struct client *c)
{
    static char *const command[] = {(char *)"/bin/true", NULL};
    static const char *const environment[] = {NULL};
    struct jobspec_parts p;
    size_t len;
    errmsg_t err;
    json_t *spec;
    char *text;

    jobspec_parts_init(&p);
    p.argv = (const char *const *)command;
    p.cwd = "/";
    if (!(spec = jobspec_build(&p, &err)) || !(text = jobspec_encode(spec, &len)) ||
        !(c->writer = submit_writer_create()) || submit_writer_env(c->writer, environment) < 0 ||
        submit_writer_job(c->writer, 0, JOB_URGENCY_HOLD, 0, text, len, &err) < 0)
        bench_die("no submission could be made");
    json_decref(spec);
    free(text);
}

static flux_future_t *submit(struct client *c)
{
    return flux_job_submit_batch(c->h, c->writer);
}

static const struct {
    const char *name;
    flux_future_t *(*begin)(struct client *c);
} ops[] = {{"broker.ping", ask}, {"kvs.ping", ask}, {"commit", commit}, {"submit", submit}};
#define NOPS (sizeof(ops) / sizeof(ops[0]))

/* An attack has its ups and downs: what counts is how long something takes in all of a while. */
static double measure_op(struct client *c, size_t op, double seconds, double *p99)
{
    static double us[SAMPLES];
    double begin = bench_now_us(), now = begin;
    size_t n = 0;

    c->topic = ops[op].name;
    while (n < SAMPLES && now - begin < seconds * 1e6) {
        double start = now;

        wait_for(ops[op].begin(c), ops[op].name);
        now = bench_now_us();
        us[n++] = now - start;
    }
    *p99 = bench_percentile(us, n, 99.);
    return bench_percentile(us, n, 50.);
}

static void measure(struct client *c, double p50[NOPS], double p99[NOPS])
{
    (void)measure_op(c, 0, WARM_UP, &p99[0]);
    for (size_t i = 0; i < NOPS; i++)
        p50[i] = measure_op(c, i, PERIOD, &p99[i]);
}

static pid_t start_attack(const char *uri, char *program, char *what, char *topics)
{
    pid_t pid = bench_fork();

    if (pid == 0) {
        char *const words[] = {program,     (char *)"600", (char *)"1",
                               (char *)"2", topics,        strcmp(what, "all") == 0 ? NULL : what,
                               NULL};

        setpgid(0, 0);
        setenv("FLUX_URI", uri, 1);
        bench_pin(getpid(), ATTACKED);
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        execv(program, words);
        _exit(127);
    }
    setpgid(pid, pid);
    return pid;
}

/* Both see the same machine. */
static void compare(struct client *c, const char *uri, char **argv, char *what)
{
    double alone[NOPS], attacked[NOPS], alone99[NOPS], attacked99[NOPS];
    pid_t pid;
    int status;

    measure(c, alone, alone99);
    pid = start_attack(uri, argv[2], what, argv[3]);
    measure(c, attacked, attacked99);
    if (waitpid(pid, &status, WNOHANG) != 0)
        bench_die("%s has ended", argv[2]);
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    for (size_t i = 0; i < NOPS; i++) {
        char name[64];
        struct bench_figure f = {.name = name,
                                 .value = attacked[i],
                                 .unit = "us",
                                 .ref_name = "alone",
                                 .ref = alone[i],
                                 .ratio_at_most = 2.};

        snprintf(name, sizeof(name), "%s, %s", ops[i].name, what);
        bench_print(&f);
        snprintf(name, sizeof(name), "%s, %s, 99%%", ops[i].name, what);
        f.value = attacked99[i];
        f.ref = alone99[i];
        f.ratio_at_most = 0.;
        bench_print(&f);
    }
}

static void pin_broker(flux_t *h, int cpu)
{
    bench_pin(bench_broker_pid(h), cpu);
}

static void pin_others(flux_t *h, const char *rundir)
{
    for (uint32_t rank = 1; rank < flux_size(h); rank++) {
        char uri[256];
        errmsg_t err;
        flux_t *other;

        snprintf(uri, sizeof(uri), "local://%s/%u/local", rundir, rank);
        if (!(other = flux_open(uri, NULL, &err)))
            bench_die("%s", err.text);
        pin_broker(other, ATTACKED);
        flux_close(other);
    }
}

int main(int argc, char **argv)
{
    struct client c = {0};
    errmsg_t err;
    char uri[256];
    char *text;

    if (argc < 5)
        bench_die("use: bench_attack RANK ATTACK TOPICS NAME...");
    c.h = bench_open();
    if (!(text = flux_attr_get(c.h, "rundir", &err)))
        bench_die("%s", err.text);
    snprintf(uri, sizeof(uri), "local://%s/%s/local", text, argv[1]);
    pin_others(c.h, text);
    free(text);
    pin_broker(c.h, SERVED);
    bench_pin(getpid(), SERVED);
    make_submission(&c);
    for (int i = 4; i < argc; i++)
        compare(&c, uri, argv, argv[i]);
    submit_writer_destroy(c.writer);
    flux_close(c.h);
    return 0;
}
