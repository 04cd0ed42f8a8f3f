/* jm_spec.c - jobspecs in memory.
 *
 * Purpose: jobs with the same jobspec share one struct jm_spec, found by a hash of the text and
 * compared; a batch of a thousand equal jobs has one.  The parsed form takes up to 80 times the
 * size of the text.  It is kept until the launch while there are at most PARSED_MAX parsed forms,
 * of at most PARSED_BYTES of text; all others are parsed again when needed.
 *
 * A jobspec may have a range of slots, as for an overcommitted job.  The scheduler gets only one
 * number: the maximum that the inventory can ever hold, determined when the job is accepted or read
 * back, and again when a job with this jobspec comes after a change of the inventory.  Jobs that
 * the scheduler already has keep their number; a launch counts the slots of R.
 *
 * Invariants:
 *  1. A jobspec is in the table exactly while it has references and is marked as shared.  When two
 *     texts have the same hash, the second one is not shared.
 *  2. nparsed and parsed_bytes are the number of the jobspecs that have a parsed form, and the size
 *     of their texts.
 *
 * Failure: a text that is not a valid jobspec, or lack of memory, is returned to the caller with a
 * sentence, and nothing has changed.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARSED_MAX 4096
#define PARSED_BYTES (4u * 1024 * 1024)

struct jm_spec_table {
    hmap_t *by_hash;
    size_t nparsed, parsed_bytes;
};

/* FNV-1a by eight bytes: a hash only for distribution; equality is decided by the bytes. */
uint64_t jm_spec_hash(const char *data, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ len;

    while (len >= 8) {
        uint64_t v;

        memcpy(&v, data, 8);
        h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
        data += 8;
        len -= 8;
    }
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)data[i]) * UINT64_C(1099511628211);
    return h ^ (h >> 29);
}

static void spec_unparse(struct jm *jm, struct jm_spec *spec)
{
    if (!spec->js)
        return;
    jobspec_destroy(spec->js);
    spec->js = NULL;
    jm->specs->nparsed--;
    jm->specs->parsed_bytes -= spec->len;
}

static void spec_parsed(struct jm *jm, struct jm_spec *spec, jobspec_t *js)
{
    spec->js = js;
    jm->specs->nparsed++;
    jm->specs->parsed_bytes += spec->len;
}

int jm_spec_parse(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    jobspec_t *js;

    if (spec->js)
        return 0;
    if (!(js = jobspec_parse(spec->text, spec->len, err)))
        return -1;
    spec_parsed(jm, spec, js);
    return 0;
}

void jm_spec_idle(struct jm *jm, struct jm_spec *spec, bool launched)
{
    const struct jm_spec_table *t = jm->specs;

    if (t->nparsed > PARSED_MAX || t->parsed_bytes > PARSED_BYTES || (launched && spec->refs == 1))
        spec_unparse(jm, spec);
}

static void spec_free(struct jm *jm, struct jm_spec *spec)
{
    spec_unparse(jm, spec);
    rreq_clear(&spec->req);
    free(spec->req_json);
    free(spec->impossible);
    free(spec->name);
    free(spec);
}

void jm_spec_put(struct jm *jm, struct jm_spec *spec)
{
    if (!spec)
        return;
    if (--spec->refs > 0) {
        jm_spec_idle(jm, spec, false); /* it was parsed for a refused job */
        return;
    }
    if (spec->shared)
        (void)hmap_take_u64(jm->specs->by_hash, spec->hash);
    spec_free(jm, spec);
}

/* Convert the allowed hosts to ranks, for the scheduler. */
static int restrict_hosts(struct jm *jm, struct jm_spec *spec, const char *hosts, errmsg_t *err)
{
    idset_t *ranks;

    if (!hosts || !jm_resources_inventory(jm))
        return 0;
    if (!(ranks = resgraph_ranks_of_hosts(jm_resources_inventory(jm), hosts, err))) {
        /* A job that was accepted before a restart is not lost because of that: see jm_load.c. */
        if (jm->ready || errno != ENOENT)
            return -1;
        spec->impossible = strdup(err->text);
        return spec->impossible ? 0 : -1;
    }
    if (!spec->req.ranks) {
        spec->req.ranks = ranks;
        return 0;
    }
    if (idset_keep(spec->req.ranks, ranks) < 0) {
        idset_destroy(ranks);
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    }
    idset_destroy(ranks);
    return 0;
}

/* Make the request for the scheduler. */
static int write_request(struct jm_spec *spec, errmsg_t *err)
{
    json_t *req = rreq_to_json(&spec->req);
    char *text = req ? json_dumps(req, JSON_COMPACT) : NULL;

    json_decref(req);
    if (!text)
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    free(spec->req_json);
    spec->req_json = text;
    return 0;
}

int jm_spec_fit(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    resgraph_t *inv = jm_resources_inventory(jm);
    uint64_t nodes = spec->req.nnodes ? spec->req.nnodes : 1;
    errmsg_t why;
    int rc = 0;

    /* While the inventory is not known, even the minimum is accepted. */
    spec->req.nslots = inv ? spec->max_slots : spec->min_slots;
    if (inv)
        rc = resgraph_fit_slots(inv, &spec->req, spec->min_slots, err);
    spec->ncores = (uint32_t)(nodes * spec->req.nslots * spec->req.cores);
    if (write_request(spec, rc < 0 ? &why : err) < 0)
        return rc < 0 ? rc : -1;
    return rc;
}

static int spec_digest(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    const jobspec_t *js = spec->js;
    errmsg_t why;
    size_t ndeps;

    (void)jobspec_dependencies(js, &ndeps);
    spec->ndeps = (uint32_t)ndeps;
    spec->begin = jobspec_begin(js);
    spec->grace = jobspec_options(js)->grace;
    spec->requeue = jobspec_options(js)->requeue;
    spec->survive = jobspec_options(js)->survive_node_loss;
    spec->ntasks = jobspec_ntasks(js);
    if (rreq_copy(&spec->req, jobspec_rreq(js)) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    if (restrict_hosts(jm, spec, jobspec_hosts(js), err) < 0)
        return -1;
    spec->nnodes = spec->req.nnodes;
    spec->ncores = jobspec_nslots(js) * spec->req.cores;
    if (!(spec->name = strdup(jobspec_name(js))))
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    if (!(spec->min_slots = jobspec_min_slots(js)))
        return write_request(spec, err);
    spec->max_slots = spec->req.nslots;
    /* A job that requests too much is refused by jm_resources_satisfiable(), or read back. */
    if (jm_spec_fit(jm, spec, &why) < 0 && !spec->req_json)
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    return 0;
}

struct jm_spec *jm_spec_get(struct jm *jm, const char *text, size_t len, errmsg_t *err)
{
    uint64_t hash = jm_spec_hash(text, len);
    struct jm_spec *spec = hmap_get_u64(jm->specs->by_hash, hash);
    bool taken = spec != NULL;
    jobspec_t *js;
    int saved;

    if (spec && spec->len == len && memcmp(spec->text, text, len) == 0) {
        spec->refs++;
        return spec;
    }
    if (!(js = jobspec_parse(text, len, err)))
        return NULL;
    if (!(spec = calloc(1, sizeof(*spec) + len + 1))) {
        jobspec_destroy(js);
        errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
        return NULL;
    }
    spec->hash = hash;
    spec->refs = 1;
    spec->len = len;
    memcpy(spec->text, text, len);
    spec_parsed(jm, spec, js);
    if (spec_digest(jm, spec, err) < 0) {
        saved = errno;
        spec_free(jm, spec);
        errno = saved;
        return NULL;
    }
    spec->shared = !taken && hmap_put_u64(jm->specs->by_hash, hash, spec) == 0;
    return spec;
}

int jm_spec_table_create(struct jm *jm)
{
    struct jm_spec_table *t = calloc(1, sizeof(*t));

    if (!t)
        return -1;
    jm->specs = t;
    return (t->by_hash = hmap_create_u64(NULL)) ? 0 : -1;
}

void jm_spec_table_destroy(struct jm *jm)
{
    struct jm_spec_table *t = jm->specs;

    if (!t)
        return;
    hmap_destroy(t->by_hash);
    free(t);
    jm->specs = NULL;
}

void jm_spec_stats(const struct jm *jm, struct job_stats *st)
{
    st->specs = hmap_count(jm->specs->by_hash);
    st->parsed = jm->specs->nparsed;
}
