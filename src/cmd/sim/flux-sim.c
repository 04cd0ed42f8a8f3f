/* flux-sim.c - flux sim: replay logs of jobs through the scheduler, and analyze the results.
 *
 * This is a program of its own, so that `flux` needs neither the scheduler nor zlib.  It needs no
 * session.
 *
 * The first argument may name a command (derive, check, network); otherwise it is a log to replay.
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "../cmd_private.h"
#include "sim.h"

static const struct {
    const char *name, *full;
    int (*fn)(struct cmd *c, int argc, char **argv);
} commands[] = {
    {"derive", "sim derive", sim_derive},
    {"check", "sim check", sim_check},
    {"network", "sim network", sim_network},
};

int main(int argc, char **argv)
{
    struct cmd_private priv = {0};
    struct cmd c = {.name = "sim", .priv = &priv};
    int (*fn)(struct cmd *, int, char **) = sim_replay;
    int rc;

    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            c.name = commands[i].full;
            fn = commands[i].fn;
        }
    }
    rc = fn == sim_replay ? fn(&c, argc, argv) : fn(&c, argc - 1, argv + 1);
    cmd_progress_end(&c);
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == CMD_OK)
        rc = cmd_error(&c, "cannot write to standard output");
    return rc;
}
