/* relay.c - flux stream relay: one TCP connection between two hosts (libstream/share.h).
 *
 * It needs no session, and ends with SIGINT or SIGTERM.
 *
 * Failure: a sentence and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "libstream/share.h"
#include "relay.h"

static const struct cmd_opt relay_opts[] = {
    {'a', "address", "IP", "address of this host for other relays"},
    {'I', "interface", "NAME", "the address of this interface (default: the first one)"},
    CMD_OPT_END,
};
static const struct cmd_usage relay_usage = {
    "[OPTION...]",
    "Carry the streams of this host's processes that have FLUX_STREAM_SHARE=yes, by one TCP\n"
    "connection to the relay of each other host, until SIGINT or SIGTERM.",
    relay_opts,
    NULL,
    0,
};

int stream_relay(struct cmd *c, int argc, char **argv)
{
    const char *address = NULL;
    const char *interface = NULL;
    const char *val;
    sigset_t stop;
    errmsg_t err;
    int key;
    int fd;
    int rc;

    while ((key = cmd_option(c, &relay_usage, argc, argv, &val)) > 0) {
        if (key == 'a')
            address = val;
        else
            interface = val;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 0)
        return cmd_usage_error(c, "no argument is possible");
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    if ((fd = signalfd(-1, &stop, SFD_CLOEXEC)) < 0)
        return cmd_error(c, "signals cannot be awaited: %s", strerror(errno));
    rc = share_relay_run(address, interface, fd, &err);
    close(fd);
    return rc < 0 ? cmd_error(c, "%s", err.text) : CMD_OK;
}
