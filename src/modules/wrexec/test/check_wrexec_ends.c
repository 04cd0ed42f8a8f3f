/* check_wrexec_ends.c - how tasks ended, for whoever asks, with a launcher of the test. */
#include "config.h"
#include "bed.h"
#include "bed_launcher.h"

#define ASKS 20 /* a client that asks */
#define PAST_MAX 512

static void from_launcher(uint64_t id, enum wire_type type, const void *data, size_t len)
{
    const struct wire_frame f = {type, type, id, (uint32_t)len, data};

    launcher.cbs->frame(launcher.arg, &f);
}

static void task_ends(uint64_t id, uint32_t task, int status)
{
    const uint32_t end[2] = {task, (uint32_t)status};

    from_launcher(id, WIRE_END, end, sizeof(end));
}

static void job_done(uint64_t id, const int32_t *status, size_t n)
{
    uint8_t done[WIRE_TIMES + 4 * 3] = {0};

    memcpy(done + WIRE_TIMES, status, n * sizeof(*status));
    from_launcher(id, WIRE_DONE, done, WIRE_TIMES + n * sizeof(*status));
}

/* Three tasks on each of the ranks. */
static struct bed *bed_with_job(uint64_t id, const char *ranks)
{
    struct bed *b = bed_create();

    answer(b);
    launch_tasks(b, id, ranks, 3, NULL);
    turn(b);
    ck_assert(launcher.runs);
    return b;
}

static void ask(struct bed *b, uint32_t client, uint64_t id, uint32_t task)
{
    char json[80];

    b->errnum = -1;
    snprintf(json, sizeof(json), "{\"id\":%" PRIu64 ",\"task\":%u}", id, task);
    say(b, "wrexec.end", client, FLUX_MSGF_STREAMING, json);
}

/* Check that the last response is the n-th, and has this status. */
static void answered(const struct bed *b, size_t n, int status)
{
    char json[40];

    snprintf(json, sizeof(json), "{\"status\":%d}", status);
    ck_assert_uint_eq(b->ends, n);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_str_eq(b->last, json);
}

/* A task ends while others run: the launcher says so when it is asked, and nobody else is told. */
START_TEST(ends_alone)
{
    struct bed *b = bed_with_job(7, "0-1");

    ask(b, ASKS, 7, 1);
    ask(b, ASKS + 1, 7, 2);
    ck_assert_uint_eq(launcher.asked, 2);
    ck_assert_uint_eq(launcher.task, 2);
    task_ends(7, 1, SIGKILL);
    answered(b, 1, SIGKILL);
    task_ends(7, 1, SIGKILL);
    task_ends(7, 3, SIGKILL); /* there is no such task */
    ck_assert_uint_eq(b->ends, 1);
    ask(b, ASKS, 7, 1);
    ck_assert_uint_eq(launcher.asked, 3);
    task_ends(7, 1, SIGKILL);
    answered(b, 2, SIGKILL);
    task_ends(7, 2, 0);
    answered(b, 3, 0);
    bed_free(b);
}
END_TEST

/* All tasks of the job here end: who waits is told, and so is who comes later, also when nothing of
 * the job is left. */
START_TEST(all_end)
{
    const int32_t status[] = {0, 3 << 8, SIGTERM};
    struct bed *b = bed_with_job(7, "0");

    ask(b, ASKS, 7, 1);
    job_done(7, status, 3);
    answered(b, 1, 3 << 8);
    turn(b);
    for (uint32_t i = 0; i < 3; i++) {
        ask(b, ASKS, 7, i);
        answered(b, 2 + i, status[i]);
    }
    ck_assert_uint_eq(launcher.asked, 1);
    bed_free(b);
}
END_TEST

/* The launcher is lost, and with it its tasks. */
START_TEST(launcher_lost)
{
    struct bed *b = bed_with_job(7, "0-1");

    ask(b, ASKS, 7, 0);
    launcher.cbs->lost(launcher.arg, "it ended");
    answered(b, 1, SIGKILL);
    bed_free(b);
}
END_TEST

START_TEST(not_known)
{
    struct bed *b = bed_with_job(7, "0-1");
    const struct {
        uint64_t id;
        uint32_t task;
    } asks[] = {{8, 0}, {7, 3}, {7, 6}, {0, 0}};

    for (size_t i = 0; i < sizeof(asks) / sizeof(*asks); i++) {
        ask(b, ASKS, asks[i].id, asks[i].task);
        ck_assert_int_eq(b->errnum, ENOENT);
    }
    ck_assert_str_eq(b->last, "rank 0 does not know how task 0 of job 0 ended");
    say(b, "wrexec.end", ASKS, FLUX_MSGF_STREAMING, "{\"id\":7}");
    ck_assert_int_eq(b->errnum, EPROTO);
    ck_assert_uint_eq(launcher.asked, 0);
    bed_free(b);
}
END_TEST

/* A request that was canceled, or has lost its way, is not answered later, and can come again. */
START_TEST(gone)
{
    struct bed *b = bed_with_job(7, "0-1");

    ask(b, ASKS, 7, 0);
    say(b, "wrexec.cancel", ASKS, 0, "{\"matchtag\":120}");
    ck_assert_int_eq(b->errnum, ENODATA);
    ask(b, ASKS, 7, 0);
    lose_way(b, ASKS);
    ck_assert_int_eq(b->errnum, ENODATA);
    ask(b, ASKS, 7, 0);
    ck_assert_uint_eq(launcher.asked, 3);
    task_ends(7, 0, 0);
    answered(b, 3, 0);
    bed_free(b);
}
END_TEST

/* The next instance answers the requests, and knows what the one before knew. */
START_TEST(reloaded)
{
    const int32_t status[] = {SIGSEGV, 0, 0};
    struct bed *b = bed_with_job(7, "0");

    job_done(7, status, 3);
    turn(b);
    launch_tasks(b, 8, "0-1", 3, NULL);
    turn(b);
    ask(b, ASKS, 8, 2);
    reload(b);
    turn(b);
    ck_assert_uint_eq(b->ends, 0);
    task_ends(8, 2, SIGKILL);
    answered(b, 1, SIGKILL);
    ask(b, ASKS, 7, 0);
    answered(b, 2, SIGSEGV);
    bed_free(b);
}
END_TEST

/* The module ends before the tasks. */
START_TEST(unloaded)
{
    struct bed *b = bed_with_job(7, "0-1");
    errmsg_t err;

    ask(b, ASKS, 7, 0);
    flux_module_wrexec.fini(b->f.h, b->ctx);
    ck_assert_int_eq(b->errnum, ECANCELED);
    ck_assert_int_eq(flux_module_wrexec.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    bed_free(b);
}
END_TEST

/* The last ends are remembered, and those of a job that runs again are not mistaken for it. */
START_TEST(many)
{
    struct bed *b = bed_with_job(1, "0");

    for (int i = 1; i <= PAST_MAX + 1; i++) {
        const int32_t status[] = {i << 8, i << 8, i << 8};

        if (i > 1)
            launch_tasks(b, (uint64_t)i, "0", 3, NULL);
        turn(b);
        job_done((uint64_t)i, status, 3);
        turn(b);
    }
    ask(b, ASKS, 1, 0);
    ck_assert_int_eq(b->errnum, ENOENT);
    ask(b, ASKS, 2, 2);
    answered(b, 2, 2 << 8);
    launch_tasks(b, 2, "0", 3, NULL);
    turn(b);
    ask(b, ASKS, 2, 2);
    ck_assert_uint_eq(launcher.asked, 1);
    task_ends(2, 2, SIGKILL);
    answered(b, 3, SIGKILL);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("wrexec ends", ends_alone, all_end, launcher_lost, not_known, gone, reloaded,
              unloaded, many);
}
