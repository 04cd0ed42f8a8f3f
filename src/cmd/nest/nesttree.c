/* nesttree.c - read the tree of sessions, from the top down.
 *
 * Sessions are read one at a time: connect, read the jobs in pages, then read those jobs that are
 * sessions.  The connection stays open as long as one of them may need a relay through it.
 *
 * Failure: a session that does not respond within ANSWER_TIMEOUT is recorded as the error of its
 * node.
 */
#include "config.h"
#include "nesttree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libjob/job.h"
#include "libutil/strutil.h"
#include "nestlink.h"

#define ANSWER_TIMEOUT 10.
#define DEPTH_MAX 64

static void clear(struct nestnode *n)
{
    for (size_t i = 0; i < n->nchildren; i++)
        clear(&n->children[i]);
    free(n->children);
    free(n->name);
    free(n->state);
    free(n->address);
    free(n->error);
}

void nesttree_destroy(struct nestnode *n)
{
    if (n) {
        int saved = errno;
        clear(n);
        free(n);
        errno = saved;
    }
}

static char *copy(const char *s)
{
    return s ? strdup(s) : NULL;
}

static int add_job(struct nestnode *n, size_t *room, const struct job_info *info)
{
    struct nestnode *child;
    bool lives = info->state && (job_state_parse(info->state) == JOB_STATE_RUN ||
                                 job_state_parse(info->state) == JOB_STATE_CLEANUP);

    if (n->nchildren == *room) {
        size_t more = *room ? 2 * *room : 16;
        struct nestnode *children = realloc(n->children, more * sizeof(*children));

        if (!children)
            return -1;
        n->children = children;
        *room = more;
    }
    child = &n->children[n->nchildren];
    *child = (struct nestnode){
        .id = info->id,
        .name = copy(info->name ? info->name : "?"),
        .state = copy(flux_job_state_word(info)),
        .address = lives ? copy(info->uri) : NULL,
        .nnodes = info->nnodes,
        .ntasks = info->ntasks,
        .ncores = info->ncores,
        .t_run = info->t_run,
    };
    n->nchildren++;
    return child->name && child->state ? 0 : -1;
}

static int take_page(struct nestnode *n, size_t *room, const json_t *jobs, bool sessions,
                     errmsg_t *err)
{
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        struct job_info info = {0};

        if (flux_job_list_at(jobs, i, &info, err) < 0)
            return -1;
        if (sessions && !info.uri)
            continue;
        if (add_job(n, room, &info) < 0)
            return errmsg_fail(err, ENOMEM, "out of memory");
    }
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct nestnode *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static int load_jobs(struct nestnode *n, flux_t *h, const struct nesttree_params *p, errmsg_t *err)
{
    struct job_list query;
    flux_future_t *f;
    size_t room = 0;
    const json_t *jobs;
    int rc = -1;

    flux_job_list_init(&query);
    query.states = JOB_STATES_RUNNING | (p->pending ? JOB_STATES_PENDING : 0) |
                   (p->ended ? JOB_STATE_BIT(JOB_STATE_INACTIVE) : 0);
    if (!(f = flux_job_list(h, &query)))
        return errmsg_fail(err, errno, "cannot request the list of jobs: %s", strerror(errno));
    for (;;) {
        if (flux_future_wait(f, ANSWER_TIMEOUT) < 0) {
            errmsg_fail(err, errno,
                        errno == ETIMEDOUT ? "it does not respond" : "the connection was lost");
            break;
        }
        if (flux_future_errnum(f) == ENODATA) {
            rc = 0;
            break;
        }
        if (flux_job_list_get(f, &jobs, err) < 0 || take_page(n, &room, jobs, p->sessions, err) < 0)
            break;
        if (flux_future_next(f) < 0) {
            rc = 0;
            break;
        }
    }
    flux_future_destroy(f);
    if (n->nchildren > 1)
        qsort(n->children, n->nchildren, sizeof(*n->children), by_id);
    return rc;
}

static int look_into(struct nestnode *n, flux_t *h, const char *uri,
                     const struct nesttree_params *p, unsigned depth, errmsg_t *err);

static void descend(struct nestnode *child, const char *uri, const struct nesttree_params *p,
                    unsigned depth)
{
    errmsg_t err;
    nestlink_t *l = nestlink_open(uri, child->address, p->relay, NULL, &err);

    if (!l || look_into(child, nestlink_handle(l), nestlink_uri(l), p, depth, &err) < 0)
        child->error = strdup(err.text);
    nestlink_close(l);
}

/* The answer's text, or NULL; valid as long as the future. */
static const char *value_of(flux_future_t *f)
{
    const char *text;

    return f && flux_future_wait(f, ANSWER_TIMEOUT) == 0 &&
                   flux_attr_future_get(f, &text, NULL) == 0
               ? text
               : NULL;
}

static void load_attrs(struct nestnode *n, flux_t *h)
{
    flux_future_t *level_f = flux_attr_get_async(h, "instance-level");
    flux_future_t *end_f = flux_attr_get_async(h, "sched.expiration");
    const char *level = value_of(level_f), *end = value_of(end_f);

    if (level)
        str2u32(level, &n->level);
    n->expiration = end ? strtod(end, NULL) : 0.;
    flux_future_destroy(level_f);
    flux_future_destroy(end_f);
}

static int look_into(struct nestnode *n, flux_t *h, const char *uri,
                     const struct nesttree_params *p, unsigned depth, errmsg_t *err)
{
    n->size = flux_size(h);
    load_attrs(n, h);
    if (load_jobs(n, h, p, err) < 0)
        return -1;
    for (size_t i = 0; i < n->nchildren; i++) {
        if (n->children[i].address && (p->depth == 0 || depth < p->depth) && depth < DEPTH_MAX)
            descend(&n->children[i], uri, p, depth + 1);
    }
    return 0;
}

struct nestnode *nesttree_load(flux_t *h, const char *uri, const struct nesttree_params *p,
                               errmsg_t *err)
{
    struct nestnode *n = calloc(1, sizeof(*n));

    if (!n)
        errmsg_fail(err, ENOMEM, "out of memory");
    else if (look_into(n, h, uri, p, 1, err) < 0) {
        nesttree_destroy(n);
        n = NULL;
    }
    return n;
}

/* --- JSON --- */

static int put(json_t *o, const char *key, json_t *val)
{
    return json_object_set_new(o, key, val);
}

static int put_text(json_t *o, const char *key, const char *s)
{
    return s ? put(o, key, json_string(s)) : 0;
}

static int put_number(json_t *o, const char *key, uint64_t n)
{
    return n ? put(o, key, json_integer((json_int_t)n)) : 0;
}

json_t *nesttree_json(const struct nestnode *n)
{
    json_t *o = json_object();
    json_t *children = NULL;

    if (!o || put_number(o, "id", n->id) < 0 || put_text(o, "name", n->name) < 0 ||
        put_text(o, "state", n->state) < 0 || put_number(o, "nodes", n->nnodes) < 0 ||
        put_number(o, "tasks", n->ntasks) < 0 || put_number(o, "cores", n->ncores) < 0 ||
        put_text(o, "uri", n->address) < 0 || put_text(o, "error", n->error) < 0 ||
        put_number(o, "size", n->size) < 0)
        goto error;
    if (n->size == 0)
        return o;
    if (put(o, "level", json_integer(n->level)) < 0 ||
        (n->expiration > 0. && put(o, "expiration", json_real(n->expiration)) < 0) ||
        !(children = json_array()))
        goto error;
    for (size_t i = 0; i < n->nchildren; i++) {
        if (json_array_append_new(children, nesttree_json(&n->children[i])) < 0)
            goto error;
    }
    if (put(o, "jobs", children) < 0) {
        children = NULL;
        goto error;
    }
    return o;
error:
    json_decref(children);
    json_decref(o);
    errno = ENOMEM;
    return NULL;
}
