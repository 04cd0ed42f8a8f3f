/* tasks.c - the tasks of simulated nodes, in the place of the launcher: launchlink.h on the virtual
 * clock.
 *
 * Purpose: the module wrexec runs unchanged at every rank of a simulated session.  What its
 * launcher would do happens here at random moments: a task writes, reads, ends.  The programs are
 * described in tasks.h.
 *
 *    state of a part   meaning                                     left when
 *    running           its tasks write, read, wait, or meet        they are done, or a signal ends
 *                                                                  them
 *    ending            a signal has ended its tasks                DONE was sent
 *
 * Invariants:
 *  1. The launcher sends no more bytes of output than it was given credit for, but for one record.
 *  2. DONE is the last frame about a job.
 *  3. The tasks of a node end with its broker.
 *
 * Failure: sim_fail() for input that the module must not send.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/exec_layout.h"
#include "libpmi/pmi_pack.h"
#include "modules/wrexec/launchlink.h"
#include "sim.h"
#include "tasks.h"

#define RECORD_MAX 400
#define TICK 0.004 /* seconds, at most, between two things that a node does */

enum program { EMIT, CAT, SLEEP, MEET };

/* The tasks of one job at this node. */
struct part {
    struct list_node node;
    launchlink_t *x;
    flux_watcher_t *timer;
    uint64_t id;
    uint32_t number; /* of this node in the job */
    uint32_t nnodes;
    uint32_t ntasks; /* here */
    uint32_t *tasks; /* their numbers in the job */
    enum program program;
    uint64_t amount; /* bytes of each stream of each task, or times */
    int code;
    uint64_t *written; /* by each task to its two streams */
    int64_t credit;
    uint64_t got, taken; /* bytes of standard input */
    bool eof, wrong;
    uint32_t met;
    bool meeting;
    int signum;
};

struct launchlink {
    flux_t *h;
    sim_t *s;
    const struct launchlink_callbacks *cbs;
    void *arg;
    struct list_node parts;
};

void task_pair(uint64_t job, uint32_t node, uint32_t barrier, char key[TASK_PAIR_MAX],
               char value[TASK_PAIR_MAX])
{
    snprintf(key, TASK_PAIR_MAX, "node-%u", node);
    snprintf(value, TASK_PAIR_MAX, "%" PRIu64 "-%u-%u", job % 1000000, node, barrier);
}

static void part_free(struct part *p)
{
    list_remove(&p->node);
    flux_watcher_destroy(p->timer);
    free(p->tasks);
    free(p->written);
    free(p);
}

static void later(struct part *p)
{
    flux_timer_start(p->timer, rng_real(&p->x->s->rng) * TICK, 0.);
}

/* --- frames to the module --- */

static void tell(struct part *p, enum wire_type type, const void *data, size_t len)
{
    struct wire_frame f = {type, type, p->id, (uint32_t)len, data};

    p->x->cbs->frame(p->x->arg, &f);
}

static void done(struct part *p, int status)
{
    struct wire_times t = {1, 2};
    size_t len = WIRE_TIMES + p->ntasks * sizeof(int32_t);
    launchlink_t *x = p->x;
    uint64_t id = p->id;
    uint8_t *data = malloc(len);
    struct wire_frame f = {WIRE_DONE, WIRE_DONE, id, (uint32_t)len, data};

    if (!data) {
        sim_fail(x->s, "out of memory");
        return;
    }
    exec_wire_times_put(data, &t);
    for (uint32_t i = 0; i < p->ntasks; i++)
        memcpy(data + WIRE_TIMES + i * sizeof(int32_t), &(int32_t){status}, sizeof(int32_t));
    part_free(p);
    x->cbs->frame(x->arg, &f);
    free(data);
}

/* --- what tasks do --- */

/* Write a record.  false: all was written. */
static bool emit(struct part *p)
{
    struct rng *r = &p->x->s->rng;
    uint32_t n = 2 * p->ntasks, k = rng_below(r, n);
    uint8_t rec[WIRE_RECORD + RECORD_MAX];
    uint64_t left;
    uint32_t len;

    for (uint32_t i = 0; i < n && p->written[k] == p->amount; i++)
        k = (k + 1) % n;
    left = p->amount - p->written[k];
    if (left == 0)
        return false;
    if (p->credit <= 0)
        return true;
    len = rng_range(r, 1, left < RECORD_MAX ? (uint32_t)left : RECORD_MAX);
    exec_wire_record_header(rec, p->tasks[k / 2], 1 + k % 2, len);
    for (uint32_t i = 0; i < len; i++)
        rec[WIRE_RECORD + i] = task_byte(p->id, p->tasks[k / 2], 1 + k % 2, p->written[k] + i);
    p->written[k] += len;
    p->credit -= WIRE_RECORD + len;
    tell(p, WIRE_OUTPUT, rec, WIRE_RECORD + len);
    return true;
}

static bool take(struct part *p)
{
    uint32_t n;

    if (p->got > p->taken) {
        n = rng_range(&p->x->s->rng, 1, (uint32_t)(p->got - p->taken));
        p->taken += n;
        tell(p, WIRE_STDIN_ACK, &n, sizeof(n));
        return true;
    }
    if (p->eof && p->taken != p->amount)
        p->wrong = true;
    return !p->eof;
}

static bool meet(struct part *p)
{
    char key[TASK_PAIR_MAX], value[TASK_PAIR_MAX];
    struct pmi_pack *pk;
    struct pmi_pair pair;
    uint8_t *data;
    const void *blob;
    size_t len;

    if (p->meeting)
        return true;
    if (p->met == p->amount)
        return false;
    task_pair(p->id, p->number, p->met, key, value);
    pair = (struct pmi_pair){key, strlen(key), value, strlen(value)};
    if (!(pk = pmi_pack_create(0)) || pmi_pack_add(pk, &pair) < 0 ||
        !(data = malloc(sizeof(uint32_t) + RECORD_MAX))) {
        sim_fail(p->x->s, "out of memory");
        pmi_pack_destroy(pk);
        return true;
    }
    blob = pmi_pack_data(pk, &len);
    memcpy(data, &p->met, sizeof(uint32_t));
    memcpy(data + sizeof(uint32_t), blob, len);
    p->meeting = true;
    tell(p, WIRE_PMI_FENCE, data, sizeof(uint32_t) + len);
    free(data);
    pmi_pack_destroy(pk);
    return true;
}

/* It waits for a frame. */
static bool idle(const struct part *p)
{
    return p->program == SLEEP || p->meeting || (p->program == EMIT && p->credit <= 0) ||
           (p->program == CAT && p->got == p->taken && !p->eof);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    static bool (*const acts[])(struct part *) = {[EMIT] = emit, [CAT] = take, [MEET] = meet};
    struct part *p = arg;

    if (p->signum)
        done(p, p->signum);
    else if (p->program != SLEEP && !acts[p->program](p))
        done(p, (p->wrong ? TASK_WRONG : p->code) << 8);
    else if (!idle(p))
        later(p);
}

/* --- frames of the module --- */

static struct part *find(const launchlink_t *x, uint64_t id)
{
    LIST_FOREACH(it, &x->parts)
    {
        struct part *p = list_entry(it, struct part, node);

        if (p->id == id)
            return p;
    }
    return NULL;
}

static void take_input(struct part *p, const uint8_t *data, size_t len)
{
    if (p->eof && len > 0)
        sim_fail(p->x->s, "job %" PRIu64 ", node %u: standard input comes after its end", p->id,
                 p->number);
    for (size_t i = 0; i < len; i++) {
        if (data[i] != task_byte(p->id, 0, 0, p->got + i)) {
            sim_fail(p->x->s, "job %" PRIu64 ", node %u: byte %" PRIu64 " of its input is wrong",
                     p->id, p->number, p->got + i);
            return;
        }
    }
    p->eof |= len == 0;
    p->got += len;
    if (p->got - p->taken > WIRE_STDIN_WINDOW)
        sim_fail(p->x->s, "job %" PRIu64 ", node %u: more input comes than it has room for", p->id,
                 p->number);
    later(p);
}

/* Has the barrier brought the pairs of all nodes? */
static bool all_there(const struct part *p, const void *blob, size_t len)
{
    char key[TASK_PAIR_MAX], value[TASK_PAIR_MAX];
    struct pmi_unpack u;
    struct pmi_pair pair;
    uint32_t n = 0, node;

    pmi_unpack_init(&u, blob, len);
    while (pmi_unpack_next(&u, &pair) == 1) {
        char word[TASK_PAIR_MAX] = "";

        memcpy(word, pair.key, pair.keylen < sizeof(word) - 1 ? pair.keylen : sizeof(word) - 1);
        if (sscanf(word, "node-%u", &node) != 1)
            return false;
        task_pair(p->id, node, p->met, key, value);
        if (pair.valuelen != strlen(value) || memcmp(pair.value, value, pair.valuelen) != 0)
            return false;
        n++;
    }
    return n == p->nnodes;
}

static void have_met(struct part *p, const uint8_t *data, size_t len)
{
    int32_t rc = exec_wire_i32(data);

    if (!p->meeting) {
        sim_fail(p->x->s, "job %" PRIu64 ", node %u: the end of a barrier that is not open", p->id,
                 p->number);
        return;
    }
    if (rc != 0 || !all_there(p, data + sizeof(rc), len - sizeof(rc))) {
        p->wrong = true;
        p->met = (uint32_t)p->amount;
    } else {
        p->met++;
    }
    p->meeting = false;
    later(p);
}

void launchlink_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                     size_t fixedlen, const void *data, size_t len)
{
    struct part *p = find(x, job);
    uint8_t code[sizeof(int32_t)];

    if (!p || p->signum)
        return;
    if (type == WIRE_CREDIT) {
        p->credit += exec_wire_u32(fixed);
        later(p);
    } else if (type == WIRE_STDIN && (p->number == 0 || exec_wire_u32(fixed) == WIRE_ALL)) {
        take_input(p, data, len);
    } else if (type == WIRE_PMI_DONE) {
        uint8_t *all = malloc(fixedlen + len);

        memcpy(code, fixed, sizeof(code));
        if (!all) {
            sim_fail(x->s, "out of memory");
            return;
        }
        memcpy(all, code, sizeof(code));
        if (len > 0)
            memcpy(all + sizeof(code), data, len);
        have_met(p, all, sizeof(code) + len);
        free(all);
    } else if (type == WIRE_KILL || type == WIRE_SIGNAL) {
        p->signum = type == WIRE_KILL ? SIGKILL : exec_wire_i32(fixed);
        later(p);
    }
}

int launchlink_try_send(launchlink_t *x, enum wire_type type, uint64_t job, const void *fixed,
                        size_t fixedlen, const void *data, size_t len)
{
    launchlink_send(x, type, job, fixed, fixedlen, data, len);
    return 0;
}

/* --- start --- */

static const char *word_of(const struct launchrec *rec, uint32_t n)
{
    const char *p = rec->strings;

    if (n >= rec->argc)
        return "0";
    for (uint32_t i = 0; i < WIRE_STRINGS + 2 * rec->nfiles + n; i++)
        p += strlen(p) + 1;
    return p;
}

static int choose(struct part *p, const struct launchrec *rec)
{
    static const char *const names[] = {
        [EMIT] = "emit", [CAT] = "cat", [SLEEP] = "sleep", [MEET] = "meet"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], word_of(rec, 0)) != 0)
            continue;
        p->program = (enum program)i;
        p->amount = strtoull(word_of(rec, 1), NULL, 10);
        p->code = (int)strtol(word_of(rec, 2), NULL, 10);
        return 0;
    }
    return -1;
}

int launchlink_run(launchlink_t *x, uint64_t job, struct wire_run *run,
                   const char *const strings[WIRE_NODE_STRINGS], const struct launchrec *rec,
                   errmsg_t *err)
{
    struct part *p = calloc(1, sizeof(*p));
    layout_t *l = exec_layout_create((run->flags & WIRE_F_CYCLIC) ? LAYOUT_CYCLIC : LAYOUT_BLOCK,
                                     run->runs, run->nruns, err);

    if (!p || !l) {
        free(p);
        exec_layout_destroy(l);
        return errmsg_fail(err, ENOMEM, "out of memory for emulated tasks");
    }
    if (find(x, job))
        sim_fail(x->s, "rank %u: the tasks of job %" PRIu64 " are started twice", flux_rank(x->h),
                 job);
    list_init(&p->node);
    p->x = x;
    p->id = job;
    p->number = run->node;
    p->nnodes = exec_layout_nnodes(l);
    p->ntasks = exec_layout_count(l, run->node);
    p->credit = run->window;
    p->tasks = calloc(p->ntasks, sizeof(*p->tasks));
    p->written = calloc(p->ntasks, 2 * sizeof(*p->written));
    p->timer = flux_timer_create(flux_get_reactor(x->h), timer_cb, p);
    if (!p->tasks || !p->written || !p->timer || choose(p, rec) < 0) {
        exec_layout_destroy(l);
        part_free(p);
        return errmsg_fail(err, EINVAL, "a program that no emulated node can run");
    }
    for (uint32_t i = 0; i < p->ntasks; i++)
        p->tasks[i] = exec_layout_task(l, p->number, i);
    exec_layout_destroy(l);
    /* Only the node of task 0 reads standard input, unless all do. */
    p->eof = p->program == CAT && p->number > 0 && !(run->flags & WIRE_F_STDIN_ALL);
    if (p->eof)
        p->taken = p->got = p->amount;
    list_append(&x->parts, &p->node);
    if (x->s->task_starts)
        x->s->task_starts(((struct sim_ep *)flux_handle_impl(x->h))->broker, job,
                          x->s->task_starts_arg);
    later(p);
    return 0;
}

launchlink_t *launchlink_create(flux_t *h, const struct launchlink_callbacks *cbs, void *arg)
{
    struct sim_ep *e = flux_handle_impl(h);
    launchlink_t *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->h = h;
    x->s = e->broker->sim;
    x->cbs = cbs;
    x->arg = arg;
    list_init(&x->parts);
    return x;
}

void launchlink_destroy(launchlink_t *x)
{
    int errnum = errno;
    struct list_node *n;

    if (!x)
        return;
    while ((n = list_first(&x->parts)))
        part_free(list_entry(n, struct part, node));
    free(x);
    errno = errnum;
}

/* --- what a simulated node does without --- */

bool launchlink_end(launchlink_t *x, void (*ended)(void *arg), void *arg)
{
    return false;
}

int launchlink_config(launchlink_t *x, enum wire_config what, const char *value)
{
    return 0;
}

/* A broker that was killed has left nothing behind (invariant 3). */
bool launchlink_sweep(launchlink_t *x)
{
    return false;
}

/* Modules of the simulator are loaded again without a hand-over, so these are not called. */
void launchlink_settle(launchlink_t *x)
{
}

void launchlink_save(const launchlink_t *x, flux_handover_t *o)
{
}

void launchlink_leave(launchlink_t *x)
{
}

void launchlink_load(launchlink_t *x, flux_handover_t *o)
{
}

int launchlink_pid(const launchlink_t *x)
{
    return 1;
}

unsigned launchlink_started(const launchlink_t *x)
{
    return 1;
}
