/* check_stream_refused.c - what the system refuses to the ends of a stream: memory, descriptors and
 * threads.  Each time errno and a sentence; nothing is left, and what was open goes on. */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "two_writers.h"

/* --- a system that refuses --- */

enum call { NONE, MEMFD, TRUNCATE, ALLOCATE, MAP, EPOLL, EVENT, THREAD, ACCEPT, SOCKET };

/* What is refused in this thread, and in others, and with which error; after how many calls. */
static __thread bool mine;
static enum call refused_here, refused_there;
static int refused_errno;
static int granted;

static bool refuses(enum call c)
{
    if ((mine ? refused_here : refused_there) != c || (mine && granted-- > 0))
        return false;
    errno = refused_errno;
    return true;
}

/* clang-format off */
#define WRAP(call, result, type, name, args, params)            \
    type __real_##name params;                                  \
    type __wrap_##name params;                                  \
    type __wrap_##name params                                   \
    {                                                           \
        return refuses(call) ? (result) : __real_##name args;   \
    }
WRAP(MEMFD, -1, int, memfd_create, (n, f), (const char *n, unsigned f))
WRAP(TRUNCATE, -1, int, ftruncate, (fd, n), (int fd, off_t n))
WRAP(ALLOCATE, -1, int, fallocate, (fd, m, o, n), (int fd, int m, off_t o, off_t n))
WRAP(MAP, MAP_FAILED, void *, mmap, (a, n, p, f, fd, o),
     (void *a, size_t n, int p, int f, int fd, off_t o))
WRAP(EPOLL, -1, int, epoll_create1, (f), (int f))
WRAP(EVENT, -1, int, eventfd, (n, f), (unsigned n, int f))
WRAP(THREAD, refused_errno, int, pthread_create, (t, a, f, p),
     (pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *p))
WRAP(ACCEPT, -1, int, accept4, (fd, a, n, f), (int fd, struct sockaddr *a, socklen_t *n, int f))
WRAP(SOCKET, -1, int, socket, (d, t, p), (int d, int t, int p))
/* clang-format on */

/* Refuse a call here, after `n` calls, or in other threads. */
static void refuse(enum call c, int errnum, int n)
{
    mine = true;
    granted = n;
    refused_errno = errnum;
    refused_here = c;
}

static void refuse_there(enum call c, int errnum)
{
    mine = true;
    refused_errno = errnum;
    __atomic_store_n(&refused_there, c, __ATOMIC_SEQ_CST);
}

/* --- tests --- */

/* The limits of a process: of the size of memory, and of descriptors. */
START_TEST(limits)
{
    const struct rlimit small = {1 << 20, 1 << 20};
    const struct flux_stream_opts ring = {.transport = "ring"};
    struct rlimit fds;
    static char large[2 << 20];
    struct bed b;
    DIR *d = opendir("/proc/self/fd");
    int fd = dirfd(d);

    setrlimit(RLIMIT_FSIZE, &small);
    bed_init(&b, NULL, 0);
    works(flux_stream_put(b.w[0], "large", large, sizeof(large), &err));
    fails(flux_stream_end_step(b.w[0], 1., &err), ENOSPC,
          "stream 's': there is no room for the 2097216 bytes of step 0");
    put_number(&b, 0);
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    has(&b, 0);
    flux_stream_close(b.r);
    getrlimit(RLIMIT_NOFILE, &fds);
    fds.rlim_cur = (rlim_t)fd + 1;
    setrlimit(RLIMIT_NOFILE, &fds);
    while ((fd = dup(0)) >= 0)
        ;
    fake_clear(b.f[2]);
    ck_assert_ptr_null(b.r = reader_open(&b, NULL));
    ck_assert_msg(errno == EMFILE, "%s", err.text);
    ck_assert_str_eq(err.text,
                     "stream 's': cannot open a socket to the writer of a stream: Too many open "
                     "files");
    ck_assert_ptr_null(flux_stream_open(b.f[2]->h, "t", FLUX_STREAM_WRITE, NULL, &err));
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_str_eq(err.text, "stream 't' cannot be opened: a stream cannot listen for readers of "
                               "other hosts: Too many open files");
    ck_assert_ptr_null(flux_stream_open(b.f[2]->h, "t", FLUX_STREAM_WRITE, &ring, &err));
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_str_eq(err.text, "stream 't' cannot be opened: cannot make the shared memory of a "
                               "stream: Too many open files");
    put_number(&b, 0); /* those that are open go on */
    closedir(d);
    bed_free(&b);
}
END_TEST

static unsigned descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* What the system may refuse to a writer that opens a stream: it is told, and nothing is left. */
START_TEST(no_stream)
{
    static const struct {
        enum call call;
        int errnum;
    } calls[] = {{MEMFD, ENFILE}, {TRUNCATE, ENOMEM}, {MAP, ENOMEM},   {EPOLL, EMFILE},
                 {EVENT, ENFILE}, {THREAD, EAGAIN},   {SOCKET, ENFILE}};
    const struct flux_stream_opts opts = {.transport = "ring"};
    struct bed b = {.n = 0};
    unsigned before;
    bool made = false;

    b.f[0] = party(&b);
    before = descriptors();
    for (int n = 0; !made && n < 10; n++) {
        flux_stream_t *t;

        refuse(calls[_i].call, calls[_i].errnum, n);
        t = flux_stream_open(b.f[0]->h, "t", FLUX_STREAM_WRITE, &opts, &err);
        made = t != NULL;
        if (!made) {
            ck_assert_msg(errno == calls[_i].errnum, "%s", err.text);
            ck_assert_msg(strncmp(err.text, "stream 't' cannot be opened: ", 29) == 0, "%s",
                          err.text);
        }
        refuse(NONE, 0, 0);
        flux_stream_close(t);
        fake_clear(b.f[0]);
        b.n = 0;
        ck_assert_uint_eq(descriptors(), before);
    }
    ck_assert(made);
    fake_free(b.f[0]);
}
END_TEST

/* No memory for a step, or for what is pinned: it is told, the step is forgotten, and the next one
 * works. */
START_TEST(no_memory)
{
    static char data[100000];
    struct bed b;

    bed_init(&b, NULL, 0);
    works(flux_stream_put(b.w[0], "data", data, sizeof(data), &err));
    refuse(ALLOCATE, ENOSPC, 0);
    fails(flux_stream_end_step(b.w[0], 1., &err), ENOMEM,
          "stream 's': there is not enough shared memory for the 100096 bytes of step 0: No space "
          "left on device");
    refuse(NONE, 0, 0);
    put_number(&b, 0);
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    has(&b, 0);
    works(flux_stream_pin(b.w[0], "data", &err));
    works(flux_stream_put(b.w[0], "data", data, sizeof(data), &err));
    refuse(ALLOCATE, ENOSPC, 1);
    fails(flux_stream_end_step(b.w[0], 1., &err), ENOMEM,
          "step 1 of stream 's': there is no room for the 100096 bytes that are pinned: Cannot "
          "allocate memory");
    refuse(NONE, 0, 0);
    put_number(&b, 0);
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    has(&b, 1);
    bed_free(&b);
}
END_TEST

/* What the system may refuse to a reader that joins, or to the writer that admits it: the reader is
 * told, and the next one joins. */
START_TEST(no_reader)
{
    static const struct {
        enum call here, there;
        int errnum;
        const char *text;
    } calls[] = {
        {SOCKET, NONE, ENFILE,
         "stream 's': cannot open a socket to the writer of a stream: Too many open files in "
         "system"},
        {MAP, NONE, ENOMEM,
         "stream 's': cannot map 18522046464 bytes of a stream's memory: Cannot "
         "allocate memory"},
        {NONE, MEMFD, ENFILE,
         "stream 's': the writer does not admit this reader: Too many "
         "open files in system"},
        {NONE, ALLOCATE, ENOSPC,
         "stream 's': the writer does not admit this reader: No space "
         "left on device"},
    };
    struct bed b;
    unsigned before;

    bed_init(&b, NULL, 0);
    flux_stream_close(b.r);
    fake_clear(b.f[2]);
    before = descriptors();
    if (calls[_i].here != NONE)
        refuse(calls[_i].here, calls[_i].errnum, 0);
    else
        refuse_there(calls[_i].there, calls[_i].errnum);
    ck_assert_ptr_null(b.r = reader_open(&b, NULL));
    ck_assert_msg(errno == calls[_i].errnum, "%s", err.text);
    ck_assert_str_eq(err.text, calls[_i].text);
    refuse(NONE, 0, 0);
    refuse_there(NONE, 0);
    put_number(&b, 0);
    put_number(&b, 1);
    fake_clear(b.f[2]);
    ck_assert_msg((b.r = reader_open(&b, NULL)) != NULL, "%s", err.text);
    put_number(&b, 0);
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    has(&b, 1);
    ck_assert_uint_ge(descriptors(), before);
    bed_free(&b);
}
END_TEST

/* A writer without descriptors for readers: they wait for it, but no longer than they want to. */
START_TEST(no_descriptors)
{
    const struct flux_stream_opts opts = {.timeout = 0.1};
    struct bed b;

    bed_init(&b, NULL, 0);
    flux_stream_close(b.r);
    fake_clear(b.f[2]);
    refuse_there(ACCEPT, EMFILE);
    ck_assert_ptr_null(b.r = reader_open(&b, &opts));
    ck_assert_msg(errno == ETIMEDOUT, "%s", err.text);
    ck_assert_msg(strncmp(err.text, "stream 's': ", 12) == 0, "%s", err.text);
    refuse_there(NONE, 0);
    fake_clear(b.f[2]);
    ck_assert_msg((b.r = reader_open(&b, NULL)) != NULL, "%s", err.text);
    put_number(&b, 0);
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    has(&b, 0);
    bed_free(&b);
}
END_TEST

/* A step that is to be published later needs a thread, and a descriptor. */
START_TEST(no_async)
{
    static const struct {
        enum call call;
        const char *text;
    } calls[] = {
        {EVENT, "step 1 of stream 's' cannot wait: Resource temporarily unavailable"},
        {THREAD, "step 1 of stream 's' gets no thread: Resource temporarily unavailable"},
    };
    struct bed b;

    bed_init(&b, NULL, 1);
    put_number(&b, 0); /* the queue is full now */
    works(flux_stream_put(b.w[0], "n", "12345678", 8, &err));
    refuse(calls[_i].call, EAGAIN, 0);
    fails(flux_stream_end_step_async(b.w[0], &err), EAGAIN, calls[_i].text);
    refuse(NONE, 0, 0);
    put_number(&b, 1);
    ck_assert_int_eq(begin(&b, FLUX_STREAM_NEXT), 1);
    has(&b, 0);
    bed_free(&b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("stream_refused");

    tcase_add_test(tc, limits);
    tcase_add_loop_test(tc, no_stream, 0, 7);
    tcase_add_test(tc, no_memory);
    tcase_add_loop_test(tc, no_reader, 0, 4);
    tcase_add_test(tc, no_descriptors);
    tcase_add_loop_test(tc, no_async, 0, 2);
    return run_case("stream_refused", tc);
}
