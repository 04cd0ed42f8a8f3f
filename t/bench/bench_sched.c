/* bench_sched.c - scheduling alone: 4096 nodes of 16 cores, 50,000 jobs in the queue, EASY
 * backfill, and conservative.
 *
 *    bench_sched            the library, on a virtual clock: jobs start, end after a part of their
 *                           time, and as many come in as have started
 *    bench_sched POLICY[:ARGUMENT] [STARTS [whole]]
 *                           the same with that policy of the queue; whole: jobs ask for whole nodes
 *    bench_sched whole [STARTS]
 *                           EASY, and all jobs ask for whole nodes on 16 pods of 16 leaf switches
 *    bench_sched session    the module in a session, with this program in the place of the job
 *                           module: every job ends as soon as it has started
 *
 * What a pass costs is compared with one walk over as many records in an array, that looks at each
 * whether it could fit: the least a scheduler does that looks at every job.  How long others wait
 * meanwhile is compared with the same request to an idle scheduler.  What a pass with
 * interference-free placement costs is compared with one with first-fit.
 */
#include "config.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "libflux/future.h"
#include "libresource/resgraph_topology.h"
#include "libsched/sched.h"
#include "libsched/sched_wire.h"

#define NODES 4096
#define CORES 16
#define QUEUED 50000
#define STARTS 30000
#define STARTS_CONSERVATIVE 1000
#define STARTS_WHOLE 5000
#define TREE "16,16,16"
#define SLICES 200  /* at most, for a start on average */
#define SLICE 10000 /* as the module's */
#define SESSION_STARTS 20000
#define ASKS_MAX 200000

static uint64_t rnd(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

/* Half whole nodes, 1 to 512, small ones more often; half slots of 1 to 4 cores anywhere.  Or whole
 * nodes only. */
static void make_req(uint64_t *seed, bool whole, struct rreq *r)
{
    memset(r, 0, sizeof(*r));
    if (rnd(seed) % 2 || whole) {
        r->nnodes = (uint32_t)exp2((double)(rnd(seed) % 1000) / 111.);
        r->exclusive = true;
    } else {
        r->nslots = 1 + (uint32_t)(rnd(seed) % 64);
        r->cores = 1 + (uint32_t)(rnd(seed) % 4);
    }
    r->duration = 60. + (double)(rnd(seed) % 86400);
}

/* --- the library --- */

/* Time that this thread has computed: what others do on the machine does not count. */
static double busy_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return 1e6 * (double)ts.tv_sec + 1e-3 * (double)ts.tv_nsec;
}

struct ending {
    double t;
    uint64_t id;
};

struct lib {
    sched_t *s;
    bool whole;
    uint64_t seed;
    uint64_t next_id;
    size_t started, started_now;
    struct ending *heap; /* by t */
    size_t nheap;
};

static void push(struct lib *l, double t, uint64_t id)
{
    size_t i = l->nheap++;

    for (; i > 0 && l->heap[(i - 1) / 2].t > t; i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = (struct ending){t, id};
}

static struct ending pop(struct lib *l)
{
    struct ending top = l->heap[0];
    struct ending last = l->heap[--l->nheap];
    size_t i = 0;

    for (size_t c; (c = 2 * i + 1) < l->nheap; i = c) {
        if (c + 1 < l->nheap && l->heap[c + 1].t < l->heap[c].t)
            c++;
        if (l->heap[c].t >= last.t)
            break;
        l->heap[i] = l->heap[c];
    }
    l->heap[i] = last;
    return top;
}

static void lib_add(struct lib *l, double now)
{
    struct rreq r;
    struct sched_job job = {++l->next_id, 16, 0, now, &r};

    make_req(&l->seed, l->whole, &r);
    if (sched_add(l->s, &job, now, NULL) < 0)
        bench_die("a job could not be added");
}

static void lib_alloc(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    struct lib *l = arg;

    rset_destroy(R);
    push(l, now + (end - now) * (0.3 + (double)(rnd(&l->seed) % 700) / 1000.), id);
    l->started++;
    l->started_now++;
}

static void lib_deny(uint64_t id, const char *note, void *arg)
{
    bench_die("job %ju was denied: %s", (uintmax_t)id, note);
}

static void lib_nodes(sched_t *s, bool switches)
{
    fattree_t *tree = switches ? fattree_parse(TREE, NULL) : NULL;
    resgraph_t *g = resgraph_create();
    idset_t *ranks = idset_create_range(0, NODES - 1);
    idset_t *cores = idset_create_range(0, CORES - 1);
    struct resgraph_node desc = {.cores = cores};
    char hosts[32];

    snprintf(hosts, sizeof(hosts), "node[0-%d]", NODES - 1);
    if (!g || resgraph_add(g, ranks, hosts, &desc, NULL) < 0 ||
        (switches && (!tree || resgraph_set_topology(g, tree, TREE, NULL) < 0)) ||
        sched_inventory(s, g, ranks, NULL, NULL) < 0)
        bench_die("no inventory");
    idset_destroy(ranks);
    idset_destroy(cores);
    resgraph_destroy(g);
    fattree_destroy(tree);
}

/* The least that looking at every job costs. */
struct record {
    uint64_t id;
    uint32_t nodes, cores;
    double duration;
    char rest[72]; /* what else is known of a job */
};

static double walk_us(const struct record *records, size_t n, uint32_t nodes, uint32_t cores)
{
    double t = busy_us();
    size_t fit = 0;

    for (size_t i = 0; i < n; i++)
        fit += records[i].nodes <= nodes && records[i].cores <= cores && records[i].duration < 1e6;
    t = busy_us() - t;
    return fit > n ? -1. : t; /* so that it is needed */
}

/* The least that is asked of a policy; 0: nothing. */
struct demands {
    double walks, slice_us, decisions, starts;
    double pass_us, passes; /* a pass with another policy, and how many of these */
};

struct mix {
    const char *queue, *node; /* policies */
    bool whole;
    size_t starts;
};

static void set_policy(sched_t *s, const char *policy)
{
    const char *colon = strchr(policy, ':');
    char *name = colon ? strndup(policy, (size_t)(colon - policy)) : strdup(policy);
    const struct sched_policy *p = name ? sched_builtin(name) : NULL;
    errmsg_t err;

    if (!p)
        bench_die("there is no policy %s", policy);
    if (sched_policy_set_queue(s, p, colon ? colon + 1 : NULL, &err) < 0)
        bench_die("%s: %s", policy, err.text);
    free(name);
}

/* Returns what an end and a pass take on average. */
static double library(const struct mix *mix, const struct demands *least)
{
    struct lib l = {.seed = 4711, .whole = mix->whole};
    size_t starts = mix->starts;
    struct sched_ops ops = {lib_alloc, lib_deny, &l};
    struct sched_stats st;
    struct record *records = calloc(QUEUED, sizeof(*records));
    double *pass = calloc(starts * 8, sizeof(*pass));
    double *slice = calloc(starts * SLICES, sizeof(*slice));
    double *walk = calloc(1000, sizeof(*walk));
    size_t npass = 0;
    size_t nslice = 0;
    double total = 0.;
    double now = 1e9;
    double t;
    size_t before;

    l.heap = calloc(NODES * CORES + 1, sizeof(*l.heap));
    if (!records || !pass || !slice || !walk || !l.heap || !(l.s = sched_create()))
        bench_die("out of memory");
    set_policy(l.s, mix->queue);
    if (sched_policy_set_nodes(l.s, sched_builtin(mix->node), NULL, NULL) < 0)
        bench_die("there is no policy %s", mix->node);
    lib_nodes(l.s, mix->whole);
    t = busy_us();
    for (size_t i = 0; i < QUEUED; i++)
        lib_add(&l, now);
    t = busy_us() - t;
    bench_print(
        &(struct bench_figure){.name = "a job into the queue", .value = t / QUEUED, .unit = "us"});
    for (size_t i = 0; i < QUEUED; i++) {
        struct rreq r;

        make_req(&l.seed, l.whole, &r);
        records[i] = (struct record){i, r.nnodes, r.cores * r.nslots, r.duration, {0}};
    }
    while (sched_pass(l.s, now, SLICE, &ops))
        ;
    before = l.started;
    while (l.started < before + starts && npass < starts * 8) {
        struct ending e = pop(&l);
        double spent = 0.;
        bool more = true;

        now = e.t;
        l.started_now = 0;
        t = busy_us();
        sched_free(l.s, e.id, now);
        spent = busy_us() - t;
        while (more && nslice < starts * SLICES) {
            t = busy_us();
            more = sched_pass(l.s, now, SLICE, &ops);
            slice[nslice] = busy_us() - t;
            spent += slice[nslice++];
        }
        t = busy_us();
        for (size_t i = 0; i < l.started_now; i++)
            lib_add(&l, now);
        spent += busy_us() - t;
        pass[npass++] = spent;
        total += spent;
    }
    for (size_t i = 0; i < 1000; i++)
        walk[i] = walk_us(records, QUEUED, (uint32_t)i % 64, (uint32_t)i % 1024);
    sched_get_stats(l.s, &st);
    bench_title("%s, %s, %d nodes, %ju jobs in the queue of %ju kinds, %ju running", mix->queue,
                mix->node, NODES, (uintmax_t)st.queued, (uintmax_t)st.shapes,
                (uintmax_t)st.running);
    bench_print(&(struct bench_figure){
        .name = "an end, and a pass over the queue",
        .value = bench_percentile(pass, npass, 50),
        .unit = "us",
        .ref_name = "a walk over the records",
        .ref = bench_percentile(walk, 1000, 50),
        .ratio_at_most = least->walks,
    });
    bench_print(&(struct bench_figure){
        .name = "the same, 99%", .value = bench_percentile(pass, npass, 99), .unit = "us"});
    bench_print(&(struct bench_figure){.name = "the same, on average",
                                       .value = total / (double)npass,
                                       .unit = "us",
                                       .ref_name = least->pass_us > 0. ? "with first-fit" : NULL,
                                       .ref = least->pass_us,
                                       .ratio_at_most = least->passes});
    bench_print(&(struct bench_figure){.name = "longest slice",
                                       .value = bench_percentile(slice, nslice, 100),
                                       .unit = "us",
                                       .at_most = least->slice_us});
    bench_print(&(struct bench_figure){.name = "jobs decided on",
                                       .value = 1e6 * (double)npass * QUEUED / total,
                                       .unit = "/s",
                                       .at_least = least->decisions});
    bench_print(&(struct bench_figure){.name = "jobs started",
                                       .value = 1e6 * (double)(l.started - before) / total,
                                       .unit = "/s",
                                       .at_least = least->starts});
    sched_destroy(l.s);
    free(l.heap);
    free(records);
    free(pass);
    free(slice);
    free(walk);
    return total / (double)npass;
}

static void whole(size_t starts)
{
    struct demands least = {.walks = 0.};

    least.pass_us = library(&(struct mix){"easy", "first-fit", true, starts}, &least);
    least.passes = 2;
    library(&(struct mix){"easy", "interference-free", true, starts}, &least);
}

/* --- the module --- */

struct peer {
    flux_t *h;
    uint64_t generation;
    uint64_t seed;
    uint64_t next_id;
    size_t inflight;
    size_t started;
    json_t *ended; /* ids to be given back */
    double first, last;
    bool loaded;
};

static void peer_feed(struct peer *p);

static void fed_cb(flux_future_t *f, void *arg)
{
    struct peer *p = arg;
    errmsg_t err;

    if (flux_rpc_get(f, &err) < 0)
        bench_die("sched.feed: %s", err.text);
    flux_future_destroy(f);
    p->inflight--;
    peer_feed(p);
}

static json_t *peer_adds(struct peer *p, size_t count)
{
    json_t *adds = json_array();

    for (size_t i = 0; i < count; i++) {
        struct rreq r;
        struct sched_wire_add add = {++p->next_id, 16, 1e9, 0, NULL};

        make_req(&p->seed, false, &r);
        add.req = rreq_to_json(&r);
        json_array_append_new(adds, flux_schema_encode_json(&sched_wire_add_schema, &add));
        json_decref(add.req);
    }
    return adds;
}

static void peer_feed(struct peer *p)
{
    while (p->generation && p->inflight < SCHED_FEEDS_MAX) {
        struct sched_feed feed = {.generation = p->generation};
        size_t back = json_array_size(p->ended);
        size_t adds = 0;
        flux_future_t *f;

        if (p->next_id < QUEUED)
            adds = QUEUED - p->next_id < 500 ? QUEUED - p->next_id : 500;
        else
            adds = back < 500 ? back : 500;
        if (adds == 0 && back == 0)
            return;
        feed.free = json_array();
        for (size_t i = 0; i < 500 && json_array_size(p->ended) > 0; i++) {
            json_array_append(feed.free, json_array_get(p->ended, json_array_size(p->ended) - 1));
            json_array_remove(p->ended, json_array_size(p->ended) - 1);
        }
        feed.add = peer_adds(p, adds);
        if (p->next_id >= QUEUED && !p->loaded) {
            p->loaded = true;
            feed.enabled = json_true();
            p->first = bench_now_us();
        }
        f = flux_rpc_struct(p->h, "sched.feed", &sched_feed_schema, &feed, FLUX_NODEID_ANY, 0);
        if (!f || flux_future_then(f, -1., fed_cb, p) < 0)
            bench_die("out of memory");
        p->inflight++;
        json_decref(feed.free);
        json_decref(feed.add);
    }
}

static void attach_cb(flux_future_t *f, void *arg)
{
    struct peer *p = arg;
    struct sched_answer a = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &sched_answer_schema, &a, &err) < 0)
        bench_die("sched.attach: %s", err.text);
    if (a.attached)
        p->generation = a.attached;
    for (size_t i = 0; i < json_array_size(a.alloc); i++) {
        json_array_append(p->ended, json_object_get(json_array_get(a.alloc, i), "id"));
        p->started++;
    }
    if (p->started >= SESSION_STARTS && p->last == 0.) {
        p->last = bench_now_us();
        flux_reactor_stop(flux_get_reactor(p->h), 0);
    }
    flux_future_next(f);
    peer_feed(p);
}

/* A process of its own that asks one request after another, as a submit would until it is
 * told to stop. */
struct asker {
    volatile bool stop;
    volatile size_t n;
    double us[ASKS_MAX];
};

static pid_t ask(struct asker *a)
{
    pid_t pid = fork();
    flux_t *h;
    errmsg_t err;

    if (pid != 0)
        return pid;
    if (!(h = flux_open(NULL, NULL, &err)))
        bench_die("no connection: %s", err.text);
    while (!a->stop && a->n < ASKS_MAX) {
        double t = bench_now_us();
        flux_future_t *f = flux_rpc(h, "sched.stats", NULL, FLUX_NODEID_ANY, 0);

        if (!f || flux_future_wait(f, 30.) < 0 || flux_rpc_get(f, &err) < 0)
            bench_die("sched.stats: no answer");
        flux_future_destroy(f);
        a->us[a->n] = bench_now_us() - t;
        a->n++;
    }
    flux_close(h);
    _exit(0);
}

static void asked(struct asker *a, pid_t pid)
{
    int status;

    a->stop = true;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0 || a->n == 0)
        bench_die("the process that asks has failed");
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static void session(void)
{
    struct asker *a =
        mmap(NULL, 2 * sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    flux_reactor_t *r = flux_reactor_create(false);
    flux_watcher_t *timer = flux_timer_create(r, stop_cb, NULL);
    struct peer p = {.seed = 4711, .ended = json_array()};
    flux_future_t *f;
    errmsg_t err;
    pid_t pid;

    if (a == MAP_FAILED || !r || !timer)
        bench_die("out of memory");
    pid = ask(&a[0]);
    flux_timer_start(timer, 0.5, 0.);
    flux_reactor_run(r);
    asked(&a[0], pid);
    pid = ask(&a[1]);
    if (!(p.h = flux_open(NULL, r, &err)))
        bench_die("no connection: %s", err.text);
    f = flux_rpc(p.h, "sched.attach", "{}", FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);
    if (!f || flux_future_then(f, -1., attach_cb, &p) < 0)
        bench_die("out of memory");
    flux_reactor_run(r);
    asked(&a[1], pid);
    bench_title("the module, %d nodes, %d jobs in the queue, each ends as soon as it has started",
                NODES, QUEUED);
    bench_print(&(struct bench_figure){.name = "jobs started and ended",
                                       .value = 1e6 * (double)p.started / (p.last - p.first),
                                       .unit = "/s",
                                       .at_least = 1000});
    bench_print(&(struct bench_figure){.name = "a request meanwhile, 50%",
                                       .value = bench_percentile(a[1].us, a[1].n, 50),
                                       .unit = "us",
                                       .ref_name = "to an idle scheduler, 50%",
                                       .ref = bench_percentile(a[0].us, a[0].n, 50),
                                       .at_most = 5000});
    bench_print(&(struct bench_figure){.name = "a request meanwhile, 99%",
                                       .value = bench_percentile(a[1].us, a[1].n, 99),
                                       .unit = "us",
                                       .ref_name = "to an idle scheduler, 99%",
                                       .ref = bench_percentile(a[0].us, a[0].n, 99),
                                       .at_most = 20000});
    flux_future_destroy(f);
    flux_watcher_destroy(timer);
    flux_close(p.h);
    flux_reactor_destroy(r);
    json_decref(p.ended);
}

int main(int argc, char **argv)
{
    static const struct demands easy = {10, 20000, 10e6, 1000, 0, 0};
    static const struct demands conservative = {0, 100000, 0, 50, 0, 0};
    static const struct demands none;

    if (argc > 1 && strcmp(argv[1], "session") == 0)
        session();
    else if (argc > 1 && strcmp(argv[1], "whole") == 0)
        whole(argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : STARTS_WHOLE);
    else if (argc > 1)
        library(&(struct mix){argv[1], "first-fit", argc > 3,
                              argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : STARTS_CONSERVATIVE},
                &none);
    else {
        library(&(struct mix){"easy", "first-fit", false, STARTS}, &easy);
        library(&(struct mix){"conservative", "first-fit", false, STARTS_CONSERVATIVE},
                &conservative);
        whole(STARTS_WHOLE);
    }
    return 0;
}
