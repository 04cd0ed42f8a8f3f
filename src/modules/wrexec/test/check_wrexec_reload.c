/* check_wrexec_reload.c - what the next instance of the module goes on with. */
#include "config.h"
#include "bed.h"

/* A reload before the tree is known, and one before the settings are known: requests that wait
 * continue to wait. */
START_TEST(reloaded_early)
{
    struct bed *b = bed_create();

    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":7,\"input\":false}");
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    launch(b, 7);
    kill_jobs(b, "7", SIGTERM);
    reload(b);
    reload(b);
    turn(b);
    ck_assert_str_eq(b->frames, "");
    ck_assert_uint_eq(b->responses, 0);
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH SIGNAL ");
    ck_assert_uint_eq(b->responses, 2);
    ck_assert_uint_eq(b->notices, 1);
    end_job(b, 7);
    ck_assert_uint_eq(b->notices, 2);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    bed_free(b);
}
END_TEST

/* While requests ask for the processes of an earlier broker, the module stays, unless its end is
 * forced; it has then answered them. */
START_TEST(asked_what_remains)
{
    struct bed *b = bed_create();
    flux_handover_t *o = flux_handover_create();
    errmsg_t err = {""};

    b->errnum = -1;
    say(b, "wrexec.remains", 5, 0, "{}");
    turn(b);
    ck_assert_int_eq(flux_module_wrexec.may_stop(b->f.h, b->ctx, &err), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_ptr_nonnull(strstr(err.text, "is being ended"));
    ck_assert_int_eq(flux_module_wrexec.hand_over(b->f.h, b->ctx, o, &err), -1);
    ck_assert_int_eq(errno, EAGAIN);
    flux_handover_destroy(o);
    ck_assert_int_eq(b->errnum, -1);
    if (_i == 0) {
        answer(b);
        ck_assert_int_eq(b->errnum, 0);
        ck_assert_int_eq(flux_module_wrexec.may_stop(b->f.h, b->ctx, &err), 0);
        reload(b);
    } else {
        flux_module_wrexec.fini(b->f.h, b->ctx);
        ck_assert_int_eq(b->errnum, ECANCELED);
        ck_assert_int_eq(flux_module_wrexec.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    }
    bed_free(b);
}
END_TEST

/* Reloads while a stream is opened, and while a frame is under way. */
START_TEST(reloaded_edges)
{
    struct bed *b = bed_create();

    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    launch(b, 7);
    flux_timer_start(b->stop, 0.002, 0.); /* the child does not answer yet */
    flux_reactor_run(b->f.r);
    ck_assert_ptr_nonnull(b->tree);
    ck_assert(!b->opened);
    reload(b);
    kill_jobs(b, "7", SIGTERM);
    reload(b);
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH SIGNAL ");
    ck_assert_int_eq(b->ntree, 1);
    kill_jobs(b, "7", SIGUSR1);
    flux_timer_start(b->stop, 0.002, 0.);
    flux_reactor_run(b->f.r);
    ck_assert_ptr_nonnull(b->down);
    kill_jobs(b, "7", SIGKILL);
    reload(b);
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH SIGNAL SIGNAL KILL ");
    ck_assert_int_eq(b->ndown, 3);
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    ck_assert_int_eq(b->ntree, 1);
    bed_free(b);
}
END_TEST

/* A look-up that is under way at the store, and a look-up that waits for the name. */
START_TEST(reloaded_names)
{
    struct bed *b = bed_create();

    answer(b);
    launch(b, 7);
    turn(b);
    say(b, "wrexec.name", 1, 0, "{\"op\":\"lookup\",\"id\":7,\"service\":\"x\"}");
    reload(b);
    ck_assert_uint_eq(b->named, 0);
    answer(b); /* answer of the store, to the instance before: there is no such name */
    ck_assert_uint_eq(b->named, 1);
    ck_assert_ptr_nonnull(strstr(b->last, "nobody has published the name 'x'"));
    say(b, "wrexec.name", 2, 0, "{\"op\":\"lookup\",\"id\":7,\"service\":\"y\",\"wait\":true}");
    answer(b);
    reload(b);
    answer(b);
    ck_assert_uint_eq(b->named, 1);
    end_job(b, 7);
    turn(b);
    ck_assert_uint_eq(b->named, 2);
    ck_assert_ptr_nonnull(strstr(b->last, "is over"));
    bed_free(b);
}
END_TEST

/* A state that no instance leaves is refused, with an error message, and without a leak. */
START_TEST(bad_inheritance)
{
    for (int bad = 0; bad < 8; bad++) {
        struct bed *b = bed_create();
        flux_handover_t *o = flux_handover_create();
        errmsg_t err = {""};

        flux_module_wrexec.fini(b->f.h, b->ctx);
        flux_close(b->f.h);
        if (bad > 0)
            flux_handover_put_mark(o, bad == 1 ? "another" : "wrexec");
        flux_handover_put(o, bad == 2 ? 1 : 0); /* rank, size */
        flux_handover_put(o, bad == 3 ? 3 : 2);
        flux_handover_put_str(o, bad == 4 ? "kary:0" : "kary:2");
        flux_handover_put(o, bad == 5 ? 2 : 0);
        flux_handover_put(o, 7);
        flux_handover_put(o, bad == 6); /* jobs, but no launcher */
        flux_handover_put_mark(o, "edges");
        ck_assert_int_eq(init_with(b, o, &err), -1);
        ck_assert_int_eq(errno, bad == 4 ? EINVAL : EPROTO);
        ck_assert_str_ne(err.text, "");
        flux_aux_set(b->f.h, "module::inherited", NULL, NULL);
        flux_handover_destroy(o);
        ck_assert_int_eq(flux_module_wrexec.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
        bed_free(b);
    }
}
END_TEST

/* The job module that was told of the loss of a node is gone, as is wrexec's record of that: the
 * end, which is repeated to the next one, tells it.  _i: 0, both are loaded again; 1, the job had a
 * signal before the loss, which decides its end. */
START_TEST(loss_repeated)
{
    static const char type[] = "\"type\":\"node-lost\"";
    const char *at;
    struct bed *b = bed_create();

    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    launch(b, 7);
    turn(b);
    if (_i == 1)
        kill_jobs(b, "7", SIGTERM);
    turn(b);
    lost(b, "1", 7);
    reload(b);
    turn(b);
    ck_assert_uint_eq(b->raised, 1);
    b->told[0] = '\0';
    say(b, "wrexec.jobs", 2, FLUX_MSGF_STREAMING, "{}");
    turn(b);
    ck_assert_uint_eq(b->raised, 1);
    ck_assert_ptr_nonnull(at = strstr(b->told, "\"ended\":[{\"id\":7,\"code\":"));
    ck_assert((strstr(at, type) != NULL) == (_i == 0));
    bed_free(b);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {reloaded_early, reloaded_edges, reloaded_names, bad_inheritance};
    TCase *tc = tcase_create("wrexec reload");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, asked_what_remains, 0, 2);
    tcase_add_loop_test(tc, loss_repeated, 0, 2);
    return run_case("wrexec reload", tc);
}
