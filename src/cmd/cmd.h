/* What the subcommands of `flux` share: one file cmd_NAME.c each, one program.
 *
 * To add a command NAME:
 *   1. write src/cmd/cmd_NAME.c with  int cmd_NAME(struct cmd *c, int argc, char **argv)
 *   2. list the file in src/cmd/Makemodule.am (those of one subject have a folder with a
 *      Makemodule.am of its own: session, module, resource, ...)
 *   3. if it is new to the project, add a line to src/cmd/cmd_list.h and a page
 *      doc/man1/flux-NAME.rst
 *
 * A command whose file is not built does not exist: the table refers to it weakly.  A command that
 * needs more libraries than flux itself is a program of its own, flux-NAME in the exec directory.
 *
 *   static const struct cmd_opt opts[] = {
 *       {'n', "count", "N", "stop after N"},          -n N, --count=N
 *       {CMD_KEY(0), "json", NULL, "JSON output"},    --json
 *       CMD_OPT_END,
 *   };
 *   static const struct cmd_usage usage = {"[OPTION...] NAME", "What it does.", opts, NULL, 0};
 *
 *   int cmd_thing(struct cmd *c, int argc, char **argv)
 *   {
 *       const char *val;
 *       int key;
 *       flux_t *h;
 *
 *       while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
 *           switch (key) { case 'n': if (cmd_parse_u32(c, "--count", val, &n) < 0) return
 * CMD_USAGE; ...
 *       }
 *       if (key < 0)
 *           return cmd_option_exit(key);
 *       argc -= c->optind, argv += c->optind;
 *       if (argc != 1)
 *           return cmd_usage_error(c, "one NAME is needed");
 *       if (!(h = cmd_handle(c)))
 *           return CMD_FAIL;                          the error message was printed
 *
 * Exit codes: 0 success, 1 failure, 2 usage error; anything else is documented by the command.
 * Everything that `c` hands out is freed by the driver.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "libflux/event.h"
#include "libflux/future.h"
#include "libflux/handle.h"
#include "libidset/idset.h"
#include "libutil/errmsg.h"
#include "libutil/table.h"

enum { CMD_OK = 0, CMD_FAIL = 1, CMD_USAGE = 2, CMD_NOT_FOUND = 127 };

struct cmd {
    const char *name;  /* as errors name it: "kvs put" */
    int optind;        /* after cmd_option() returned 0: index of the first operand */
    const char *where; /* what error messages are about ("job.sh, line 3"), or NULL */
    bool raw;          /* the terminal is in raw mode, where a line ends with "\r\n" */
    struct cmd_private *priv;
};

/* --- options --- */

#define CMD_KEY(n) (256 + (n)) /* an option without a letter */

struct cmd_opt {
    int key;          /* the letter, or CMD_KEY(n) */
    const char *name; /* long name, or NULL */
    const char *arg;  /* NULL: takes none; "N": needs one; "[N]": may have one (--name=N) */
    const char
        *help; /* one line, or several with \n; NULL: a synonym of the option that has the same
                         key, not listed in the help */
};
/* A line above the options that follow it. */
#define CMD_OPT_HEADING(text)  \
    {                          \
        -1, NULL, NULL, (text) \
    }
#define CMD_OPT_END         \
    {                       \
        0, NULL, NULL, NULL \
    }

enum {
    CMD_STOP = 1, /* options end at the first operand (what follows is a command line) */
};

struct cmd_usage {
    const char *synopsis;       /* without "flux NAME"; several lines with \n */
    const char *text;           /* a sentence or two */
    const struct cmd_opt *opts; /* may be NULL; -h and --help are always there */
    const char *more;           /* printed after the options, e.g. own exit codes; may be NULL */
    int flags;                  /* CMD_STOP */
};

/* The next option: its key with *val set (NULL without argument), 0 when there is none left, < 0
 * when the command is to return cmd_option_exit(): help was printed, or an error message. */
int cmd_option(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, const char **val);
/* Let the next cmd_option() begin with its arguments, when a loop over others was left early. */
void cmd_option_restart(struct cmd *c);
int cmd_option_exit(int key);
/* Print "flux NAME: error message; try 'flux NAME --help'" and return CMD_USAGE. */
int cmd_usage_error(struct cmd *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Values, checked: 0, or -1 after cmd_usage_error(). */
int cmd_parse_u32(struct cmd *c, const char *what, const char *s, uint32_t *out);
int cmd_parse_u64(struct cmd *c, const char *what, const char *s, uint64_t *out);
/* A length of time in seconds, INFINITY included; a number without unit counts seconds. */
int cmd_parse_duration(struct cmd *c, const char *what, const char *s, double *out);

/* --- commands of commands: flux kvs put --- */

struct cmd_sub {
    const char *name;
    int (*fn)(struct cmd *c, int argc, char **argv);
    const char *synopsis; /* "[OPTION...] KEY" */
    const char *help;     /* one line */
};
#define CMD_SUB_END            \
    {                          \
        NULL, NULL, NULL, NULL \
    }
/* Run the one that argv[1] names, with c->name extended.  `subs` ends with CMD_SUB_END. */
int cmd_subcommand(struct cmd *c, const char *text, const struct cmd_sub subs[], int argc,
                   char **argv);

/* --- the session --- */

/* The connection, opened at the first call.  NULL after printing the error message. */
flux_t *cmd_handle(struct cmd *c);
/* The same with a reactor that can watch signals and children. */
flux_t *cmd_handle_signals(struct cmd *c);
/* Before the first call: the connection shall return to a broker that is started again
 * (FLUX_O_RECONNECT), which is then said on standard error. */
void cmd_returns(struct cmd *c);
/* Has cmd_returns() been called? */
bool cmd_may_return(const struct cmd *c);
/* Call `back` when the connection has returned; at once, if it has done so before. */
void cmd_on_return(struct cmd *c, void (*back)(void *arg), void *arg);
/* Before the first call: the command makes a request at once, which does not wait for the broker's
 * greeting (FLUX_O_NOWAIT). */
void cmd_hurries(struct cmd *c);
/* Wait until `f` has a result (<= 0: for ever).  When it takes more than two seconds and standard
 * error is a terminal, say there `what` is being waited for.  0; -1 after printing an error
 * message, also for a result that is an error.  `f` may be NULL, with errno from its creation. */
int cmd_wait(struct cmd *c, flux_future_t *f, double timeout, const char *what);
/* cmd_wait() and decode. */
int cmd_wait_struct(struct cmd *c, flux_future_t *f, double timeout, const char *what,
                    const struct flux_schema *desc, void *out);
/* Several steps: how far one is.  Shown on a terminal once two seconds have passed since the first
 * call, erased by cmd_progress_end() and before any error. */
void cmd_progress(struct cmd *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cmd_progress_end(struct cmd *c);
/* "all", or an idset within the session's ranks.  NULL after printing an error message. */
idset_t *cmd_parse_ranks(struct cmd *c, flux_t *h, const char *s);

/* --- output --- */

/* Print "flux NAME: error message" to standard error and return CMD_FAIL. */
int cmd_error(struct cmd *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Print the table (taken over) as text or JSON: CMD_OK, or CMD_FAIL after an error message. */
int cmd_print_table(struct cmd *c, table_t *t, bool json);
/* Print one JSON value (taken over), indented, and a newline. */
int cmd_print_json(struct cmd *c, json_t *val);

#endif
