/* check_holdpoint.c - a process waits at the point that is named, at the count that is given. */
#include "config.h"
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libutil/holdpoint.h"
#include "libutil/test/put_file.h"
#include "libutil/test/suite.h"

static char path[64];
static volatile int *passed; /* shared with the child */

/* A process that passes "a" and "b" in turn, and makes the file after the second time. */
static pid_t start(const char *value)
{
    struct holdpoint hp;
    pid_t pid;

    snprintf(path, sizeof(path), "/tmp/check_holdpoint.%d", (int)getpid());
    passed = mmap(NULL, sizeof(*passed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(passed != MAP_FAILED);
    if (value) {
        char text[128];

        snprintf(text, sizeof(text), "%s:%s", value, path);
        ck_assert_int_eq(setenv("FLUX_HOLD_POINT", text, 1), 0);
    }
    if ((pid = fork()) != 0)
        return pid;
    holdpoint_init(&hp);
    for (int i = 1; i <= 6; i++) {
        holdpoint_pass(&hp, "a");
        holdpoint_pass(&hp, "b");
        *passed = i;
        if (i == 2)
            put_file(path, "", 0, 0600);
    }
    _exit(0);
}

START_TEST(holds)
{
    pid_t pid = start("b:3");
    int status;

    while (*passed < 4 || access(path, F_OK) == 0) {
        ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
        usleep(1000);
    }
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(*passed, 4); /* the next was the third since the file was there */
}
END_TEST

static void goes_on(const char *value)
{
    int status;
    pid_t pid = start(value);

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(unlink(path), 0);
}

START_TEST(other)
{
    goes_on("c:1");
    goes_on("b:5"); /* four times, with the file */
    ck_assert_int_eq(unsetenv("FLUX_HOLD_POINT"), 0);
    goes_on(NULL);
}
END_TEST

START_TEST(unreadable)
{
    struct holdpoint hp;

    ck_assert_int_eq(setenv("FLUX_HOLD_POINT", "b:0:/f", 1), 0);
    holdpoint_init(&hp);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("holdpoint");

    tcase_add_test(tc, holds);
    tcase_add_test(tc, other);
    tcase_add_test_raise_signal(tc, unreadable, SIGABRT);
    return run_case("holdpoint", tc);
}
