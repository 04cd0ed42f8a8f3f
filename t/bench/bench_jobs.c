/* The job service: jobs of /bin/true from submission to their end, beside bare vfork/exec/wait.
 *
 *     bench_jobs run [N]       throughput, the last jobs beside the 1000th, memory of the root
 *     bench_jobs submit [N]    submission alone: the queue does not schedule meanwhile
 *     bench_jobs keep N        run N jobs, which are kept
 *     bench_jobs sample        print the CPU time of the root for a job, in microseconds
 *
 * Runs inside a session ($FLUX_URI).  BENCH_ROOT is the process id of the broker of rank 0.
 *
 * CPU time depends on what else the machine does, since caches are shared: bench_jobs.sh takes
 * samples that are compared by turns.
 *
 * In `run` a batch is submitted whenever at most WAITING jobs have not ended, so that the 1000th
 * and the 20,000th differ in nothing but what the service has behind it.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "libjob/job.h"
#include "libjob/jobspec_build.h"

extern char **environ;

#define BATCH 250
#define WAITING 1000
#define BARE_JOBS 4000
#define SUBMIT_BATCH 1000
#define SAMPLE 5000

static char *const true_argv[] = {(char *)"/bin/true", NULL};

/* --- bare vfork/exec/wait --- */

static __attribute__((noinline)) pid_t bare_start(void)
{
    pid_t pid = vfork();

    if (pid == 0) {
        execve(true_argv[0], true_argv, environ);
        _exit(127);
    }
    return pid;
}

static void bare_block(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int status;
        pid_t pid = bare_start();

        if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
            bench_die("/bin/true does not run");
    }
}

/* Processes per second, by `workers` processes side by side. */
static double bare_rate(size_t workers)
{
    pid_t pids[16];
    double begin = bench_now_us();
    int status;

    for (size_t i = 0; i < workers; i++) {
        if ((pids[i] = fork()) == 0) {
            bare_block(BARE_JOBS / workers);
            _exit(0);
        }
        if (pids[i] < 0)
            bench_die("fork: %s", strerror(errno));
    }
    for (size_t i = 0; i < workers; i++)
        waitpid(pids[i], &status, 0);
    return BARE_JOBS / (bench_now_us() - begin) * 1e6;
}

/* The machine's best: one after the other, or one for each processor at a time. */
static double bare_best(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    double one = bare_rate(1), all = bare_rate(cpus > 16 ? 16 : (size_t)cpus);

    return one > all ? one : all;
}

/* --- the service --- */

struct load {
    flux_t *h;
    char *spec;
    size_t spec_len;
    submit_writer_t *writer;
    size_t total;
    size_t asked; /* sent to the service */
    size_t accepted;
    size_t ended;
    bool submitting; /* one is under way */
    double *t;       /* when number i ended, in microseconds */
};

static void load_init(struct load *l, flux_t *h)
{
    struct jobspec_parts p;
    errmsg_t err;
    json_t *spec;

    memset(l, 0, sizeof(*l));
    l->h = h;
    jobspec_parts_init(&p);
    p.argv = (const char *const *)true_argv;
    p.cwd = "/";
    if (!(spec = jobspec_build(&p, &err)) || !(l->spec = jobspec_encode(spec, &l->spec_len)) ||
        !(l->writer = submit_writer_create()) ||
        submit_writer_env(l->writer, (const char *const *)environ) < 0)
        bench_die("no jobspec could be made");
    json_decref(spec);
}

static void load_fini(struct load *l)
{
    submit_writer_destroy(l->writer);
    free(l->spec);
    free(l->t);
}

static flux_future_t *send_batch(struct load *l, size_t n)
{
    errmsg_t err;
    flux_future_t *f;

    submit_writer_clear(l->writer);
    for (size_t i = 0; i < n; i++)
        if (submit_writer_job(l->writer, 0, JOB_URGENCY_DEFAULT, 0, l->spec, l->spec_len, &err) < 0)
            bench_die("%s", err.text);
    if (!(f = flux_job_submit_batch(l->h, l->writer)))
        bench_die("no request could be made");
    l->asked += n;
    return f;
}

static void submit_more(struct load *l);

static void ended_cb(flux_future_t *f, void *arg)
{
    struct load *l = arg;
    const json_t *ended;
    struct job_ended e;
    errmsg_t err;
    double now = bench_now_us();

    if (flux_job_wait_get(f, &ended, &err) < 0) {
        if (errno != ENODATA)
            bench_die("job.wait: %s", err.text);
        flux_future_destroy(f);
        return;
    }
    for (size_t i = 0; i < json_array_size(ended); i++) {
        if (flux_job_wait_at(ended, i, &e, &err) < 0)
            bench_die("job.wait: %s", err.text);
        if (e.error || e.code != 0)
            bench_die("job %" PRIu64 " failed: code %d, %s", e.id, e.code, e.text ? e.text : "");
        l->t[l->ended++] = now;
    }
    flux_future_next(f);
    if (l->ended == l->total)
        flux_reactor_stop(flux_get_reactor(l->h), 0);
    else
        submit_more(l);
}

static void submitted_cb(flux_future_t *f, void *arg)
{
    struct load *l = arg;
    struct job_submitted s;
    errmsg_t err;
    char ids[64];
    flux_future_t *wait;

    if (flux_job_submit_batch_get(f, &s, &err) < 0)
        bench_die("job.submit: %s", err.text);
    if (json_array_size(s.errors))
        bench_die("jobs were refused");
    snprintf(ids, sizeof(ids), "%" PRIu64 "-%" PRIu64, s.first, s.first + s.count - 1);
    l->accepted += s.count;
    l->submitting = false;
    flux_future_destroy(f);
    if (!(wait = flux_job_wait(l->h, ids)) || flux_future_then(wait, 0, ended_cb, l) < 0)
        bench_die("no request could be made");
    submit_more(l);
}

static void submit_more(struct load *l)
{
    size_t n = l->total - l->asked < BATCH ? l->total - l->asked : BATCH;
    flux_future_t *f;

    if (l->submitting || !n || l->asked - l->ended > WAITING)
        return;
    l->submitting = true;
    f = send_batch(l, n);
    if (flux_future_then(f, 0, submitted_cb, l) < 0)
        bench_die("out of memory");
}

/* Jobs per second of `n` jobs from submission to the last one's end; l->t has when each ended. */
static double run_jobs(struct load *l, size_t n)
{
    double begin = bench_now_us();

    free(l->t);
    if (!(l->t = calloc(n, sizeof(*l->t))))
        bench_die("out of memory");
    l->total = n;
    l->asked = l->accepted = l->ended = 0;
    submit_more(l);
    if (flux_reactor_run(flux_get_reactor(l->h)) < 0)
        bench_die("the session is gone");
    return (double)n / (l->t[n - 1] - begin) * 1e6;
}

/* Jobs per second around number i. */
static double rate_at(const struct load *l, size_t i)
{
    size_t lo = i > 500 ? i - 500 : 0, hi = i + 500 < l->total ? i + 500 : l->total - 1;
    return (double)(hi - lo) / (l->t[hi] - l->t[lo]) * 1e6;
}

static double root_kib(void)
{
    const char *pid = getenv("BENCH_ROOT");
    char path[64], line[256];
    double kib = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%s/status", pid ? pid : "-");
    if (!(f = fopen(path, "re")))
        return 0;
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "RssAnon: %lf", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

static void purge_all(flux_t *h)
{
    struct job_purge what = {.keep = -1, .force = true};
    flux_future_t *f = flux_job_purge(h, &what);
    uint32_t purged;
    errmsg_t err;

    if (!f || flux_future_wait(f, -1) < 0 || flux_job_purge_get(f, &purged, &err) < 0)
        bench_die("job.purge: %s", f ? err.text : "no request could be made");
    flux_future_destroy(f);
}

static void run(size_t n)
{
    flux_t *h = bench_open();
    struct load l;
    double rate, bare, kib[5];

    load_init(&l, h);
    run_jobs(&l, 500); /* warm up */
    bare = bare_best();
    rate = run_jobs(&l, n);
    bench_print(&(struct bench_figure){.name = "jobs, submit to inactive",
                                       .value = rate,
                                       .unit = "/s",
                                       .ref_name = "bare vfork/exec/wait",
                                       .ref = bare,
                                       .ratio_at_least = 0.25});
    bench_print(&(struct bench_figure){.name = "around the last job",
                                       .value = rate_at(&l, n - 501),
                                       .unit = "/s",
                                       .ref_name = "around the 1000th",
                                       .ref = rate_at(&l, 1000),
                                       .ratio_at_least = 0.9});
    /* Memory: what the second half adds to the first, so that what was got once does not count. */
    kib[0] = root_kib();
    run_jobs(&l, n / 2);
    kib[1] = root_kib();
    purge_all(h);
    run_jobs(&l, n / 2);
    purge_all(h);
    kib[2] = root_kib();
    run_jobs(&l, n / 2);
    purge_all(h);
    kib[3] = root_kib();
    if (kib[0] > 0) {
        bench_print(&(struct bench_figure){.name = "root: memory of a job that ended, kept",
                                           .value = (kib[1] - kib[0]) / ((double)n / 2),
                                           .unit = "KiB",
                                           .at_most = 4});
        bench_print(&(struct bench_figure){.name = "root: the same, purged",
                                           .value = (kib[3] - kib[2]) / ((double)n / 2),
                                           .unit = "KiB",
                                           .at_most = 1});
    }
    load_fini(&l);
    flux_close(h);
}

/* --- with many jobs kept --- */

/* Seconds of CPU that the root has used, all threads. */
static double root_cpu(void)
{
    const char *pid = getenv("BENCH_ROOT"), *p;
    unsigned long user, sys;
    char path[64], line[1024];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%s/stat", pid ? pid : "-");
    if (!(f = fopen(path, "re")) || !fgets(line, sizeof(line), f) || !(p = strrchr(line, ')')) ||
        sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) != 2)
        bench_die("%s cannot be read", path);
    fclose(f);
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

/* Microseconds of the root's CPU for each of some jobs. */
static double job_cpu(struct load *l)
{
    double begin = root_cpu();

    run_jobs(l, SAMPLE);
    return (root_cpu() - begin) / SAMPLE * 1e6;
}

/* Run `n` jobs, all of which are kept: job.purge-count is larger. */
static void keep(size_t n)
{
    flux_t *h = bench_open();
    struct load l;

    load_init(&l, h);
    run_jobs(&l, n);
    load_fini(&l);
    flux_close(h);
}

static void sample(void)
{
    flux_t *h = bench_open();
    struct load l;

    load_init(&l, h);
    run_jobs(&l, 1000); /* warm up */
    printf("%.1f\n", job_cpu(&l));
    load_fini(&l);
    flux_close(h);
}

/* --- submission alone --- */

static void queue(flux_t *h, const char *op)
{
    flux_future_t *f = flux_job_queue(h, op, NULL);
    errmsg_t err = {""};

    if (!f || flux_future_wait(f, -1) < 0 || flux_rpc_get(f, &err) < 0)
        bench_die("job.queue %s: %s", op, err.text);
    flux_future_destroy(f);
}

static void submit(size_t n)
{
    flux_t *h = bench_open();
    struct load l;
    struct job_submitted s;
    uint64_t first = 0, last = 0;
    errmsg_t err;
    char ids[64];
    double begin, rate, one[200];

    load_init(&l, h);
    queue(h, "stop");
    begin = bench_now_us();
    while (l.asked < n) {
        flux_future_t *f = send_batch(&l, n - l.asked < SUBMIT_BATCH ? n - l.asked : SUBMIT_BATCH);

        if (flux_future_wait(f, -1) < 0 || flux_job_submit_batch_get(f, &s, &err) < 0)
            bench_die("job.submit: %s", err.text);
        first = first ? first : s.first;
        last = s.first + s.count - 1;
        flux_future_destroy(f);
    }
    rate = (double)n / (bench_now_us() - begin) * 1e6;
    bench_print(&(struct bench_figure){
        .name = "submission alone", .value = rate, .unit = "/s", .at_least = 10000});
    for (size_t i = 0; i < 200; i++) {
        flux_future_t *f;

        begin = bench_now_us();
        f = send_batch(&l, 1);
        if (flux_future_wait(f, -1) < 0 || flux_job_submit_batch_get(f, &s, &err) < 0)
            bench_die("job.submit: %s", err.text);
        last = s.first;
        flux_future_destroy(f);
        one[i] = (bench_now_us() - begin) / 1e3;
    }
    bench_print(&(struct bench_figure){.name = "one submission, many queued (p50)",
                                       .value = bench_percentile(one, 200, 50),
                                       .unit = "ms"});
    snprintf(ids, sizeof(ids), "%" PRIu64 "-%" PRIu64, first, last);
    flux_future_t *f = flux_job_cancel(h, ids, NULL);
    if (!f || flux_future_wait(f, -1) < 0 || flux_rpc_get(f, &err) < 0)
        bench_die("job.cancel: %s", err.text);
    flux_future_destroy(f);
    queue(h, "start");
    load_fini(&l);
    flux_close(h);
}

int main(int argc, char **argv)
{
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;

    if (argc >= 2 && strcmp(argv[1], "run") == 0 && n >= 2500)
        run(n);
    else if (argc >= 2 && strcmp(argv[1], "submit") == 0 && n >= 1)
        submit(n);
    else if (argc >= 2 && strcmp(argv[1], "keep") == 0 && n >= 1)
        keep(n);
    else if (argc >= 2 && strcmp(argv[1], "sample") == 0)
        sample();
    else
        bench_die("usage: bench_jobs run [N >= 2500] | submit [N] | keep [N] | sample");
    return 0;
}
