/* check_wrexec_heal.c - rank 0 when a broker dies, or a child returns to its place, under a job. */
#include "config.h"
#include "bed_memory.h"

static void moved(struct bed *b, uint32_t rank, uint32_t parent, unsigned number)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "overlay.moved");
    char json[80];

    snprintf(json, sizeof(json), "{\"rank\":%u,\"parent\":%u,\"move\":%u,\"map\":%u}", rank, parent,
             65536 + number, number);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_handle_deliver(b->f.h, msg);
    turn(b);
}

/* Take the stream of a child from the bed, which goes on with that of another child. */
static flux_msg_t *other_child(struct bed *b, uint32_t *round)
{
    flux_msg_t *tree = b->tree;

    *round = b->round[7];
    b->tree = NULL;
    b->opened = false;
    return tree;
}

/* Rank 2 has lost rank 1, and returns to it with a job, which keeps its edge; the next launch takes
 * the new way. */
START_TEST(moved_with_job)
{
    struct bed *b = bed_create_sized(3);
    flux_msg_t *old, *new;
    uint32_t round;

    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    moved(b, 2, 0, 1);
    launch_on(b, 7, "2", NULL);
    turn(b);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 2);
    moved(b, 2, 1, 2);
    old = other_child(b, &round);
    launch_on(b, 8, "2", NULL);
    turn(b);
    ck_assert_ptr_nonnull(b->tree);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 1);
    reload(b);
    end_job(b, 8);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":8,\"code\":3"));
    new = b->tree;
    b->tree = old;
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    ck_assert_int_eq(b->ntree, 2);
    flux_msg_destroy(new);
    bed_free(b);
}
END_TEST

/* The stream of the child ends with this error. */
static void tree_fails(struct bed *b, int errnum)
{
    flux_msg_t *resp = flux_msg_response_create(b->tree, errnum);

    ck_assert_int_eq(flux_msg_set_json(resp, "it was lost"), 0);
    flux_msg_destroy(b->tree);
    b->tree = NULL;
    b->opened = false;
    flux_handle_deliver(b->f.h, resp);
}

/* Rank 1 dies, between this one and rank 2, which has the job: with the event before the error, or
 * after it, and with a reload in between.  The launch goes to rank 2; of what it repeats, only what
 * is new counts, and nothing that belongs to the former round. */
START_TEST(broker_between_dies)
{
    struct bed *b = bed_create_sized(3);
    uint8_t rec[WIRE_RECORD + 100] = {0};
    uint32_t round;

    exec_wire_record_header(rec, 0, 1, 100);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    launch_on(b, 7, "2", NULL);
    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":7,\"input\":false}");
    turn(b);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 1);
    round = b->round[7];
    for (uint64_t n = 1; n <= 2; n++)
        up_numbered(b, WIRE_OUTPUT, 7, round, n, rec, sizeof(rec));
    kill_jobs(b, "7", SIGUSR1);
    turn(b);
    ck_assert_uint_eq(b->output, 2 * sizeof(rec));
    b->frames[0] = '\0';
    if (_i == 0)
        flux_msg_destroy(other_child(b, &round)); /* the module ends this stream by itself */
    else
        tree_fails(b, EHOSTUNREACH);
    if (_i == 2)
        reload(b);
    lost(b, "1", 7);
    turn(b);
    ck_assert_ptr_nonnull(b->tree);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 2);
    ck_assert_int_eq(strncmp(b->frames, "LAUNCH SIGNAL ", 14), 0);
    ck_assert_str_eq(b->ranks, "2");
    ck_assert_uint_ne(b->round[7], round);
    up_numbered(b, WIRE_OUTPUT, 7, round, 3, rec, sizeof(rec)); /* of the former round */
    turn(b);
    ck_assert_uint_eq(b->output, 2 * sizeof(rec));
    round = b->round[7];
    up_numbered(b, WIRE_OUTPUT, 7, round, 4, rec, sizeof(rec)); /* 3 is still missing */
    for (uint64_t n = 1; n <= 4; n++)
        up_numbered(b, WIRE_OUTPUT, 7, round, n, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->output, 4 * sizeof(rec));
    ck_assert_uint_eq(b->raised, 0);
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    bed_free(b);
}
END_TEST

/* Signals that were sent before a broker died, and while it was dead, are repeated, each of them.
 * _i: that many before; 1: and the module is reloaded meanwhile. */
START_TEST(signals_repeated)
{
    struct bed *b = bed_create_sized(3);
    char want[4096] = "LAUNCH ";

    answer(b);
    launch_on(b, 7, "2", NULL);
    turn(b);
    for (int i = 0; i < _i; i++)
        kill_jobs(b, "7", i % 3 ? SIGRTMIN : SIGUSR1);
    turn(b);
    tree_fails(b, EHOSTUNREACH);
    if (_i == 1)
        reload(b);
    kill_jobs(b, "7", SIGRTMIN);
    kill_jobs(b, "7", SIGUSR2);
    kill_jobs(b, "7", SIGRTMIN);
    b->frames[0] = '\0';
    lost(b, "1", 7);
    turn(b);
    for (int i = 0; i < _i + 3; i++)
        strcat(want, "SIGNAL ");
    ck_assert_str_eq(b->frames, want);
    bed_free(b);
}
END_TEST

/* Output is acknowledged before the launcher of its node has used up its window. */
START_TEST(acknowledged)
{
    struct bed *b = bed_create();
    uint8_t rec[WIRE_RECORD + 10000] = {0};

    exec_wire_record_header(rec, 0, 1, 10000);
    answer(b);
    launch(b, 7);
    turn(b);
    for (uint64_t n = 1; n <= 8; n++)
        up_numbered(b, WIRE_OUTPUT, 7, b->round[7], n, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->acked, 7);
    bed_free(b);
}
END_TEST

/* The client has got records 1 and 2 in their order, each once, but for 2 again when it has said
 * that it has only one.  Nothing is missing before something that has come. */
static void expect_output(const struct bed *b, unsigned k)
{
    static const char *const sound[] = {"", "1", "12", "122"};
    bool found = false;

    for (size_t i = 0; i < sizeof(sound) / sizeof(sound[0]) && !found; i++)
        found = strcmp(b->first, sound[i]) == 0;
    ck_assert_msg(found, "allocation %u: the client got the records %s", k, b->first);
}

/* A job whose client and whose tasks are below a broker that dies, while allocation k fails.
 * Returns whether there was one. */
static bool heal_without_memory(unsigned k)
{
    struct bed *b = bed_create_sized(3);
    uint8_t rec[WIRE_RECORD + 100] = {0}, in[WREXEC_STDIN_HEAD + 5] = {0};
    unsigned left;

    b->f.hook = sent_sparing;
    exec_wire_record_header(rec, 0, 1, 100);
    le_put64(in, READS);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    fail_at = k;
    launch_on(b, READS, "2", NULL);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, "{\"id\":9,\"input\":true}");
    turn(b);
    say_raw(b, "wrexec.stdin", FAR, in, sizeof(in));
    for (uint64_t n = 1; b->opened && n <= 2; n++) {
        rec[WIRE_RECORD] = (uint8_t)('0' + n);
        up_numbered(b, WIRE_OUTPUT, READS, b->round[READS], n, rec, sizeof(rec));
    }
    kill_jobs(b, "9", SIGUSR1);
    turn(b);
    lose_way(b, FAR);
    if (b->tree)
        tree_fails(b, EHOSTUNREACH);
    turn(b);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING,
        "{\"id\":9,\"input\":true,\"received\":1,\"paid\":108}");
    turn(b);
    left = stop_failing();
    expect_output(b, k);
    if (left > 0) /* no allocation has failed */
        ck_assert_str_eq(b->first, "122");
    /* With memory again, it serves. */
    b->errnum = -1;
    say(b, "wrexec.remains", 1, 0, "{}");
    answer(b);
    ck_assert_msg(b->errnum == 0, "allocation %u: error %d", k, b->errnum);
    kill_jobs(b, "9", SIGKILL);
    turn(b);
    bed_free(b);
    return left == 0;
}

START_TEST(no_memory_to_heal)
{
    unsigned k = 1;

    while (heal_without_memory(k))
        k++;
    ck_assert_uint_gt(k, 50); /* that many are made */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {moved_with_job, acknowledged, no_memory_to_heal};
    TCase *tc = tcase_create("wrexec heal");

    sparing = 1; /* the test itself */
    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, broker_between_dies, 0, 3);
    for (int n = 0; n < 200; n = 2 * n + 1)
        tcase_add_loop_test(tc, signals_repeated, n, n + 1);
    return run_case("wrexec heal", tc);
}
