/* jm_repeat.c - submissions that arrive more than once.
 *
 * Purpose: when a broker between a client and this module dies, a submission that was on its way is
 * sent again (FLUX_MSGF_IDEMPOTENT), although it may have arrived, and only its answer was lost.
 * The client library gives each submission a random number (libjob/submit.h).  The module keeps the
 * answers to recent submissions by their numbers, and repeats the answer to one that it knows.
 *
 * state of a number   what happens when it arrives            left when (by)
 * unknown             the submission is read                  at once (jm_repeat_begin)
 * pending             this request gets the same answer       it is answered (jm_repeat_end), or
 *                                                             dropped (jm_repeat_drop)
 * answered            it gets the answer                      there are newer ones (keep)
 *
 * Invariants:
 *  1. There are at most ANSWERS_MAX answers, of at most ANSWERS_BYTES together.
 *  2. A submission with a number is in the table from its acceptance to its answer.
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
    struct jm_submission *sub; /* NULL: answered */
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

static void respond(struct jm *jm, const flux_msg_t *req, int errnum, const char *text)
{
    if (errnum)
        flux_respond_error(jm->h, req, errnum, "%s", text);
    else
        flux_respond(jm->h, req, text);
}

static void add_request(struct jm *jm, struct jm_submission *sub, const flux_msg_t *req)
{
    flux_msg_t **again = realloc(sub->again, (sub->nagain + 1) * sizeof(*again));

    if (!again) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        return;
    }
    sub->again = again;
    sub->again[sub->nagain++] = flux_msg_incref(req);
}

bool jm_repeat_seen(struct jm *jm, const flux_msg_t *req, uint64_t number)
{
    struct jm_repeat_entry *e = number ? hmap_get_u64(jm->repeat->all, number) : NULL;

    if (!e || e->userid != flux_msg_userid(req))
        return false;
    if (e->sub)
        add_request(jm, e->sub, req);
    else
        respond(jm, req, e->errnum, e->text);
    return true;
}

int jm_repeat_begin(struct jm *jm, struct jm_submission *sub, uint64_t number)
{
    struct jm_repeat_entry *e;

    if (!number || hmap_get_u64(jm->repeat->all, number)) /* another user's */
        return 0;
    if (!(e = calloc(1, sizeof(*e))))
        return -1;
    list_init(&e->node);
    e->number = number;
    e->userid = flux_msg_userid(sub->req);
    e->sub = sub;
    if (hmap_put_u64(jm->repeat->all, number, e) < 0) {
        free(e);
        errno = ENOMEM;
        return -1;
    }
    sub->entry = e;
    return 0;
}

static void keep(struct jm_repeat *p, struct jm_repeat_entry *e, int errnum, const char *text)
{
    if (!(e->text = strdup(text))) {
        entry_free(p, e);
        return;
    }
    e->sub = NULL;
    e->errnum = errnum;
    list_append(&p->oldest, &e->node);
    p->n++;
    p->bytes += strlen(text);
    while (p->n > ANSWERS_MAX || p->bytes > ANSWERS_BYTES)
        entry_free(p, list_entry(list_first(&p->oldest), struct jm_repeat_entry, node));
    INVARIANT(1, p->n <= ANSWERS_MAX && p->bytes <= ANSWERS_BYTES);
}

void jm_repeat_end(struct jm *jm, struct jm_submission *sub, int errnum, const char *text)
{
    respond(jm, sub->req, errnum, text);
    for (size_t i = 0; i < sub->nagain; i++)
        respond(jm, sub->again[i], errnum, text);
    if (sub->entry)
        keep(jm->repeat, sub->entry, errnum, text);
    sub->entry = NULL;
}

void jm_repeat_drop(struct jm *jm, struct jm_submission *sub)
{
    if (sub->entry)
        entry_free(jm->repeat, sub->entry);
    sub->entry = NULL;
    for (size_t i = 0; i < sub->nagain; i++)
        flux_msg_destroy(sub->again[i]);
    free(sub->again);
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
