/* mailbox.c - messages from thread to thread, by pointer.
 *
 * Two arrays: writers fill one under a mutex, the reader swaps them and works through the other
 * without it.  The eventfd is written once until the reader takes: a burst costs one wake-up.  Who
 * has more to put in (mailbox_post) writes it after the last, so that the reader does not begin
 * with the first alone.
 *
 * A reader that does not do all that it took at once sets the rest aside: only the number and size of that
 * are known here, so that limits mean all that is not done.
 *
 * Invariants:
 *  1. The eventfd is readable whenever the fill array is not empty, or somebody who was told so by
 *     mailbox_post() has not called mailbox_wake() yet; and after mailbox_again().
 *  2. Order is that of the puts.
 *  3. `aside` is the number of envelopes that the reader took and has neither done nor dropped.
 *
 * Failure: a put that finds no memory or no room leaves the mailbox as it was.
 */
#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mailbox.h"
#include "libutil/invariant.h"

#define KEEP_CAPACITY 256

struct pile {
    struct envelope *envelopes;
    size_t count;
    size_t cap;
    size_t bytes;
};

struct mailbox {
    pthread_mutex_t lock;
    struct pile fill;
    struct pile taken;
    atomic_bool fresh; /* the fill array is not empty */
    atomic_size_t aside;
    atomic_size_t aside_bytes;
    bool told; /* the eventfd is written, and what it tells of not taken */
    int fd;
};

mailbox_t *mailbox_create(void)
{
    mailbox_t *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    if ((m->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        free(m);
        return NULL;
    }
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void pile_free(struct pile *p)
{
    for (size_t i = 0; i < p->count; i++)
        flux_msg_destroy(p->envelopes[i].msg);
    free(p->envelopes);
}

void mailbox_destroy(mailbox_t *m)
{
    if (m) {
        int saved = errno;
        pile_free(&m->fill);
        m->taken.count = 0; /* what was taken is the reader's */
        pile_free(&m->taken);
        close(m->fd);
        pthread_mutex_destroy(&m->lock);
        free(m);
        errno = saved;
    }
}

int mailbox_fd(const mailbox_t *m)
{
    return m->fd;
}

/* The lock is held. */
static int put(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit)
{
    struct pile *p = &m->fill;

    if (limit > 0 && (p->count + atomic_load(&m->aside) >= limit ||
                      p->bytes + atomic_load(&m->aside_bytes) >= limit * MAILBOX_BYTES_EACH))
        return ENOBUFS;
    if (p->count == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 16;
        struct envelope *l = realloc(p->envelopes, cap * sizeof(*l));
        if (!l)
            return ENOMEM;
        p->envelopes = l;
        p->cap = cap;
    }
    if (msg)
        p->bytes += flux_msg_encoded_size(msg);
    p->envelopes[p->count++] = (struct envelope){from, msg, code};
    atomic_store_explicit(&m->fresh, true, memory_order_relaxed);
    return 0;
}

static void tell(mailbox_t *m)
{
    uint64_t one = 1;

    /* Fails only when the counter would overflow, and then it is readable anyway. */
    if (write(m->fd, &one, sizeof(one)) < 0)
        errno = 0;
}

int mailbox_put(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit)
{
    bool wake = false;
    int errnum;

    pthread_mutex_lock(&m->lock);
    if ((errnum = put(m, from, msg, code, limit)) == 0) {
        wake = !m->told;
        m->told = true;
        INVARIANT(1, m->fill.count > 0);
    }
    pthread_mutex_unlock(&m->lock);
    if (errnum) {
        errno = errnum;
        return -1;
    }
    if (wake)
        tell(m);
    return 0;
}

int mailbox_post(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit)
{
    int errnum;
    bool told;

    pthread_mutex_lock(&m->lock);
    errnum = put(m, from, msg, code, limit);
    told = m->told;
    pthread_mutex_unlock(&m->lock);
    if (errnum) {
        errno = errnum;
        return -1;
    }
    return told ? 0 : 1;
}

void mailbox_wake(mailbox_t *m)
{
    bool wake;

    pthread_mutex_lock(&m->lock);
    wake = m->fill.count > 0 && !m->told;
    if (wake)
        m->told = true;
    pthread_mutex_unlock(&m->lock);
    if (wake)
        tell(m);
}

struct envelope *mailbox_take(mailbox_t *m, size_t *count)
{
    struct pile p;
    uint64_t n;

    if (m->taken.cap > KEEP_CAPACITY) {
        free(m->taken.envelopes);
        m->taken = (struct pile){0};
    }
    if (read(m->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
        errno = 0;
    pthread_mutex_lock(&m->lock);
    p = m->fill;
    m->fill = m->taken;
    m->fill.count = 0;
    m->fill.bytes = 0;
    m->taken = p;
    m->told = false;
    INVARIANT(1, m->fill.count == 0 && m->fill.bytes == 0);
    atomic_store_explicit(&m->fresh, false, memory_order_relaxed);
    pthread_mutex_unlock(&m->lock);
    *count = p.count;
    return p.envelopes;
}

bool mailbox_has_new(const mailbox_t *m)
{
    return atomic_load_explicit(&m->fresh, memory_order_relaxed);
}

void mailbox_set_aside(mailbox_t *m, size_t envelopes, size_t bytes)
{
    atomic_fetch_add(&m->aside, envelopes);
    atomic_fetch_add(&m->aside_bytes, bytes);
}

void mailbox_done(mailbox_t *m, size_t envelopes, size_t bytes)
{
    INVARIANT(3, atomic_load(&m->aside) >= envelopes);
    atomic_fetch_sub(&m->aside, envelopes);
    atomic_fetch_sub(&m->aside_bytes, bytes);
}

void mailbox_again(mailbox_t *m)
{
    bool wake;

    pthread_mutex_lock(&m->lock);
    wake = !m->told;
    m->told = true;
    pthread_mutex_unlock(&m->lock);
    if (wake)
        tell(m);
}

size_t mailbox_count(mailbox_t *m)
{
    size_t n;

    pthread_mutex_lock(&m->lock);
    n = m->fill.count;
    pthread_mutex_unlock(&m->lock);
    return n + atomic_load(&m->aside);
}
