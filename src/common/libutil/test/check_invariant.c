/* check_invariant.c - the message about a broken invariant, and the transitions of a table.
 *
 *  1. A sentence that the test looks for: it goes on
 *     in a second line.
 *  2. Another sentence, which must not be printed.
 */
#include "config.h"
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libutil/invariant.h"
#include "libutil/test/suite.h"

static const struct transition moves[] = {
    {1, 2, "forward"},
    {2, 1, "back"},
    TRANSITION_END,
};

/* What a child that breaks an invariant prints; it must die of SIGABRT. */
static void broken(char *text, size_t size, int which)
{
    int fds[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_ge(pid = fork(), 0);
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        if (which == 0)
            invariant_failed(__FILE__, 7, "some_function", 1, "a < b");
        transition_failed(__FILE__, 8, "some_function", 2, 5, 6);
    }
    close(fds[1]);
    while (n + 1 < size && (got = read(fds[0], text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fds[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

START_TEST(test_message)
{
    char text[2000];

    broken(text, sizeof(text), 0);
    ck_assert(strstr(text, "check_invariant.c:7: some_function: invariant 1 does not hold: a < b"));
    ck_assert(strstr(text, "    A sentence that the test looks for: it goes on\n"));
    ck_assert(strstr(text, "    in a second line.\n"));
    ck_assert(!strstr(text, "Another sentence"));
}
END_TEST

START_TEST(test_transition_message)
{
    char text[2000];

    broken(text, sizeof(text), 1);
    ck_assert(strstr(text, "invariant 2 does not hold: no transition leads from state 5 to 6"));
    ck_assert(strstr(text, "Another sentence"));
}
END_TEST

START_TEST(test_transitions)
{
    ck_assert(transition_allowed(moves, 1, 2));
    ck_assert(transition_allowed(moves, 2, 1));
    ck_assert(!transition_allowed(moves, 1, 1));
    ck_assert(!transition_allowed(moves, 0, 0));
}
END_TEST

/* Evaluated in builds with invariants, not in others. */
START_TEST(test_evaluated)
{
    int n = 0;

    INVARIANT(1, ++n > 0);
    TRANSITION(1, moves, 1, 2);
#ifdef WITH_INVARIANTS
    ck_assert_int_eq(n, 1);
#else
    ck_assert_int_eq(n, 0);
#endif
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("invariant");

    tcase_add_test(tc, test_message);
    tcase_add_test(tc, test_transition_message);
    tcase_add_test(tc, test_transitions);
    tcase_add_test(tc, test_evaluated);
    return run_case("invariant", tc);
}
