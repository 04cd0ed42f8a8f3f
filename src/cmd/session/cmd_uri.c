/* cmd_uri.c - flux uri: print the address of a session.
 *
 *    no argument  the address that programs use here: FLUX_URI, or else that of the system session
 *    local        the address that the broker reached in this way reports for itself
 *    system       the session of this host, whatever the value of FLUX_URI
 *    ID[/ID]      the session of a job (nestlink.h)
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "libflux/attr.h"
#include "../nest/nestlink.h"
#include "../nest/nesturi.h"

static const struct cmd_opt opts[] = {
    {'j', "json", NULL, "print a JSON object"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [local|system|ID[/ID...]]",
    "Print the address of a session, in the form of FLUX_URI: the address that programs use here,\n"
    "that of the local broker, that of the system session of this host, or that of the session of\n"
    "job ID.",
    opts, NULL, 0};

static int print_uri(struct cmd *c, const char *target, const char *uri, bool json)
{
    json_t *o;

    if (!json) {
        puts(uri);
        return CMD_OK;
    }
    o = json_object();
    json_object_set_new(o, "target", json_string(target));
    json_object_set_new(o, "uri", json_string(uri));
    return cmd_print_json(c, o);
}

static int of_local(struct cmd *c, bool json)
{
    flux_t *h = cmd_handle(c);
    errmsg_t err;
    char *uri;
    int rc;

    if (!h)
        return CMD_FAIL;
    if (!(uri = flux_attr_get(h, "uri", &err)))
        return cmd_error(c, "%s", err.text);
    rc = print_uri(c, "local", uri, json);
    free(uri);
    return rc;
}

static int of_job(struct cmd *c, const char *target, bool json)
{
    uint64_t ids[NESTURI_LEVELS_MAX];
    struct nestchain ch = {0};
    int n, rc = CMD_FAIL;
    errmsg_t err;
    flux_t *h;

    if ((n = nesturi_path(target, ids, NESTURI_LEVELS_MAX, &err)) < 0)
        return cmd_usage_error(c, "%s", err.text);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (nestchain_open(&ch, h, ids, (size_t)n, false, 0., &err) < 0)
        cmd_error(c, "%s", err.text);
    else if (nestlink_relayed(ch.links[ch.n - 1]))
        cmd_error(c, "the session of job %s is on another host: use flux proxy %s", target, target);
    else
        rc = print_uri(c, target, nestlink_uri(ch.links[ch.n - 1]), json);
    nestchain_close(&ch);
    return rc;
}

int cmd_uri(struct cmd *c, int argc, char **argv)
{
    const char *target, *uri;
    bool json = false;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, NULL)) > 0)
        json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind > 1)
        return cmd_usage_error(c, "at most one session is expected");
    target = argv[c->optind];
    if (target && strcmp(target, "local") == 0)
        return of_local(c, json);
    if (target && strcmp(target, "system") == 0) {
        if (access(FLUX_SYSTEM_SOCKET, F_OK) < 0)
            return cmd_error(c, "there is no system session on this host: %s does not exist",
                             FLUX_SYSTEM_SOCKET);
        return print_uri(c, target, "local://" FLUX_SYSTEM_SOCKET, json);
    }
    if (target)
        return of_job(c, target, json);
    if (!(uri = flux_default_uri()))
        return cmd_error(
            c, "not inside a session: FLUX_URI is not set, and there is no system session at %s",
            FLUX_SYSTEM_SOCKET);
    return print_uri(c, "default", uri, json);
}
