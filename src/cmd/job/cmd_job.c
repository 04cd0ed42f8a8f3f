/* cmd_job.c - flux job: the commands that workflow tools call by this name.
 *
 *    info ID [KEY]   flux wreck status ID, or one value of the record, job.ID.KEY, unchanged
 *    attach ID       flux wreck attach ID
 *    cancel ID...    flux cancel ID...
 *
 * All other operations on a job are commands of flux wreck.
 *
 * Failure: for a value that is not on record, an error message and exit code 1.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "cmd_wreck.h"
#include "job_args.h"

static int print_value(struct cmd *c, uint64_t id, const char *key)
{
    flux_t *h = cmd_handle(c);
    size_t len;
    char *val;

    if (!h || wreck_sync(c, h) < 0 ||
        !(val = wreck_value(c, wreck_ask(h, id, key), id, key, &len, NULL)))
        return CMD_FAIL;
    fwrite(val, 1, len, stdout);
    if (len > 0 && val[len - 1] != '\n')
        putchar('\n');
    free(val);
    return CMD_OK;
}

static int job_info(struct cmd *c, int argc, char **argv)
{
    static const char *const keys[] = {"jobspec", "R", "eventlog"};
    static const struct cmd_opt opts[] = {
        {'j', "json", NULL, "without KEY: print a JSON array with everything about the job"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[-j] ID [KEY]",
        "Print everything about a job, or one value of its record unchanged: jobspec, R, eventlog.",
        opts, NULL, 0};
    const char *val;
    bool json = false;
    uint64_t id;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind == 1) {
        cmd_option_restart(c);
        return wreck_status(c, argc, argv);
    }
    if (argc - c->optind != 2)
        return cmd_usage_error(c, "an ID and at most one KEY are expected");
    if (json)
        return cmd_usage_error(
            c, "--json cannot be combined with a KEY, whose value is printed unchanged");
    if (job_args_id(c, 1, argv + c->optind, &id) < 0)
        return CMD_USAGE;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        if (strcmp(argv[c->optind + 1], keys[i]) == 0)
            return print_value(c, id, keys[i]);
    }
    return cmd_usage_error(c, "'%s' is not one of jobspec, R, eventlog", argv[c->optind + 1]);
}

int cmd_job(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"info", job_info, "[-j] ID [KEY]",
         "print everything about a job, or one value of its record"},
        {"attach", wreck_attach, "[-l] [-q] ID",
         "print its output until it ends (same as flux wreck attach)"},
        {"cancel", cmd_cancel, "[OPTION...] ID...", "cancel jobs (same as flux cancel)"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "Inspect or cancel a job. 'flux wreck' has more commands.", subs, argc,
                          argv);
}
