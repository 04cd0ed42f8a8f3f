/* A feed: what each of many listeners has still to be told of many things that come, change and go.
 *
 * Items, listeners and records of items that are gone are members of the owner's structures.  A
 * change costs the same however many listeners there are; they are told later, in turn and piece by
 * piece, by feed_run().
 *
 * Thread rules: those of the owner.
 */
#ifndef STREAM_FEED_H
#define STREAM_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "libflux/slice.h"
#include "libutil/list.h"

struct feed;

/* Something that listeners are told of. */
struct feed_item {
    struct list_node node; /* in feed.items, or in none */
    uint64_t n;            /* its number, a new one whenever it has changed */
    uint64_t first;        /* its first number */
};

/* An item that is there no longer. */
struct feed_record {
    struct list_node node;
    uint64_t first;  /* of the item */
    uint64_t number; /* among records */
};

/* Somebody who is told; or a mark, which is told nothing. */
struct feed_listener {
    struct list_node node; /* in feed.untold or feed.told */
    uint64_t seen;         /* it was told of all items up to this number, */
    uint64_t heard;        /* and of all records up to this one */
    bool mark;
};

struct feed_ops {
    /* Add to what this listener is told now. */
    void (*item)(struct feed *f, struct feed_listener *l, struct feed_item *i);
    void (*gone)(struct feed *f, struct feed_listener *l, struct feed_record *r);
    /* Tell it; `n`: number of items and records.  May remove the listener. */
    void (*tell)(struct feed *f, struct feed_listener *l, unsigned n);
    /* All listeners that were there before this mark have been told what was to be told then. */
    void (*passed)(struct feed *f, struct feed_listener *mark);
    /* Nobody has to be told of this record any more. */
    void (*forget)(struct feed *f, struct feed_record *r);
};

struct feed {
    const struct feed_ops *ops;
    struct list_node items; /* by number */
    struct list_node records;
    struct list_node untold; /* listeners and marks, in the order in which they will be told */
    struct list_node told;   /* listeners that know all */
    uint64_t last;           /* number of the last item */
    uint64_t nrecords;       /* ever */

    /* The first of `untold`, while it is told: what comes next for it, or the head of the list. */
    bool begun;
    bool back; /* `item` still moves back to where it begins */
    struct list_node *item;
    struct list_node *record;
};

void feed_init(struct feed *f, const struct feed_ops *ops);
/* Pass all marks.  Records that are left are moved to `junk`; items and other listeners are
 * forgotten. */
void feed_clear(struct feed *f, struct list_node *junk);

/* Give an item its first number, or another one; all listeners have to be told. */
void feed_item_set(struct feed *f, struct feed_item *i);
/* Take an item out, with the record that tells so.  False: it had no number, and the record is not
 * used. */
bool feed_item_remove(struct feed *f, struct feed_item *i, struct feed_record *r);
/* A listener that knows nothing; it is told at once what fits into one piece. */
void feed_listen(struct feed *f, struct feed_listener *l);
/* The same, in its turn. */
void feed_listen_later(struct feed *f, struct feed_listener *l);
void feed_listener_remove(struct feed *f, struct feed_listener *l);
/* All listeners have to be told something that is not an item. */
void feed_changed(struct feed *f);
void feed_mark(struct feed *f, struct feed_listener *mark);

/* Is there anything to be done by feed_run()? */
bool feed_busy(const struct feed *f);
/* Do a piece of it, of at least one step. */
void feed_run(struct feed *f, struct flux_slice *s);

#endif
