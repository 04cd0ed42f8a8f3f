/* relay.c - flux stream relay: one TCP connection between two hosts (libstream/share.h).
 *
 * It needs no session, and ends with SIGINT or SIGTERM, or when nobody has used it for a while.
 *
 * With --detach, the child of a fork goes on when the relay listens, in a session of its own and
 * without anything that its parent had open.
 *
 * Failure: a sentence and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "libstream/far_addr.h"
#include "libstream/share.h"
#include "relay.h"

#define DETACHED_IDLE "30s"

enum { OPT_DETACH = CMD_KEY(0), OPT_IDLE };

static const struct cmd_opt relay_opts[] = {
    {'a', "address", "IP", "address of this host for other relays"},
    {'I', "interface", "NAME", "the address of this interface (default: the first one)"},
    {OPT_IDLE, "idle", "TIME",
     "end when no process has used the relay for this time (default: 0,\n"
     "never; with --detach 30s, or $FLUX_STREAM_IDLE)"},
    {OPT_DETACH, "detach", NULL, "go to the background when it can be used"},
    CMD_OPT_END,
};
static const struct cmd_usage relay_usage = {
    "[OPTION...]",
    "Carry the streams of this host's processes that share connections, by one TCP connection "
    "with\n"
    "the relay of each other host, until SIGINT or SIGTERM. Processes start a relay themselves.",
    relay_opts,
    NULL,
    0,
};

struct relay_args {
    const char *address;
    const char *interface;
    const char *idle; /* NULL: not said */
    bool detach;
};

static int stop_signals(void)
{
    sigset_t stop;

    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    return signalfd(-1, &stop, SFD_CLOEXEC);
}

/* Go on in the background.  0; or an exit code, in the foreground. */
static int detach(struct cmd *c)
{
    int null;
    pid_t pid = fork();

    if (pid < 0)
        return cmd_error(c, "cannot go to the background: %s", strerror(errno));
    if (pid > 0)
        _exit(CMD_OK);
    setsid();
    if (chdir("/") < 0 || (null = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
        return CMD_OK; /* nobody would hear of it */
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    close(null);
    return CMD_OK;
}

static int run(struct cmd *c, const struct relay_args *a)
{
    const char *def = a->detach ? getenv("FLUX_STREAM_IDLE") : "0";
    double idle;
    errmsg_t err;
    share_relay_t *r;
    int fd;
    int rc;

    if (cmd_parse_duration(c, a->idle ? "--idle" : "FLUX_STREAM_IDLE",
                           a->idle ? a->idle
                           : def   ? def
                                   : DETACHED_IDLE,
                           &idle) < 0)
        return CMD_USAGE;
    if ((fd = stop_signals()) < 0)
        return cmd_error(c, "signals cannot be awaited: %s", strerror(errno));
    if (!(r = share_relay_create(a->address, a->interface, &err))) {
        rc = a->detach && errno == EADDRINUSE ? CMD_OK : cmd_error(c, "%s", err.text);
        close(fd);
        return rc;
    }
    if ((rc = a->detach ? detach(c) : CMD_OK) == CMD_OK)
        share_relay_run(r, fd, idle);
    share_relay_destroy(r);
    close(fd);
    return rc;
}

int stream_relay(struct cmd *c, int argc, char **argv)
{
    struct relay_args a = {.detach = false};
    const char *val;
    int key;

    while ((key = cmd_option(c, &relay_usage, argc, argv, &val)) > 0) {
        if (key == 'a')
            a.address = val;
        else if (key == 'I')
            a.interface = val;
        else if (key == OPT_IDLE)
            a.idle = val;
        else
            a.detach = true;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 0)
        return cmd_usage_error(c, "no argument is possible");
    if (a.address && !far_addr_is_ip(a.address))
        return cmd_usage_error(c, "--address=%s is not an IP address", a.address);
    return run(c, &a);
}
