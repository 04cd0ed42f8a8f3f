/* scen_launch.c - the module wrexec at every rank, with emulated tasks (tasks.c), while brokers
 * between rank 0 and the tasks die and are started again.
 *
 * A client in the place of the job module launches jobs, and signals some of them.  Other clients
 * at rank 0 listen to jobs, read their output as slowly as the seed has it, and send input.
 *
 * What must hold:
 *  1. Each job is reported to have ended once.
 *  2. Each byte of output comes once and in order: to the client that listens, or to the store.
 *  3. A job none of whose nodes was lost ends as its tasks do: with their exit code, after all of
 *     its output, all of its input (of which the task judges, tasks.c), and all of its barriers; or
 *     by the signal that it was sent. It makes no difference which brokers between rank 0 and its
 *     nodes have died.
 *  4. A job with a lost node ends, too: as its tasks have, or with an exception "node-lost".
 *
 * With a third of the seeds, parts of the session are cut off as well, and brokers stand still
 * (absent.c).  A node is lost there when an event of rank 0 says so, whatever has become of its
 * broker: one that is silent for a while, and is not called lost, must do no harm.
 *
 *  5. A broker that was called lost starts no job that was launched later.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/wrexec_wire.h"
#include "libflux/overlay_wire.h"
#include "libidset/idset.h"
#include "libkvs/kvs.h"
#include "libutil/le.h"
#include "sim.h"
#include "tasks.h"

#define JOBS_MAX 10
#define EACH_MAX 3 /* tasks of a node */
#define FIRST_ID 100
#define APART_MS 10000            /* jobs are launched, and absences begin, within this time */
#define APART_LIMIT (600 * SIM_S) /* longer than all absences, were each one after the other */

enum kind { EMIT, EMIT_KVS, CAT, CAT_ALL, SLEEP, MEET, KINDS };

static const char *const programs[] = {[EMIT] = "emit",   [EMIT_KVS] = "emit", [CAT] = "cat",
                                       [CAT_ALL] = "cat", [SLEEP] = "sleep",   [MEET] = "meet"};

struct launched {
    struct launching *all;
    uint64_t id;
    enum kind kind;
    idset_t *ranks;
    uint32_t each, ntasks;
    uint64_t amount;
    int code;
    int signum;            /* that it was sent; 0: none */
    struct sim_ep *client; /* that listens to it; NULL: none does */
    uint32_t window;
    uint64_t *got; /* bytes of each stream of each task */
    uint64_t sent, taken, paid;
    bool begun, eof;
    bool told; /* the client has its result */
    bool launched, ended;
    bool lost;         /* one of its ranks was down after its launch */
    unsigned *zombies; /* brokers of each rank so far, if the latest one counted as lost, and went
                          on, when the job was launched; 0: it did not */
};

struct launching {
    sim_t *s;
    struct sim_ep *manager;
    struct launched jobs[JOBS_MAX];
    unsigned njobs;
    bool faults;
};

static void want(sim_t *s, flux_future_t *f, flux_future_f cb, void *arg)
{
    if (!f || flux_future_then(f, -1., cb, arg) < 0)
        sim_fail(s, "out of memory");
}

static void done_cb(flux_future_t *f, void *arg)
{
    struct launching *l = arg;

    if (flux_future_errnum(f))
        sim_fail(l->s, "a request to wrexec failed: %s", flux_future_error(f));
    flux_future_destroy(f);
}

/* Is this a session in which brokers are silent for a while? */
static bool apart(const sim_t *s)
{
    return s->cfg.live != NULL;
}

/* Was a rank of this job lost?  The module may say so before the event arrives here. */
static bool is_lost(struct launched *j)
{
    const sim_t *s = j->all->s;

    if (apart(s) && j->launched && !j->ended)
        j->lost |= idset_intersects(core_ranks_lost(s->nodes[0].core), j->ranks);
    return j->lost;
}

/* --- output --- */

/* The next bytes of a stream of a task. */
static void take_bytes(struct launched *j, uint32_t task, uint32_t stream, const uint8_t *data,
                       size_t len)
{
    uint64_t *got;

    if (task >= j->ntasks || stream < 1 || stream > 2) {
        sim_fail(j->all->s, "job %" PRIu64 ": output of task %u, stream %u", j->id, task, stream);
        return;
    }
    got = &j->got[2 * task + stream - 1];
    for (size_t i = 0; i < len; i++, (*got)++) {
        if (data[i] == task_byte(j->id, task, stream, *got) && *got < j->amount)
            continue;
        sim_fail(j->all->s, "job %" PRIu64 ": byte %" PRIu64 " of task %u, stream %u, is wrong",
                 j->id, *got, task, stream);
        return;
    }
}

static void expect_all(const struct launched *j)
{
    for (uint32_t k = 0; k < 2 * j->ntasks && !j->all->s->failed; k++) {
        if (j->got[k] != j->amount)
            sim_fail(j->all->s,
                     "job %" PRIu64 ": %" PRIu64 " of %" PRIu64 " bytes came of task %u, stream %u",
                     j->id, j->got[k], j->amount, k / 2, 1 + k % 2);
    }
}

/* Records of the store: a line "TASK STREAM LENGTH", and bytes. */
static void stored_cb(flux_future_t *f, void *arg)
{
    struct launched *j = arg;
    const char *data, *line;
    unsigned task, stream;
    size_t len, n;
    errmsg_t err;

    if (flux_kvs_lookup_get(f, &data, &len, &err) < 0) {
        if (j->amount > 0 && !j->lost)
            sim_fail(j->all->s, "job %" PRIu64 ": its output is not in the store: %s", j->id,
                     err.text);
        len = 0;
    }
    while (len > 0 && !j->all->s->failed) {
        line = memchr(data, '\n', len);
        if (!line || sscanf(data, "%u %u %zu", &task, &stream, &n) != 3 ||
            n > len - (size_t)(line + 1 - data)) {
            sim_fail(j->all->s, "job %" PRIu64 ": its output in the store cannot be read", j->id);
            break;
        }
        take_bytes(j, task, stream, (const uint8_t *)line + 1, n);
        len -= (size_t)(line + 1 - data) + n;
        data = line + 1 + n;
    }
    if (!is_lost(j))
        expect_all(j);
    j->told = true;
    flux_future_destroy(f);
}

static void give_credit(void *arg, void *data)
{
    struct launched *j = arg;
    uint8_t buf[WREXEC_CREDIT_SIZE];

    if (j->told || j->client->gone)
        return;
    j->paid += (uintptr_t)data;
    le_put64(buf, j->id);
    le_put64(buf + 8, 0);
    le_put64(buf + 16, 0);
    le_put64(buf + 24, j->paid);
    want(j->all->s, flux_rpc_raw(j->client->h, "wrexec.credit", buf, sizeof(buf), 0, 0), done_cb,
         j->all);
}

static void take_output(struct launched *j, const uint8_t *data, size_t len)
{
    sim_t *s = j->all->s;
    const void *p = data;
    size_t left = len;
    struct wire_record rec;
    int rc;

    while ((rc = exec_wire_record_next(&p, &left, &rec)) == 1 && !s->failed)
        take_bytes(j, rec.task, rec.stream, rec.data, rec.len);
    if (rc < 0)
        sim_fail(s, "job %" PRIu64 ": a record of its output cannot be read", j->id);
    sim_at(s, sim_now(s) + rng_below(&s->rng, 10) * SIM_MS, give_credit, j, (void *)(uintptr_t)len);
}

/* --- input --- */

static bool reads(const struct launched *j)
{
    return j->kind == CAT || j->kind == CAT_ALL;
}

static void send_input(void *arg, void *data)
{
    struct launched *j = arg;
    sim_t *s = j->all->s;
    uint8_t buf[WREXEC_STDIN_HEAD + 4000];
    uint64_t left = j->amount - j->sent;
    uint32_t len = 0;

    if (j->told || j->eof || !j->begun)
        return;
    if (left > 0)
        len = rng_range(&s->rng, 1, left < 4000 ? (uint32_t)left : 4000);
    if (j->sent + len - j->taken > WIRE_STDIN_WINDOW)
        return;
    le_put64(buf, j->id);
    le_put64(buf + 8, 0);
    le_put64(buf + 16, j->sent);
    for (uint32_t i = 0; i < len; i++)
        buf[WREXEC_STDIN_HEAD + i] = task_byte(j->id, 0, 0, j->sent + i);
    j->sent += len;
    j->eof = len == 0;
    want(s, flux_rpc_raw(j->client->h, "wrexec.stdin", buf, WREXEC_STDIN_HEAD + len, 0, 0), done_cb,
         j->all);
    sim_at(s, sim_now(s) + rng_below(&s->rng, 15) * SIM_MS, send_input, j, NULL);
}

/* --- what clients are told --- */

static int expected_code(const struct launched *j)
{
    return j->signum ? 128 + j->signum : j->code;
}

static void check_end(struct launched *j, const char *who, int code, const char *text)
{
    int expected = expected_code(j);

    if (!is_lost(j) && (code != expected || (text && !j->signum)))
        sim_fail(j->all->s,
                 "job %" PRIu64 " (%s): %s was told exit code %d and \"%s\", expected %d, and no "
                 "node of it was lost",
                 j->id, programs[j->kind], who, code, text ? text : "", expected);
}

static void take_notice(struct launched *j, const struct wrexec_notice *n)
{
    sim_t *s = j->all->s;
    bool first = n->ranks && !j->begun;

    j->begun |= n->ranks != NULL;
    if (n->taken > j->taken)
        j->taken = n->taken;
    if (n->text && !is_lost(j) && !j->signum)
        sim_fail(s, "job %" PRIu64 " fails: %s", j->id, n->text);
    if (reads(j) && j->taken > j->sent)
        sim_fail(s, "job %" PRIu64 ": %" PRIu64 " bytes of input are taken, %" PRIu64 " were sent",
                 j->id, j->taken, j->sent);
    if (reads(j) && (first || n->taken))
        sim_at(s, sim_now(s), send_input, j, NULL);
}

static void take_result(struct launched *j, flux_future_t *f)
{
    struct wrexec_result r = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &wrexec_result_schema, &r, &err) < 0) {
        sim_fail(j->all->s, "job %" PRIu64 ": its result cannot be read: %s", j->id, err.text);
        return;
    }
    j->told = true;
    check_end(j, "the client", r.code, r.text);
    if (j->kind == EMIT && !is_lost(j) && !j->signum)
        expect_all(j);
}

static void listen_cb(flux_future_t *f, void *arg)
{
    struct launched *j = arg;
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    struct wrexec_notice n = {0};
    const void *data;
    size_t len;
    errmsg_t err;

    if (flux_future_errnum(f)) {
        sim_fail(j->all->s, "job %" PRIu64 ": nobody can listen to it: %s", j->id,
                 flux_future_error(f));
    } else if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
        take_result(j, f);
        flux_future_destroy(f);
        return;
    } else if (flux_rpc_get_raw(f, &data, &len, &err) == 0) {
        take_output(j, data, len);
    } else if (flux_rpc_get_struct(f, &wrexec_notice_schema, &n, &err) == 0) {
        take_notice(j, &n);
    } else {
        sim_fail(j->all->s, "job %" PRIu64 ": a notice cannot be read: %s", j->id, err.text);
    }
    flux_future_next(f);
}

/* --- what the manager is told --- */

static void take_ended(struct launching *l, const json_t *entry)
{
    struct wrexec_ended e = {0};
    struct launched *j;
    char key[64];
    errmsg_t err;

    if (flux_schema_decode_json(&wrexec_ended_schema, entry, &e, &err) < 0 || e.id < FIRST_ID ||
        e.id >= FIRST_ID + l->njobs) {
        sim_fail(l->s, "the end of a job cannot be: %s", err.text);
        return;
    }
    j = &l->jobs[e.id - FIRST_ID];
    if (j->ended)
        sim_fail(l->s, "the end of job %" PRIu64 " is reported twice", j->id);
    (void)is_lost(j);
    j->ended = true;
    check_end(j, "the job module", e.code, e.text);
    if ((e.code != expected_code(j) || (e.text && !j->signum)) &&
        (!e.type || strcmp(e.type, "node-lost") != 0))
        sim_fail(l->s, "job %" PRIu64 " ended with exit code %d and \"%s\", not because of a loss",
                 j->id, e.code, e.text ? e.text : "");
    if (e.outputlost && !is_lost(j))
        sim_fail(l->s, "job %" PRIu64 ": %" PRIu64 " bytes of output are lost", j->id,
                 e.outputlost);
    snprintf(key, sizeof(key), "job.%" PRIu64 ".output", j->id);
    if (j->kind == EMIT_KVS && !j->signum)
        want(l->s, flux_kvs_lookup(l->manager->h, NULL, key, 0, NULL), stored_cb, j);
    else if (!j->client)
        j->told = true;
}

static void jobs_cb(flux_future_t *f, void *arg)
{
    struct launching *l = arg;
    struct wrexec_jobs m = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &wrexec_jobs_schema, &m, &err) < 0) {
        sim_fail(l->s, "the stream of ends has ended: %s", err.text);
        return;
    }
    for (size_t i = 0; i < json_array_size(m.ended) && !l->s->failed; i++)
        take_ended(l, json_array_get(m.ended, i));
    flux_future_next(f);
}

/* --- ranks that are lost --- */

static void down_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct launching *l = arg;
    struct overlay_down d = {0};
    const char *json = flux_msg_json(msg);
    json_t *o =
        json ? flux_schema_decode(&overlay_down_schema, json, strlen(json), &d, NULL) : NULL;
    idset_t *ranks = o ? idset_parse(d.ranks, NULL) : NULL;

    if (!ranks)
        sim_fail(l->s, "it cannot be read which ranks are lost");
    for (unsigned i = 0; ranks && i < l->njobs; i++)
        l->jobs[i].lost |=
            l->jobs[i].launched && !l->jobs[i].ended && idset_intersects(ranks, l->jobs[i].ranks);
    idset_destroy(ranks);
    json_decref(o);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_EVENT, "overlay.down", down_cb, 0},
    FLUX_HANDLER_END,
};

static void subscribed_cb(flux_future_t *f, void *arg)
{
    const struct launching *l = arg;

    if (flux_future_errnum(f))
        sim_fail(l->s, "nobody can learn which ranks are lost: %s", flux_future_error(f));
    flux_future_destroy(f);
}

static void watch_ranks(struct launching *l)
{
    flux_t *h = l->manager->h;

    if (!flux_handlers_add(h, handlers, l))
        sim_fail(l->s, "out of memory");
    want(l->s, flux_event_subscribe(h, "overlay.down"), subscribed_cb, l);
}

/* Note which of its ranks are lost when a job is launched. */
static void note_down(struct launched *j)
{
    sim_t *s = j->all->s;
    const core_t *root = s->nodes[0].core;

    j->launched = true;
    for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE; r = idset_next(j->ranks, r)) {
        const struct node *n = &s->nodes[r];
        bool lost = idset_test(core_ranks_lost(root), r);
        bool runs = n->state == NODE_ON && core_state(n->core) == CORE_RUN;

        j->lost |= apart(s) ? lost : n->state != NODE_ON;
        j->zombies[r] = lost && runs ? n->starts : 0;
    }
}

/* A broker starts the tasks of a job. */
static void starts(const struct node *n, uint64_t id, void *arg)
{
    const struct launching *l = arg;
    const struct launched *j = &l->jobs[id - FIRST_ID];

    if (j->zombies[n->rank] == n->starts)
        sim_fail(l->s, "rank %u, which counted as lost, starts job %" PRIu64 ", launched later",
                 n->rank, id);
}

/* --- jobs --- */

static void launched_cb(flux_future_t *f, void *arg);

/* Send the launch of one job. */
static void launch(void *arg, void *data)
{
    struct launched *j = arg;
    launchbuf_t *b = exec_launchbuf_create();
    char *ranks = idset_format(j->ranks, 0), amount[24], code[8];
    char *argv[] = {(char *)programs[j->kind], amount, code, NULL};
    struct wrexec_launch w = {
        .id = j->id,
        .nodes = json_pack("[[s,i,s,s,i]]", ranks ? ranks : "", (int)j->each, "", "", 0),
        .layout = j->id % 2 ? "cyclic" : "block",
        .input = j->kind == CAT       ? "first"
                 : j->kind == CAT_ALL ? "all"
                                      : "none",
        .output = j->client             ? "client"
                  : j->kind == EMIT_KVS ? "kvs"
                                        : "none",
        .mpi = j->kind == MEET ? "pmi" : "none",
        .overcommit = true,
        .attempt = 1};
    struct launchreq req = {.launch = &w, .argv = argv, .env = "A=B", .envlen = 4};
    size_t len;
    void *bytes;

    snprintf(amount, sizeof(amount), "%" PRIu64, j->amount);
    snprintf(code, sizeof(code), "%d", j->code);
    if (!b || !w.nodes || exec_launchbuf_add(b, &req) < 0 ||
        !(bytes = exec_launchbuf_take(b, &len))) {
        sim_fail(j->all->s, "a job cannot be launched: %s", strerror(errno));
    } else {
        note_down(j);
        want(j->all->s, flux_rpc_raw(j->all->manager->h, "wrexec.launch", bytes, len, 0, 0),
             launched_cb, j);
        free(bytes);
    }
    json_decref(w.nodes);
    exec_launchbuf_destroy(b);
    free(ranks);
}

/* As the job module does, try again when there is no room. */
static void launched_cb(flux_future_t *f, void *arg)
{
    struct launched *j = arg;
    int errnum = flux_future_errnum(f);

    if (errnum == EAGAIN)
        sim_at(j->all->s, sim_now(j->all->s) + 5 * SIM_MS, launch, j, NULL);
    else if (errnum)
        sim_fail(j->all->s, "job %" PRIu64 " was not launched: %s", j->id, flux_future_error(f));
    flux_future_destroy(f);
}

static void kill_job(void *arg, void *data)
{
    struct launched *j = arg;
    struct wrexec_kill m = {json_pack("[I]", (json_int_t)j->id), j->signum};

    if (!j->ended)
        want(j->all->s,
             flux_rpc_struct(j->all->manager->h, "wrexec.kill", &wrexec_kill_schema, &m, 0, 0),
             done_cb, j->all);
    json_decref(m.ids);
}

static void listen_to(struct launched *j)
{
    sim_t *s = j->all->s;
    struct wrexec_listen m = {.id = j->id, .window = j->window, .input = reads(j)};

    j->client = sim_client_add(s, 0, "listener");
    want(s,
         flux_rpc_struct(j->client->h, "wrexec.listen", &wrexec_listen_schema, &m, 0,
                         FLUX_MSGF_STREAMING),
         listen_cb, j);
}

/* Draw a job, and the moment of its launch. */
static void draw(struct launching *l, struct launched *j, uint64_t id)
{
    sim_t *s = l->s;
    struct rng *r = &s->rng;
    uint32_t nodes = rng_range(r, 1, s->cfg.size < 6 ? s->cfg.size : 6);
    int64_t at = sim_now(s) + rng_below(r, apart(s) ? APART_MS : 100) * SIM_MS;

    j->all = l;
    j->id = id;
    j->kind = rng_below(r, KINDS);
    j->each = rng_range(r, 1, EACH_MAX);
    if (!(j->ranks = idset_create())) {
        sim_fail(s, "out of memory");
        return;
    }
    while (nodes-- > 0)
        idset_set(j->ranks, rng_below(r, s->cfg.size));
    j->ntasks = j->each * (uint32_t)idset_count(j->ranks);
    j->got = sim_alloc(s, 2 * j->ntasks * sizeof(*j->got));
    j->zombies = sim_alloc(s, s->cfg.size * sizeof(*j->zombies));
    j->code = rng_chance(r, 0.5) ? 0 : (int)rng_below(r, 50);
    j->amount = rng_below(r, j->kind == MEET ? 6 : rng_chance(r, 0.1) ? 200000 : 8000);
    j->window = rng_chance(r, 0.5) ? 0 : rng_range(r, 1, 4000);
    if (j->kind == SLEEP) {
        j->signum = rng_chance(r, 0.5) ? SIGTERM : SIGUSR1;
        sim_at(s, at + rng_range(r, 20, apart(s) ? APART_MS : 400) * SIM_MS, kill_job, j, NULL);
    }
    if (j->kind == EMIT || reads(j))
        listen_to(j);
    sim_at(s, at, launch, j, NULL);
}

/* --- faults --- */

static void die(void *arg, void *data)
{
    struct launching *l = arg;
    struct node *n = data;

    if (n->state != NODE_ON)
        return;
    l->s->faults++;
    for (unsigned i = 0; i < l->njobs && !apart(l->s); i++)
        l->jobs[i].lost |= !l->jobs[i].ended && idset_test(l->jobs[i].ranks, n->rank);
    if (core_leaves_alone(n->core) && rng_chance(&l->s->rng, 0.3)) {
        n->leaves = true;
        core_leave(n->core, 0, "it was asked to leave");
    } else {
        node_kill(n);
    }
}

static bool all_over(sim_t *s, void *arg)
{
    const struct launching *l = arg;

    for (unsigned i = 0; i < l->njobs; i++) {
        if (!l->jobs[i].ended || !l->jobs[i].told)
            return false;
    }
    return true;
}

static void complain(const struct launching *l)
{
    for (unsigned i = 0; i < l->njobs; i++) {
        const struct launched *j = &l->jobs[i];
        char *ranks;

        if (j->ended && j->told)
            continue;
        ranks = idset_format(j->ranks, 0);
        sim_fail(l->s, "job %" PRIu64 " (%s, ranks %s%s) %s", j->id, programs[j->kind],
                 ranks ? ranks : "", j->lost ? ", one was lost" : "",
                 j->ended ? "has ended, and its client does not know" : "does not end");
        free(ranks);
    }
}

static void launch_run(sim_t *s)
{
    struct launching *l = sim_alloc(s, sizeof(*l));

    if (s->cfg.size < 2 || !sim_boot(s))
        return;
    l->s = s;
    l->faults = rng_chance(&s->rng, 0.8);
    l->manager = node_ep_add(&s->nodes[0], ENDPOINT_MODULE, "job");
    s->task_starts = starts;
    s->task_starts_arg = l;
    if (apart(s))
        watch_ranks(l);
    want(s, flux_rpc(l->manager->h, "wrexec.jobs", "{}", 0, FLUX_MSGF_STREAMING), jobs_cb, l);
    l->njobs = rng_range(&s->rng, 1, JOBS_MAX);
    for (unsigned i = 0; i < l->njobs && !s->failed; i++)
        draw(l, &l->jobs[i], FIRST_ID + i);
    if (apart(s))
        sim_absences(s, rng_range(&s->rng, 1, 6), APART_MS * SIM_MS);
    if (l->faults) {
        for (unsigned i = rng_range(&s->rng, 1, 4); i > 0; i--)
            sim_at(s, sim_now(s) + rng_below(&s->rng, apart(s) ? APART_MS : 400) * SIM_MS, die, l,
                   &s->nodes[rng_range(&s->rng, 1, s->cfg.size - 1)]);
    }
    if ((l->faults || apart(s)) && rng_chance(&s->rng, 0.7))
        sim_returns(s, apart(s) ? APART_LIMIT : 30 * SIM_S);
    if (!s->failed && !sim_run_until(s, all_over, l, apart(s) ? APART_LIMIT : 120 * SIM_S))
        complain(l);
    sim_run_for(s, SIM_S + sim_max_delay(s) * 8);
    for (unsigned i = 0; i < l->njobs; i++)
        idset_destroy(l->jobs[i].ranks);
}

static void launch_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules = SIM_MOD_KVS | SIM_MOD_LAUNCH;
    cfg->heal = 5.;
    if (cfg->size > 24)
        cfg->size = 2 + rng_below(rng, 23);
    if (rng_below(rng, 3) == 2)
        cfg->live = &sim_silence;
}

const struct scenario scenario_launch = {"launch", "jobs lose nothing when brokers above them die",
                                         launch_run, launch_tune};
