/* mailbox.c - messages from thread to thread, by pointer.
 *
 * Two arrays: writers fill one under a mutex, the reader swaps them and works through the other
 * without it.  The eventfd is written only when the array was empty, and read only by a reader that
 * takes: a burst costs one wake-up.
 *
 * Invariants:
 *  1. The eventfd is readable whenever the fill array is not empty.
 *  2. Order is that of the puts.
 *
 * Failure: a put that finds no memory or no room leaves the mailbox as it was.
 */
#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mailbox.h"

#define KEEP_CAPACITY 256

struct pile {
    struct letter *letters;
    size_t count;
    size_t cap;
    size_t bytes;
};

struct mailbox {
    pthread_mutex_t lock;
    struct pile fill;
    struct pile taken;
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
        flux_msg_destroy(p->letters[i].msg);
    free(p->letters);
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

int mailbox_put(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit)
{
    struct pile *p = &m->fill;
    int errnum = 0;
    bool wake = false;

    pthread_mutex_lock(&m->lock);
    if (limit > 0 && (p->count >= limit || p->bytes >= MAILBOX_BYTES_MAX))
        errnum = ENOBUFS;
    else if (p->count == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 16;
        struct letter *l = realloc(p->letters, cap * sizeof(*l));
        if (l) {
            p->letters = l;
            p->cap = cap;
        } else
            errnum = ENOMEM;
    }
    if (!errnum) {
        wake = p->count == 0;
        if (msg)
            p->bytes += flux_msg_encoded_size(msg);
        p->letters[p->count++] = (struct letter){from, msg, code};
    }
    pthread_mutex_unlock(&m->lock);
    if (errnum) {
        errno = errnum;
        return -1;
    }
    if (wake) {
        uint64_t one = 1;
        /* Fails only when the counter would overflow, and then it is readable anyway. */
        if (write(m->fd, &one, sizeof(one)) < 0)
            errno = 0;
    }
    return 0;
}

struct letter *mailbox_take(mailbox_t *m, size_t *count)
{
    struct pile p;
    uint64_t n;

    if (m->taken.cap > KEEP_CAPACITY) {
        free(m->taken.letters);
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
    pthread_mutex_unlock(&m->lock);
    *count = p.count;
    return p.letters;
}

size_t mailbox_count(mailbox_t *m)
{
    size_t n;

    pthread_mutex_lock(&m->lock);
    n = m->fill.count;
    pthread_mutex_unlock(&m->lock);
    return n;
}
