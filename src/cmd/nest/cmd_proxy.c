/* cmd_proxy.c - flux proxy: run a command in the session of a job.
 *
 *    location of the session's socket    action
 *    this host                           this program executes the command
 *    another host, or --relay            relays run beside the command, one for each level that
 *                                        needs one, and end with it
 *
 * Failure: a job that has no session is an error, unless --wait is given.
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "libsubprocess/spawn.h"
#include "libutil/strutil.h"
#include "nestlink.h"
#include "nesturi.h"
#include "relay.h"

enum { OPT_URI = CMD_KEY(0), OPT_RELAY, OPT_CONNECT };

static const struct cmd_opt opts[] = {
    {'w', "wait", "[DURATION]", "wait until the session is up (at most DURATION at each level)"},
    {OPT_URI, "uri", NULL, "print the address of the session, and run nothing"},
    {OPT_RELAY, "relay", NULL, "use a relay through the enclosing session, even on the same host"},
    {OPT_CONNECT, "connect", "PATH",
     "run as the remote end of a relay: copy data between a socket and\n"
     "the standard streams (internal use)"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] ID[/ID...] [COMMAND [ARG...]]",
    "Run COMMAND, or a shell, on this host, with FLUX_URI set to the session of job ID. A path of\n"
    "several ids leads through nested sessions: 3/1 is job 1 in the session of job 3. Instead of\n"
    "ids, an address can be given as shown by flux jobs -o id,uri.",
    opts,
    "Exit code: that of COMMAND, 128 + N when signal N ended it; 127 when it is not found, 126 "
    "when\n"
    "it cannot be executed; 1 when there is no such session.",
    CMD_STOP,
};

struct args {
    bool uri, relay;
    double wait;
    const char *connect;
};

static int exec_failed(struct cmd *c, const char *name)
{
    int code = spawn_errno_to_code(errno);

    cmd_error(c, "cannot run %s: %s", name, strerror(errno));
    return code;
}

/* --- beside a relay --- */

static void ignore(struct cmd *c, int signum, struct sigaction *old)
{
    struct sigaction sa = {.sa_handler = SIG_IGN};

    (void)c;
    sigaction(signum, &sa, old);
}

/* What is to reach the command: what the terminal sends goes there by itself. */
static int run_beside(struct cmd *c, char **argv)
{
    static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction old_int, old_quit;
    sigset_t set, old;
    pid_t pid;
    int status;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        sigaddset(&set, passed[i]);
    sigprocmask(SIG_BLOCK, &set, &old);
    ignore(c, SIGINT, &old_int);
    ignore(c, SIGQUIT, &old_quit);
    if ((pid = fork()) < 0)
        return cmd_error(c, "cannot start %s: %s", argv[0], strerror(errno));
    if (pid == 0) {
        sigaction(SIGINT, &old_int, NULL);
        sigaction(SIGQUIT, &old_quit, NULL);
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(argv[0], argv);
        _exit(exec_failed(c, argv[0]));
    }
    for (;;) {
        int signum = sigwaitinfo(&set, NULL);
        pid_t got;

        if (signum > 0 && signum != SIGCHLD)
            kill(pid, signum);
        else if ((got = waitpid(pid, &status, WNOHANG)) == pid)
            return spawn_status_to_code(status);
        else if (got < 0)
            return cmd_error(c, "lost the connection to %s: %s", argv[0], strerror(errno));
    }
}

/* --- the whole --- */

static int run(struct cmd *c, const struct nestchain *ch, const struct args *a, char **argv)
{
    const char *uri = nestlink_uri(ch->links[ch->n - 1]);
    char *shell = getenv("SHELL");
    char *shell_argv[] = {shell && *shell ? shell : (char *)"/bin/sh", NULL};
    bool relayed = false;

    if (a->uri) {
        puts(uri);
        return CMD_OK;
    }
    if (setenv("FLUX_URI", uri, 1) < 0)
        return cmd_error(c, "out of memory");
    if (!*argv)
        argv = shell_argv;
    for (size_t i = 0; i < ch->n; i++)
        relayed |= nestlink_relayed(ch->links[i]);
    if (relayed)
        return run_beside(c, argv);
    execvp(argv[0], argv);
    return exec_failed(c, argv[0]);
}

static int reach(struct cmd *c, const char *where, const struct args *a, struct nestchain *ch)
{
    uint64_t ids[NESTURI_LEVELS_MAX];
    errmsg_t err;
    flux_t *h;
    int n;

    if (str_starts(where, "flux://")) {
        if (!(ch->links = calloc(1, sizeof(*ch->links))))
            return cmd_error(c, "out of memory");
        ch->links[0] = nestlink_open(flux_default_uri(), where, a->relay, NULL, &err);
        ch->n = ch->links[0] != NULL;
        return ch->n ? CMD_OK : cmd_error(c, "%s", err.text);
    }
    if ((n = nesturi_path(where, ids, NESTURI_LEVELS_MAX, &err)) < 0)
        return cmd_usage_error(c, "%s", err.text);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (nestchain_open(ch, h, ids, (size_t)n, a->relay, a->wait, &err) < 0)
        return cmd_error(c, "%s", err.text);
    return CMD_OK;
}

int cmd_proxy(struct cmd *c, int argc, char **argv)
{
    struct args a = {0};
    struct nestchain ch = {0};
    const char *val;
    int key, rc;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'w':
            a.wait = -1.;
            if (val && cmd_parse_duration(c, "--wait", val, &a.wait) < 0)
                return CMD_USAGE;
            break;
        case OPT_URI:
            a.uri = true;
            break;
        case OPT_RELAY:
            a.relay = true;
            break;
        default:
            a.connect = val;
            break;
        }
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (a.connect)
        return relay_connect(a.connect);
    if (c->optind == argc)
        return cmd_usage_error(c, "a job ID is required");
    if ((rc = reach(c, argv[c->optind], &a, &ch)) == CMD_OK)
        rc = run(c, &ch, &a, argv + c->optind + 1);
    nestchain_close(&ch);
    return rc;
}
