/* jm_wait.c - job.wait: waiting for the end of jobs.
 *
 * Purpose: each active job has a list of the requests that wait for it.  Each request counts its
 * remaining jobs, and its ids are looked up slice by slice (jm_many.c).  Jobs that end in one
 * transaction of the store are reported in one response.
 *
 * Invariants:
 *  1. A request gets one entry for each id that it names, and then ENODATA.
 *  2. The end of a job is reported when it is recorded.
 *  3. At most WAITS_MAX requests wait, for a total of REFS_MAX jobs; further ones are refused with
 *     EAGAIN.
 *
 * Failure: if memory is short, a request ends with ENOMEM or EAGAIN.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libschema/jsonout.h"

struct jm_wait_table {
    struct list_node ready; /* struct jm_wait with entries to be sent */
    size_t n;
    size_t nrefs; /* struct jm_wait_ref, of all of them */
};

struct jm_wait {
    struct claim claim;
    struct list_node refs;
    struct list_node ready; /* in jm.waiters while there are entries to be sent */
    struct jm *jm;
    flux_msg_t *req;
    struct jm_many many;
    idset_t *ids; /* NULL: all */
    uint32_t next;
    size_t left; /* number of jobs, plus one while ids are left to be looked up */
    size_t nreported;
    strbuf_t *out;
};

struct jm_wait_ref {
    struct list_node by_job;
    struct list_node by_wait;
    struct jm_wait *w;
};

#define PAGE 1000
#define WAITS_MAX 65536
#define REFS_MAX 4000000

void jm_wait_job_init(struct jm_job *j)
{
    list_init(&j->waits);
}

static void ref_free(struct jm_wait_ref *ref)
{
    list_remove(&ref->by_job);
    list_remove(&ref->by_wait);
    ref->w->left--;
    ref->w->jm->waits->nrefs--;
    free(ref);
}

static void wait_free(struct jm_wait *w)
{
    struct list_node *n;

    claim_drop(w->jm->senders, &w->claim);
    jm_many_stop(&w->many);
    while ((n = list_first(&w->refs)))
        ref_free(list_entry(n, struct jm_wait_ref, by_wait));
    list_remove(&w->ready);
    w->jm->waits->n--;
    idset_destroy(w->ids);
    flux_msg_destroy(w->req);
    strbuf_destroy(w->out);
    free(w);
}

static void gone(struct claim *c, bool canceled)
{
    struct jm_wait *w = list_entry(c, struct jm_wait, claim);

    if (canceled)
        flux_respond_error(w->jm->h, w->req, ENODATA, "canceled");
    wait_free(w);
}

static void send_page(struct jm_wait *w)
{
    char *json;

    jsonout_array_end(w->out);
    jsonout_object_end(w->out);
    json = strbuf_take(w->out);
    w->out = NULL;
    w->nreported = 0;
    if (json)
        flux_respond_more(w->jm->h, w->req, json);
    free(json);
}

/* `e`: NULL with an error. */
static void tell(struct jm_wait *w, uint64_t id, const struct jm_ended *e, const char *text,
                 int error)
{
    if (w->nreported >= PAGE)
        send_page(w);
    if (!w->out) {
        w->out = strbuf_create(0);
        jsonout_object(w->out, NULL);
        jsonout_array(w->out, "ended");
    }
    w->nreported++;
    jsonout_object(w->out, NULL);
    jsonout_uint(w->out, "id", id);
    if (e) {
        jsonout_str(w->out, "result", job_result_name(e->result));
        jsonout_int(w->out, "code", e->code);
    }
    if (e && e->canceled_by >= 0)
        jsonout_int(w->out, "canceled_by", e->canceled_by);
    if (e && jm_ended_text(e, JM_TEXT_FAILED)[0])
        jsonout_text(w->out, "failed", jm_ended_text(e, JM_TEXT_FAILED));
    if (e && jm_ended_text(e, JM_TEXT_WARNING)[0])
        jm_json_text(w->out, "warning", jm_ended_text(e, JM_TEXT_WARNING));
    if (text && text[0])
        jm_json_text(w->out, "text", text);
    if (error)
        jsonout_int(w->out, "error", error);
    jsonout_object_end(w->out);
    if (list_empty(&w->ready))
        list_append(&w->jm->waits->ready, &w->ready);
}

static void tell_end(struct jm_wait *w, const struct jm_ended *e)
{
    tell(w, e->id, e, jm_ended_text(e, JM_TEXT_NOTE), 0);
}

static void tell_unknown(struct jm_wait *w, uint64_t id)
{
    char text[64];

    snprintf(text, sizeof(text), "there is no job %llu (any more)", (unsigned long long)id);
    tell(w, id, NULL, text, ENOENT);
}

void jm_wait_ended(struct jm_job *j, const struct jm_ended *e)
{
    struct list_node *n;

    while ((n = list_first(&j->waits))) {
        struct jm_wait_ref *ref = list_entry(n, struct jm_wait_ref, by_job);

        if (e)
            tell_end(ref->w, e);
        else
            tell_unknown(ref->w, j->id);
        ref_free(ref);
    }
}

void jm_wait_flush(struct jm *jm)
{
    struct list_node *n;

    while ((n = list_first(&jm->waits->ready))) {
        struct jm_wait *w = list_entry(n, struct jm_wait, ready);

        list_remove(n);
        if (w->out)
            send_page(w);
        if (w->left == 0) {
            flux_respond_error(jm->h, w->req, ENODATA, "all have ended");
            wait_free(w);
        }
    }
}

static int add_ref(struct jm_wait *w, struct jm_job *j)
{
    struct jm_wait_ref *ref = w->jm->waits->nrefs < REFS_MAX ? malloc(sizeof(*ref)) : NULL;

    if (!ref)
        return -1;
    ref->w = w;
    w->left++;
    w->jm->waits->nrefs++;
    list_init(&ref->by_job);
    list_init(&ref->by_wait);
    list_append(&j->waits, &ref->by_job);
    list_append(&w->refs, &ref->by_wait);
    return 0;
}

static int wait_for_all(struct jm_wait *w)
{
    for (struct jm_job *j = jm_job_first(w->jm); j; j = jm_job_next(j)) {
        if (add_ref(w, j) < 0)
            return -1;
    }
    return 0;
}

static int wait_for(struct jm_wait *w, uint32_t id)
{
    struct jm_job *j = jm_job_find(w->jm, id);
    struct jm_ended *e;

    if (j)
        return add_ref(w, j);
    if ((e = jm_ended_find(w->jm, id)))
        tell_end(w, e);
    else
        tell_unknown(w, id);
    return 0;
}

static bool wait_some(struct jm_many *m, struct flux_slice *slice)
{
    struct jm_wait *w = list_entry(m, struct jm_wait, many);
    struct jm *jm = w->jm;
    int rc = w->ids ? 0 : wait_for_all(w);

    while (rc == 0 && w->next != IDSET_NONE && flux_slice_more(slice)) {
        rc = wait_for(w, w->next);
        w->next = idset_next(w->ids, w->next);
    }
    if (rc < 0) {
        flux_respond_error(jm->h, w->req, EAGAIN,
                           "too many jobs are waited for: try again, or wait for fewer");
        wait_free(w);
        return true;
    }
    if (w->next != IDSET_NONE)
        return false;
    if (--w->left == 0 && list_empty(&w->ready))
        list_append(&jm->waits->ready, &w->ready);
    return true;
}

static void drop(struct jm_many *m)
{
    wait_free(list_entry(m, struct jm_wait, many));
}

/* Takes `ids` over. */
static void begin(struct jm *jm, const flux_msg_t *req, idset_t *ids)
{
    struct jm_wait *w = calloc(1, sizeof(*w));

    if (!w) {
        idset_destroy(ids);
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    w->jm = jm;
    w->ids = ids;
    w->next = ids ? idset_first(ids) : IDSET_NONE;
    w->left = 1;
    w->req = flux_msg_incref(req);
    w->many = (struct jm_many){.step = wait_some, .drop = drop};
    list_init(&w->refs);
    list_init(&w->ready);
    jm->waits->n++;
    if (claim_take(jm->senders, &w->claim, req, gone) < 0) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        wait_free(w);
        return;
    }
    jm_many_start(jm, &w->many);
}

void jm_wait_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    idset_t *ids;

    if (!jm_request_stream(jm, req, jm_wait_cb, jm->waits->n, WAITS_MAX, &ids))
        return;
    if (jm_many_full(jm, req))
        idset_destroy(ids);
    else
        begin(jm, req, ids);
}

int jm_wait_create(struct jm *jm)
{
    struct jm_wait_table *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->waits = p;
    list_init(&p->ready);
    return 0;
}

void jm_wait_destroy(struct jm *jm)
{
    struct jm_wait_table *p = jm->waits;
    struct list_node *n;

    if (!p)
        return;
    for (struct jm_job *j = jm_job_first(jm); j; j = jm_job_next(j)) {
        while ((n = list_first(&j->waits)))
            wait_free(list_entry(n, struct jm_wait_ref, by_job)->w);
    }
    while ((n = list_first(&p->ready)))
        wait_free(list_entry(n, struct jm_wait, ready));
    free(p);
    jm->waits = NULL;
}
