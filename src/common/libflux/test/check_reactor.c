/* check_reactor.c - time, descriptors, signals, children and deferrals, on libev and on an engine
 * with a clock of its own. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libflux/reactor.h"
#include "libflux/slice.h"
#include "libutil/test/suite.h"

#define TRACE_MAX 64

/* --- suspending the machine --- */

/* Before libc: the clock since boot leaps by what suspend() is told, and so do the timers that
 * follow this clock, as the kernel does it when the machine is resumed. */
static time_t suspended;
static int boot_fd[8];
static size_t nboot;

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ts);

    if (id == CLOCK_BOOTTIME)
        ts->tv_sec += suspended;
    return rc;
}

int timerfd_create(int id, int flags)
{
    int fd = (int)syscall(SYS_timerfd_create, id, flags);

    if (id == CLOCK_BOOTTIME && fd >= 0 && nboot < 8)
        boot_fd[nboot++] = fd;
    return fd;
}

static void suspend(time_t seconds)
{
    suspended += seconds;
    for (size_t i = 0; i < nboot; i++) {
        struct itimerspec t;

        ck_assert_int_eq(timerfd_gettime(boot_fd[i], &t), 0);
        if (t.it_value.tv_sec == 0 && t.it_value.tv_nsec == 0)
            continue;
        t.it_value.tv_sec -= seconds;
        if (t.it_value.tv_sec < 0)
            t.it_value = (struct timespec){0, 1};
        ck_assert_int_eq(timerfd_settime(boot_fd[i], 0, &t, NULL), 0);
    }
}

struct trace {
    char text[TRACE_MAX];
    size_t n;
    flux_watcher_t *w[8];
    int left;
    int revents;
    double at;
};

static void note(struct trace *t, char c)
{
    ck_assert_uint_lt(t->n, TRACE_MAX - 1);
    t->text[t->n++] = c;
    t->text[t->n] = '\0';
}

static void a_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    note(arg, 'a');
}

static void b_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    note(arg, 'b');
}

static void c_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    note(arg, 'c');
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    note(arg, '.');
    flux_reactor_stop(r, 7);
}

/* --- libev --- */

START_TEST(timers)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.n = 0};
    flux_watcher_t *a = flux_timer_create(r, a_cb, &t);
    flux_watcher_t *b = flux_timer_create(r, b_cb, &t);
    flux_watcher_t *c = flux_timer_create(r, c_cb, &t);
    double start = flux_reactor_now(r);

    ck_assert(!flux_watcher_active(a));
    flux_timer_start(a, 0.03, 0.);
    flux_timer_start(b, 0.01, 0.);
    flux_timer_start(c, -5., 0.); /* at once */
    ck_assert(flux_watcher_active(a));
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "cba");
    ck_assert(!flux_watcher_active(a));
    ck_assert(flux_reactor_now(r) - start >= 0.029);
    /* restarted, it counts from now; stopped, it is silent */
    flux_timer_start(a, 0.001, 0.);
    flux_timer_start(a, 0.02, 0.);
    flux_timer_start(b, 0.01, 0.);
    flux_timer_start(c, 0.001, 0.);
    flux_watcher_stop(c);
    flux_watcher_stop(c);
    flux_watcher_stop(NULL);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "cbaba");
    flux_watcher_destroy(a);
    flux_watcher_destroy(b);
    flux_watcher_destroy(c);
    flux_watcher_destroy(NULL);
    flux_reactor_destroy(r);
    flux_reactor_destroy(NULL);
}
END_TEST

static void countdown_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;

    note(t, 'a');
    if (--t->left == 0)
        flux_reactor_stop(r, 3);
}

static void stop_b_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;

    t->at = flux_reactor_now(r);
    note(t, 'b');
    flux_reactor_stop(r, 0);
}

/* Suspended time counts for the reactor's time and for deadlines, and not for other timers. */
START_TEST(suspended_machine)
{
    struct trace t = {0};
    flux_reactor_t *r = flux_reactor_create(false);
    flux_watcher_t *timer = flux_timer_create(r, a_cb, &t);
    flux_watcher_t *deadline = flux_deadline_create(r, stop_b_cb, &t);
    flux_watcher_t *stopped = flux_deadline_create(r, a_cb, &t);
    double start = flux_reactor_now(r);

    flux_timer_start(timer, 3000., 0.);
    flux_timer_start(stopped, 3000., 0.);
    flux_watcher_stop(stopped);
    flux_timer_start(deadline, 3600., 0.);
    suspend(3601);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "b");
    ck_assert(t.at - start >= 3600.);
    ck_assert(!flux_watcher_active(deadline));
    ck_assert(flux_watcher_active(timer));
    /* At once, in a short time, and not at all. */
    flux_timer_start(deadline, 0., 0.);
    flux_reactor_run(r);
    flux_timer_start(deadline, 0.001, 0.);
    flux_reactor_run(r);
    ck_assert_str_eq(t.text, "bbb");
    flux_watcher_destroy(timer);
    flux_timer_start(stopped, 3000., 0.);
    flux_watcher_unref(stopped);
    flux_reactor_run(r);
    ck_assert_str_eq(t.text, "bbb");
    flux_watcher_destroy(stopped);
    flux_watcher_destroy(deadline);
    flux_reactor_destroy(r);
    nboot = 0;
}
END_TEST

START_TEST(repeating)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.left = 5};
    flux_watcher_t *a = flux_timer_create(r, countdown_cb, &t);
    int rc = 99;

    flux_timer_start(a, 0., 0.002);
    ck_assert_int_eq(flux_reactor_run(r), 3);
    ck_assert(flux_reactor_stopped(r, &rc));
    ck_assert_int_eq(rc, 3);
    ck_assert_str_eq(t.text, "aaaaa");
    ck_assert(flux_watcher_active(a));
    /* the loop can be run again */
    t.left = 2;
    ck_assert_int_eq(flux_reactor_run(r), 3);
    ck_assert_str_eq(t.text, "aaaaaaa");
    flux_watcher_destroy(a);
    flux_reactor_destroy(r);
}
END_TEST

static void reader_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;
    char c;

    t->revents = revents;
    if (revents & FLUX_POLLIN) {
        if (read((int)t->at, &c, 1) == 1)
            note(t, c);
        else
            flux_watcher_stop(w);
    } else {
        note(t, 'w');
        flux_fd_watcher_set(w, 0);
        flux_reactor_stop(r, 0);
    }
}

START_TEST(descriptors)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.n = 0};
    int fds[2];
    flux_watcher_t *in, *out;

    ck_assert_int_eq(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    t.at = fds[0];
    in = flux_fd_watcher_create(r, fds[0], FLUX_POLLIN, reader_cb, &t);
    out = flux_fd_watcher_create(r, fds[1], FLUX_POLLOUT, reader_cb, &t);
    flux_watcher_start(out);
    flux_watcher_start(out);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_int_eq(t.revents, FLUX_POLLOUT);
    /* paused it says nothing, though active; set again it does */
    ck_assert(flux_watcher_active(out));
    flux_fd_watcher_set(out, FLUX_POLLOUT);
    flux_fd_watcher_set(out, FLUX_POLLOUT);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    flux_watcher_destroy(out);
    ck_assert_int_eq(write(fds[1], "xyz", 3), 3);
    close(fds[1]);
    flux_watcher_start(in);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "wwxyz");
    ck_assert(!flux_watcher_active(in));
    flux_watcher_destroy(in);
    close(fds[0]);
    flux_reactor_destroy(r);
}
END_TEST

static void ready_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;

    note(t, 'r');
    flux_watcher_stop(w);
    flux_watcher_start(t->w[0]);
}

START_TEST(defer_after_what_is_ready)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.n = 0};
    int fds[2];
    flux_watcher_t *w[3];

    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    t.w[0] = flux_defer_create(r, stop_cb, &t);
    for (int i = 0; i < 3; i++) {
        w[i] = flux_fd_watcher_create(r, i < 2 ? fds[1] : dup(fds[1]), FLUX_POLLOUT, ready_cb, &t);
        flux_watcher_start(w[i]);
    }
    ck_assert_int_eq(flux_reactor_run(r), 7);
    /* once, for all three */
    ck_assert_str_eq(t.text, "rrr.");
    ck_assert(!flux_watcher_active(t.w[0]));
    for (int i = 0; i < 3; i++)
        flux_watcher_destroy(w[i]);
    flux_watcher_destroy(t.w[0]);
    close(fds[0]);
    close(fds[1]);
    flux_reactor_destroy(r);
}
END_TEST

static void chain_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;

    note(t, (char)('0' + t->left));
    if (t->left-- > 0)
        flux_watcher_start(t->left % 2 ? w : t->w[0]);
}

/* Started in a deferral it fires too, and the loop does not sleep for the timer meanwhile. */
START_TEST(defer_in_defer)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.left = 6};
    flux_watcher_t *late = flux_timer_create(r, stop_cb, &t);
    flux_watcher_t *d = flux_defer_create(r, chain_cb, &t);
    double start;

    t.w[0] = flux_defer_create(r, chain_cb, &t);
    flux_timer_start(late, 0.5, 0.);
    start = flux_reactor_now(r);
    flux_watcher_start(d);
    flux_watcher_start(d);
    ck_assert_int_eq(flux_reactor_run(r), 7);
    ck_assert_str_eq(t.text, "6543210.");
    ck_assert(flux_reactor_now(r) - start < 5.);
    /* Alone it keeps no loop from returning, but fires. */
    t = (struct trace){.w = {t.w[0]}};
    flux_watcher_start(d);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "0");
    flux_watcher_start(d);
    flux_watcher_stop(d);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "0");
    flux_watcher_destroy(late);
    flux_watcher_destroy(d);
    flux_watcher_destroy(t.w[0]);
    flux_reactor_destroy(r);
}
END_TEST

static void start_defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;

    note(t, 't');
    flux_watcher_start(t->w[0]);
    flux_timer_start(t->w[1], 0.01, 0.);
}

/* A deferral started by a timer fires before the loop sleeps for the next one. */
START_TEST(defer_before_sleep)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.n = 0};
    flux_watcher_t *soon = flux_timer_create(r, start_defer_cb, &t);

    t.w[0] = flux_defer_create(r, a_cb, &t);
    t.w[1] = flux_timer_create(r, b_cb, &t);
    flux_timer_start(soon, 0.001, 0.);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "tab");
    flux_watcher_destroy(soon);
    flux_watcher_destroy(t.w[0]);
    flux_watcher_destroy(t.w[1]);
    flux_reactor_destroy(r);
}
END_TEST

START_TEST(unref)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.n = 0};
    int fds[2];
    flux_watcher_t *background = flux_timer_create(r, a_cb, &t);
    flux_watcher_t *once = flux_timer_create(r, c_cb, &t);
    flux_watcher_t *work = flux_timer_create(r, b_cb, &t);
    flux_watcher_t *in;

    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    in = flux_fd_watcher_create(r, fds[0], FLUX_POLLIN, a_cb, &t);
    flux_watcher_unref(in);
    flux_watcher_start(in);
    flux_watcher_unref(background);
    flux_watcher_unref(background);
    flux_timer_start(background, 1000., 1000.);
    flux_watcher_start(once); /* unref'd while active */
    flux_timer_start(once, 0.001, 0.);
    flux_watcher_unref(once);
    for (int i = 0; i < 3; i++) {
        flux_timer_start(once, 0.001, 0.);
        flux_timer_start(work, 0.005, 0.);
        ck_assert_int_eq(flux_reactor_run(r), 0);
        flux_timer_start(background, 1000., 1000.);
        flux_watcher_stop(in);
        flux_watcher_start(in);
    }
    ck_assert_str_eq(t.text, "cbcbcb");
    /* Nothing but these: it returns at once; and a counted one still holds it. */
    ck_assert_int_eq(flux_reactor_run(r), 0);
    flux_watcher_destroy(background);
    flux_watcher_destroy(in);
    flux_timer_start(work, 0.01, 0.);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "cbcbcbb");
    flux_watcher_destroy(work);
    flux_watcher_destroy(once);
    close(fds[0]);
    close(fds[1]);
    flux_reactor_destroy(r);
}
END_TEST

static void destroy_all_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;

    note(t, 'd');
    for (int i = 0; i < 8; i++) {
        flux_watcher_destroy(t->w[i]);
        t->w[i] = NULL;
    }
}

/* The first one that is called destroys all: the others, ready at the same time, are not called. */
static void sleep_cb(void *arg)
{
    note(arg, 's');
}

/* Once before each sleep, after the deferrals, and nothing that keeps the loop running. */
START_TEST(before_sleep)
{
    struct trace t = {0};
    flux_reactor_t *r = flux_reactor_create(false);
    flux_watcher_t *d = flux_defer_create(r, a_cb, &t);
    flux_watcher_t *timer = flux_timer_create(r, b_cb, &t);

    ck_assert_int_eq(flux_reactor_before_sleep(r, sleep_cb, &t), 0);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    t.n = 0;
    flux_watcher_start(d);
    flux_timer_start(timer, 0.01, 0.);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_msg(strncmp(t.text, "as", 2) == 0 && strchr(t.text, 'b'), "%s", t.text);
    ck_assert_int_eq(flux_reactor_before_sleep(r, NULL, NULL), 0);
    t.n = 0;
    flux_watcher_start(d);
    flux_timer_start(timer, 0.01, 0.);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "ab");
    flux_watcher_destroy(d);
    flux_watcher_destroy(timer);
    flux_reactor_destroy(r);
}
END_TEST

START_TEST(destroy_in_callback)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.n = 0};
    int fds[2];

    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    for (int i = 0; i < 8; i++) {
        if (i < 4) {
            t.w[i] = flux_timer_create(r, destroy_all_cb, &t);
            flux_timer_start(t.w[i], 0., i % 2 ? 0.1 : 0.);
            if (i > 1)
                flux_watcher_unref(t.w[i]);
        } else if (i < 6) {
            t.w[i] = flux_fd_watcher_create(r, fds[1], FLUX_POLLOUT, destroy_all_cb, &t);
            flux_watcher_start(t.w[i]);
        } else {
            t.w[i] = flux_defer_create(r, destroy_all_cb, &t);
            flux_watcher_start(t.w[i]);
        }
    }
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "d");
    /* the loop's count is right: it waits for a timer, and for nothing else */
    t.w[0] = flux_timer_create(r, destroy_all_cb, &t);
    flux_timer_start(t.w[0], 0.001, 0.);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_str_eq(t.text, "dd");
    close(fds[0]);
    close(fds[1]);
    flux_reactor_destroy(r);
}
END_TEST

/* A timer that is started without times uses those of the last time. */
START_TEST(timer_started_again)
{
    flux_reactor_t *r = flux_reactor_create(false);
    struct trace t = {.n = 0};
    flux_watcher_t *a = flux_timer_create(r, a_cb, &t);
    double start;

    flux_timer_start(a, 0.02, 0.);
    flux_watcher_stop(a);
    flux_watcher_start(a);
    start = flux_reactor_now(r);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert(flux_reactor_now(r) - start >= 0.015);
    flux_watcher_start(a);
    start = flux_reactor_now(r);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert(flux_reactor_now(r) - start >= 0.015);
    ck_assert_str_eq(t.text, "aa");
    flux_watcher_destroy(a);
    flux_reactor_destroy(r);
}
END_TEST

static void status_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct trace *t = arg;

    t->revents = revents;
    note(t, 's');
    flux_watcher_stop(w);
}

START_TEST(signals_and_children)
{
    flux_reactor_t *r = flux_reactor_create(true);
    flux_reactor_t *plain = flux_reactor_create(false);
    struct trace t = {.n = 0};
    flux_watcher_t *s = flux_signal_watcher_create(r, SIGUSR1, status_cb, &t);
    flux_watcher_t *c;
    pid_t pid;

    errno = 0;
    ck_assert_ptr_null(flux_signal_watcher_create(plain, SIGUSR1, a_cb, &t));
    ck_assert_int_eq(errno, ENOTSUP);
    ck_assert_ptr_null(flux_child_watcher_create(plain, 1, a_cb, &t));
    flux_reactor_destroy(plain);
    flux_watcher_start(s);
    ck_assert_int_eq(raise(SIGUSR1), 0);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert_int_eq(t.revents, SIGUSR1);
    flux_watcher_destroy(s);
    if ((pid = fork()) == 0)
        _exit(23);
    ck_assert_int_gt(pid, 0);
    ck_assert_ptr_nonnull(c = flux_child_watcher_create(r, pid, status_cb, &t));
    flux_watcher_start(c);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert(WIFEXITED(t.revents));
    ck_assert_int_eq(WEXITSTATUS(t.revents), 23);
    ck_assert_str_eq(t.text, "ss");
    flux_watcher_destroy(c);
    flux_reactor_destroy(r);
}
END_TEST

/* --- another engine: a list of what is due, and a clock that jumps --- */

struct engine {
    double now;
    double wall; /* ahead of that */
    struct due {
        flux_watcher_t *w;
        double at;
    } due[16];
    size_t ndue;
    flux_watcher_t *deferred[16];
    size_t ndeferred;
    bool destroyed;
};

static double engine_now(void *impl)
{
    return ((struct engine *)impl)->now;
}

static double engine_wall(void *impl)
{
    return ((struct engine *)impl)->now + ((struct engine *)impl)->wall;
}

static void engine_clear(void *impl, flux_watcher_t *w)
{
    struct engine *e = impl;

    for (size_t i = 0; i < e->ndue; i++) {
        if (e->due[i].w == w) {
            memmove(&e->due[i], &e->due[i + 1], (e->ndue - i - 1) * sizeof(e->due[0]));
            e->ndue--;
            return;
        }
    }
}

static int engine_set(void *impl, flux_watcher_t *w, double at)
{
    struct engine *e = impl;

    engine_clear(e, w);
    ck_assert_uint_lt(e->ndue, 16);
    e->due[e->ndue++] = (struct due){w, at};
    return 0;
}

static int engine_defer(void *impl, flux_watcher_t *w)
{
    struct engine *e = impl;

    ck_assert_uint_lt(e->ndeferred, 16);
    e->deferred[e->ndeferred++] = w;
    return 0;
}

static void engine_defer_clear(void *impl, flux_watcher_t *w)
{
    struct engine *e = impl;

    for (size_t i = 0; i < e->ndeferred; i++) {
        if (e->deferred[i] == w) {
            memmove(&e->deferred[i], &e->deferred[i + 1],
                    (e->ndeferred - i - 1) * sizeof(e->deferred[0]));
            e->ndeferred--;
            return;
        }
    }
}

static void engine_destroy(void *impl)
{
    ((struct engine *)impl)->destroyed = true;
}

static const struct flux_reactor_ops engine_ops = {
    .now = engine_now,
    .timer_set = engine_set,
    .timer_clear = engine_clear,
    .defer = engine_defer,
    .defer_clear = engine_defer_clear,
    .destroy = engine_destroy,
    .wall = engine_wall,
};

/* One step: deferrals first, else the earliest timer.  false: nothing is left. */
static bool engine_step(struct engine *e)
{
    flux_watcher_t *w;
    size_t first = 0;

    if (e->ndeferred > 0) {
        w = e->deferred[0];
        engine_defer_clear(e, w);
    } else if (e->ndue > 0) {
        for (size_t i = 1; i < e->ndue; i++) {
            if (e->due[i].at < e->due[first].at)
                first = i;
        }
        w = e->due[first].w;
        e->now = fmax(e->now, e->due[first].at);
        engine_clear(e, w);
    } else
        return false;
    flux_watcher_fire(w);
    return true;
}

/* The wall clock of an engine: two hours after the time at which its clock began. */
START_TEST(engine_wall_clock)
{
    struct engine e = {.now = 100.};
    flux_reactor_t *virtual = flux_reactor_create_ops(&engine_ops, &e);

    ck_assert_double_eq(flux_reactor_wall(virtual), 100.);
    ck_assert_double_eq(flux_reactor_to_wall(virtual, 107.), 107.);
    e.wall = 7200.;
    ck_assert_double_eq(flux_reactor_now(virtual), 100.);
    ck_assert_double_eq(flux_reactor_to_wall(virtual, 107.), 7307.);
    ck_assert_double_eq(flux_reactor_from_wall(virtual, 7307.), 107.);
    flux_reactor_destroy(virtual);
}
END_TEST

/* Beats are multiples of the period on the wall clock, wherever it is set to. */
START_TEST(engine_beat)
{
    struct engine e = {.now = 100.3};
    flux_reactor_t *r = flux_reactor_create_ops(&engine_ops, &e);

    ck_assert_double_eq_tol(flux_reactor_beat(r, 2.), 102., 1e-9);
    ck_assert_double_eq_tol(flux_reactor_beat(r, 0.4), 100.4, 1e-9);
    e.wall = 7200.5; /* it is 7300.8 */
    ck_assert_double_eq_tol(flux_reactor_beat(r, 2.), 101.5, 1e-9);
    e.wall = -86400.;
    ck_assert_double_eq_tol(flux_reactor_beat(r, 2.), 102., 1e-9);
    e.wall = 0.;
    e.now = 102.; /* at a beat */
    ck_assert_double_eq_tol(flux_reactor_beat(r, 2.), 104., 1e-9);
    e.now = 101.999; /* a timer that was a little too early */
    ck_assert_double_eq_tol(flux_reactor_beat(r, 2.), 104., 1e-9);
    e.now = 101.9;
    ck_assert_double_eq_tol(flux_reactor_beat(r, 2.), 102., 1e-9);
    flux_reactor_destroy(r);
}
END_TEST

/* On a real clock, each is in the future, and at most a period away. */
START_TEST(beat)
{
    flux_reactor_t *r = flux_reactor_create(false);

    for (double period = 0.001; period < 1e9; period *= 7.) {
        double left = flux_reactor_beat(r, period) - flux_reactor_now(r);

        ck_assert_msg(left > 0. && left <= 1.02 * period, "%g of %g", left, period);
    }
    flux_reactor_destroy(r);
}
END_TEST

START_TEST(engine)
{
    struct engine e = {.now = 100.};
    flux_reactor_t *r = flux_reactor_create_ops(&engine_ops, &e);
    struct trace t = {.left = 3};
    flux_watcher_t *a = flux_timer_create(r, a_cb, &t);
    flux_watcher_t *b = flux_timer_create(r, b_cb, &t);
    flux_watcher_t *d = flux_defer_create(r, c_cb, &t);
    int rc = 0;

    ck_assert_double_eq(flux_reactor_now(r), 100.);
    flux_reactor_update(r);
    errno = 0;
    ck_assert_ptr_null(flux_fd_watcher_create(r, 0, FLUX_POLLIN, a_cb, &t));
    ck_assert_int_eq(errno, ENOTSUP);
    ck_assert_ptr_null(flux_signal_watcher_create(r, SIGUSR1, a_cb, &t));
    ck_assert_ptr_null(flux_child_watcher_create(r, 1, a_cb, &t));

    flux_timer_start(a, 3600., 0.);
    flux_timer_start(b, 10., 1000.);
    flux_watcher_start(d);
    flux_watcher_start(d);
    while (e.now < 100. + 3600.)
        ck_assert(engine_step(&e));
    ck_assert_str_eq(t.text, "cbbbba");
    ck_assert_double_eq(e.now, 3700.);
    ck_assert(!flux_watcher_active(a));
    ck_assert(flux_watcher_active(b));
    flux_watcher_stop(b);
    ck_assert(!engine_step(&e));
    /* moved, and started again with the times of the last time */
    flux_timer_start(a, 5., 0.);
    flux_timer_start(a, 50., 0.);
    ck_assert(engine_step(&e));
    ck_assert_double_eq(e.now, 3750.);
    flux_watcher_start(a);
    ck_assert(engine_step(&e));
    ck_assert_double_eq(e.now, 3800.);
    ck_assert(!engine_step(&e));
    /* fired without being started: no effect */
    flux_watcher_fire(a);
    ck_assert_str_eq(t.text, "cbbbbaaa");
    flux_watcher_set_engine_data(a, &e);
    ck_assert_ptr_eq(flux_watcher_engine_data(a), &e);
    ck_assert_int_eq(flux_reactor_run(r), 0);
    ck_assert(!flux_reactor_stopped(r, NULL));
    flux_reactor_stop(r, -4);
    ck_assert(flux_reactor_stopped(r, &rc));
    ck_assert_int_eq(rc, -4);
    flux_timer_start(a, 5., 1.);
    flux_watcher_start(d);
    flux_watcher_destroy(a);
    flux_watcher_destroy(b);
    flux_watcher_destroy(d);
    ck_assert(!engine_step(&e));
    flux_reactor_destroy(r);
    ck_assert(e.destroyed);
}
END_TEST

START_TEST(engine_destroy_in_callback)
{
    struct engine e = {.now = 0.};
    flux_reactor_t *r = flux_reactor_create_ops(&engine_ops, &e);
    struct trace t = {.left = 4};
    flux_watcher_t *d;

    for (int i = 0; i < 8; i++) {
        if (i % 2) {
            t.w[i] = flux_timer_create(r, destroy_all_cb, &t);
            flux_timer_start(t.w[i], 1., 1.);
        } else {
            t.w[i] = flux_defer_create(r, destroy_all_cb, &t);
            flux_watcher_start(t.w[i]);
        }
    }
    ck_assert(engine_step(&e));
    ck_assert(!engine_step(&e));
    ck_assert_str_eq(t.text, "d");
    t.w[0] = flux_timer_create(r, destroy_all_cb, &t);
    flux_timer_start(t.w[0], 1., 1.);
    ck_assert(engine_step(&e));
    ck_assert(!engine_step(&e));
    /* deferrals from deferrals, all at the same time */
    t = (struct trace){.left = 4};
    d = flux_defer_create(r, chain_cb, &t);
    t.w[0] = flux_defer_create(r, chain_cb, &t);
    flux_watcher_start(d);
    while (engine_step(&e))
        ;
    ck_assert_str_eq(t.text, "43210");
    flux_watcher_destroy(d);
    flux_watcher_destroy(t.w[0]);
    flux_reactor_destroy(r);
}
END_TEST

/* --- parts --- */

struct part {
    flux_reactor_t *whole, *r;
    flux_watcher_t *defer, *timer;
    unsigned stopped, turns, called;
    const char *what;
    flux_watcher_f cb;
    double longest;
};

static void part_stopped(void *arg)
{
    struct part *p = arg;

    p->stopped++;
}

static void part_turn(void *arg, const char *what, flux_watcher_f cb, double seconds)
{
    struct part *p = arg;

    p->turns++;
    p->what = what;
    p->cb = cb;
    if (seconds > p->longest)
        p->longest = seconds;
}

static const struct flux_reactor_part_ops part_ops = {part_stopped, part_turn};

static void part_init(struct part *p)
{
    memset(p, 0, sizeof(*p));
    ck_assert_ptr_nonnull(p->whole = flux_reactor_create(false));
    ck_assert_ptr_nonnull(p->r = flux_reactor_create_part(p->whole, &part_ops, p));
}

static void part_clear(struct part *p)
{
    flux_watcher_destroy(p->defer);
    flux_watcher_destroy(p->timer);
    flux_reactor_destroy(p->r);
    flux_reactor_destroy(p->whole);
}

static void busy_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct part *p = arg;
    double end = flux_reactor_clock(r) + 0.003;

    ck_assert_ptr_eq(r, p->r);
    ck_assert_double_eq(flux_reactor_now(p->r), flux_reactor_now(p->whole));
    p->called++;
    while (flux_reactor_clock(r) < end)
        ;
}

static void stop_part_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct part *p = arg;

    p->called++;
    flux_reactor_stop(r, 7);
    flux_watcher_start(p->defer); /* not called any more */
}

/* Its watchers are called by the loop of the whole, and timed. */
START_TEST(part)
{
    struct part p;
    struct flux_slice s;
    double begin;

    part_init(&p);
    ck_assert(flux_reactor_is_part(p.r) && !flux_reactor_is_part(p.whole));
    ck_assert_int_eq(flux_reactor_run(p.r), -1);
    ck_assert_int_eq(errno, ENOTSUP);
    ck_assert_int_eq(flux_reactor_before_sleep(p.r, NULL, NULL), -1);
    ck_assert_ptr_null(flux_signal_watcher_create(p.r, SIGUSR1, busy_cb, &p));
    ck_assert_ptr_nonnull(p.defer = flux_defer_create(p.r, busy_cb, &p));
    ck_assert_ptr_nonnull(p.timer = flux_timer_create(p.r, busy_cb, &p));
    flux_watcher_start(p.defer);
    ck_assert_int_eq(flux_reactor_run(p.whole), 0);
    ck_assert_uint_eq(p.called, 1);
    ck_assert_uint_eq(p.turns, 1);
    ck_assert_str_eq(p.what, "deferred work");
    ck_assert(p.cb == busy_cb);
    ck_assert(p.longest >= 0.0029);
    flux_timer_start(p.timer, 0.001, 0.);
    ck_assert_int_eq(flux_reactor_run(p.whole), 0);
    ck_assert_uint_eq(p.turns, 2);
    ck_assert_str_eq(p.what, "a timer");
    /* Slices are short there. */
    begin = flux_reactor_clock(p.r);
    flux_slice_begin(&s, p.r, 1000., 1);
    while (flux_slice_more(&s))
        ;
    ck_assert(flux_reactor_clock(p.r) >= begin + 0.9 * FLUX_SLICE_SHARED);
    part_clear(&p);
}
END_TEST

/* A part stops without the whole. */
START_TEST(part_stops)
{
    struct part p;
    int rc = 0;

    part_init(&p);
    ck_assert_ptr_nonnull(p.defer = flux_defer_create(p.r, busy_cb, &p));
    ck_assert_ptr_nonnull(p.timer = flux_timer_create(p.r, stop_part_cb, &p));
    flux_timer_start(p.timer, 0., 0.);
    ck_assert_int_eq(flux_reactor_run(p.whole), 0);
    ck_assert_uint_eq(p.called, 1);
    ck_assert_uint_eq(p.stopped, 1);
    ck_assert(flux_reactor_stopped(p.r, &rc) && rc == 7);
    ck_assert(!flux_reactor_stopped(p.whole, NULL));
    part_clear(&p);
}
END_TEST

/* What a module forgot to destroy does not call back after its end. */
START_TEST(part_left)
{
    struct part p;
    int fds[2];

    part_init(&p);
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_ptr_nonnull(p.defer = flux_defer_create(p.r, busy_cb, &p));
    ck_assert_ptr_nonnull(p.timer = flux_timer_create(p.r, busy_cb, &p));
    flux_watcher_unref(p.timer);
    flux_timer_start(p.timer, 0., 0.001);
    flux_watcher_start(p.defer);
    flux_timer_start(flux_deadline_create(p.r, busy_cb, &p), 0.001, 0.);
    flux_watcher_start(flux_fd_watcher_create(p.r, fds[0], FLUX_POLLIN, busy_cb, &p));
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    flux_reactor_destroy(p.r);
    p.r = NULL;
    p.defer = p.timer = NULL;
    ck_assert_int_eq(flux_reactor_run(p.whole), 0); /* nothing is left to wait for */
    ck_assert_uint_eq(p.called, 0);
    close(fds[0]);
    close(fds[1]);
    part_clear(&p);
}
END_TEST

/* A part of an engine without a loop does not exist. */
START_TEST(part_of_engine)
{
    struct engine e = {.now = 100.};
    flux_reactor_t *r = flux_reactor_create_ops(&engine_ops, &e);

    ck_assert_ptr_null(flux_reactor_create_part(r, &part_ops, NULL));
    ck_assert_int_eq(errno, ENOTSUP);
    ck_assert(!flux_reactor_is_part(r));
    flux_reactor_destroy(r);
}
END_TEST

int main(void)
{
    RUN_SUITE("reactor", timers, suspended_machine, repeating, descriptors,
              defer_after_what_is_ready, defer_in_defer, before_sleep, defer_before_sleep, unref,
              destroy_in_callback, timer_started_again, signals_and_children, engine_wall_clock,
              engine_beat, beat, engine, engine_destroy_in_callback, part, part_stops, part_left,
              part_of_engine);
}
