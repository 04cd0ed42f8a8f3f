/* check_pulse.c - signs of life in shared memory, and descriptors of something else. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libutil/clock.h"
#include "libutil/test/suite.h"
#include "src/broker/link/pulse.h"

#define SIZE 4096

static double before; /* the clock when the test began */

static void setup(void)
{
    before = clock_boot();
}

START_TEST(seen)
{
    pulse_t *p = pulse_create();
    pulse_view_t *v, *w;
    double ago;

    ck_assert_ptr_nonnull(p);
    ck_assert(fcntl(pulse_fd(p), F_GETFD) & FD_CLOEXEC);
    ck_assert_ptr_nonnull(v = pulse_view_create(dup(pulse_fd(p))));
    ck_assert(pulse_view_ago(v) == -1.);
    pulse_beat(p);
    ago = pulse_view_ago(v);
    ck_assert(ago >= 0. && ago <= clock_boot() - before);
    ck_assert(pulse_view_ago(v) == -1.);
    /* Several views are independent. */
    ck_assert_ptr_nonnull(w = pulse_view_create(dup(pulse_fd(p))));
    pulse_beat(p);
    ck_assert(pulse_view_ago(v) >= 0. && pulse_view_ago(w) >= 0.);
    ck_assert(pulse_view_ago(v) == -1. && pulse_view_ago(w) == -1.);
    pulse_destroy(p);
    ck_assert(pulse_view_ago(v) == -1.); /* its memory is still there */
    pulse_view_destroy(v);
    pulse_view_destroy(w);
    pulse_destroy(NULL);
    pulse_view_destroy(NULL);
}
END_TEST

/* Another process gives one sign of life when it is told to, and is dead then. */
START_TEST(of_another_process)
{
    pulse_t *p = pulse_create();
    pulse_view_t *v = pulse_view_create(dup(pulse_fd(p)));
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        raise(SIGSTOP);
        pulse_beat(p);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    ck_assert(pulse_view_ago(v) == -1.);
    kill(pid, SIGCONT);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(pulse_view_ago(v) >= 0.);
    ck_assert(pulse_view_ago(v) == -1.);
    pulse_view_destroy(v);
    pulse_destroy(p);
}
END_TEST

/* Whoever views a pulse can neither write to it nor take its memory away. */
START_TEST(sealed)
{
    pulse_t *p = pulse_create();

    ck_assert_int_eq(ftruncate(pulse_fd(p), 0), -1);
    ck_assert_int_eq(ftruncate(pulse_fd(p), 2L * SIZE), -1);
    ck_assert(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, pulse_fd(p), 0) == MAP_FAILED);
    ck_assert_int_eq(write(pulse_fd(p), "x", 1), -1);
    pulse_destroy(p);
}
END_TEST

static int file(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

START_TEST(something_else)
{
    int fds[] = {file(SIZE, 0), file(SIZE - 1, F_SEAL_SHRINK), file(0, F_SEAL_SHRINK),
                 open("/dev/null", O_RDONLY | O_CLOEXEC)};

    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
        errno = 0;
        ck_assert_ptr_null(pulse_view_create(fds[i]));
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_int_eq(fcntl(fds[i], F_GETFD), -1);
    }
}
END_TEST

/* Times that are ahead, long gone, or nonsense are times since the last look. */
START_TEST(lies)
{
    static const uint64_t times[] = {1, UINT64_MAX, UINT64_MAX / 4, 0};
    int fd = file(SIZE, F_SEAL_SHRINK);
    uint64_t *page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pulse_view_t *v;

    ck_assert(page != MAP_FAILED);
    ck_assert_ptr_nonnull(v = pulse_view_create(fd));
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        double ago;

        *page = times[i];
        ago = pulse_view_ago(v);
        ck_assert(ago >= 0. && ago <= clock_boot() - before);
    }
    ck_assert(pulse_view_ago(v) == -1.);
    pulse_view_destroy(v);
    munmap(page, SIZE);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("pulse");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, seen);
    tcase_add_test(tc, of_another_process);
    tcase_add_test(tc, sealed);
    tcase_add_test(tc, something_else);
    tcase_add_test(tc, lies);
    return run_case("pulse", tc);
}
