/* lane.c - steps on their way from one writer to one reader, in a page that both can write.
 *
 *    bytes 0..63     written by the writer: ended, writer_sleeps, notes, floor, missing
 *    bytes 64..127   written by the reader: reader_sleeps, released
 *    then            LANE_SLOTS slots of 64 bytes: word, step, off, len, pin, pin_off, pin_len,
 *                    parts
 *
 * Offers are numbered 1, 2, ...; number n is in slot n modulo LANE_SLOTS.  The word of a slot is
 * number * 4 + state, so that a word never has two meanings:
 *
 *    state      next           by      how
 *    OFFERED    TAKEN          reader  compare and exchange
 *    OFFERED    DROPPED        writer  compare and exchange
 *    TAKEN      RELEASED       reader  store
 *    DROPPED    OFFERED        writer  store, only of the last number: with another step
 *    any        OFFERED        writer  store, with the number that is LANE_SLOTS larger
 *
 * So one exchange decides whether the reader gets a waiting step, without a lock that a dying
 * process could keep.  The last number can be offered again after a drop, so that a reader that
 * needs only the latest step uses up no slots, however long it works on one.  A reader therefore
 * skips a number only if it is dropped after the next number has been used.  The writer reuses
 * slots of dropped numbers without a notice to the reader: a reader that finds a larger number in
 * its slot was overtaken, and continues behind the last number that this slot had before.
 *
 * A side that finds nothing to do sets its `sleeps`, checks the lane once more, and sleeps; a side
 * that has changed the lane then checks the `sleeps` of the other.  A full memory barrier between
 * the two actions of each side ensures that at least one side sees the action of the other.
 * Writers sleep on the futex `released`; readers sleep on the descriptor of their connection, where
 * they learn of the writer's death as well.
 *
 * Beside steps, the writer passes two numbers, the newest of which counts: the floor, which is that
 * of a group, or the least number of the steps that come to a reader outside of groups, and a step
 * that is missing, plus 1.  `notes` counts them, so that a reader does not go to sleep between a
 * number that it has not looked at and the bell.
 *
 * Invariants:
 *  1. tail <= mark <= next, next - tail <= LANE_SLOTS: the steps between tail and next are in
 *     transit.
 *  2. The slot of a step that was returned has no ref; `live` and `bytes` count the slots that have
 *     one.
 *  3. A word of the page is read once into a variable before it is checked.
 *
 * Failure: a reader that writes invalid data into the page loses steps, or seems to release none; a
 * writer that does so makes its reader fail with EPROTO.  Neither side accesses memory outside the
 * page.
 */
#include "config.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libstream/lane.h"
#include "libutil/invariant.h"

enum {
    OFFERED = 0,
    TAKEN = 1,
    RELEASED = 2,
    DROPPED = 3,
};

struct slot {
    _Atomic uint64_t word;
    _Atomic uint64_t step;
    _Atomic uint64_t off;
    _Atomic uint64_t len;
    _Atomic uint64_t pin;
    _Atomic uint64_t pin_off;
    _Atomic uint64_t pin_len;
    _Atomic uint64_t parts;
};

struct page {
    _Atomic uint32_t ended;
    _Atomic uint32_t writer_sleeps;
    _Atomic uint32_t notes;
    uint32_t unused;
    _Atomic uint64_t floor;
    _Atomic uint64_t missing;
    char pad0[32];
    _Atomic uint32_t reader_sleeps;
    _Atomic uint32_t released; /* counts releases; also incremented by lane_tx_kick() */
    char pad1[56];
    struct slot slots[LANE_SLOTS];
};
_Static_assert(sizeof(struct page) == 128 + 64 * LANE_SLOTS, "the page has a fixed layout");

size_t lane_page_size(void)
{
    return sizeof(struct page);
}

static uint64_t word_of(uint64_t number, unsigned state)
{
    return number << 2 | state;
}

static struct slot *slot_of(struct page *p, uint64_t number)
{
    return &p->slots[number % LANE_SLOTS];
}

static uint64_t word_read(struct page *p, uint64_t number)
{
    return atomic_load_explicit(&slot_of(p, number)->word, memory_order_acquire);
}

/* --- writer --- */

struct ref {
    void *ref; /* NULL: the step was returned */
    uint64_t len;
};

struct lane_tx {
    struct page *p;
    uint64_t next; /* number of the next offer */
    uint64_t tail; /* the oldest number that has not been reaped */
    uint64_t mark; /* no number before it is OFFERED */
    unsigned live;
    uint64_t bytes;
    struct ref refs[LANE_SLOTS];
};

lane_tx_t *lane_tx_create(void *page)
{
    lane_tx_t *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->p = page;
    l->next = l->tail = l->mark = 1;
    return l;
}

void lane_tx_destroy(lane_tx_t *l)
{
    int saved = errno;

    free(l);
    errno = saved;
}

/* The step of this number is returned. */
static void *ref_back(lane_tx_t *l, uint64_t number)
{
    struct ref *r = &l->refs[number % LANE_SLOTS];
    void *ref = r->ref;

    if (ref) {
        INVARIANT(2, l->live > 0 && l->bytes >= r->len);
        r->ref = NULL;
        l->live--;
        l->bytes -= r->len;
    }
    return ref;
}

/* Was the last number dropped, so that it can be offered again? */
static bool last_dropped(const lane_tx_t *l)
{
    return l->next > l->tail && !l->refs[(l->next - 1) % LANE_SLOTS].ref;
}

bool lane_tx_room(const lane_tx_t *l)
{
    return l->next - l->tail < LANE_SLOTS || last_dropped(l);
}

bool lane_tx_offer(lane_tx_t *l, const struct lane_item *item, void *ref)
{
    uint64_t number = l->next;
    struct slot *s;

    INVARIANT(1, l->tail <= l->mark && l->mark <= l->next && l->next - l->tail <= LANE_SLOTS);
    if (!lane_tx_room(l))
        return false;
    if (last_dropped(l))
        number = l->next - 1;
    s = slot_of(l->p, number);
    l->refs[number % LANE_SLOTS] = (struct ref){ref, item->len};
    l->live++;
    l->bytes += item->len;
    atomic_store_explicit(&s->step, item->step, memory_order_relaxed);
    atomic_store_explicit(&s->off, item->off, memory_order_relaxed);
    atomic_store_explicit(&s->len, item->len, memory_order_relaxed);
    atomic_store_explicit(&s->pin, item->pin, memory_order_relaxed);
    atomic_store_explicit(&s->pin_off, item->pin_off, memory_order_relaxed);
    atomic_store_explicit(&s->pin_len, item->pin_len, memory_order_relaxed);
    atomic_store_explicit(&s->parts, item->parts, memory_order_relaxed);
    atomic_store_explicit(&s->word, word_of(number, OFFERED), memory_order_release);
    if (number < l->mark)
        l->mark = number;
    l->next = number + 1;
    return true;
}

void *lane_tx_drop(lane_tx_t *l)
{
    for (; l->mark < l->next; l->mark++) {
        uint64_t w = word_of(l->mark, OFFERED);

        if (l->refs[l->mark % LANE_SLOTS].ref &&
            atomic_compare_exchange_strong(&slot_of(l->p, l->mark)->word, &w,
                                           word_of(l->mark, DROPPED)))
            return ref_back(l, l->mark++);
    }
    return NULL;
}

/* Is the oldest number in transit complete?  Not if it is the last number and was dropped: it is
 * offered again, and the reader waits at it. */
static bool tail_done(lane_tx_t *l)
{
    if (l->tail == l->next)
        return false;
    if (!l->refs[l->tail % LANE_SLOTS].ref)
        return l->tail + 1 < l->next;
    return word_read(l->p, l->tail) == word_of(l->tail, RELEASED);
}

void *lane_tx_reap(lane_tx_t *l)
{
    while (tail_done(l)) {
        void *ref = ref_back(l, l->tail++);

        if (l->mark < l->tail)
            l->mark = l->tail;
        if (ref)
            return ref;
    }
    return NULL;
}

void *lane_tx_forget(lane_tx_t *l)
{
    void *ref = NULL;

    while (!ref && l->tail < l->next)
        ref = ref_back(l, l->tail++);
    if (l->mark < l->tail)
        l->mark = l->tail;
    return ref;
}

unsigned lane_tx_live(const lane_tx_t *l)
{
    return l->live;
}

uint64_t lane_tx_bytes(const lane_tx_t *l)
{
    return l->bytes;
}

bool lane_tx_asleep(lane_tx_t *l)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&l->p->reader_sleeps, memory_order_relaxed) != 0 &&
           atomic_exchange(&l->p->reader_sleeps, 0) != 0;
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool lane_tx_sleep(lane_tx_t *l, uint32_t *seen)
{
    *seen = atomic_load(&l->p->released);
    atomic_store(&l->p->writer_sleeps, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (!tail_done(l))
        return true;
    atomic_store(&l->p->writer_sleeps, 0);
    return false;
}

void lane_tx_wait(lane_tx_t *l, uint32_t seen, double seconds)
{
    struct timespec ts = {.tv_sec = (time_t)seconds};

    ts.tv_nsec = (long)((seconds - (double)ts.tv_sec) * 1e9);
    syscall(SYS_futex, &l->p->released, FUTEX_WAIT, seen, &ts, NULL, 0);
    atomic_store(&l->p->writer_sleeps, 0);
}

void lane_tx_kick(lane_tx_t *l)
{
    atomic_fetch_add(&l->p->released, 1);
    futex_wake(&l->p->released);
}

static void note(lane_tx_t *l, _Atomic uint64_t *where, uint64_t number)
{
    atomic_store(where, number);
    atomic_fetch_add(&l->p->notes, 1);
}

void lane_tx_floor(lane_tx_t *l, uint64_t floor)
{
    note(l, &l->p->floor, floor);
}

void lane_tx_missing(lane_tx_t *l, uint64_t step)
{
    note(l, &l->p->missing, step + 1);
}

void lane_tx_end(lane_tx_t *l, enum lane_end why)
{
    atomic_store(&l->p->ended, (uint32_t)why);
}

/* --- reader --- */

struct lane_rx {
    struct page *p;
    uint64_t cursor; /* next number to take */
    uint32_t noted;  /* notes at the last call of lane_rx_sleep() */
};

lane_rx_t *lane_rx_create(void *page)
{
    lane_rx_t *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->p = page;
    l->cursor = 1;
    return l;
}

void lane_rx_destroy(lane_rx_t *l)
{
    int saved = errno;

    free(l);
    errno = saved;
}

int lane_rx_take(lane_rx_t *l, struct lane_item *item)
{
    for (int tries = 0; tries < 1000000; tries++) {
        struct slot *s = slot_of(l->p, l->cursor);
        uint64_t w = word_read(l->p, l->cursor);

        if (w >> 2 < l->cursor)
            return 0;
        if (w >> 2 > l->cursor && (w >> 2) % LANE_SLOTS == l->cursor % LANE_SLOTS) {
            l->cursor = (w >> 2) - LANE_SLOTS + 1;
            continue;
        }
        if (w == word_of(l->cursor, DROPPED)) {
            if (word_read(l->p, l->cursor + 1) >> 2 <= l->cursor)
                return 0;
            /* The number may have been offered again before the next one was. */
            if (word_read(l->p, l->cursor) == w)
                l->cursor++;
            continue;
        }
        if (w != word_of(l->cursor, OFFERED))
            break;
        if (!atomic_compare_exchange_strong(&s->word, &w, word_of(l->cursor, TAKEN)))
            continue;
        item->number = l->cursor++;
        item->step = atomic_load_explicit(&s->step, memory_order_relaxed);
        item->off = atomic_load_explicit(&s->off, memory_order_relaxed);
        item->len = atomic_load_explicit(&s->len, memory_order_relaxed);
        item->pin = atomic_load_explicit(&s->pin, memory_order_relaxed);
        item->pin_off = atomic_load_explicit(&s->pin_off, memory_order_relaxed);
        item->pin_len = atomic_load_explicit(&s->pin_len, memory_order_relaxed);
        item->parts = atomic_load_explicit(&s->parts, memory_order_relaxed);
        return 1;
    }
    errno = EPROTO;
    return -1;
}

int lane_rx_release(lane_rx_t *l, uint64_t number)
{
    uint64_t w = word_of(number, TAKEN);

    if (number == 0 || number >= l->cursor ||
        !atomic_compare_exchange_strong(&slot_of(l->p, number)->word, &w,
                                        word_of(number, RELEASED))) {
        errno = EINVAL;
        return -1;
    }
    atomic_fetch_add(&l->p->released, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&l->p->writer_sleeps, memory_order_relaxed))
        futex_wake(&l->p->released);
    return 0;
}

/* Would lane_rx_take() return a value other than 0? */
static bool something(lane_rx_t *l)
{
    uint64_t w = word_read(l->p, l->cursor);

    if (w == word_of(l->cursor, DROPPED))
        return word_read(l->p, l->cursor + 1) >> 2 > l->cursor;
    return w >> 2 >= l->cursor;
}

bool lane_rx_sleep(lane_rx_t *l)
{
    uint32_t noted = l->noted;

    atomic_store(&l->p->reader_sleeps, 1);
    atomic_thread_fence(memory_order_seq_cst);
    l->noted = atomic_load(&l->p->notes);
    if (!something(l) && lane_rx_end(l) == LANE_OPEN && l->noted == noted)
        return true;
    atomic_store(&l->p->reader_sleeps, 0);
    return false;
}

enum lane_end lane_rx_end(const lane_rx_t *l)
{
    uint32_t end = atomic_load(&l->p->ended);

    return end == LANE_OPEN || end == LANE_CLOSED || end == LANE_FAILED ? (enum lane_end)end
                                                                        : LANE_EVICTED;
}

uint64_t lane_rx_floor(const lane_rx_t *l)
{
    return atomic_load(&l->p->floor);
}

uint64_t lane_rx_missing(const lane_rx_t *l)
{
    return atomic_load(&l->p->missing);
}
