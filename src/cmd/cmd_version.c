/* cmd_version.c - flux version: print the version of this program. */
#include "config.h"
#include <stdio.h>

#include "cmd.h"
#include "cmd_all.h"

static const struct cmd_usage usage = {"", "Print the version of flux.", NULL, NULL, 0};

int cmd_version(struct cmd *c, int argc, char **argv)
{
    int key = cmd_option(c, &usage, argc, argv, NULL);

    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    printf("flux %s\n", PACKAGE_VERSION);
    return CMD_OK;
}
