/* A feed notifies many listeners of many items that join, change and leave.
 *
 * Items, listeners and the records of removed items are members of structures of the owner.  The
 * cost of a change does not depend on the number of listeners; feed_run() notifies them later, in
 * turn and in pieces.
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

/* A thing of which listeners are notified. */
struct feed_item {
    struct list_node node; /* in feed.items, or in none */
    uint64_t n;            /* number of the item; each change gives it a new one */
    uint64_t first;        /* first number of the item */
};

/* The removal of an item. */
struct feed_record {
    struct list_node node;
    uint64_t first;  /* first number of the item */
    uint64_t number; /* number of the record */
};

/* A process that is notified; or a mark, which gets no message. */
struct feed_listener {
    struct list_node node; /* in feed.behind or feed.current */
    uint64_t seen;         /* number of the last item of which it was notified */
    uint64_t heard;        /* number of the last record of which it was notified */
    bool mark;
};

struct feed_ops {
    /* Add an item, or a record, to the message to this listener. */
    void (*item)(struct feed *f, struct feed_listener *l, struct feed_item *i);
    void (*gone)(struct feed *f, struct feed_listener *l, struct feed_record *r);
    /* Send the message; `n`: number of items and records.  May remove the listener. */
    void (*tell)(struct feed *f, struct feed_listener *l, unsigned n);
    /* All listeners have been notified of the changes before this mark. */
    void (*passed)(struct feed *f, struct feed_listener *mark);
    /* No listener needs this record any longer. */
    void (*forget)(struct feed *f, struct feed_record *r);
};

struct feed {
    const struct feed_ops *ops;
    struct list_node items; /* sorted by number */
    struct list_node records;
    struct list_node behind;  /* listeners and marks, in the order in which they will be served */
    struct list_node current; /* listeners that have been notified of everything */
    uint64_t last;            /* number of the last item */
    uint64_t nrecords;        /* number of the last record */

    /* State while the first listener of `behind` is served: the next item and record for it, or the
     * heads of the lists. */
    bool begun;
    bool back; /* `item` still moves back to the first new item */
    struct list_node *item;
    struct list_node *record;
};

void feed_init(struct feed *f, const struct feed_ops *ops);
/* Call `passed` for the marks that still wait, and forget items and listeners.  The remaining
 * records move to `junk`. */
void feed_clear(struct feed *f, struct list_node *junk);

/* Give an item its first number, or a new one: it is then new to all listeners. */
void feed_item_set(struct feed *f, struct feed_item *i);
/* Take out an item, and add the record of its removal.  Returns false if the item had no number:
 * the record is then not used. */
bool feed_item_remove(struct feed *f, struct feed_item *i, struct feed_record *r);
/* Add another record of an item that was removed; `first` is the first number of the item.  A
 * listener that has joined since may be notified of it as well. */
void feed_record_add(struct feed *f, struct feed_record *r, uint64_t first);
/* Add a listener that knows no item, and notify it at once of as many items as fit into one
 * piece. */
void feed_listen(struct feed *f, struct feed_listener *l);
/* Add a listener that knows no item, to be notified in its turn. */
void feed_listen_later(struct feed *f, struct feed_listener *l);
void feed_listener_remove(struct feed *f, struct feed_listener *l);
/* Send all listeners a message because something other than an item has changed. */
void feed_changed(struct feed *f);
void feed_mark(struct feed *f, struct feed_listener *mark);

/* Returns whether feed_run() has work to do. */
bool feed_busy(const struct feed *f);
/* Do a piece of the work, of at least one step. */
void feed_run(struct feed *f, struct flux_slice *s);

#endif
