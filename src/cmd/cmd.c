/* cmd.c - the common part of all subcommands: options, help, the connection, waiting, output.
 *
 * Purpose.  A table describes the options of a command; the tables of getopt_long() and the help
 * text are generated from it, so that they always agree.
 *
 * Invariants:
 *  1. Error messages go to standard error, one line each, beginning with "flux NAME: "; a progress
 *     line is erased before an error message.
 *  2. A connection is opened at most once, and closed by the driver.
 *
 * Failure: a function prints an error message and returns NULL or -1; the command then returns
 * CMD_FAIL or CMD_USAGE.
 */
#include "config.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd_private.h"
#include "libutil/clock.h"
#include "libutil/nearest.h"
#include "libutil/duration.h"
#include "libutil/strutil.h"

#define OPTS_MAX 80
#define PROGRESS_AFTER 2.
#define PROGRESS_STEP 0.5

enum { KEY_HELP = -1, KEY_BAD = -2 };

/* --- output --- */

void cmd_progress_end(struct cmd *c)
{
    struct cmd_private *p = c->priv;

    if (p->progress_shown) {
        fputs("\r\033[K", stderr);
        p->progress_shown = false;
    }
    p->progress_since = 0.;
}

static void print_sentence(struct cmd *c, const char *fmt, va_list ap)
{
    char text[1024];

    cmd_progress_end(c);
    fflush(stdout);
    vsnprintf(text, sizeof(text), fmt, ap);
    fprintf(stderr, "flux%s%s: %s%s%s%s", c->name ? " " : "", c->name ? c->name : "",
            c->where ? c->where : "", c->where ? ": " : "", text, c->raw ? "\r\n" : "\n");
}

int cmd_error(struct cmd *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    print_sentence(c, fmt, ap);
    va_end(ap);
    return CMD_FAIL;
}

int cmd_usage_error(struct cmd *c, const char *fmt, ...)
{
    char text[768];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    cmd_error(c, "%s; try 'flux %s%s--help'", text, c->name ? c->name : "", c->name ? " " : "");
    return CMD_USAGE;
}

int cmd_print_table(struct cmd *c, table_t *t, bool json)
{
    int rc = table_print(t, stdout, json ? TABLE_JSON : 0);
    int errnum = errno;

    table_destroy(t);
    return rc < 0 ? cmd_error(c, "cannot print the table: %s", strerror(errnum)) : CMD_OK;
}

int cmd_print_json(struct cmd *c, json_t *val)
{
    int rc = val ? json_dumpf(val, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY) : -1;

    json_decref(val);
    if (rc < 0)
        return cmd_error(c,
                         "cannot print JSON: out of memory, or standard output cannot be written");
    putchar('\n');
    return CMD_OK;
}

/* --- options --- */

static void print_option(const struct cmd_opt *o)
{
    char left[80];
    size_t n = 0;
    bool optional = o->arg && o->arg[0] == '[';
    const char *help = o->help ? o->help : "";

    if (o->key < 0) {
        printf("\n %s:\n", help);
        return;
    }
    if (!o->help)
        return;
    if (o->key < 256)
        n += (size_t)snprintf(left + n, sizeof(left) - n, "-%c%s", o->key, o->name ? ", " : "");
    else
        n += (size_t)snprintf(left + n, sizeof(left) - n, "    ");
    if (o->name)
        n += (size_t)snprintf(left + n, sizeof(left) - n, "--%s", o->name);
    if (o->arg && n < sizeof(left)) {
        if (optional)
            snprintf(left + n, sizeof(left) - n, "[=%.*s", (int)strlen(o->arg) - 1, o->arg + 1);
        else
            snprintf(left + n, sizeof(left) - n, "%s%s", o->name ? "=" : " ", o->arg);
    }
    printf("  %-26s", left);
    if (strlen(left) > 24)
        printf("\n  %-26s", "");
    for (;;) {
        size_t line = strcspn(help, "\n");
        printf("%.*s\n", (int)line, help);
        if (!help[line])
            break;
        help += line + 1;
        printf("  %-26s", "");
    }
}

static void print_synopsis(struct cmd *c, const char *synopsis)
{
    const char *lead = "Usage:";

    for (;;) {
        size_t n = strcspn(synopsis, "\n");
        printf("%-6s flux %s%s%.*s\n", lead, c->name, n > 0 ? " " : "", (int)n, synopsis);
        if (!synopsis[n])
            break;
        synopsis += n + 1;
        lead = "";
    }
}

static bool has_duration(const struct cmd_usage *u)
{
    for (const struct cmd_opt *o = u->opts; o && o->key; o++) {
        if (o->arg && strstr(o->arg, "DURATION"))
            return true;
    }
    return false;
}

static void print_help(struct cmd *c, const struct cmd_usage *u)
{
    static const struct cmd_opt help = {'h', "help", NULL, "print this help"};

    print_synopsis(c, u->synopsis ? u->synopsis : "");
    if (u->text)
        printf("\n%s\n", u->text);
    if (!u->opts || u->opts->key >= 0)
        printf("\nOptions:\n");
    for (const struct cmd_opt *o = u->opts; o && o->key; o++)
        print_option(o);
    print_option(&help);
    if (has_duration(u))
        printf("\n"
               "DURATION: 500ms, 30s, 1.5m, 2h, 1d, MM:SS, HH:MM:SS, D-HH, D-HH:MM:SS or inf.\n"
               "A number without a unit is in seconds, unless the option says otherwise.\n");
    if (u->more)
        printf("\n%s\n", u->more);
    if (!u->more || !strstr(u->more, "Exit code:"))
        printf("\n"
               "Exit code: 0 on success, 1 on failure, 2 on a usage error.\n");
}

/* getopt's tables from ours. */
static void make_tables(const struct cmd_usage *u, char *shorts, struct option *longs)
{
    size_t nl = 0;

    *shorts++ = u->flags & CMD_STOP ? '+' : '-';
    *shorts++ = ':';
    *shorts++ = 'h';
    for (const struct cmd_opt *o = u->opts; o && o->key; o++) {
        bool optional = o->arg && o->arg[0] == '[';
        if (o->key < 0)
            continue;
        if (o->key < 256 && o->help) {
            *shorts++ = (char)o->key;
            if (o->arg)
                *shorts++ = ':';
            if (optional)
                *shorts++ = ':';
        }
        if (o->name) {
            longs[nl].name = o->name;
            longs[nl].has_arg = !o->arg    ? no_argument
                                : optional ? optional_argument
                                           : required_argument;
            longs[nl++].val = o->key;
        }
    }
    *shorts = '\0';
    longs[nl].name = "help";
    longs[nl].val = 'h';
}

#define OPTION_NAME_MAX 40

/* "; did you mean --name?", or "": returns `buf`. */
static const char *near_option(const struct option *longs, const char *word, char *buf, size_t size)
{
    char names[OPTS_MAX + 1][OPTION_NAME_MAX], typed[OPTION_NAME_MAX];
    struct nearest near;

    snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(word, "="), word);
    nearest_init(&near, typed);
    for (size_t i = 0; longs[i].name && i <= OPTS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "--%s", longs[i].name);
        nearest_feed(&near, names[i]);
    }
    return nearest_words(&near, buf, size);
}

static int bad_option(struct cmd *c, int key, char **argv, const struct option *longs)
{
    char words[4 * OPTION_NAME_MAX + 40];
    const char *word = argv[optind > 0 ? optind - 1 : 0];

    if (key == ':')
        cmd_usage_error(c, "option '%s' requires a value", word);
    else if (optopt > 0 && optopt < 256)
        cmd_usage_error(c, "option '-%c' is unknown", optopt);
    else if (optopt)
        cmd_usage_error(c, "option '%s' takes no value", word);
    else
        cmd_usage_error(c, "option '%s' is unknown or ambiguous%s", word,
                        near_option(longs, word, words, sizeof(words)));
    return KEY_BAD;
}

int cmd_option(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, const char **val)
{
    struct option longs[OPTS_MAX + 2] = {0};
    char shorts[3 * OPTS_MAX + 4];
    int key;

    if (!c->priv->in_options) {
        c->priv->in_options = true;
        optind = 0; /* glibc: start over */
        opterr = 0;
    }
    make_tables(u, shorts, longs);
    /* '-' hands operands over as key 1; let getopt sort them to the end instead. */
    if (shorts[0] == '-')
        memmove(shorts, shorts + 1, strlen(shorts));
    key = getopt_long(argc, argv, shorts, longs, NULL);
    if (key == -1) {
        c->optind = optind;
        c->priv->in_options = false;
        return 0;
    }
    if (key == '?' || key == ':')
        return bad_option(c, key, argv, longs);
    if (key == 'h' && optarg == NULL) {
        for (const struct cmd_opt *o = u->opts; o && o->key; o++) {
            if (o->key == 'h')
                return key;
        }
        print_help(c, u);
        return KEY_HELP;
    }
    if (val)
        *val = optarg;
    return key;
}

void cmd_option_restart(struct cmd *c)
{
    c->priv->in_options = false;
}

int cmd_option_exit(int key)
{
    return key == KEY_HELP ? CMD_OK : CMD_USAGE;
}

int cmd_parse_u32(struct cmd *c, const char *what, const char *s, uint32_t *out)
{
    if (str2u32(s, out) == 0)
        return 0;
    cmd_usage_error(c, "%s: '%s' is not a number from 0 to 4294967295", what, s);
    return -1;
}

int cmd_parse_u64(struct cmd *c, const char *what, const char *s, uint64_t *out)
{
    if (str2u64(s, out) == 0)
        return 0;
    cmd_usage_error(c, "%s: '%s' is not a number from 0 to 18446744073709551615", what, s);
    return -1;
}

int cmd_parse_duration(struct cmd *c, const char *what, const char *s, double *out)
{
    errmsg_t err;

    if (duration_parse(s, out, &err) == 0)
        return 0;
    cmd_usage_error(c, "%s: %s", what, err.text);
    return -1;
}

/* --- commands of commands --- */

static void print_sub_help(struct cmd *c, const char *text, const struct cmd_sub subs[])
{
    const char *lead = "Usage:";

    for (const struct cmd_sub *s = subs; s->name; s++, lead = "") {
        printf("%-6s flux %s %s%s%s\n", lead, c->name, s->name, *s->synopsis ? " " : "",
               s->synopsis);
    }
    if (text)
        printf("\n%s\n", text);
    printf("\n");
    for (const struct cmd_sub *s = subs; s->name; s++)
        printf("  %-14s%s\n", s->name, s->help);
    printf("\n"
           "'flux %s COMMAND --help' prints the options of a command.\n",
           c->name);
    printf("Exit code: 0 on success, 1 on failure, 2 on a usage error.\n");
}

int cmd_subcommand(struct cmd *c, const char *text, const struct cmd_sub subs[], int argc,
                   char **argv)
{
    const struct cmd_sub *s = subs;

    if (argc < 2)
        return cmd_usage_error(c, "a subcommand is required");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_sub_help(c, text, subs);
        return CMD_OK;
    }
    while (s->name && strcmp(s->name, argv[1]) != 0)
        s++;
    if (!s->name) {
        char words[160];
        struct nearest near;

        nearest_init(&near, argv[1]);
        for (s = subs; s->name; s++)
            nearest_feed(&near, s->name);
        return cmd_usage_error(c, "there is no subcommand '%s'%s", argv[1],
                               nearest_words(&near, words, sizeof(words)));
    }
    char full[sizeof(c->priv->full_name)]; /* c->name may be that already */
    snprintf(full, sizeof(full), "%s %s", c->name, s->name);
    memcpy(c->priv->full_name, full, sizeof(full));
    c->name = c->priv->full_name;
    return s->fn(c, argc - 1, argv + 1);
}

/* --- the session --- */

static void back_cb(flux_t *h, void *arg)
{
    struct cmd *c = arg;

    cmd_error(c, "the broker was started again: going on");
    c->priv->returned = true;
    if (c->priv->back)
        c->priv->back(c->priv->back_arg);
}

static flux_t *open_handle(struct cmd *c, bool signals)
{
    struct cmd_private *p = c->priv;
    errmsg_t err;

    if (p->h)
        return p->h;
    if (!p->reactor && !(p->reactor = flux_reactor_create(signals))) {
        cmd_error(c, "cannot create an event loop: %s", strerror(errno));
        return NULL;
    }
    if (!(p->h = flux_open_flags(NULL, p->reactor, p->flags, &err)))
        cmd_error(c, "%s", err.text);
    else if (p->flags & FLUX_O_RECONNECT)
        flux_set_back_handler(p->h, back_cb, c);
    return p->h;
}

flux_t *cmd_handle(struct cmd *c)
{
    return open_handle(c, false);
}

flux_t *cmd_handle_signals(struct cmd *c)
{
    return open_handle(c, true);
}

void cmd_returns(struct cmd *c)
{
    c->priv->flags |= FLUX_O_RECONNECT;
}

bool cmd_may_return(const struct cmd *c)
{
    return (c->priv->flags & FLUX_O_RECONNECT) != 0;
}

void cmd_on_return(struct cmd *c, void (*back)(void *arg), void *arg)
{
    c->priv->back = back;
    c->priv->back_arg = arg;
    if (back && c->priv->returned)
        back(arg);
}

void cmd_hurries(struct cmd *c)
{
    c->priv->flags |= FLUX_O_NOWAIT;
}

void cmd_progress(struct cmd *c, const char *fmt, ...)
{
    struct cmd_private *p = c->priv;
    double now = clock_now();
    struct winsize ws;
    char text[512];
    va_list ap;

    if (p->progress_since == 0.)
        p->progress_since = now;
    if (now - p->progress_since < PROGRESS_AFTER || !isatty(STDERR_FILENO))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    /* A second line could not be erased. */
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 8 &&
        strlen(text) > ws.ws_col - 4u)
        text[ws.ws_col - 4] = '\0';
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    p->progress_shown = true;
}

int cmd_wait(struct cmd *c, flux_future_t *f, double timeout, const char *what)
{
    double start = clock_now();
    errmsg_t err;

    if (!f) {
        cmd_error(c, "%s: cannot make the request: %s", what, strerror(errno));
        return -1;
    }
    while (!flux_future_ready(f)) {
        double now = clock_now();
        double left = timeout > 0. ? start + timeout - now : PROGRESS_AFTER;
        double step = now - start < PROGRESS_AFTER ? PROGRESS_AFTER : PROGRESS_STEP;

        if (left <= 0.) {
            cmd_error(c, "%s: no response within %g s", what, timeout);
            return -1;
        }
        if (flux_future_wait(f, left < step ? left : step) == 0)
            break;
        if (errno != ETIMEDOUT) {
            cmd_error(c, "%s: %s", what,
                      errno == EPIPE ? "the connection to the broker was lost" : strerror(errno));
            return -1;
        }
        cmd_progress(c, "%s (%.0f s)", what, clock_now() - start);
    }
    cmd_progress_end(c);
    if (flux_rpc_get(f, &err) < 0) {
        cmd_error(c, "%s", err.text);
        return -1;
    }
    return 0;
}

int cmd_wait_struct(struct cmd *c, flux_future_t *f, double timeout, const char *what,
                    const struct flux_schema *desc, void *out)
{
    errmsg_t err;

    if (cmd_wait(c, f, timeout, what) < 0)
        return -1;
    if (flux_rpc_get_struct(f, desc, out, &err) < 0) {
        cmd_error(c, "%s", err.text);
        return -1;
    }
    return 0;
}

idset_t *cmd_parse_ranks(struct cmd *c, flux_t *h, const char *s)
{
    uint32_t size = flux_size(h);
    idset_t *ids;
    errmsg_t err;

    if (strcmp(s, "all") == 0) {
        if (!(ids = idset_create_range(0, size - 1)))
            cmd_error(c, "out of memory");
        return ids;
    }
    if (!(ids = idset_parse(s, &err))) {
        cmd_usage_error(c, "ranks '%s': %s", s, err.text);
        return NULL;
    }
    if (idset_empty(ids))
        cmd_usage_error(c, "the set of ranks is empty");
    else if (idset_last(ids) >= size)
        cmd_usage_error(c, "rank %u is not in the session, whose ranks are 0 to %u",
                        idset_last(ids), size - 1);
    else
        return ids;
    idset_destroy(ids);
    return NULL;
}

/* What was printed and could not be written makes a success a failure. */
static int finish_output(struct cmd *c, int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    if (errno != EPIPE) /* whoever reads has read enough */
        cmd_error(c, "cannot write to standard output: %s", strerror(errno));
    return rc ? rc : CMD_FAIL;
}

int cmd_run(const char *name, cmd_f fn, int argc, char **argv)
{
    struct cmd_private priv = {0};
    struct cmd c = {.name = name, .priv = &priv};
    int rc = finish_output(&c, fn(&c, argc, argv));

    cmd_progress_end(&c);
    flux_close(priv.h);
    flux_reactor_destroy(priv.reactor);
    return rc;
}
