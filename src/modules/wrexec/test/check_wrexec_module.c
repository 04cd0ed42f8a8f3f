/* check_wrexec_module.c - requests of the job module, and of other instances: the module at rank 0,
 * on a handle of the test, with jobs whose only node is that of the child. */
#include "config.h"
#include "bed.h"

START_TEST(early_kill)
{
    struct bed *b = bed_create();

    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    launch(b, 7);
    launch(b, 8);
    kill_jobs(b, "7", SIGKILL);
    launch(b, 9);
    kill_jobs(b, "9,10", SIGTERM);
    turn(b);
    ck_assert_str_eq(b->frames, "");
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH KILL LAUNCH SIGNAL ");
    bed_free(b);
}
END_TEST

/* A client of an instance that was just loaded is notified of jobs, not of kills. */
START_TEST(early_jobs)
{
    struct bed *b = bed_create();

    launch(b, 7);
    kill_jobs(b, "7", SIGKILL);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    ck_assert_ptr_nonnull(strstr(b->told, "[7]"));
    answer(b);
    kill_jobs(b, "7", 0); /* no signal: nothing is sent */
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH KILL ");
    bed_free(b);
}
END_TEST

/* A child whose mailbox is full gets all frames later, in order, and none twice. */
START_TEST(full_child)
{
    struct bed *b = bed_create();

    answer(b);
    b->full = 3;
    launch(b, 7);
    while (!b->opened)
        turn(b);
    ck_assert_int_eq(b->ntree, 4);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    b->full = 2;
    launch(b, 8);
    kill_jobs(b, "8", SIGKILL);
    turn(b);
    launch(b, 9);
    kill_jobs(b, "7", SIGTERM);
    while (b->full > 0 || strlen(b->frames) < strlen("LAUNCH LAUNCH KILL LAUNCH SIGNAL "))
        turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH KILL LAUNCH SIGNAL ");
    bed_free(b);
}
END_TEST

/* While the job module does not have a stream open, the number of messages kept is bounded. */
START_TEST(many_notes)
{
    struct bed *b = bed_create();

    launch(b, 7);
    answer(b);
    for (int i = 0; i < 3000; i++)
        up(b, WIRE_NOTE, 7, "note", 4);
    ck_assert_uint_eq(b->raised, 0);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    turn(b);
    ck_assert_uint_eq(b->raised, 1024);
    for (int i = 0; i < 2000; i++)
        up(b, WIRE_NOTE, 7, "note", 4);
    turn(b);
    ck_assert_uint_eq(b->raised, 3024);
    bed_free(b);
}
END_TEST

/* A client that launches or kills gets an answer when that was done: nothing else may be sent
 * again. */
START_TEST(answered)
{
    struct bed *b = bed_create();

    b->responses = 0;
    launch(b, 7);
    say(b, "wrexec.kill", 1, 0, "{\"ids\":[7],\"signum\":9}");
    turn(b);
    ck_assert_uint_eq(b->responses, 0); /* they wait for the tree */
    answer(b);
    ck_assert_uint_eq(b->responses, 2);
    bed_free(b);
}
END_TEST

/* wrexec.signal is for programs beside brokers: a job gets its signals by the job service, which
 * records the signal that ended it. */
START_TEST(signal_to_job)
{
    struct bed *b = bed_create();

    answer(b);
    launch(b, 7);
    turn(b);
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    say(b, "wrexec.signal", 1, 0, "{\"id\":7,\"signum\":9}");
    turn(b);
    answer(b);
    ck_assert_int_eq(b->errnum, ESRCH);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    bed_free(b);
}
END_TEST

/* A program is refused, and does not wait forever, when the broker cannot report the ranks that are
 * up.  After each refusal the broker is asked again. */
START_TEST(ranks_not_told)
{
    struct bed *b = bed_create();

    answer(b);
    for (uint32_t client = 1; client < 3; client++) {
        b->errnum = 0;
        say_raw(b, "wrexec.run", client, "", 1);
        ck_assert_uint_eq(b->nasked, 1);
        ck_assert_str_eq(flux_msg_topic(b->asked[0]), "overlay.status");
        answer(b);
        ck_assert_int_eq(b->errnum, EAGAIN);
    }
    bed_free(b);
}
END_TEST

/* Requests about names that are not answered: the number of those of one job is bounded. */
START_TEST(many_names)
{
    struct bed *b = bed_create();
    int sent = 0;

    answer(b);
    launch(b, 7);
    turn(b);
    while (b->refused == 0 && sent < 1000000) {
        say(b, "wrexec.name", 1, 0, "{\"op\":\"lookup\",\"id\":7,\"service\":\"x\",\"wait\":true}");
        sent++;
    }
    ck_assert_int_eq(sent, 16384 + 1);
    ck_assert_uint_eq(b->refused, 1);
    bed_free(b);
}
END_TEST

/* A request of the parent that waits is answered when its stream ends, or another one begins. */
START_TEST(parent_leaves)
{
    struct bed *b = bed_create();

    say(b, "wrexec.tree", 9, FLUX_MSGF_STREAMING, "{}");
    for (int i = 0; i < 2; i++) {
        say_raw(b, "wrexec.down", 9, "", 1); /* waits until the tree is known */
        ck_assert_int_eq(b->errnum, 0);
        if (i == 0)
            say(b, "wrexec.tree", 9, FLUX_MSGF_STREAMING, "{}");
        else
            say(b, "wrexec.cancel", 9, FLUX_MSGF_NORESPONSE, "{\"matchtag\":109}");
        ck_assert_int_eq(b->errnum, ECANCELED);
        b->errnum = 0;
    }
    answer(b);
    ck_assert_int_eq(b->errnum, 0);
    bed_free(b);
}
END_TEST

/* Nodes of one name are asked once whether they share a host; launches wait for the answer. */
START_TEST(hosts_of_one_name)
{
    static const char *const marks[] = {"x", "y", "x", "x"};
    struct bed *b = bed_create_sized(4);

    answer(b);
    launch_on(b, 6, "1-3", "a,b,c"); /* this launch does not ask */
    turn(b);
    ck_assert_uint_eq(b->nasked, 0);
    launch_on(b, 7, "1-3", "a,a,b");
    launch(b, 8);
    kill_jobs(b, "7", SIGTERM);
    turn(b);
    ck_assert_uint_eq(b->nasked, 2);
    ck_assert_str_eq(flux_msg_topic(b->asked[0]), "wrexec.host");
    ck_assert_str_eq(b->frames, "LAUNCH ");
    ck_assert_uint_eq(b->responses, 1);
    b->mark = marks;
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH LAUNCH SIGNAL ");
    ck_assert_uint_eq(b->responses, 4);
    ck_assert_str_eq(b->hosts, "h1,h2,h3");
    launch_on(b, 9, "1-2", "a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 0);
    ck_assert_str_eq(b->hosts, "h1,h2");
    reload(b);
    b->hosts[0] = '\0';
    launch_on(b, 10, "1-2", "a,a");
    turn(b);
    for (size_t i = 0; i < b->nasked; i++)
        ck_assert_str_ne(flux_msg_topic(b->asked[i]), "wrexec.host");
    answer(b);
    ck_assert_str_eq(b->hosts, "h1,h2");
    launch_on(b, 11, "1-3", "a,a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 1);
    answer(b);
    ck_assert_str_eq(b->hosts, "h1,h2,h2");
    bed_free(b);
}
END_TEST

/* Equal marks: the launch stays as it is.  No mark: the name decides, and later launches do not
 * wait. */
START_TEST(hosts_not_told)
{
    static const char *const same[] = {"x", "x", "x"}, *const none[] = {NULL, "x", NULL};
    struct bed *b = bed_create_sized(3);

    answer(b);
    b->mark = none;
    launch_on(b, 7, "1-2", "a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 2);
    ck_assert_str_eq(b->frames, "");
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    launch_on(b, 8, "1-2", "a,a");
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH ");
    ck_assert_uint_eq(b->nasked, 1);
    b->mark = same;
    answer(b);
    launch_on(b, 9, "1-2", "a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 0);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH LAUNCH ");
    ck_assert_str_eq(b->hosts, "");
    bed_free(b);
}
END_TEST

/* Launches that wait for marks outlive a reload: each is launched once. */
START_TEST(hosts_reloaded)
{
    static const char *const marks[] = {"x", "x", "y"};
    struct bed *b = bed_create_sized(3);

    answer(b);
    launch_on(b, 7, "1-2", "a,a");
    launch(b, 8);
    turn(b);
    ck_assert_uint_eq(b->nasked, 2);
    while (b->nasked > 0)
        flux_msg_destroy(b->asked[--b->nasked]);
    reload(b);
    b->mark = marks;
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH ");
    ck_assert_uint_eq(b->responses, 2);
    bed_free(b);
}
END_TEST

static uint64_t running(struct bed *b)
{
    uint64_t n;

    say(b, "wrexec.stats", 1, 0, "{}");
    ck_assert_int_eq(sscanf(strstr(b->last, "\"running\":"), "\"running\":%" SCNu64, &n), 1);
    return n;
}

/* A launch of more jobs than a slice holds: the rest follows, after a reload too, and the last jobs
 * have the environment that only the first job brought along. */
START_TEST(launch_in_slices)
{
    for (int reloaded = 0; reloaded < 2; reloaded++) {
        struct bed *b = bed_create_on(2, true);
        json_t *nodes = json_pack("[[sissi]]", "1", 1, "", "", 0);
        launchbuf_t *buf = exec_launchbuf_create();
        char *argv[] = {(char *)"true", NULL};
        size_t len;
        void *data;

        answer(b);
        for (uint64_t id = 1; id <= FLUX_SLICE_THINGS + 2; id++) {
            struct wrexec_launch w = {.id = id, .nodes = nodes, .output = "client"};
            struct launchreq req = {.launch = &w, .argv = argv, .env = "A=1", .envlen = 4};

            ck_assert_int_eq(exec_launchbuf_add(buf, &req), 0);
        }
        ck_assert_ptr_nonnull(data = exec_launchbuf_take(buf, &len));
        say_raw(b, "wrexec.launch", 1, data, len);
        ck_assert_uint_eq(running(b), FLUX_SLICE_THINGS);
        ck_assert_uint_eq(b->responses, 0);
        if (reloaded)
            reload(b);
        turn(b);
        ck_assert_uint_eq(running(b), FLUX_SLICE_THINGS + 2);
        ck_assert_uint_eq(b->responses, 1);
        ck_assert_uint_eq(strlen(b->frames), (FLUX_SLICE_THINGS + 2) * strlen("LAUNCH "));
        ck_assert_str_eq(b->env, "A=1");
        free(data);
        exec_launchbuf_destroy(buf);
        json_decref(nodes);
        bed_free(b);
    }
}
END_TEST

/* A child refuses a launch: its tasks count as killed, and the job fails with its reason.  What it
 * says of an earlier launch does not count. */
START_TEST(launch_refused)
{
    static const char why[] = "no memory to run it";
    uint8_t fail[12 + sizeof(why) - 1] = {126}, earlier[WIRE_ROUND];
    struct bed *b = bed_create();

    answer(b);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    launch(b, 7);
    turn(b);
    le_put32(earlier, b->round[7] - 1);
    up_raw(b, WIRE_RESULT, 7, earlier, sizeof(earlier));
    turn(b);
    ck_assert_ptr_null(strstr(b->told, "code"));
    le_put32(fail + 4, UINT32_MAX);
    memcpy(fail + 12, why, sizeof(why) - 1);
    up(b, WIRE_FAIL, 7, fail, sizeof(fail));
    up(b, WIRE_RESULT, 7, NULL, 0);
    turn(b);
    ck_assert_msg(strstr(b->told, "\"code\":126") && strstr(b->told, why) &&
                      strstr(b->told, "[[9,\"0\"]]"),
                  "%s", b->told);
    bed_free(b);
}
END_TEST

/* End the child's part of `n` jobs. */
static void up_results(struct bed *b, uint64_t first, uint64_t n)
{
    flux_msg_t *msg = flux_msg_response_create(b->tree, 0);
    uint8_t *buf = malloc(n * WIRE_HEADER);

    ck_assert_ptr_nonnull(msg);
    ck_assert_ptr_nonnull(buf);
    for (uint64_t i = 0; i < n; i++)
        exec_wire_header(buf + i * WIRE_HEADER, WIRE_RESULT, first + i, 0);
    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    ck_assert_int_eq(flux_msg_set_raw(msg, buf, n * WIRE_HEADER), 0);
    free(buf);
    flux_handle_deliver(b->f.h, msg);
}

/* More frames of a child than a slice holds: other work is done in between, and no frame is lost in
 * a reload. */
START_TEST(child_in_slices)
{
    for (int reloaded = 0; reloaded < 2; reloaded++) {
        struct bed *b = bed_create_on(2, true);
        bool between = false;

        answer(b);
        for (uint64_t id = 1; id <= FLUX_SLICE_THINGS + 3; id++)
            launch(b, id);
        turn(b);
        up_results(b, 1, FLUX_SLICE_THINGS + 2);
        up_results(b, FLUX_SLICE_THINGS + 3, 1); /* the next response arrives in between */
        if (reloaded)
            reload(b);
        while (b->still.n > 0 && !between) {
            flux_watcher_t *w = b->still.w[0];

            still_clear(&b->still, w);
            flux_watcher_fire(w);
            between = running(b) == 3;
        }
        ck_assert(between != reloaded); /* frames that have arrived are handled before a reload */
        turn(b);
        ck_assert_uint_eq(running(b), 0);
        bed_free(b);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        early_kill,     early_jobs,     full_child,       many_notes,      answered,
        signal_to_job,  ranks_not_told, many_names,       parent_leaves,   hosts_of_one_name,
        hosts_not_told, hosts_reloaded, launch_in_slices, child_in_slices, launch_refused};
    TCase *tc = tcase_create("wrexec module");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    return run_case("wrexec module", tc);
}
