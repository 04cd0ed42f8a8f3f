/* mailbox.c - messages from thread to thread, by pointer.
 *
 * There are two arrays: writers fill one under a mutex; the reader swaps them and reads the other
 * without locking.  The eventfd is written once until the reader takes, so a burst costs one
 * wake-up.  A writer of several messages (mailbox_post()) writes it after the last one, so that the
 * reader does not start with only the first one.  A reader that is woken in another way needs no
 * eventfd.
 *
 * A reader may set aside some envelopes that it took.  The mailbox knows only their number and
 * size, so that limits cover all envelopes that are not finished.
 *
 * Invariants:
 *  1. The eventfd is readable after mailbox_again(), and while the fill array is not empty; except
 *     until a writer whose mailbox_post() returned 1 calls mailbox_wake(), or leaves that to the
 *     next writer because the message can wait.
 *  2. Messages are taken in the order in which they were put.
 *  3. `aside` is the number of envelopes that the reader has set aside and not yet finished.
 *
 * Failure: if memory or room is short, a put leaves the mailbox unchanged.
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
    bool signaled; /* the eventfd was written, and the reader has not taken since */
    int fd;
};

mailbox_t *mailbox_create(bool wakes)
{
    mailbox_t *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    m->fd = -1;
    if (wakes && (m->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
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
        m->taken.count = 0; /* the reader owns the envelopes that it took */
        pile_free(&m->taken);
        if (m->fd >= 0)
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

    if (m->fd < 0)
        return;
    /* Fails only if the counter would overflow, and then the eventfd is readable anyway. */
    if (write(m->fd, &one, sizeof(one)) < 0)
        errno = 0;
}

int mailbox_put(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit)
{
    bool wake = false;
    int errnum;

    pthread_mutex_lock(&m->lock);
    if ((errnum = put(m, from, msg, code, limit)) == 0) {
        wake = !m->signaled;
        m->signaled = true;
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
    bool signaled;

    pthread_mutex_lock(&m->lock);
    errnum = put(m, from, msg, code, limit);
    signaled = m->signaled;
    pthread_mutex_unlock(&m->lock);
    if (errnum) {
        errno = errnum;
        return -1;
    }
    return signaled ? 0 : 1;
}

void mailbox_wake(mailbox_t *m)
{
    bool wake;

    pthread_mutex_lock(&m->lock);
    wake = m->fill.count > 0 && !m->signaled;
    if (wake)
        m->signaled = true;
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
    if (m->fd >= 0 && read(m->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
        errno = 0;
    pthread_mutex_lock(&m->lock);
    p = m->fill;
    m->fill = m->taken;
    m->fill.count = 0;
    m->fill.bytes = 0;
    m->taken = p;
    m->signaled = false;
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
    wake = !m->signaled;
    m->signaled = true;
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
