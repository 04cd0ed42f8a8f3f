/* jm_repeat.c - requests that arrive more than once.
 *
 * Purpose: when a broker between a client and this module dies, a request that was on its way is
 * sent again (FLUX_MSGF_IDEMPOTENT), although it may have arrived, and only its answer was lost.
 * The client library gives each request that would do harm if it took effect twice a random number:
 * submissions (libjob/submit.h), signals, exceptions, changes of the urgency (libjob/job_wire.h).
 * The module keeps the answers to recent ones by their numbers, and repeats the answer to one that
 * it knows.
 *
 * state of a number   what happens when it arrives            left when (by)
 * unknown             the request is handled                  at once (jm_repeat_begin)
 * pending             this request gets the same answer       it is answered (jm_repeat_end), or
 *                                                             dropped (jm_repeat_drop)
 * answered            it gets the answer                      there are newer ones (keep)
 *
 * Invariants:
 *  1. There are at most ANSWERS_MAX answers, of at most ANSWERS_BYTES together.
 *  2. A request with a number is in the table from its acceptance to its answer.
 *
 * Failure: without memory for an answer, it is not kept.  A number of another user is unknown.  The
 * next instance of the module begins with an empty table.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/invariant.h"

#define ANSWERS_MAX 16384
#define ANSWERS_BYTES (8u << 20)

struct jm_repeat {
    hmap_t *all;             /* number -> struct jm_repeat_entry */
    struct list_node oldest; /* struct jm_repeat_entry, answered */
    size_t n, bytes;         /* of these */
};

struct jm_repeat_entry {
    struct list_node node;
    uint64_t number;
    uint32_t userid;
    struct jm_repeated *r; /* NULL: answered */
    bool recorded;         /* the answer waits until the present changes are recorded */
    int errnum;
    char *text; /* the answer: JSON, or an error message */
};

static void entry_free(struct jm_repeat *p, struct jm_repeat_entry *e)
{
    if (hmap_get_u64(p->all, e->number) == e)
        (void)hmap_take_u64(p->all, e->number);
    if (!list_empty(&e->node)) {
        list_remove(&e->node);
        p->n--;
        p->bytes -= strlen(e->text);
    }
    free(e->text);
    free(e);
}

static void respond(struct jm *jm, const flux_msg_t *req, bool recorded, int errnum,
                    const char *text)
{
    if (!errnum && recorded)
        jm_store_answer(jm, req, strdup(text));
    else if (errnum)
        flux_respond_error(jm->h, req, errnum, "%s", text);
    else
        flux_respond(jm->h, req, text);
}

static void add_request(struct jm *jm, struct jm_repeated *r, const flux_msg_t *req)
{
    flux_msg_t **again = realloc(r->again, (r->nagain + 1) * sizeof(*again));

    if (!again) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    r->again = again;
    r->again[r->nagain++] = flux_msg_incref(req);
}

bool jm_repeat_seen(struct jm *jm, const flux_msg_t *req, uint64_t number)
{
    struct jm_repeat_entry *e = number ? hmap_get_u64(jm->repeat->all, number) : NULL;

    if (!e || e->userid != flux_msg_userid(req))
        return false;
    if (e->r)
        add_request(jm, e->r, req);
    else
        respond(jm, req, e->recorded, e->errnum, e->text);
    return true;
}

int jm_repeat_begin(struct jm *jm, struct jm_repeated *r, const flux_msg_t *req, uint64_t number)
{
    struct jm_repeat_entry *e;

    r->req = req;
    if (!number || hmap_get_u64(jm->repeat->all, number)) /* another user's */
        return 0;
    if (!(e = calloc(1, sizeof(*e))))
        return -1;
    list_init(&e->node);
    e->number = number;
    e->userid = flux_msg_userid(req);
    e->r = r;
    if (hmap_put_u64(jm->repeat->all, number, e) < 0) {
        free(e);
        errno = ENOMEM;
        return -1;
    }
    r->entry = e;
    return 0;
}

static void keep(struct jm_repeat *p, struct jm_repeat_entry *e, int errnum, const char *text)
{
    if (!(e->text = strdup(text))) {
        entry_free(p, e);
        return;
    }
    e->recorded = e->r->recorded;
    e->r = NULL;
    e->errnum = errnum;
    list_append(&p->oldest, &e->node);
    p->n++;
    p->bytes += strlen(text);
    while (p->n > ANSWERS_MAX || p->bytes > ANSWERS_BYTES)
        entry_free(p, list_entry(list_first(&p->oldest), struct jm_repeat_entry, node));
    INVARIANT(1, p->n <= ANSWERS_MAX && p->bytes <= ANSWERS_BYTES);
}

void jm_repeat_end(struct jm *jm, struct jm_repeated *r, int errnum, const char *text)
{
    respond(jm, r->req, r->recorded, errnum, text);
    for (size_t i = 0; i < r->nagain; i++)
        respond(jm, r->again[i], r->recorded, errnum, text);
    if (r->entry)
        keep(jm->repeat, r->entry, errnum, text);
    r->entry = NULL;
}

void jm_repeat_drop(struct jm *jm, struct jm_repeated *r)
{
    if (r->entry)
        entry_free(jm->repeat, r->entry);
    r->entry = NULL;
    for (size_t i = 0; i < r->nagain; i++)
        flux_msg_destroy(r->again[i]);
    free(r->again);
}

int jm_repeat_create(struct jm *jm)
{
    struct jm_repeat *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    list_init(&p->oldest);
    jm->repeat = p;
    return (p->all = hmap_create_u64(NULL)) ? 0 : -1;
}

void jm_repeat_destroy(struct jm *jm)
{
    struct jm_repeat *p = jm->repeat;

    if (!p)
        return;
    while (!list_empty(&p->oldest))
        entry_free(p, list_entry(list_first(&p->oldest), struct jm_repeat_entry, node));
    hmap_destroy(p->all);
    free(p);
    jm->repeat = NULL;
}
