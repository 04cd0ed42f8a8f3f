/* cmd_job.c - flux job: what drivers of workflows call by this name.
 *
 *    info ID [KEY]   flux wreck status ID, or one value of the record: job.ID.KEY as it is
 *    attach ID       flux wreck attach ID
 *    cancel ID...    flux cancel ID...
 *
 * All else that is done to one job is flux wreck's.
 *
 * Failure: a value that is not on record is a sentence and exit code 1.
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
        {'j', "json", NULL, "JSON, without KEY: an array with everything about the job"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[-j] ID [KEY]",
        "Print everything about a job, or one value of its record as it is: jobspec, R, eventlog.",
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
        return cmd_usage_error(c, "an ID is needed, and at most one KEY");
    if (json)
        return cmd_usage_error(c, "--json does not go with a KEY, whose value is printed as it is");
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
        {"info", job_info, "[-j] ID [KEY]", "everything about a job, or one value of its record"},
        {"attach", wreck_attach, "[-l] [-q] ID",
         "print its output until it ends (as flux wreck attach)"},
        {"cancel", cmd_cancel, "[OPTION...] ID...", "end jobs (as flux cancel)"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "Look at a job, or end it; 'flux wreck' does more.", subs, argc, argv);
}
