/* A feed: notifies many listeners of many items that come, change and go.
 *
 * Items, listeners and records of removed items are members of the owner's structures.  A change
 * costs the same however many listeners there are; feed_run() notifies them later, in turn and
 * piece by piece.
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

/* Something of which listeners are notified. */
struct feed_item {
    struct list_node node; /* in feed.items, or in none */
    uint64_t n;            /* its number, a new one whenever it has changed */
    uint64_t first;        /* its first number */
};

/* An item that was removed. */
struct feed_record {
    struct list_node node;
    uint64_t first;  /* of the item */
    uint64_t number; /* among records */
};

/* One that is notified; or a mark, which gets nothing. */
struct feed_listener {
    struct list_node node; /* in feed.behind or feed.current */
    uint64_t seen;         /* it was notified of all items up to this number, */
    uint64_t heard;        /* and of all records up to this one */
    bool mark;
};

struct feed_ops {
    /* Add an item, or a record, to the message to this listener. */
    void (*item)(struct feed *f, struct feed_listener *l, struct feed_item *i);
    void (*gone)(struct feed *f, struct feed_listener *l, struct feed_record *r);
    /* Send the message; `n`: number of items and records.  May remove the listener. */
    void (*tell)(struct feed *f, struct feed_listener *l, unsigned n);
    /* All listeners know what had changed before this mark was set. */
    void (*passed)(struct feed *f, struct feed_listener *mark);
    /* No listener needs this record any more. */
    void (*forget)(struct feed *f, struct feed_record *r);
};

struct feed {
    const struct feed_ops *ops;
    struct list_node items; /* by number */
    struct list_node records;
    struct list_node behind;  /* listeners and marks, in the order in which they will be served */
    struct list_node current; /* listeners that know all */
    uint64_t last;            /* number of the last item */
    uint64_t nrecords;        /* ever */

    /* While the first of `behind` is served: what comes next for it, or the head of the list. */
    bool begun;
    bool back; /* `item` still moves back to where it begins */
    struct list_node *item;
    struct list_node *record;
};

void feed_init(struct feed *f, const struct feed_ops *ops);
/* Pass all marks.  Records that are left are moved to `junk`; items and other listeners are
 * forgotten. */
void feed_clear(struct feed *f, struct list_node *junk);

/* Give an item its first number, or another one: it is new to all listeners. */
void feed_item_set(struct feed *f, struct feed_item *i);
/* Take an item out, with the record of its removal.  False: it had no number, and the record is not
 * used. */
bool feed_item_remove(struct feed *f, struct feed_item *i, struct feed_record *r);
/* One more record of an item that was removed, whose first number this was.  Listeners that have
 * come since may be notified of it, too. */
void feed_record_add(struct feed *f, struct feed_record *r, uint64_t first);
/* A listener that knows nothing; it gets at once what fits into one piece. */
void feed_listen(struct feed *f, struct feed_listener *l);
/* The same, in its turn. */
void feed_listen_later(struct feed *f, struct feed_listener *l);
void feed_listener_remove(struct feed *f, struct feed_listener *l);
/* Something that is not an item has changed: all listeners get a message. */
void feed_changed(struct feed *f);
void feed_mark(struct feed *f, struct feed_listener *mark);

/* Is there anything to be done by feed_run()? */
bool feed_busy(const struct feed *f);
/* Do a piece of it, of at least one step. */
void feed_run(struct feed *f, struct flux_slice *s);

#endif
