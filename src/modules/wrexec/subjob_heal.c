/* subjob_heal.c - an instance's part of a job when brokers die: other ways to its nodes.
 *
 * Purpose: a broker dies between rank 0 and nodes of a job.  Only the tasks on its own node are
 * lost.  The instance above it (in the job) takes over the children that it had in the job.
 *
 * Drawing (heal): rank 1 dies; ranks 3 and 4 are below it, and all are nodes of the job.
 *
 *     rank 3                      rank 1                       rank 0
 *        |                         killed                         | wrexec.tree fails
 *        | wrexec.disconnect: the                                 |
 *        | job is an orphan                event overlay.down (1) |
 *        |                                                        | the tasks of rank 1 are lost
 *        |            wrexec.tree, which the broker of rank 0     |
 *        |<--- holds until it can reach rank 3 -------------------|
 *        |                                                        |
 *        |<------------------------------ LAUNCH, the same launch |
 *        | repeats what rank 0 may lack                           |
 *        |------------------------------------------------------->| drops what it has
 *
 * What is sent again: whatever rank 0 has not acknowledged, and not only what the dead neighbor may
 * have had, since it has passed on and merged what came from below.  So an instance that gets a
 * launch which it has already begins a new round: it asks its own children for the same (AGAIN),
 * and repeats
 *
 *     NUMBERED       those that rank 0 has not acknowledged (retain.c): rank 0 takes only the
 *                    number that comes next, and drops all others
 *     TAKEN, STARTED, BEGUN, LOST    the latest: they are states, so repetition does no harm
 *     RESULT         once all of the job is done here in the new round; statuses merge to the same
 *
 * and downward: the launch, the last signals, each of which a node ignores unless its number is
 * new, and the standard input that some node has not taken, by position (subjob_flow.c).
 *
 * A part is done when its result has come in the present round.  Its child keeps everything until
 * rank 0 has the results of all nodes (OVER), because the part may have to repeat it to another
 * parent.
 *
 * Invariants:
 *  1. A rank of the job that is not dead, and not this one, is in one part of an instance at most.
 *  2. A rank that has died since the launch is never given to a part again, so its next broker does
 *     not start the tasks anew.  The event that a rank is lost comes before anything from its next
 *     broker (libservice/session.h).  Nor does rank 0 send a launch to a rank that was lost before:
 *     its broker may be cut off only from those above it, and get the launch on the ring.
 *  3. Frames of a part that are not of its present round are dropped.
 *  4. A launch names all ranks of the child's part.  The child gives up the others, and an orphan
 *     launches nothing: another instance may have these ranks.
 *  5. An orphan ends only if rank 0 does not know the job (wrexec.known), or if its parent has
 *     ended the stream on purpose.  It is not launched again after that, although others may not
 *     have heard yet that the job is over (OVER).
 *
 * Failure: if an edge breaks although no rank on it was declared lost, it is opened again after a
 * while.  Without memory for a launch to be kept, the nodes below a dead broker are lost, too.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"

#define ORPHAN_ASK 5. /* seconds */
#define UNKNOWN_MAX 8192

/* The environment of a launch.  Jobs that were submitted together have the same. */
struct envblob {
    size_t refs;
    size_t len;
    char data[];
};

struct kept {
    uint32_t nfiles, argc, envc;
    struct envblob *env;
    size_t strings_len;
    char strings[];
};

/* --- launches that are kept --- */

static void env_free(struct ctx *ctx, struct envblob *env)
{
    if (!env || --env->refs > 0)
        return;
    if (ctx->env == env)
        ctx->env = NULL;
    free(env);
}

static struct envblob *env_keep(struct ctx *ctx, const char *data, size_t len)
{
    struct envblob *env = ctx->env;

    if (env && env->len == len && memcmp(env->data, data, len) == 0) {
        env->refs++;
        return env;
    }
    if (!(env = malloc(sizeof(*env) + len + 1)))
        return NULL;
    env->refs = 1;
    env->len = len;
    if (len)
        memcpy(env->data, data, len);
    ctx->env = env; /* the jobs that have the former one free it */
    return env;
}

void subjob_keep(struct subjob *j, const struct launchrec *rec)
{
    struct kept *k;

    if (j->kept || !(k = malloc(sizeof(*k) + rec->strings_len + 1)))
        return;
    if (!(k->env = env_keep(j->ctx, rec->env, rec->env_len))) {
        free(k);
        return;
    }
    k->nfiles = rec->nfiles;
    k->argc = rec->argc;
    k->envc = rec->envc;
    k->strings_len = rec->strings_len;
    if (rec->strings_len)
        memcpy(k->strings, rec->strings, rec->strings_len);
    j->kept = k;
}

void subjob_kept_free(struct subjob *j)
{
    if (j->kept)
        env_free(j->ctx, j->kept->env);
    free(j->kept);
    j->kept = NULL;
}

/* Returns -1 with ENOMEM, or if the launch was not kept.  The caller frees *json. */
static int kept_record(const struct subjob *j, struct launchrec *rec, char **json)
{
    const struct kept *k = j->kept;

    if (!k || !(*json = json_dumps(j->spec->owner, JSON_COMPACT)))
        return -1;
    *rec = (struct launchrec){.json = *json,
                              .json_len = strlen(*json),
                              .nfiles = k->nfiles,
                              .argc = k->argc,
                              .envc = k->envc,
                              .strings = k->strings,
                              .strings_len = k->strings_len,
                              .env = k->env->data,
                              .env_len = k->env->len};
    return 0;
}

void subjob_kept_save(const struct subjob *j, flux_handover_t *o)
{
    const struct kept *k = j->kept;

    flux_handover_put(o, k != NULL);
    if (!k)
        return;
    flux_handover_put(o, k->nfiles);
    flux_handover_put(o, k->argc);
    flux_handover_put(o, k->envc);
    flux_handover_put_data(o, k->strings, k->strings_len);
    flux_handover_put_data(o, k->env->data, k->env->len);
}

void subjob_kept_load(struct subjob *j, flux_handover_t *o)
{
    struct launchrec rec = {0};

    if (!flux_handover_get(o, 1))
        return;
    rec.nfiles = (uint32_t)flux_handover_get(o, UINT32_MAX);
    rec.argc = (uint32_t)flux_handover_get(o, UINT32_MAX);
    rec.envc = (uint32_t)flux_handover_get(o, UINT32_MAX);
    rec.strings = flux_handover_get_data(o, &rec.strings_len);
    rec.env = flux_handover_get_data(o, &rec.env_len);
    if (flux_handover_ok(o))
        subjob_keep(j, &rec);
}

/* --- parts --- */

/* Return the number of parts with edges to lower ranks. */
static uint32_t place_of(const struct subjob *j, uint32_t rank)
{
    uint32_t lo = 0, hi = j->nparts;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;

        if (j->parts[mid]->edge->rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct part *subjob_part_at(const struct subjob *j, const struct edge *e)
{
    uint32_t i = place_of(j, e->rank);

    return i < j->nparts && j->parts[i]->edge == e ? j->parts[i] : NULL;
}

struct part *subjob_part_of(const struct subjob *j, uint32_t rank)
{
    for (uint32_t i = 0; i < j->nparts; i++)
        if (idset_test(j->parts[i]->ranks, rank))
            return j->parts[i];
    return NULL;
}

struct part *subjob_part_add(struct subjob *j, struct edge *e)
{
    uint32_t i = place_of(j, e->rank);
    struct part *p = calloc(1, sizeof(*p));
    struct part **v;

    /* Room for 1, 2, 4, 8... parts. */
    if ((j->nparts & (j->nparts - 1)) == 0) {
        if (!(v = realloc(j->parts, (j->nparts ? 2 * j->nparts : 1) * sizeof(struct part *)))) {
            free(p);
            return NULL;
        }
        j->parts = v;
    }
    if (!p || !(p->ranks = idset_create())) {
        free(p);
        return NULL;
    }
    p->job = j;
    p->edge = e;
    list_init(&p->node);
    list_append(&e->parts, &p->node);
    memmove(j->parts + i + 1, j->parts + i, (j->nparts - i) * sizeof(struct part *));
    j->parts[i] = p;
    j->nparts++;
    j->nopen++;
    return p;
}

/* Take a part out of the job; the pieces that came from it may still refer to it. */
static void detach(struct part *p)
{
    struct subjob *j = p->job;
    uint32_t i = place_of(j, p->edge->rank);

    subjob_part_done(p);
    memmove(j->parts + i, j->parts + i + 1, (j->nparts - i - 1) * sizeof(struct part *));
    j->nparts--;
    list_remove(&p->node);
    list_append(&j->former, &p->node);
    idset_destroy(p->ranks);
    p->ranks = NULL;
}

static int add_dead(struct subjob *j, const idset_t *ranks)
{
    if (!j->dead && !(j->dead = idset_create()))
        return -1;
    return idset_add(j->dead, ranks);
}

idset_t *subjob_find_dead(struct subjob *j)
{
    idset_t *dead = idset_intersect(j->ranks, session_lost(j->ctx->session));

    if (dead && (idset_empty(dead) || add_dead(j, dead) == 0))
        return dead;
    subjob_kept_free(j); /* no launch may be sent there again */
    idset_destroy(dead);
    return NULL;
}

int subjob_assign(struct subjob *j, const idset_t *ranks)
{
    struct ctx *ctx = j->ctx;
    idset_t *rest = idset_copy(ranks), *mine = NULL;
    int rc = rest && idset_clear(rest, ctx->rank) == 0 ? 0 : -1;

    while (rc == 0 && !idset_empty(rest)) {
        struct edge *e = edges_find(ctx->edges, idset_first(rest), session_lost(ctx->session));
        struct part *p = e ? subjob_part_at(j, e) : NULL;

        rc = -1;
        if (!e || (!p && !(p = subjob_part_add(j, e))) ||
            !(mine = idset_intersect(rest, e->below)) || idset_add(p->ranks, mine) < 0 ||
            idset_subtract(rest, mine) < 0)
            break;
        idset_destroy(mine);
        mine = NULL;
        p->unsent = true;
        subjob_part_undone(p);
        rc = 0;
    }
    idset_destroy(mine);
    idset_destroy(rest);
    return rc;
}

void subjob_part_launch(struct part *p, const struct launchrec *rec)
{
    struct subjob *j = p->job;
    const struct wire_launch l = {
        .round = ++j->ctx->rounds, .credit = j->window, .nonce = j->nonce};
    char *ranks = idset_format(p->ranks, 0);
    uint8_t head[WIRE_LAUNCH_HEAD], rechead[LAUNCHREC_HEAD];
    struct iovec iov[6] = {{head, sizeof(head)},
                           {ranks, ranks ? strlen(ranks) + 1 : 0},
                           {rechead, sizeof(rechead)},
                           {(void *)rec->json, rec->json_len},
                           {(void *)rec->strings, rec->strings_len},
                           {(void *)rec->env, rec->env_len}};

    p->round = l.round;
    p->owed = 0;
    p->unsent = false;
    if (!ranks) {
        subjob_part_lost(p, "out of memory for its launch");
        return;
    }
    exec_wire_launch_put(head, &l);
    exec_launchrec_head(rechead, rec);
    edge_send(p->edge, WIRE_LAUNCH, j->id, iov, 6);
    free(ranks);
}

void subjob_part_again(struct part *p)
{
    struct launchrec rec;
    char *json;

    if (kept_record(p->job, &rec, &json) < 0) {
        subjob_part_lost(p, "the launch of the job was not kept for lack of memory");
        return;
    }
    subjob_part_undone(p);
    subjob_part_launch(p, &rec);
    subjob_flow_catch_up(p);
    free(json);
}

/* Has the parent been lost, and nobody else sent the launch since?  Others may have been given what
 * is below it. */
static bool is_orphan(const struct subjob *j)
{
    return !j->rj && !j->up;
}

/* Send launches to the parts that have got ranks. */
static void send_unsent(struct subjob *j)
{
    for (uint32_t i = 0; i < j->nparts && !is_orphan(j);) {
        struct part *p = j->parts[i];

        if (p->unsent)
            subjob_part_again(p);
        i += i < j->nparts && j->parts[i] == p; /* it may have been lost */
    }
}

void subjob_part_reassign(struct part *p, const char *why)
{
    struct subjob *j = p->job;
    bool done = p->done, over = j->rj && j->finished;
    idset_t *lost = idset_intersect(p->ranks, j->dead);
    idset_t *alive = idset_difference(p->ranks, j->dead);

    j->nopen++; /* the job is not finished before the ranks have other parts */
    detach(p);
    if (!lost || !alive)
        subjob_fail(j, JOB_LOST_CODE, "out of memory to find other ways to the nodes of a job");
    else if (!over) {
        if (!done && !idset_empty(lost))
            subjob_nodes_lost(j, lost, why);
        if (!idset_empty(alive) && subjob_assign(j, alive) < 0)
            subjob_fail(j, JOB_LOST_CODE, "out of memory to find other ways to the nodes of a job");
        send_unsent(j);
    }
    j->nopen--;
    idset_destroy(lost);
    idset_destroy(alive);
    if (over)
        return;
    subjob_pmi_check_begun(j);
    subjob_check(j);
}

void subjob_part_lost(struct part *p, const char *why)
{
    struct subjob *j = p->job;
    idset_t *nodes = p->done ? NULL : idset_copy(p->ranks);
    char *ranks = nodes ? idset_format(nodes, 0) : NULL, text[512];
    bool over = p->done || (j->rj && j->finished);

    if (p->ranks && add_dead(j, p->ranks) < 0)
        subjob_kept_free(j); /* no launch may be sent there again */
    snprintf(text, sizeof(text), "lost the tasks on rank%s %s: %s",
             idset_count(nodes) == 1 ? "" : "s", ranks ? ranks : "?", why);
    detach(p);
    if (!over) {
        subjob_count_killed(j, nodes);
        subjob_fail(j, JOB_LOST_CODE, text);
    }
    free(ranks);
    idset_destroy(nodes);
    if (!over)
        subjob_check(j);
}

/* --- repetition --- */

/* The parent has given to others what it does not name any more. */
static int give_up_others(struct subjob *j, const idset_t *ranks)
{
    for (uint32_t i = 0; i < j->nparts;) {
        struct part *p = j->parts[i];
        idset_t *others = idset_difference(p->ranks, ranks);
        int rc = others ? idset_subtract(p->ranks, others) : -1;

        if (rc == 0 && !idset_empty(others))
            p->unsent = true; /* it has to know, too */
        idset_destroy(others);
        if (rc < 0)
            return -1;
        if (idset_empty(p->ranks))
            detach(p);
        else
            i++;
    }
    return 0;
}

int subjob_take_launch(struct subjob *j, const idset_t *ranks, const struct launchrec *rec)
{
    idset_t *more = idset_difference(ranks, j->dead);
    int rc = more ? give_up_others(j, ranks) : -1;

    for (uint32_t i = 0; rc == 0 && i < j->nparts; i++)
        rc = idset_subtract(more, j->parts[i]->ranks);
    if (rc == 0)
        rc = idset_clear(more, j->ctx->rank);
    subjob_keep(j, rec);
    if (rc == 0 && !idset_empty(more))
        rc = subjob_assign(j, more);
    if (rc == 0)
        send_unsent(j);
    idset_destroy(more);
    return rc;
}

static void repeat_states(struct subjob *j)
{
    uint8_t fixed[12];
    char *lost = j->lost ? idset_format(j->lost, 0) : NULL;

    if (j->node != JOB_LOCAL && j->taken > 0)
        subjob_flow_taken(j, j->node, j->taken);
    if (j->begun)
        subjob_send_up(j, WIRE_BEGUN, NULL, 0, NULL, 0);
    if (j->started) {
        le_put32(fixed, j->node);
        subjob_send_up(j, WIRE_STARTED, fixed, 4, NULL, 0);
    }
    if (lost)
        subjob_send_up(j, WIRE_LOST, lost, strlen(lost) + 1, j->why, j->why ? strlen(j->why) : 0);
    free(lost);
}

void subjob_again(struct subjob *j, uint32_t round, uint32_t credit)
{
    uint8_t fixed[8];

    j->round = round;
    j->credit = credit;
    j->finished = false;
    subjob_flow_drop(j);
    for (int i = 0; i < STREAMS; i++)
        if (j->retain[i])
            retain_rewind(j->retain[i]);
    repeat_states(j);
    for (uint32_t i = 0; i < j->nparts; i++) {
        struct part *p = j->parts[i];

        /* What it has sent in the previous round may have been dropped above. */
        subjob_part_undone(p);
        if (p->unsent || p->edge->state == EDGE_CLOSED) /* a launch follows */
            continue;
        p->round = ++j->ctx->rounds;
        p->owed = 0;
        le_put32(fixed, p->round);
        le_put32(fixed + 4, j->window);
        subjob_send_down(p, WIRE_AGAIN, fixed, sizeof(fixed), NULL, 0);
    }
    subjob_flow_flush(j);
}

void subjob_over(struct subjob *j)
{
    for (uint32_t i = 0; i < j->nparts; i++)
        edge_send_later(j->parts[i]->edge, WIRE_OVER, j->id);
}

/* --- all jobs --- */

size_t subjob_all_running(const struct ctx *ctx)
{
    size_t pos = 0, n = 0;
    void *val;

    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val))
        n += !((const struct subjob *)val)->finished;
    return n;
}

/* Do this to each part of an edge; it may leave the edge, or get there again. */
static void each_part(struct edge *e, void (*fn)(struct part *p, const char *why), const char *why)
{
    struct list_node now, *n;

    list_init(&now);
    list_splice(&now, &e->parts);
    while ((n = list_first(&now))) {
        list_remove(n);
        list_append(&e->parts, n);
        fn(list_entry(n, struct part, node), why);
    }
}

void subjob_all_ranks_lost(struct ctx *ctx, const idset_t *ranks)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        struct subjob *j = val;
        idset_t *dead = idset_intersect(ranks, j->ranks);

        if (!dead || (!idset_empty(dead) && add_dead(j, dead) < 0))
            subjob_kept_free(j); /* no launch may be sent there again */
        idset_destroy(dead);
    }
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        struct edge *e = edges_known(ctx->edges, r);

        if (!e || (e->state == EDGE_CLOSED && list_empty(&e->parts)))
            continue;
        edge_close(e);
        each_part(e, subjob_part_reassign, "its broker was lost");
    }
}

/* Ranks that were lost before the job arrived here are dead for it, too. */
static void part_reassign(struct part *p, const char *why)
{
    struct subjob *j = p->job;
    idset_t *dead = idset_intersect(p->ranks, session_lost(j->ctx->session));

    if (!dead || add_dead(j, dead) < 0)
        subjob_kept_free(j); /* no launch may be sent there again */
    idset_destroy(dead);
    subjob_part_reassign(p, why);
}

static void part_unsent(struct part *p, const char *why)
{
    p->unsent = true;
}

void subjob_all_edge_lost(struct ctx *ctx, struct edge *e, int errnum, const char *why)
{
    if (list_empty(&e->parts))
        return;
    /* A broker that learns that it counts as lost ends its services while it can still answer. */
    if (idset_test(session_lost(ctx->session), e->rank))
        each_part(e, part_reassign, why);
    else if (errnum != EHOSTUNREACH && errnum != ENOTCONN)
        each_part(e, subjob_part_lost, why);
    else {
        each_part(e, part_unsent, NULL);
        edge_retry(e);
    }
}

static void part_again(struct part *p, const char *why)
{
    if (p->unsent && !is_orphan(p->job) && !(p->job->rj && p->job->finished))
        subjob_part_again(p);
}

void subjob_all_edge_again(struct edge *e)
{
    each_part(e, part_again, NULL);
}

/* --- orphans --- */

void subjob_all_parent_lost(struct ctx *ctx, const uplink_t *u, bool on_purpose)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        struct subjob *j = val;

        if (j->rj || j->up != u)
            continue;
        j->up = NULL;
        if (on_purpose)
            subjob_abandon(j);
        else if (!flux_watcher_active(ctx->orphans))
            flux_timer_start(ctx->orphans, ORPHAN_ASK, 0.);
    }
}

/* --- jobs that are over --- */

bool subjob_is_unknown(const struct ctx *ctx, uint64_t id, uint64_t nonce)
{
    for (int i = 0; i < 2; i++) {
        const uint64_t *n = ctx->unknown[i] ? hmap_get_u64(ctx->unknown[i], id) : NULL;

        if (n && *n == nonce)
            return true;
    }
    return false;
}

void subjob_unknown_free(struct ctx *ctx)
{
    for (int i = 0; i < 2; i++) {
        hmap_destroy(ctx->unknown[i]);
        ctx->unknown[i] = NULL;
    }
}

/* Instances that do not know yet that the job is over must not start its tasks again. */
static int note_unknown(struct ctx *ctx, uint64_t id, uint64_t nonce)
{
    uint64_t *n;

    if (ctx->unknown[0] && hmap_count(ctx->unknown[0]) >= UNKNOWN_MAX) {
        hmap_destroy(ctx->unknown[1]);
        ctx->unknown[1] = ctx->unknown[0];
        ctx->unknown[0] = NULL;
    }
    if ((!ctx->unknown[0] && !(ctx->unknown[0] = hmap_create_u64(free))) ||
        !(n = malloc(sizeof(*n))))
        return -1;
    *n = nonce;
    if (hmap_put_u64(ctx->unknown[0], id, n) < 0) {
        free(n);
        return -1;
    }
    return 0;
}

static void known_cb(flux_future_t *f, void *arg)
{
    struct ctx *ctx = arg;
    size_t len, pos = 0;
    const uint8_t *p = NULL;
    void *val;

    ctx->known_f = NULL;
    if (flux_future_errnum(f) == 0)
        p = flux_msg_payload(flux_rpc_get_msg(f), &len);
    /* Without an answer: asked again. */
    for (size_t n = p ? len / WREXEC_KNOWN_SIZE : 0; n > 0; n--, p += WREXEC_KNOWN_SIZE) {
        struct subjob *j = hmap_get_u64(ctx->jobs, le_get64(p));

        if (j && !j->rj && !j->up && j->nonce == le_get64(p + 8) &&
            note_unknown(ctx, j->id, j->nonce) == 0) /* or the next time */
            subjob_abandon(j);
    }
    flux_future_destroy(f);
    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        const struct subjob *j = val;

        if (!j->rj && !j->up && !j->deaf) {
            flux_timer_start(ctx->orphans, ORPHAN_ASK, 0.);
            break;
        }
    }
}

void subjob_all_orphans(struct ctx *ctx)
{
    uint8_t one[WREXEC_KNOWN_SIZE];
    buf_t *all = buf_create(0);
    size_t pos = 0;
    void *val;

    while (all && hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        const struct subjob *j = val;

        if (j->rj || j->up || j->deaf)
            continue;
        le_put64(one, j->id);
        le_put64(one + 8, j->nonce);
        (void)buf_append(all, one, sizeof(one)); /* or the next time */
    }
    if (all && buf_len(all) > 0 && !ctx->known_f) {
        ctx->known_f = flux_rpc_raw(ctx->h, "wrexec.known", buf_data(all), buf_len(all),
                                    FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
        if (!ctx->known_f || flux_future_then(ctx->known_f, -1., known_cb, ctx) < 0) {
            flux_future_destroy(ctx->known_f);
            ctx->known_f = NULL;
            flux_timer_start(ctx->orphans, ORPHAN_ASK, 0.);
        }
    }
    buf_destroy(all);
}

void subjob_all_known(struct ctx *ctx, const flux_msg_t *req)
{
    size_t len;
    const uint8_t *p = flux_msg_payload(req, &len);
    buf_t *unknown = buf_create(0);

    if (!ctx->coord || len % WREXEC_KNOWN_SIZE != 0) {
        flux_respond_error(ctx->h, req, EPROTO, "wrexec.known asks rank 0 about whole entries");
        buf_destroy(unknown);
        return;
    }
    for (; unknown && len > 0; p += WREXEC_KNOWN_SIZE, len -= WREXEC_KNOWN_SIZE) {
        const struct subjob *j = hmap_get_u64(ctx->jobs, le_get64(p));

        if (j && j->nonce == le_get64(p + 8) && !j->finished)
            continue;
        (void)buf_append(unknown, p, WREXEC_KNOWN_SIZE);
    }
    flux_respond_raw(ctx->h, req, unknown ? buf_data(unknown) : "", unknown ? buf_len(unknown) : 0);
    buf_destroy(unknown);
}
