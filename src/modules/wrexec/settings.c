/* settings.c - the attributes that wrexec reads once, when it is loaded.
 *
 *    uri                     URI of the local broker, for FLUX_URI
 *    wrexec.prolog           program to run on each node before the tasks of a job
 *    wrexec.epilog           program to run there after the job
 *    wrexec.hook-timeout     maximum duration of each of the two (default: 60s)
 *    wrexec.lua-path         directories with Lua plugins, separated by ':'
 *    wrexec.tmpdir           directory in which the directories of jobs are made
 *    wrexec.cgroup           directory in which the cgroups that limit the memory of jobs are made
 *    wrexec.hung-max         maximum number of threads on a node that hang in file systems
 *    wrexec.share-hosts      whether MPI takes brokers of one host for one host (default: yes)
 *    wrexec.output-limit     bytes of output that the store keeps of a job (rank 0; default: 64M)
 *
 * Jobs wait until the values of all attributes have arrived.
 *
 * Failure: an invalid value is logged, and the default applies.  The launcher checks the texts.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libflux/paths.h"
#include "libservice/setup.h"
#include "libsettings/settings.h"
#include "libutil/duration.h"

struct settings {
    struct ctx *ctx;
    void (*done)(struct ctx *ctx);
    setup_t *setup;
    char *text[WIRE_CONFIG_STRINGS]; /* NULL: neither set nor inherited */
    bool share_hosts;
    uint64_t output_limit;
};

/* The default depends on the hook: programs and Lua plugins have different ones. */
static int set_hook_timeout(void *arg, const char *value, errmsg_t *err)
{
    struct settings *s = arg;
    double seconds;
    char *text;

    if (settings_check("wrexec.hook-timeout", value, err) < 0 ||
        duration_parse(value, &seconds, err) < 0)
        return -1;
    if (asprintf(&text, "%.3f", seconds) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory");
    free(s->text[WIRE_C_HOOK_TIMEOUT]);
    s->text[WIRE_C_HOOK_TIMEOUT] = text;
    return 0;
}

static void ready(void *arg)
{
    struct settings *s = arg;

    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++)
        launchlink_config(s->ctx->exec, (enum wire_config)i, s->text[i]);
    launchlink_config(s->ctx->exec, WIRE_C_SHARE_HOSTS, s->share_hosts ? "yes" : "no");
    if (s->ctx->coord)
        coord_output_set_limit(s->ctx->coord->output, s->output_limit);
    s->done(s->ctx);
}

static void refused(void *arg, const char *sentence)
{
    struct settings *s = arg;

    flux_log(s->ctx->h, LOG_ERR, "%s", sentence);
}

static const struct setup_row rows[] = {
    SETUP_TEXT("uri", struct settings, text[WIRE_C_URI]),
    SETUP_TEXT("wrexec.prolog", struct settings, text[WIRE_C_PROLOG]),
    SETUP_TEXT("wrexec.epilog", struct settings, text[WIRE_C_EPILOG]),
    SETUP_CALL("wrexec.hook-timeout", set_hook_timeout),
    SETUP_TEXT("wrexec.lua-path", struct settings, text[WIRE_C_LUA_PATH]),
    SETUP_TEXT("wrexec.tmpdir", struct settings, text[WIRE_C_TMPDIR]),
    SETUP_TEXT("wrexec.cgroup", struct settings, text[WIRE_C_CGROUP]),
    SETUP_TEXT("wrexec.hung-max", struct settings, text[WIRE_C_HUNG_MAX]),
    SETUP_BOOL("wrexec.share-hosts", struct settings, share_hosts),
    SETUP_SIZE("wrexec.output-limit", struct settings, output_limit),
    SETUP_END,
};
static const struct setup_table table = {"wrexec", rows, ready, refused};

struct settings *settings_ask(struct ctx *ctx, void (*done)(struct ctx *ctx))
{
    struct settings *s = calloc(1, sizeof(*s));
    errmsg_t err;

    if (!s)
        return NULL;
    s->ctx = ctx;
    s->done = done;
    s->text[WIRE_C_LIBPMI] = flux_path_libpmi(NULL);
    if (!(s->setup = setup_create(ctx->h, &table, s, 0, NULL, &err))) {
        settings_destroy(s);
        errno = ENOMEM;
        return NULL;
    }
    return s;
}

bool settings_known(const struct settings *s)
{
    return setup_known(s->setup);
}

void settings_destroy(struct settings *s)
{
    if (!s)
        return;
    setup_destroy(s->setup);
    for (int i = 0; i < WIRE_CONFIG_STRINGS; i++)
        free(s->text[i]);
    free(s);
}
