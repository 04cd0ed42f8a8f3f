/* Long lists: the objects of a service, such as its barriers, as a stream of pages.  The pages are
 * made in slices (libflux/slice.h), so a long list does not delay other requests.
 *
 *    struct barrier { struct longlist_place place; ... };
 *
 *    longlist_add(l, &b->place);        the object exists
 *    longlist_remove(&b->place);        it is about to be destroyed
 *    longlist_answer(l, req);           {"barriers":[..]}, {"barriers":[..]}, ENODATA
 *
 * A list has the objects that existed when the request came, and still exist when their page is
 * made, from the oldest to the newest.  It has at least one page, which may be empty.
 *
 * Thread rules: those of the handle.
 */
#ifndef LONGLIST_H
#define LONGLIST_H

#include "claim.h"
#include "libutil/strbuf.h"

typedef struct longlist longlist_t;

/* A member of the listed object. */
struct longlist_place {
    struct list_node node;
    uint64_t number; /* 0: this is the place of a request */
};

/* Append the object to the array in `sb` (jsonout.h), or nothing, if the sender may not see it. */
typedef void (*longlist_put_f)(strbuf_t *sb, const struct longlist_place *p, const flux_msg_t *req);

/* `array`: name of the array in each page.  Requests end with their senders in `senders`.  NULL
 * with ENOMEM. */
longlist_t *longlist_create(flux_t *h, struct claims *senders, const char *array,
                            longlist_put_f put);
/* NULL-safe, keeps errno.  Pending requests are not answered: the host of the module does that.
 * All objects must have been removed. */
void longlist_destroy(longlist_t *l);

void longlist_add(longlist_t *l, struct longlist_place *p);
/* No effect on a place of zeros, or a place that was removed before. */
void longlist_remove(struct longlist_place *p);

/* Answer a request: by pages if it has the streaming flag, else by one response with all
 * objects. */
void longlist_answer(longlist_t *l, const flux_msg_t *req);

#endif
