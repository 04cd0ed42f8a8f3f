/* topdata.c - see topdata.h.
 *
 *    query                        time
 *    job.watch, a stream          always open; any transition makes the data out of date
 *    a round: job.list of         when the data is out of date, but not before PAUSE after the last
 *    running jobs and then of     round; and every IDLE seconds, for nodes that join or are lost
 *    pending jobs, job.queue,
 *    sched.resources
 *
 * Only the first jobs of either list are requested, so that a deep queue costs no more than a short
 * one.  The job module cuts pages by time: a page may have a single job.  The model is changed in
 * one step, when all responses of a round have arrived.
 *
 * Failure: the error of a service is shown as the message; the next round tries again.
 */
#include "config.h"
#include "topdata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libidset/idset.h"
#include "libjob/job.h"
#include "libsched/sched_wire.h"
#include "libutil/strutil.h"

#define PAUSE 0.5
#define IDLE 5.
#define RUNNING_MAX 2000
#define PENDING_MAX 1000

enum { ASK_RUNNING, ASK_PENDING, ASK_QUEUE, ASK_RESOURCES, ASKS };

struct topdata {
    flux_t *h;
    struct topmodel *m;
    void (*changed)(void *arg);
    void *arg;
    flux_future_t *watch, *level, *ask[ASKS];
    flux_watcher_t *timer; /* of the next round */
    bool old, pending, complete;
    int waiting; /* answers of this round */
    struct toprow *rows, *next;
    char **addresses, **next_addresses;
    size_t nrows, nnext;
    char error[160];
};

static void free_rows(struct toprow *rows, char **addresses, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(addresses[i]);
    free(addresses);
    free(rows);
}

static void copy_text(char *dst, size_t size, const char *src)
{
    size_t len = src ? strlen(src) : 0;

    if (len >= size)
        len = size - 1;
    if (len)
        memcpy(dst, src, len);
    dst[len] = '\0';
}

static int add_row(topdata_t *d, const struct job_info *info)
{
    struct toprow *r;

    if (d->nnext % 64 == 0) {
        struct toprow *rows = realloc(d->next, (d->nnext + 64) * sizeof(*rows));
        char **addresses;

        if (!rows)
            return -1;
        d->next = rows;
        if (!(addresses = realloc(d->next_addresses, (d->nnext + 64) * sizeof(*addresses))))
            return -1;
        d->next_addresses = addresses;
    }
    r = &d->next[d->nnext];
    memset(r, 0, sizeof(*r));
    r->id = info->id;
    copy_text(r->name, sizeof(r->name), info->name);
    copy_text(r->state, sizeof(r->state), flux_job_state_word(info));
    if (info->t_run <= 0)
        copy_text(r->why, sizeof(r->why), info->why ? info->why : info->dependency);
    r->nnodes = info->nnodes;
    r->ntasks = info->ntasks;
    r->ncores = info->ncores;
    r->t_run = info->t_run;
    r->t_submit = info->t_submit;
    r->expiration = info->expiration;
    r->session = info->uri != NULL;
    d->next_addresses[d->nnext] = info->uri ? strdup(info->uri) : NULL;
    d->nnext++;
    return 0;
}

static void complain(topdata_t *d, const char *text)
{
    if (!d->error[0])
        copy_text(d->error, sizeof(d->error), text);
}

/* All answers are there. */
static void round_over(topdata_t *d)
{
    struct topmodel *m = d->m;
    uint64_t selected = m->selected < d->nrows ? d->rows[m->selected].id : 0;
    size_t waits = (size_t)m->depend + m->priority + m->sched, shown = 0;

    free_rows(d->rows, d->addresses, d->nrows);
    d->rows = d->next;
    d->addresses = d->next_addresses;
    d->nrows = d->nnext;
    d->next = NULL;
    d->next_addresses = NULL;
    d->nnext = 0;
    m->rows = d->rows;
    m->nrows = d->nrows;
    for (size_t i = 0; i < d->nrows; i++) {
        shown += d->rows[i].t_run <= 0;
        if (d->rows[i].id == selected)
            m->selected = i;
    }
    m->more = d->pending && waits > shown ? waits - shown : 0;
    if (m->selected >= m->nrows)
        m->selected = m->nrows ? m->nrows - 1 : 0;
    copy_text(m->message, sizeof(m->message), d->error);
    d->complete = true;
    flux_timer_start(d->timer, d->old ? PAUSE : IDLE, 0.);
    d->changed(d->arg);
}

static void list_cb(flux_future_t *f, void *arg);

static void ask_jobs(topdata_t *d, int what)
{
    struct job_list query;

    flux_job_list_init(&query);
    query.states = what == ASK_RUNNING ? JOB_STATES_RUNNING : JOB_STATES_PENDING;
    query.max = what == ASK_RUNNING ? RUNNING_MAX : PENDING_MAX;
    query.estimates = what == ASK_PENDING;
    if (!(d->ask[what] = flux_job_list(d->h, &query)) ||
        flux_future_then(d->ask[what], 10., list_cb, d) < 0) {
        flux_future_destroy(d->ask[what]);
        d->ask[what] = NULL;
        complain(d, "the jobs cannot be listed");
        return;
    }
    d->waiting++;
}

static void answered(topdata_t *d, int what)
{
    flux_future_destroy(d->ask[what]);
    d->ask[what] = NULL;
    if (what == ASK_RUNNING && d->pending)
        ask_jobs(d, ASK_PENDING); /* whose rows come below */
    if (--d->waiting == 0)
        round_over(d);
}

static void list_cb(flux_future_t *f, void *arg)
{
    topdata_t *d = arg;
    int what = f == d->ask[ASK_RUNNING] ? ASK_RUNNING : ASK_PENDING;
    const json_t *jobs;
    errmsg_t err;

    if (flux_job_list_get(f, &jobs, &err) < 0) {
        if (errno != ENODATA)
            complain(d, err.text);
        answered(d, what);
        return;
    }
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        struct job_info info = {0};

        if (flux_job_list_at(jobs, i, &info, &err) < 0 || add_row(d, &info) < 0) {
            complain(d, "a list of jobs cannot be read");
            answered(d, what);
            return;
        }
    }
    if (flux_future_next(f) < 0)
        answered(d, what);
}

static void queue_cb(flux_future_t *f, void *arg)
{
    topdata_t *d = arg;
    struct topmodel *m = d->m;
    struct job_queue_status st = {0};
    errmsg_t err;

    if (flux_job_queue_get(f, &st, &err) < 0)
        complain(d, err.text);
    else {
        m->known = true;
        m->accepting = st.accepting;
        m->scheduling = st.scheduling;
        m->depend = st.depend;
        m->priority = st.priority;
        m->sched = st.sched;
        m->held = st.held;
        m->run = st.run;
        m->cleanup = st.cleanup;
        m->inactive = st.inactive;
    }
    answered(d, ASK_QUEUE);
}

static size_t members(const json_t *text)
{
    const char *s = json_string_value(text);
    idset_t *ids = s ? idset_parse(s, NULL) : NULL;
    size_t n = ids ? idset_count(ids) : 0;

    idset_destroy(ids);
    return n;
}

/* Nodes and cores of an R: execution.R_lite. */
static void count(const json_t *r, uint32_t *nodes, uint32_t *cores)
{
    const json_t *lite = json_object_get(json_object_get(r, "execution"), "R_lite");
    json_t *entry;
    size_t i;

    *nodes = *cores = 0;
    json_array_foreach(lite, i, entry)
    {
        size_t n = members(json_object_get(entry, "rank"));

        *nodes += (uint32_t)n;
        *cores +=
            (uint32_t)(n * members(json_object_get(json_object_get(entry, "children"), "core")));
    }
}

static void union_nodes(idset_t *all, const json_t *r)
{
    const json_t *lite = json_object_get(json_object_get(r, "execution"), "R_lite");
    json_t *entry;
    size_t i;

    json_array_foreach(lite, i, entry)
    {
        const char *s = json_string_value(json_object_get(entry, "rank"));
        idset_t *ids = s ? idset_parse(s, NULL) : NULL;

        for (uint32_t id = idset_first(ids); ids && id != IDSET_NONE; id = idset_next(ids, id))
            idset_set(all, id);
        idset_destroy(ids);
    }
}

static void resources_cb(flux_future_t *f, void *arg)
{
    topdata_t *d = arg;
    struct topmodel *m = d->m;
    struct sched_resources res = {0};
    uint32_t nodes, cores;
    idset_t *all;
    errmsg_t err;

    if (flux_rpc_get_struct(f, &sched_resources_schema, &res, &err) < 0)
        m->nodes_total = m->cores_total = 0; /* no scheduler: unknown */
    else if ((all = idset_create())) {
        count(res.allocated, &m->nodes_used, &m->cores_used);
        count(res.free, &nodes, &cores);
        union_nodes(all, res.allocated);
        union_nodes(all, res.free);
        m->nodes_total = (uint32_t)idset_count(all);
        m->cores_total = m->cores_used + cores;
        idset_destroy(all);
    }
    answered(d, ASK_RESOURCES);
}

static void begin_round(topdata_t *d)
{
    static const flux_future_f cbs[ASKS] = {[ASK_QUEUE] = queue_cb, [ASK_RESOURCES] = resources_cb};

    if (d->waiting > 0)
        return;
    d->old = false;
    d->error[0] = '\0';
    flux_watcher_stop(d->timer);
    d->ask[ASK_QUEUE] = flux_job_queue(d->h, "status", NULL);
    d->ask[ASK_RESOURCES] =
        flux_rpc(d->h, "sched.resources", "{}", FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    d->waiting = 1; /* this function */
    ask_jobs(d, ASK_RUNNING);
    for (int i = ASK_QUEUE; i < ASKS; i++) {
        if (d->ask[i]) {
            d->waiting++;
            if (flux_future_then(d->ask[i], 10., cbs[i], d) < 0)
                answered(d, i);
        }
    }
    if (--d->waiting == 0)
        flux_timer_start(d->timer, IDLE, 0.);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    begin_round(arg);
}

void topdata_refresh(topdata_t *d)
{
    if (d->old)
        return;
    d->old = true;
    if (d->waiting == 0)
        flux_timer_start(d->timer, d->complete ? PAUSE : 0., 0.);
}

static void watch_cb(flux_future_t *f, void *arg)
{
    topdata_t *d = arg;

    if (flux_future_errnum(f))
        return; /* the rounds say so too */
    topdata_refresh(d);
    flux_future_next(f);
}

static void level_cb(flux_future_t *f, void *arg)
{
    topdata_t *d = arg;
    const char *text;

    if (flux_attr_future_get(f, &text, NULL) == 0)
        str2u32(text, &d->m->level);
    d->changed(d->arg);
}

topdata_t *topdata_create(flux_t *h, struct topmodel *model, void (*changed)(void *arg), void *arg)
{
    topdata_t *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->h = h;
    d->m = model;
    d->changed = changed;
    d->arg = arg;
    d->pending = true;
    model->size = flux_size(h);
    if (!(d->timer = flux_timer_create(flux_get_reactor(h), timer_cb, d)) ||
        !(d->watch = flux_job_watch(h, NULL)) || flux_future_then(d->watch, -1., watch_cb, d) < 0 ||
        !(d->level = flux_attr_get_async(h, "instance-level")) ||
        flux_future_then(d->level, -1., level_cb, d) < 0) {
        topdata_destroy(d);
        errno = ENOMEM;
        return NULL;
    }
    begin_round(d);
    return d;
}

void topdata_destroy(topdata_t *d)
{
    if (d) {
        int saved = errno;
        flux_future_destroy(d->watch);
        flux_future_destroy(d->level);
        for (int i = 0; i < ASKS; i++)
            flux_future_destroy(d->ask[i]);
        flux_watcher_destroy(d->timer);
        free_rows(d->rows, d->addresses, d->nrows);
        free_rows(d->next, d->next_addresses, d->nnext);
        d->m->rows = NULL;
        d->m->nrows = 0;
        free(d);
        errno = saved;
    }
}

void topdata_show_pending(topdata_t *d, bool show)
{
    d->pending = show;
    topdata_refresh(d);
}

bool topdata_complete(const topdata_t *d)
{
    return d->complete;
}

const char *topdata_address(const topdata_t *d, uint64_t id)
{
    for (size_t i = 0; i < d->nrows; i++) {
        if (d->rows[i].id == id)
            return d->addresses[i];
    }
    return NULL;
}
