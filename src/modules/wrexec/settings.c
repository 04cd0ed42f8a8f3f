/* Attributes of the session that wrexec reads, once, when it is loaded:
 *
 *    uri                     of the local broker, for FLUX_URI
 *    wrexec.prolog           program to be run on each node before the tasks of a job
 *    wrexec.epilog           and after them
 *    wrexec.hook-timeout     how long each may take (60s)
 *    wrexec.lua-path         directories with Lua plugins, ':' between them
 *    wrexec.tmpdir           where the directories of jobs are made
 *    wrexec.cgroup           where the cgroups that limit the memory of jobs are made
 *    wrexec.hung-max         how much may hang on a node in file systems that do not answer
 *    wrexec.share-hosts      brokers of one host are one host for MPI (yes)
 *    wrexec.output-limit     bytes of output that the store keeps of a job (64M); at rank 0
 *
 * Jobs wait until all have been answered.  A value that makes no sense is logged, and the default
 * counts.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libflux/paths.h"
#include "libutil/duration.h"
#include "libutil/size.h"
#include "libutil/strutil.h"

enum { LIMIT = WIRE_CONFIG_STRINGS, NSETTINGS };

static const char *const names[NSETTINGS] = {
    [WIRE_C_URI] = "uri",
    [WIRE_C_PROLOG] = "wrexec.prolog",
    [WIRE_C_EPILOG] = "wrexec.epilog",
    [WIRE_C_HOOK_TIMEOUT] = "wrexec.hook-timeout",
    [WIRE_C_LUA_PATH] = "wrexec.lua-path",
    [WIRE_C_TMPDIR] = "wrexec.tmpdir",
    [WIRE_C_CGROUP] = "wrexec.cgroup",
    [WIRE_C_HUNG_MAX] = "wrexec.hung-max",
    [WIRE_C_SHARE_HOSTS] = "wrexec.share-hosts",
    [LIMIT] = "wrexec.output-limit",
};

struct settings {
    struct ctx *ctx;
    void (*done)(struct ctx *ctx);
    unsigned pending;
    struct setting {
        struct settings *all;
        int what;
    } v[NSETTINGS];
};

static void refuse(struct settings *s, int what, const char *value, const char *why)
{
    flux_log(s->ctx->h, LOG_ERR, "attribute %s='%s' is not used: %s", names[what], value, why);
}

static void use(struct settings *s, int what, const char *value)
{
    char text[32];
    errmsg_t err;

    if (what == LIMIT) {
        uint64_t bytes;

        if (size_parse(value, &bytes, &err) < 0 || bytes == 0)
            refuse(s, what, value, bytes == 0 ? "it has to be above 0" : err.text);
        else if (s->ctx->coord)
            coord_output_set_limit(s->ctx->coord->output, bytes);
    } else if (what == WIRE_C_SHARE_HOSTS) {
        bool yes;

        if (str2bool(value, &yes) < 0)
            refuse(s, what, value, "it has to be yes or no");
        else
            launchlink_config(s->ctx->exec, WIRE_C_SHARE_HOSTS, yes ? "yes" : "no");
    } else if (what == WIRE_C_HOOK_TIMEOUT) {
        double seconds;

        if (duration_parse(value, &seconds, &err) < 0) {
            refuse(s, what, value, err.text);
            return;
        }
        snprintf(text, sizeof(text), "%.3f", seconds);
        launchlink_config(s->ctx->exec, WIRE_C_HOOK_TIMEOUT, text);
    } else {
        launchlink_config(s->ctx->exec, (enum wire_config)what, value);
    }
}

static void got(flux_future_t *f, void *arg)
{
    struct setting *one = arg;
    struct settings *s = one->all;
    const char *value;

    if (flux_attr_future_get(f, &value, NULL) == 0)
        use(s, one->what, value);
    else if (errno == ENOENT && one->what < LIMIT)
        (void)launchlink_config(s->ctx->exec, (enum wire_config)one->what,
                                NULL); /* not inherited either */
    flux_future_destroy(f);
    if (--s->pending == 0)
        s->done(s->ctx);
}

struct settings *settings_ask(struct ctx *ctx, void (*done)(struct ctx *ctx))
{
    struct settings *s = calloc(1, sizeof(*s));
    char *libpmi = flux_path_libpmi(NULL);

    if (libpmi)
        launchlink_config(ctx->exec, WIRE_C_LIBPMI, libpmi);
    free(libpmi);
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->done = done;
    for (int i = 0; i < NSETTINGS; i++) {
        flux_future_t *f;

        if (!names[i])
            continue;
        s->v[i] = (struct setting){s, i};
        f = flux_attr_get_async(ctx->h, names[i]);
        if (!f || flux_future_then(f, -1., got, &s->v[i]) < 0) {
            flux_future_destroy(f);
            free(s);
            return NULL;
        }
        s->pending++;
    }
    return s;
}

bool settings_known(const struct settings *s)
{
    return s->pending == 0;
}

void settings_destroy(struct settings *s)
{
    free(s);
}
