/* bench_kvs_life.c - a long life of the key-value store in little time: does it keep what it
 * should, and give back the rest?
 *
 *    bench_kvs_life [COUNT]        (1000000)
 *
 * COUNT overwrites of one key; COUNT keys in one directory, made, read, listed in pages and
 * deleted; COUNT / 5 records like those of jobs, each written, watched through three states and
 * deleted; a hot key beside 1000 watchers of other keys.  Memory is the resident set of each
 * broker, disk what lies in the statedir, once they do not shrink any more.
 */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "libflux/attr.h"
#include "libkvs/kvs.h"

#define WINDOW 256       /* commits under way */
#define BATCH 250        /* keys in a commit of many */
#define BATCH_WINDOW 8   /* such commits under way */
#define PAGE 1000        /* entries of a page */
#define SAMPLES 2000     /* single operations of which the median is told */
#define JOBS 32          /* at a time */
#define SLICE 20         /* the first and the last 20th of the jobs are compared */
#define WATCHERS 1000    /* of keys that do not change */
#define RANKS_MAX 16     /* whose memory is watched */
#define QUIET 20         /* times that memory must be the same */
#define QUIET_DISK 60    /* longer than a checkpoint waits for a pause */
#define QUIET_PAUSE 0.25 /* seconds between */
#define QUIET_MAX 200    /* times at most */
#define DISK_MAX 1200    /* the same: a million rows leave the disk a little at a time */
#define MIB 1048576.

struct life {
    flux_t *h;
    flux_reactor_t *r;
    unsigned count;
    uint32_t ranks;
    int pids[RANKS_MAX];
    char *statedir; /* NULL: none */
};

/* --- memory and disk --- */

struct room {
    double mib[RANKS_MAX];
    double disk;
    double seconds; /* until it was so */
};

static double rss(int pid)
{
    char path[64];
    char line[128];
    long kib = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (!(f = fopen(path, "re")))
        bench_die("%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    }
    fclose(f);
    return (double)kib / 1024.;
}

static double disk(const char *dir)
{
    struct dirent *d;
    double sum = 0.;
    DIR *dp = dir ? opendir(dir) : NULL;

    while (dp && (d = readdir(dp))) {
        struct stat st;
        if (fstatat(dirfd(dp), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (double)st.st_blocks * 512. / MIB;
    }
    if (dp)
        closedir(dp);
    return sum;
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* The reactor runs on, so that what still comes is taken. */
static void pause_for(struct life *l, double s)
{
    flux_watcher_t *w = flux_timer_create(l->r, stop_cb, NULL);

    if (!w)
        bench_die("out of memory");
    flux_reactor_update(l->r);
    flux_timer_start(w, s, 0.);
    flux_reactor_run(l->r);
    flux_watcher_destroy(w);
}

static void measure(struct life *l, struct room *room)
{
    const int most = l->statedir ? DISK_MAX : QUIET_MAX;
    const int quiet = l->statedir ? QUIET_DISK : QUIET;
    double least = 1e9;
    int same = 0, i;

    for (i = 0; i < most && same < quiet; i++) {
        double sum = 0.;
        pause_for(l, QUIET_PAUSE);
        for (uint32_t k = 0; k < l->ranks; k++)
            sum += room->mib[k] = rss(l->pids[k]);
        sum += room->disk = disk(l->statedir);
        same = sum > least - 0.1 ? same + 1 : 0;
        least = sum < least ? sum : least;
    }
    room->seconds = (i - same) * QUIET_PAUSE;
}

static void tell_grown(const char *what, double before, double after)
{
    char name[80];

    snprintf(name, sizeof(name), "%s, grown from %.1f MiB", what, before);
    bench_print(&(struct bench_figure){
        .name = name, .value = after - before, .unit = "MiB", .at_most = 5.});
}

static void tell_growth(struct life *l, const struct room *a, const struct room *b)
{
    uint32_t most = 1;

    tell_grown("... root broker", a->mib[0], b->mib[0]);
    for (uint32_t k = 2; k < l->ranks; k++)
        most = b->mib[k] - a->mib[k] > b->mib[most] - a->mib[most] ? k : most;
    if (l->ranks > 1)
        tell_grown("... other brokers", a->mib[most], b->mib[most]);
    if (!l->statedir)
        return;
    tell_grown("... disk", a->disk, b->disk);
    bench_print(&(struct bench_figure){
        .name = "... and that after it was done", .value = b->seconds, .unit = "s"});
}

/* --- commits, some under way --- */

struct flow {
    struct life *l;
    unsigned total; /* commits */
    unsigned sent;
    unsigned done;
    void (*fill)(flux_kvs_txn_t *txn, unsigned n, void *arg);
    void *arg;
};

static void flow_send(struct flow *f);

static void flow_cb(flux_future_t *f, void *arg)
{
    struct flow *flow = arg;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        bench_die("commit: %s", err.text);
    flux_future_destroy(f);
    if (++flow->done == flow->total)
        flux_reactor_stop(flow->l->r, 0);
    else if (flow->sent < flow->total)
        flow_send(flow);
}

static void flow_send(struct flow *flow)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f;

    if (!txn)
        bench_die("out of memory");
    flow->fill(txn, flow->sent++, flow->arg);
    f = flux_kvs_commit(flow->l->h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    if (!f || flux_future_then(f, 0., flow_cb, flow) < 0)
        bench_die("commit: %s", strerror(errno));
}

/* Commits a second. */
static double flow_run(struct life *l, unsigned total, unsigned window,
                       void (*fill)(flux_kvs_txn_t *txn, unsigned n, void *arg), void *arg)
{
    struct flow f = {.l = l, .total = total, .fill = fill, .arg = arg};
    double begin = bench_now_us();

    flux_reactor_update(l->r);
    for (unsigned i = 0; i < window && f.sent < total; i++)
        flow_send(&f);
    flux_reactor_run(l->r);
    if (f.done != total)
        bench_die("the broker is gone");
    return (double)total / (bench_now_us() - begin) * 1e6;
}

static void put(flux_kvs_txn_t *txn, const char *key, const char *value)
{
    errmsg_t err;

    if (flux_kvs_txn_put(txn, key, value, &err) < 0)
        bench_die("put %s: %s", key, err.text);
}

static void fill_same(flux_kvs_txn_t *txn, unsigned n, void *arg)
{
    char value[32];

    snprintf(value, sizeof(value), "value-%u", n);
    put(txn, "life.same.key", value);
}

static void fill_put(flux_kvs_txn_t *txn, unsigned n, void *arg)
{
    char key[32];
    char value[32];

    for (unsigned i = n * BATCH; i < (n + 1) * BATCH; i++) {
        snprintf(key, sizeof(key), "life.big.k%u", i);
        snprintf(value, sizeof(value), "value-%u", i);
        put(txn, key, value);
    }
}

static void fill_unlink(flux_kvs_txn_t *txn, unsigned n, void *arg)
{
    char key[32];
    errmsg_t err;

    for (unsigned i = n * BATCH; i < (n + 1) * BATCH; i++) {
        snprintf(key, sizeof(key), "life.big.k%u", i);
        if (flux_kvs_txn_unlink(txn, key, FLUX_KVS_MUST_EXIST, &err) < 0)
            bench_die("unlink: %s", err.text);
    }
}

static void tell_rate(const char *name, double value)
{
    bench_print(&(struct bench_figure){.name = name, .value = value, .unit = "/s"});
}

static void overwrites(struct life *l)
{
    struct room before;
    struct room after;

    flow_run(l, 20000, WINDOW, fill_same, NULL);
    measure(l, &before);
    tell_rate("overwrites of one key", flow_run(l, l->count, WINDOW, fill_same, NULL));
    measure(l, &after);
    tell_growth(l, &before, &after);
}

/* --- a large directory --- */

static double single(struct life *l, char what, unsigned n)
{
    double begin = bench_now_us();
    flux_kvs_txn_t *txn;
    flux_future_t *f;
    errmsg_t err;
    char key[32];
    const char *data;
    size_t len;

    snprintf(key, sizeof(key), "life.big.k%u", n);
    if (what == 'g') {
        f = flux_kvs_lookup(l->h, NULL, key, 0, NULL);
        if (!f || flux_future_wait(f, -1.) < 0 || flux_kvs_lookup_get(f, &data, &len, &err) < 0)
            bench_die("get %s: %s", key, f ? err.text : strerror(errno));
        flux_future_destroy(f);
        return bench_now_us() - begin;
    }
    if (!(txn = flux_kvs_txn_create()))
        bench_die("out of memory");
    if (what == 'p')
        put(txn, key, "another value");
    else if (flux_kvs_txn_unlink(txn, key, FLUX_KVS_MUST_EXIST, &err) < 0)
        bench_die("unlink %s: %s", key, err.text);
    f = flux_kvs_commit(l->h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    if (!f || flux_future_wait(f, -1.) < 0 || flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        bench_die("commit: %s", f ? err.text : strerror(errno));
    flux_future_destroy(f);
    return bench_now_us() - begin;
}

static void singles(struct life *l, const char *name, char what, unsigned first)
{
    double us[SAMPLES];
    struct bench_figure f = {.name = name, .unit = "us"};

    for (unsigned i = 0; i < SAMPLES; i++)
        us[i] = single(l, what, first + i);
    f.value = bench_percentile(us, SAMPLES, 50.);
    bench_print(&f);
}

/* All pages, at one root.  Returns the number of entries. */
static unsigned pages(struct life *l, double *max_us)
{
    flux_future_t *snap = flux_kvs_snapshot(l->h, NULL, NULL);
    char after[256] = "";
    const char *root;
    unsigned n = 0;
    bool more = true;
    errmsg_t err;

    if (!snap || flux_future_wait(snap, -1.) < 0 ||
        flux_kvs_commit_get(snap, NULL, &root, &err) < 0)
        bench_die("snapshot: %s", snap ? err.text : strerror(errno));
    *max_us = 0.;
    while (more) {
        double begin = bench_now_us();
        flux_future_t *f =
            flux_kvs_readdir_page(l->h, NULL, "life.big", 0, root, after[0] ? after : NULL, PAGE);
        struct flux_kvs_dirent e;
        size_t pos = 0;
        int rc;
        if (!f || flux_future_wait(f, -1.) < 0)
            bench_die("list: %s", strerror(errno));
        while ((rc = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1) {
            memcpy(after, e.name, sizeof(after));
            n++;
        }
        if (rc < 0)
            bench_die("list: %s", err.text);
        more = flux_kvs_readdir_more(f);
        flux_future_destroy(f);
        if (bench_now_us() - begin > *max_us)
            *max_us = bench_now_us() - begin;
    }
    flux_future_destroy(snap);
    return n;
}

static void directory(struct life *l)
{
    unsigned n = l->count / BATCH * BATCH;
    struct room before;
    struct room full;
    struct room after;
    double begin;
    double max_us;
    double s;
    struct bench_figure f = {.name = "root memory of a million live keys",
                             .unit = "MiB",
                             .ref_name = "in all",
                             .at_most = 200.};

    measure(l, &before);
    tell_rate("keys made, 250 in a commit",
              BATCH * flow_run(l, n / BATCH, BATCH_WINDOW, fill_put, NULL));
    measure(l, &full);
    f.value = (full.mib[0] - before.mib[0]) / n * 1e6;
    f.ref = full.mib[0];
    bench_print(&f);
    singles(l, "... put in that directory p50", 'p', n / 2);
    singles(l, "... get p50", 'g', n / 3);
    singles(l, "... unlink p50", 'u', n / 2);
    for (unsigned i = 0; i < SAMPLES; i++)
        single(l, 'p', n / 2 + i);
    begin = bench_now_us();
    if (pages(l, &max_us) != n)
        bench_die("the pages are not complete");
    s = (bench_now_us() - begin) / 1e6;
    bench_print(&(struct bench_figure){
        .name = "... list in pages of 1000, entries", .value = n / s, .unit = "/s"});
    bench_print(&(struct bench_figure){
        .name = "... the slowest page", .value = max_us / 1e3, .unit = "ms"});
    tell_rate("keys deleted, 250 in a commit",
              BATCH * flow_run(l, n / BATCH, BATCH_WINDOW, fill_unlink, NULL));
    measure(l, &after);
    tell_growth(l, &before, &after);
}

/* --- jobs --- */

static const char *const states[] = {"submitted", "running", "complete"};
#define STATES (sizeof(states) / sizeof(states[0]))

struct jobs {
    struct life *l;
    unsigned total;
    unsigned next;
    unsigned done;
    double *us; /* of each commit */
    unsigned n;
};

struct job {
    struct jobs *jobs;
    flux_future_t *watch;
    unsigned id;
    size_t state;   /* of states[], the last that was committed; STATES: is being deleted */
    size_t heard;   /* how many states the watcher has heard */
    bool committed; /* that state is */
    double begin;
};

static void job_commit(struct job *j);
static void job_start(struct job *j);

/* The next step once the last one was committed and heard. */
static void job_step(struct job *j)
{
    if (!j->committed || j->heard <= j->state)
        return;
    if (++j->state == STATES) {
        flux_future_destroy(j->watch);
        j->watch = NULL;
    }
    job_commit(j);
}

static void job_heard_cb(flux_future_t *f, void *arg)
{
    struct job *j = arg;
    const char *data;
    errmsg_t err;
    size_t len;

    if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
        bench_die("watch: %s", err.text);
    for (size_t i = 0; i < STATES; i++) {
        if (strcmp(data, states[i]) == 0 && i + 1 > j->heard)
            j->heard = i + 1;
    }
    flux_future_next(f);
    job_step(j);
}

static void job_committed_cb(flux_future_t *f, void *arg)
{
    struct job *j = arg;
    struct jobs *js = j->jobs;
    char key[64];
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        bench_die("commit: %s", err.text);
    flux_future_destroy(f);
    js->us[js->n++] = bench_now_us() - j->begin;
    j->committed = true;
    if (j->state == STATES) {
        if (++js->done == js->total)
            flux_reactor_stop(js->l->r, 0);
        else if (js->next < js->total)
            job_start(j);
        return;
    }
    if (!j->watch) {
        snprintf(key, sizeof(key), "job.%u.state", j->id);
        j->watch = flux_kvs_watch(js->l->h, NULL, key, 0);
        if (!j->watch || flux_future_then(j->watch, 0., job_heard_cb, j) < 0)
            bench_die("watch: %s", strerror(errno));
    }
    job_step(j);
}

static void job_commit(struct job *j)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f;
    errmsg_t err;
    char key[64];
    char text[64];

    if (!txn)
        bench_die("out of memory");
    snprintf(key, sizeof(key), "job.%u%s", j->id, j->state < STATES ? ".state" : "");
    if (j->state < STATES)
        put(txn, key, states[j->state]);
    else if (flux_kvs_txn_unlink(txn, key, FLUX_KVS_RECURSIVE, &err) < 0)
        bench_die("unlink %s: %s", key, err.text);
    if (j->state == 0) {
        snprintf(key, sizeof(key), "job.%u.command", j->id);
        snprintf(text, sizeof(text), "./program --input=file-%u", j->id);
        put(txn, key, text);
        snprintf(key, sizeof(key), "job.%u.ranks", j->id);
        put(txn, key, "0-3");
    } else if (j->state == STATES - 1) {
        snprintf(key, sizeof(key), "job.%u.result.0", j->id);
        put(txn, key, "{\"code\":0}");
    }
    j->committed = false;
    j->begin = bench_now_us();
    f = flux_kvs_commit(j->jobs->l->h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    if (!f || flux_future_then(f, 0., job_committed_cb, j) < 0)
        bench_die("commit: %s", strerror(errno));
}

static void job_start(struct job *j)
{
    j->id = ++j->jobs->next;
    j->state = 0;
    j->heard = 0;
    job_commit(j);
}

static void jobs_run(struct jobs *js, struct job *jobs, unsigned total)
{
    js->total = total;
    js->next = js->done = js->n = 0;
    flux_reactor_update(js->l->r);
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.jobs = js};
        job_start(&jobs[i]);
    }
    flux_reactor_run(js->l->r);
    if (js->done != total)
        bench_die("the broker is gone");
}

static void records(struct life *l)
{
    struct jobs js = {.l = l};
    struct job jobs[JOBS];
    unsigned total = l->count / 5;
    unsigned n = total * (STATES + 1);
    struct room before;
    struct room after;
    double begin;
    struct bench_figure f = {.name = "commit p50, the last 5% of records",
                             .unit = "us",
                             .ref_name = "the first 5%",
                             .ratio_at_most = 1.2};

    if (!(js.us = malloc((size_t)n * sizeof(*js.us))))
        bench_die("out of memory");
    jobs_run(&js, jobs, total / SLICE);
    measure(l, &before);
    begin = bench_now_us();
    jobs_run(&js, jobs, total);
    tell_rate("records written, watched, deleted", total / (bench_now_us() - begin) * 1e6);
    f.ref = bench_percentile(js.us, n / SLICE, 50.);
    f.value = bench_percentile(js.us + n - n / SLICE, n / SLICE, 50.);
    bench_print(&f);
    measure(l, &after);
    tell_growth(l, &before, &after);
    free(js.us);
}

/* --- watchers of something else --- */

struct cold {
    flux_reactor_t *r;
    unsigned left; /* have not heard how it is */
};

static void watch_cb(flux_future_t *f, void *arg)
{
    struct cold *c = arg;

    if (--c->left == 0)
        flux_reactor_stop(c->r, 0);
    flux_future_next(f);
}

static void watchers(struct life *l)
{
    flux_future_t *w[WATCHERS];
    struct cold cold = {l->r, WATCHERS};
    unsigned n = l->count / 20;
    double rates[2][3];
    struct bench_figure f = {.name = "overwrites beside 1000 other watchers",
                             .unit = "/s",
                             .ref_name = "without watchers",
                             .ratio_at_least = 0.9};
    char key[64];

    for (int i = 0; i < 3; i++)
        rates[0][i] = flow_run(l, n, WINDOW, fill_same, NULL);
    for (unsigned i = 0; i < WATCHERS; i++) {
        snprintf(key, sizeof(key), "life.cold.%u.key", i);
        if (!(w[i] = flux_kvs_watch(l->h, NULL, key, 0)) ||
            flux_future_then(w[i], 0., watch_cb, &cold) < 0)
            bench_die("watch: %s", strerror(errno));
    }
    flux_reactor_run(l->r);
    for (int i = 0; i < 3; i++)
        rates[1][i] = flow_run(l, n, WINDOW, fill_same, NULL);
    for (unsigned i = 0; i < WATCHERS; i++)
        flux_future_destroy(w[i]);
    f.value = bench_percentile(rates[1], 3, 50.);
    f.ref = bench_percentile(rates[0], 3, 50.);
    bench_print(&f);
}

int main(int argc, char *argv[])
{
    struct life l = {.h = bench_open(), .count = 1000000};
    errmsg_t err;

    if (argc > 1 && (l.count = (unsigned)atoi(argv[1])) < 10000)
        bench_die("COUNT is at least 10000");
    l.r = flux_get_reactor(l.h);
    l.ranks = flux_size(l.h) < RANKS_MAX ? flux_size(l.h) : RANKS_MAX;
    for (uint32_t i = 0; i < l.ranks; i++) {
        flux_t *h = bench_open_rank(l.h, i, NULL);

        l.pids[i] = bench_broker_pid(h);
        flux_close(h);
    }
    l.statedir = flux_attr_get(l.h, "statedir", &err);
    bench_title("%u times, in a session of %u%s", l.count, flux_size(l.h),
                l.statedir ? " with a statedir" : "");
    overwrites(&l);
    directory(&l);
    records(&l);
    watchers(&l);
    free(l.statedir);
    flux_close(l.h);
    return 0;
}
