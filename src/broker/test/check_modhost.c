/* check_modhost.c - the module host, with a module in a thread (t/module_bad.c). */
#include "config.h"
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alone.h"
#include "libflux/dispatch.h"
#include "libflux/future.h"
#include "libutil/fdutil.h"
#include "libutil/test/suite.h"
#include "src/broker/modhost.h"
#include "src/broker/preload.h"

#define MODULE "t/.libs/module_bad.so" /* tests run in the top directory of the build */
#define FLOOD 200000                   /* messages of bad.flood */
#define LOOKS 1000

struct bed {
    flux_reactor_t *r;
    core_t *core;
    modhost_t *mh;
    endpoint_t *sink;
    char *dir;
    char module[PATH_MAX], done[PATH_MAX];
    unsigned sunk, in_pass, most; /* messages: all, of this pass of the reactor, of one pass */
    bool answered;
    unsigned asked, waiting; /* looks at the list of modules, and with a request that waits */
};

static void log_cb(core_t *c, int level, const char *text, void *arg)
{
}

static void stop_cb(modhost_t *mh, const char *error, void *arg)
{
    struct bed *b = arg;

    ck_assert_msg(!error, "%s", error);
    flux_reactor_stop(b->r, 0);
}

/* The first message waits until the module has sent all, so that those wait together. */
static void sink_send(void *arg, flux_msg_t *msg)
{
    struct bed *b = arg;

    if (strcmp(flux_msg_topic(msg), "sink.drop") == 0) { /* and not sink.disconnect */
        ck_assert_uint_eq(flux_msg_matchtag(msg), ++b->sunk);
        for (int i = 0; b->sunk == 1 && i < 30000 && access(b->done, F_OK) < 0; i++)
            (void)poll(NULL, 0, 1);
        if (++b->in_pass > b->most)
            b->most = b->in_pass;
    }
    flux_msg_destroy(msg);
}

static void pass_cb(void *arg)
{
    struct bed *b = arg;

    b->in_pass = 0;
}

static void setup(struct bed *b)
{
    static const struct core_callbacks cbs = {.log = log_cb};
    static const struct endpoint_ops sink_ops = {.send = sink_send};
    const struct modhost_config cfg = {0};
    char *file = realpath(MODULE, NULL);
    struct core_config cc;
    errmsg_t err = {""};

    memset(b, 0, sizeof(*b));
    ck_assert_msg(file != NULL, "%s has not been built", MODULE);
    ck_assert_ptr_nonnull(b->dir = dir_create_runtime("check-modhost", NULL));
    snprintf(b->module, sizeof(b->module), "%s/bad.so", b->dir);
    snprintf(b->done, sizeof(b->done), "%s/done", b->dir);
    ck_assert_int_eq(symlink(file, b->module), 0);
    ck_assert_int_eq(setenv("BAD_MODULE_DONE", b->done, 1), 0);
    free(file);
    core_config_init(&cc);
    ck_assert_ptr_nonnull(b->r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(b->core = core_create(&cc, b->r, &cbs, b, &err));
    core_set_link(b->core, &alone_ops, NULL);
    ck_assert_ptr_nonnull(b->mh = modhost_create(b->core, &cfg, &err));
    ck_assert_ptr_nonnull(b->sink = core_endpoint_add(b->core, ENDPOINT_BROKER, "sink", cc.userid,
                                                      FLUX_ROLE_OWNER, &sink_ops, b));
    ck_assert_int_eq(core_service_add(b->core, "sink", b->sink), 0);
    ck_assert_int_eq(core_start(b->core), 0);
    core_local_ready(b->core);
    ck_assert_int_eq(modhost_start(b->mh, b->module, stop_cb, b), 0);
    flux_reactor_run(b->r);
}

static void modules_end(struct bed *b)
{
    modhost_stop(b->mh, stop_cb, b);
    flux_reactor_run(b->r);
}

static void clean(struct bed *b)
{
    modhost_destroy(b->mh);
    core_endpoint_remove(b->sink, ENOSYS, "end");
    core_destroy(b->core);
    flux_reactor_destroy(b->r);
    ck_assert_int_eq(dir_remove_tree(b->dir), 0);
    free(b->dir);
}

static void teardown(struct bed *b)
{
    modules_end(b);
    clean(b);
}

static void ended(flux_future_t *f, struct bed *b)
{
    flux_future_destroy(f);
    b->answered = true;
    flux_reactor_stop(b->r, 0);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    ck_assert_int_eq(flux_future_errnum(f), 0);
    ended(f, arg);
}

/* However much a module in a thread sends at once: the loop does other work in between, and the
 * order stays. */
START_TEST(flood)
{
    struct bed b;
    flux_future_t *f;

    setup(&b);
    ck_assert_int_eq(flux_reactor_before_sleep(b.r, pass_cb, &b), 0);
    ck_assert_ptr_nonnull(f = flux_rpc(core_handle(b.core), "bad.flood", NULL, FLUX_NODEID_ANY, 0));
    ck_assert_int_eq(flux_future_then(f, -1., answer_cb, &b), 0);
    flux_reactor_run(b.r);
    ck_assert(b.answered);
    ck_assert_uint_eq(b.sunk, FLOOD);
    ck_assert_uint_lt(b.most, FLOOD / 4);
    teardown(&b);
}
END_TEST

static void list_cb(flux_future_t *f, void *arg)
{
    struct bed *b = arg;
    const char *json = "";

    ck_assert_int_eq(flux_rpc_get_json(f, &json, NULL), 0);
    b->waiting += strstr(json, "\"queued\":1") != NULL;
    b->asked++;
    flux_future_destroy(f);
    flux_reactor_stop(b->r, 0);
}

/* A thread is not woken for a lazy request, and takes it before the next one. */
START_TEST(lazy)
{
    struct bed b;
    flux_future_t *f[2], *list;

    setup(&b);
    f[0] = flux_rpc(core_handle(b.core), "bad.echo", NULL, FLUX_NODEID_ANY, FLUX_MSGF_LAZY);
    ck_assert_ptr_nonnull(f[0]);
    for (int i = 0; i < LOOKS; i++) {
        ck_assert_ptr_nonnull(
            list = flux_rpc(core_handle(b.core), "module.list", NULL, FLUX_NODEID_ANY, 0));
        ck_assert_int_eq(flux_future_then(list, -1., list_cb, &b), 0);
        flux_reactor_run(b.r);
    }
    ck_assert_uint_eq(b.asked, LOOKS);
    ck_assert_uint_eq(b.waiting, LOOKS);
    ck_assert(!flux_future_ready(f[0]));
    ck_assert_ptr_nonnull(f[1] =
                              flux_rpc(core_handle(b.core), "bad.echo", NULL, FLUX_NODEID_ANY, 0));
    ck_assert_int_eq(flux_future_then(f[1], -1., answer_cb, &b), 0);
    flux_reactor_run(b.r);
    ck_assert(b.answered);
    ck_assert(flux_future_ready(f[0]));
    flux_future_destroy(f[0]);
    teardown(&b);
}
END_TEST

static void lost_cb(flux_future_t *f, void *arg)
{
    ck_assert_int_eq(flux_future_errnum(f), EHOSTUNREACH);
    ended(f, arg);
}

static void unloaded_cb(flux_future_t *f, void *arg)
{
    ck_assert_int_eq(flux_future_errnum(f), ENOSYS);
    ended(f, arg);
}

/* Whoever waits for a module of a broker that ends is not told that nothing was done. */
START_TEST(ending)
{
    for (int down = 0; down < 2; down++) {
        struct bed b;
        flux_future_t *f;

        setup(&b);
        ck_assert_ptr_nonnull(
            f = flux_rpc(core_handle(b.core), "bad.wait", NULL, FLUX_NODEID_ANY, 0));
        if (down)
            core_shutdown(b.core, 0, "test");
        ck_assert_int_eq(flux_future_then(f, -1., down ? lost_cb : unloaded_cb, &b), 0);
        modules_end(&b);
        if (!b.answered)
            flux_reactor_run(b.r);
        ck_assert(b.answered);
        clean(&b);
    }
}
END_TEST

/* A file that was preloaded is in memory until that ends, and its module is prepared. */
START_TEST(preloaded)
{
    char *file = realpath(MODULE, NULL), *dir = dir_create_runtime("check-modhost", NULL), *link;
    strvec_t *names = strvec_split("no-such-module,bad,./bad", ',');
    preload_t *p;
    void *dso;

    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(dir);
    ck_assert_int_gt(asprintf(&link, "%s/bad.so", dir), 0);
    ck_assert_int_eq(symlink(file, link), 0);
    ck_assert_int_eq(setenv("FLUX_MODULE_PATH", dir, 1), 0);
    ck_assert_int_eq(unsetenv("BAD_MODULE_PREPARED"), 0);
    ck_assert_ptr_null(dlopen(link, RTLD_NOW | RTLD_NOLOAD));
    ck_assert_ptr_nonnull(p = preload_create(names));
    ck_assert_str_eq(getenv("BAD_MODULE_PREPARED"), "1");
    ck_assert_ptr_nonnull(dso = dlopen(link, RTLD_NOW | RTLD_NOLOAD));
    dlclose(dso);
    preload_destroy(p);
    ck_assert_ptr_null(dlopen(link, RTLD_NOW | RTLD_NOLOAD));
    strvec_destroy(names);
    ck_assert_int_eq(dir_remove_tree(dir), 0);
    free(link);
    free(dir);
    free(file);
}
END_TEST

int main(void)
{
    RUN_SUITE("modhost", flood, lazy, ending, preloaded);
}
