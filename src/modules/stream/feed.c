/* feed.c - which listener has still to be notified of which item.
 *
 * Purpose: items have rising numbers.  An item that changes gets a new number and moves to the end
 * of the list; the items that are new to a listener are therefore the tail of the list, after the
 * number `seen`.  The removal of an item leaves a record.  It stays until all listeners that may
 * know the item have been notified of the removal; further records of the item may follow.
 *
 * Order: listeners are served in turn.  The first listener of `behind` gets the items that are new
 * to it, in pieces, and moves to the end of `current`.  A change appends the whole list `current`
 * to `behind` in one step.
 *
 * Cost:
 *     step for the first listener of `behind`                    number of steps
 *     forget a record that this listener knows                   the number of these records
 *     move back from the last item to the first new item         the number of new items
 *     add a record to the message, or pass over it               the number of new records
 *     add an item to the message                                 the number of new items
 *
 * Invariants:
 *  1. `items` and `records` are sorted by number.
 *  2. A listener gets items only when all records have been passed to it, and a record only if it
 *     has seen the first number of the item.
 *  3. `heard` does not fall along `behind` and then `current`, except for the first listener of
 *     `behind` while it is served: all listeners know the records that it knew before its turn.
 *  4. The message of a listener is sent before feed_run() returns.
 *
 * Failure: none; the owner handles the lack of memory for messages.
 */
#include "config.h"

#include "feed.h"
#include "libutil/invariant.h"

#define PIECE 256 /* steps */

static struct feed_item *item_of(struct list_node *n)
{
    return list_entry(n, struct feed_item, node);
}

static struct feed_record *record_of(struct list_node *n)
{
    return list_entry(n, struct feed_record, node);
}

static struct feed_listener *listener_first(const struct feed *f)
{
    struct list_node *n = list_first(&f->behind);

    return n ? list_entry(n, struct feed_listener, node) : NULL;
}

void feed_init(struct feed *f, const struct feed_ops *ops)
{
    *f = (struct feed){.ops = ops};
    list_init(&f->items);
    list_init(&f->records);
    list_init(&f->behind);
    list_init(&f->current);
}

void feed_clear(struct feed *f, struct list_node *junk)
{
    struct feed_listener *l;

    while ((l = listener_first(f))) {
        list_remove(&l->node);
        if (l->mark)
            f->ops->passed(f, l);
    }
    list_splice(junk, &f->records);
}

void feed_changed(struct feed *f)
{
    list_splice(&f->behind, &f->current);
}

static void item_unlink(struct feed *f, struct feed_item *i)
{
    if (f->begun && f->item == &i->node)
        f->item = i->node.next;
    list_remove(&i->node);
}

void feed_item_set(struct feed *f, struct feed_item *i)
{
    if (i->n == 0)
        list_init(&i->node);
    item_unlink(f, i);
    i->n = ++f->last;
    if (i->first == 0)
        i->first = i->n;
    list_append(&f->items, &i->node);
    if (f->begun && !f->back && f->item == &f->items)
        f->item = &i->node;
    feed_changed(f);
}

void feed_record_add(struct feed *f, struct feed_record *r, uint64_t first)
{
    r->first = first;
    r->number = ++f->nrecords;
    list_append(&f->records, &r->node);
    if (f->begun && f->record == &f->records)
        f->record = &r->node;
    feed_changed(f);
}

bool feed_item_remove(struct feed *f, struct feed_item *i, struct feed_record *r)
{
    if (i->n == 0)
        return false;
    item_unlink(f, i);
    feed_record_add(f, r, i->first);
    return true;
}

void feed_listen_later(struct feed *f, struct feed_listener *l)
{
    l->seen = 0;
    l->heard = f->nrecords;
    list_append(&f->behind, &l->node);
}

void feed_listen(struct feed *f, struct feed_listener *l)
{
    unsigned n = 0;

    feed_listen_later(f, l);
    LIST_FOREACH(it, &f->items)
    {
        if (n == PIECE)
            break;
        f->ops->item(f, l, item_of(it));
        l->seen = item_of(it)->n;
        n++;
    }
    if (l->seen == f->last || n < PIECE) {
        list_remove(&l->node);
        list_append(&f->current, &l->node);
    }
    f->ops->tell(f, l, n);
}

void feed_listener_remove(struct feed *f, struct feed_listener *l)
{
    if (l == listener_first(f))
        f->begun = false;
    list_remove(&l->node);
}

void feed_mark(struct feed *f, struct feed_listener *mark)
{
    mark->mark = true;
    list_append(&f->behind, &mark->node);
}

bool feed_busy(const struct feed *f)
{
    return !list_empty(&f->behind) || !list_empty(&f->records);
}

static void record_forget(struct feed *f)
{
    struct feed_record *r = record_of(list_first(&f->records));

    list_remove(&r->node);
    f->ops->forget(f, r);
}

/* Do one step for the first listener of `behind`.  Returns the listener if it is now current. */
static struct feed_listener *step(struct feed *f, struct feed_listener *l, unsigned *n)
{
    struct list_node *at;

    if (!f->begun) {
        if (!list_empty(&f->records) && record_of(f->records.next)->number <= l->heard) {
            record_forget(f);
            return NULL;
        }
        f->begun = f->back = true;
        f->item = &f->items;
        f->record = f->records.next;
    }
    if (f->back) {
        at = f->item->prev;
        f->back = at != &f->items && item_of(at)->n > l->seen;
        if (f->back)
            f->item = at;
        return NULL;
    }
    if ((at = f->record) != &f->records) {
        f->record = at->next;
        INVARIANT(1, record_of(at)->number > l->heard);
        l->heard = record_of(at)->number;
        if (record_of(at)->first <= l->seen) {
            f->ops->gone(f, l, record_of(at));
            (*n)++;
        }
        return NULL;
    }
    if ((at = f->item) != &f->items) {
        f->item = at->next;
        INVARIANT(1, item_of(at)->n > l->seen);
        l->seen = item_of(at)->n;
        f->ops->item(f, l, item_of(at));
        (*n)++;
        return NULL;
    }
    return l;
}

void feed_run(struct feed *f, struct flux_slice *s)
{
    struct feed_listener *l, *done = NULL;
    unsigned i = 0;
    unsigned n = 0;

    do {
        if (!(l = listener_first(f))) {
            if (!list_empty(&f->records))
                record_forget(f);
        } else if (l->mark) {
            list_remove(&l->node);
            f->ops->passed(f, l);
        } else if ((done = step(f, l, &n))) {
            f->begun = false;
            list_remove(&l->node);
            list_append(&f->current, &l->node);
            f->ops->tell(f, l, n);
            n = 0;
        }
    } while (++i < PIECE && feed_busy(f) && flux_slice_more(s));
    if (n > 0)
        f->ops->tell(f, listener_first(f), n);
}
