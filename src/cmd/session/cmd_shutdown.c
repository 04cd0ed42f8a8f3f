/* cmd_shutdown.c - flux shutdown: end the session in order. */
#include "config.h"

#include "../cmd_all.h"
#include "libflux/overlay_wire.h"
#include "libutil/strbuf.h"

#include <stdlib.h>

#define TIMEOUT 60.
#define CODE_MAX 255

#define KEY_CODE CMD_KEY(0)

static const struct cmd_opt opts[] = {
    {KEY_CODE, "exit-code", "N", "exit code of the session (default: 0)"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [REASON...]",
    "End the session: its initial program and running jobs are terminated, then its brokers end.\n"
    "Pending jobs stay in the queue of a session with a statedir. The log says who asked.",
    opts,
    NULL,
    0,
};

/* "flux shutdown: REASON", to be freed.  NULL with ENOMEM. */
static char *reason_of(char **words, int n)
{
    strbuf_t *sb = strbuf_create(0);

    strbuf_addf(sb, "flux shutdown");
    for (int i = 0; i < n; i++)
        strbuf_addf(sb, "%s%s", i == 0 ? ": " : " ", words[i]);
    return sb ? strbuf_take(sb) : NULL;
}

int cmd_shutdown(struct cmd *c, int argc, char **argv)
{
    struct shutdown_order order = {0};
    flux_future_t *f;
    uint32_t code = 0;
    const char *val;
    char *reason;
    flux_t *h;
    int key, rc;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (cmd_parse_u32(c, "--exit-code", val, &code) < 0)
            return CMD_USAGE;
        if (code > CODE_MAX)
            return cmd_usage_error(c, "--exit-code: at most %d", CODE_MAX);
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (!(reason = reason_of(argv + c->optind, argc - c->optind)))
        return cmd_error(c, "out of memory");
    order.rc = (int)code;
    order.reason = reason;
    f = flux_rpc_struct(h, "broker.shutdown", &shutdown_order_schema, &order, FLUX_NODEID_ROOT, 0);
    rc = cmd_wait(c, f, TIMEOUT, "rank 0") < 0 ? CMD_FAIL : CMD_OK;
    flux_future_destroy(f);
    free(reason);
    return rc;
}
