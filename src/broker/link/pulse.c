/* pulse.c - signs of life in memory that the processes of a host share.
 *
 * Purpose: two brokers of a host that have nothing to say to each other are told apart from dead
 * ones without a message.  In an idle session, a broker wakes up once for each of its rounds
 * (silence.c), whatever the number of its neighbors: messages would wake it up for each of them.
 *
 * Format: a file in memory (memfd_create(2)) of PULSE_SIZE bytes, sealed, whose first 8 bytes are
 * the time of the last sign of life: nanoseconds of CLOCK_BOOTTIME, in the order of bytes of the
 * host.
 *
 * Invariants:
 *  1. Whatever another process writes to its pulse, or does to its file, a view of it returns -1 or
 *     a time that is not before the last call: the size of the file cannot change.
 *  2. A process that is stopped gives no sign of life.
 *
 * Failure: without memory, or on a kernel that cannot seal files, there is no pulse, or no view of
 * it: the neighbors send each other messages instead.
 */
#include "config.h"
#include "pulse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/clock.h"

#define PULSE_SIZE 4096
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

struct page {
    _Atomic uint64_t at;
};
_Static_assert(sizeof(struct page) == 8, "the format of a pulse");

struct pulse {
    int fd;
    struct page *page;
};

struct pulse_view {
    const struct page *page;
    uint64_t at;   /* what the page said at the last look */
    double looked; /* time of the last look */
};

pulse_t *pulse_create(void)
{
    pulse_t *p = calloc(1, sizeof(*p));
    void *page;

    if (!p)
        return NULL;
    if ((p->fd = memfd_create("flux-pulse", MFD_CLOEXEC | MFD_ALLOW_SEALING)) < 0 ||
        ftruncate(p->fd, PULSE_SIZE) < 0 || fallocate(p->fd, 0, 0, PULSE_SIZE) < 0 ||
        (page = mmap(NULL, PULSE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0)) ==
            MAP_FAILED) {
        pulse_destroy(p);
        return NULL;
    }
    p->page = page;
    if (fcntl(p->fd, F_ADD_SEALS, SEALS) < 0) {
        pulse_destroy(p);
        return NULL;
    }
    pulse_beat(p);
    return p;
}

void pulse_destroy(pulse_t *p)
{
    int saved = errno;

    if (!p)
        return;
    if (p->page)
        munmap(p->page, PULSE_SIZE);
    if (p->fd >= 0)
        close(p->fd);
    free(p);
    errno = saved;
}

int pulse_fd(const pulse_t *p)
{
    return p->fd;
}

void pulse_beat(pulse_t *p)
{
    atomic_store_explicit(&p->page->at, (uint64_t)(clock_boot() * 1e9), memory_order_relaxed);
}

/* Map the page of another process.  Returns NULL with errno. */
static const struct page *map_page(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *page;

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) < 0 ||
        st.st_size != PULSE_SIZE) {
        errno = EPROTO;
        return NULL;
    }
    page = mmap(NULL, PULSE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

pulse_view_t *pulse_view_create(int fd)
{
    pulse_view_t *v = calloc(1, sizeof(*v));
    int saved;

    if (v && !(v->page = map_page(fd))) {
        saved = errno;
        free(v);
        v = NULL;
        errno = saved;
    }
    saved = errno;
    close(fd);
    errno = saved;
    if (v) {
        v->at = atomic_load_explicit(&v->page->at, memory_order_relaxed);
        v->looked = clock_boot();
    }
    return v;
}

void pulse_view_destroy(pulse_view_t *v)
{
    int saved = errno;

    if (!v)
        return;
    munmap((void *)v->page, PULSE_SIZE);
    free(v);
    errno = saved;
}

/* The clock of the other process may differ from that of this one (time_namespaces(7)): its sign of
 * life came after the last look, and before this one. */
double pulse_view_ago(pulse_view_t *v)
{
    uint64_t at = atomic_load_explicit(&v->page->at, memory_order_relaxed);
    double now = clock_boot();
    double ago = now - (double)at * 1e-9;
    double most = now - v->looked;

    if (at == v->at)
        return -1.;
    v->at = at;
    v->looked = now;
    return ago < 0. ? 0. : ago > most ? most : ago;
}
