/* handover.c - the state that a reload passes from one instance to the next (libflux/module.h).
 *
 * Format: HANDOVER_FORM, the following parts in this order.  Each source file writes and reads its
 * own part.
 *
 *    "wrexec"    rank, size, shape of the tree (if known), number of jobs so far, the last round
 *                of a child, whether jobs run
 *    "launcher"  (if jobs run) launchlink.c: descriptors, settings, bytes of incomplete frames
 *    "edges"     edge.c: streams to children, and the frames that wait for them
 *    "uplinks"   uplink.c: streams from parents, and their requests that are not finished
 *    "root"      (rank 0) coord.c, coord_exec.c, coord_output.c: unsent reports to the job module,
 *                programs to be run, the commit of output that is under way
 *    "job"       for each job: the JSON of its launch, its progress, its parts and the launch that
 *                is kept for them (subjob_heal.c), what flows (subjob_flow.c), its barriers
 *                (subjob_pmi.c), the requests for the ends of its tasks; at rank 0 coord_job.c
 *    "ends"      ends.c: how the tasks that were last here ended
 *    "clients"   (rank 0) coord_client.c
 *    "names"     (rank 0) names.c
 *    "end"
 *
 * A change of this format, or of the frames between module and launcher (exec_wire.h), needs a new
 * HANDOVER_FORM; jobs then have to end before the new version is loaded.
 *
 * Invariants:
 *  1. A reload does not wait: requests under way stay so, and the next instance awaits their
 *     answers by their match tags.  A store, child or client that does not answer does not delay a
 *     reload, and any number of ranks can be reloaded at a time.
 *  2. Saving changes nothing, so after a failed save this instance continues.
 *  3. Derived state is not written, such as the jobs with output to be committed.
 *  4. The next instance asks for the settings again, for later launchers.  If jobs run, the
 *     previous settings apply until then.  Otherwise the launcher ends, and new jobs wait for the
 *     settings.
 *
 * Failure: an inconsistency ends the new instance: its host closes the descriptors, and the
 * launcher ends its tasks.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

#define WINDOW_MOST (1ull << 40) /* bytes of credit: a larger number is an error */

/* --- a job --- */

void handover_put_set(flux_handover_t *o, const idset_t *set)
{
    char *text = set ? idset_format(set, 0) : NULL;

    if (set && !text)
        flux_handover_fail(o, ENOMEM);
    flux_handover_put_str(o, text);
    free(text);
}

idset_t *handover_get_set(flux_handover_t *o)
{
    const char *text = flux_handover_get_str(o);
    idset_t *set = text ? idset_parse(text, NULL) : NULL;

    if (text && !set)
        flux_handover_fail(o, errno);
    return set;
}

static void save_parts(const struct subjob *j, flux_handover_t *o)
{
    flux_handover_put(o, j->nparts);
    for (uint32_t i = 0; i < j->nparts; i++) {
        const struct part *p = j->parts[i];

        flux_handover_put(o, p->edge->rank);
        handover_put_set(o, p->ranks);
        flux_handover_put(o, p->round);
        flux_handover_put(o, p->owed);
        flux_handover_put(o, p->begun);
        flux_handover_put(o, p->done);
        flux_handover_put(o, p->unsent);
    }
}

static void load_part(struct subjob *j, flux_handover_t *o)
{
    struct edge *e = edges_to(j->ctx->edges, (uint32_t)flux_handover_get(o, UINT32_MAX));
    idset_t *ranks = handover_get_set(o);
    struct part *p = e && ranks && !subjob_part_at(j, e) ? subjob_part_add(j, e) : NULL;

    if (!p) {
        flux_handover_fail(o, EPROTO);
        idset_destroy(ranks);
        return;
    }
    idset_destroy(p->ranks);
    p->ranks = ranks;
    p->round = (uint32_t)flux_handover_get(o, UINT32_MAX);
    p->owed = flux_handover_get(o, WINDOW_MOST);
    p->begun = flux_handover_get(o, 1);
    if (flux_handover_get(o, 1))
        subjob_part_done(p);
    p->unsent = flux_handover_get(o, 1);
    if (p->unsent)
        edge_retry(e);
}

static void load_parts(struct subjob *j, flux_handover_t *o)
{
    for (uint64_t n = flux_handover_get(o, UINT32_MAX); n > 0 && flux_handover_ok(o); n--)
        load_part(j, o);
}

static void save_result(const struct subjob *j, flux_handover_t *o)
{
    size_t len = 0;
    void *data = exec_result_pack(j->result, &len);

    if (!data)
        flux_handover_fail(o, ENOMEM);
    flux_handover_put_data(o, data, len);
    free(data);
}

static void load_result(struct subjob *j, flux_handover_t *o)
{
    size_t len;
    const void *data = flux_handover_get_data(o, &len);
    errmsg_t err;

    if (flux_handover_ok(o) && exec_result_unpack(j->result, data, len, &err) < 0)
        flux_handover_fail(o, errno);
}

static void job_save(const struct subjob *j, flux_handover_t *o)
{
    char *json = json_dumps(j->spec->owner, JSON_COMPACT);

    if (!json)
        flux_handover_fail(o, ENOMEM);
    flux_handover_put_mark(o, "job");
    flux_handover_put_str(o, json);
    free(json);
    flux_handover_put(o, j->nonce);
    flux_handover_put(o, j->node);
    flux_handover_put(o, j->count);
    flux_handover_put(o, j->local_done);
    flux_handover_put(o, j->killed);
    flux_handover_put(o, j->finished);
    flux_handover_put(o, j->deaf);
    flux_handover_put(o, j->named);
    flux_handover_put(o, j->begun);
    flux_handover_put(o, j->local_begun);
    flux_handover_put(o, j->window);
    flux_handover_put(o, (uint64_t)j->credit);
    flux_handover_put(o, j->owed);
    flux_handover_put(o, uplink_number(j->up));
    flux_handover_put(o, j->round);
    flux_handover_put(o, j->started);
    handover_put_set(o, j->dead);
    handover_put_set(o, j->lost);
    flux_handover_put_str(o, j->why);
    subjob_kept_save(j, o);
    save_parts(j, o);
    subjob_flow_save(j, o);
    save_result(j, o);
    subjob_pmi_save(j, o);
    ends_job_save(j, o);
    if (j->rj)
        coord_job_save(j->rj, o);
}

static void load_state(struct subjob *j, flux_handover_t *o)
{
    j->nonce = flux_handover_get(o, UINT64_MAX);
    j->node = (uint32_t)flux_handover_get(o, UINT32_MAX);
    j->count = (uint32_t)flux_handover_get(o, WIRE_TASKS_MAX);
    j->local_done = flux_handover_get(o, 1);
    j->killed = flux_handover_get(o, 1);
    j->finished = flux_handover_get(o, 1);
    j->deaf = flux_handover_get(o, 1);
    j->named = flux_handover_get(o, 1);
    j->begun = flux_handover_get(o, 1);
    j->local_begun = flux_handover_get(o, 1);
    j->window = (uint32_t)flux_handover_get(o, UINT32_MAX);
    j->credit = (int64_t)flux_handover_get(o, UINT64_MAX);
    j->owed = flux_handover_get(o, WINDOW_MOST);
    if (j->node != JOB_LOCAL && (!idset_test(j->ranks, j->ctx->rank) || j->node >= j->nnodes ||
                                 j->count != exec_layout_count(j->spec->layout, j->node)))
        flux_handover_fail(o, EPROTO);
}

static void load_heal(struct subjob *j, flux_handover_t *o)
{
    uint32_t up = (uint32_t)flux_handover_get(o, UINT32_MAX);
    const char *why;

    j->up = uplinks_numbered(j->ctx->uplinks, up);
    if (up && !j->up)
        flux_handover_fail(o, EPROTO);
    j->round = (uint32_t)flux_handover_get(o, UINT32_MAX);
    j->started = flux_handover_get(o, 1);
    j->dead = handover_get_set(o);
    j->lost = handover_get_set(o);
    if ((why = flux_handover_get_str(o)) && !(j->why = strdup(why)))
        flux_handover_fail(o, ENOMEM);
    subjob_kept_load(j, o);
}

static void job_load(struct ctx *ctx, flux_handover_t *o)
{
    const char *json = flux_handover_get_str(o);
    struct spec *s = NULL;
    struct subjob *j = NULL;
    uint64_t id;
    errmsg_t err;

    if (json && (s = exec_spec_create(json, strlen(json), ctx->size, &id, &err)))
        j = subjob_create(ctx, s, &err);
    if (!j || (ctx->coord && !(j->rj = coord_job_create(ctx->coord, j)))) {
        flux_handover_fail(o, json ? errno : EPROTO);
        subjob_free(j);
        return;
    }
    load_state(j, o);
    load_heal(j, o);
    load_parts(j, o);
    if (flux_handover_ok(o))
        subjob_flow_load(j, o);
    load_result(j, o);
    if (flux_handover_ok(o))
        subjob_pmi_load(j, o);
    ends_job_load(j, o);
    if (j->rj && flux_handover_ok(o))
        coord_job_load(j->rj, o);
}

/* --- all parts --- */

int handover_save(struct ctx *ctx, flux_handover_t *o, errmsg_t *err)
{
    const topology_t *tree = session_tree(ctx->session);
    char *shape = tree ? topology_format_file(tree) : NULL;
    size_t pos = 0;
    void *val;

    if (tree && !shape)
        return errmsg_fail(err, ENOMEM, "no memory for the tree of the session");
    flux_handover_put_mark(o, "wrexec");
    flux_handover_put(o, ctx->rank);
    flux_handover_put(o, ctx->size);
    flux_handover_put_str(o, shape);
    flux_handover_put(o, 1);
    free(shape);
    flux_handover_put(o, ctx->njobs);
    flux_handover_put(o, ctx->rounds);
    flux_handover_put(o, subjob_all_running(ctx) > 0);
    if (subjob_all_running(ctx) > 0)
        launchlink_save(ctx->exec, o);
    edges_save(ctx->edges, o);
    uplinks_save(ctx->uplinks, o);
    if (ctx->coord)
        coord_save(ctx->coord, o);
    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        flux_handover_put(o, 1);
        job_save(val, o);
    }
    flux_handover_put(o, 0);
    ends_save(ctx->ends, o);
    if (ctx->coord) {
        coord_clients_save(ctx->coord->clients, o);
        names_save(ctx->names, o);
    }
    flux_handover_put_mark(o, "end");
    return flux_handover_end(o, err);
}

static void load_tree(struct ctx *ctx, flux_handover_t *o)
{
    const char *shape = flux_handover_get_str(o);
    bool file = flux_handover_get(o, 1);
    topology_t *tree;

    if (!shape)
        return;
    tree = file ? topology_create_text(shape, strlen(shape), "file", ctx->size, NULL)
                : topology_create(shape, ctx->size, NULL);
    if (!tree || session_set_tree(ctx->session, tree) < 0)
        flux_handover_fail(o, errno);
}

int handover_load(struct ctx *ctx, flux_handover_t *o, errmsg_t *err)
{
    bool under_jobs;
    uint64_t njobs;

    flux_handover_get_mark(o, "wrexec");
    if (flux_handover_get(o, UINT32_MAX) != ctx->rank ||
        flux_handover_get(o, UINT32_MAX) != ctx->size)
        flux_handover_fail(o, EPROTO);
    load_tree(ctx, o);
    njobs = flux_handover_get(o, UINT64_MAX);
    ctx->rounds = (uint32_t)flux_handover_get(o, UINT32_MAX);
    under_jobs = flux_handover_get(o, 1);
    if (under_jobs)
        launchlink_load(ctx->exec, o);
    if (flux_handover_ok(o))
        edges_load(ctx->edges, o);
    if (flux_handover_ok(o))
        uplinks_load(ctx->uplinks, o);
    if (ctx->coord && flux_handover_ok(o))
        coord_load(ctx->coord, o);
    while (flux_handover_get(o, 1) == 1) {
        flux_handover_get_mark(o, "job");
        job_load(ctx, o);
    }
    ends_load(ctx->ends, o);
    if (ctx->coord && flux_handover_ok(o))
        coord_spawn_link(ctx->coord, o);
    ctx->njobs = njobs;
    if (ctx->coord && flux_handover_ok(o)) {
        coord_clients_load(ctx->coord->clients, o);
        names_load(ctx->names, o);
    }
    flux_handover_get_mark(o, "end");
    if (flux_handover_end(o, err) < 0)
        return -1;
    if (under_jobs) {
        ctx->ready = true;
        uplinks_ready(ctx->uplinks);
    }
    return 0;
}

void handover_go_on(struct ctx *ctx)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        struct subjob *j = val;

        if (!j->finished || (j->rj && !coord_job_over(j->rj)))
            subjob_flow_flush(j);
    }
    if (ctx->coord)
        coord_ready(ctx->coord);
}
