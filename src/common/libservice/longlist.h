/* The list of things that a service has, such as its barriers: a stream of pages, made in slices
 * (libflux/slice.h), so a long list delays nobody.
 *
 *    struct barrier { struct longlist_place place; ... };
 *
 *    longlist_add(l, &b->place);        it is there
 *    longlist_remove(&b->place);        it is no longer there
 *    longlist_answer(l, req);           {"barriers":[..]}, {"barriers":[..]}, ENODATA
 *
 * A list has the things that were there when the request came, and are still there when their page
 * is made, from the oldest to the newest.  It has one page at least, which may be empty.
 *
 * Thread rules: those of the handle.
 */
#ifndef LONGLIST_H
#define LONGLIST_H

#include "claim.h"
#include "libutil/strbuf.h"

typedef struct longlist longlist_t;

/* Member of the thing. */
struct longlist_place {
    struct list_node node;
    uint64_t number; /* 0: this is how far a request has got */
};

/* Append the thing to the array in `sb` (jsonout.h), or nothing, if it is not for this sender. */
typedef void (*longlist_put_f)(strbuf_t *sb, const struct longlist_place *p, const flux_msg_t *req);

/* `array`: name of the array in each page.  Requests end with their senders in `senders`.  NULL
 * with ENOMEM. */
longlist_t *longlist_create(flux_t *h, struct claims *senders, const char *array,
                            longlist_put_f put);
/* NULL-safe, keeps errno.  Requests under way are not answered: the host does that.  All things
 * must have been removed. */
void longlist_destroy(longlist_t *l);

void longlist_add(longlist_t *l, struct longlist_place *p);
/* No effect on a place of zeros, or one that was removed. */
void longlist_remove(struct longlist_place *p);

/* Answer a request: by pages if it is a streaming one, else by one response with all. */
void longlist_answer(longlist_t *l, const flux_msg_t *req);

#endif
