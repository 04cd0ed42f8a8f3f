/* cmd_logger.c - flux logger: add entries to the log of the session.
 *
 * Of the lines of standard input, WINDOW requests are outstanding at a time.  Each is answered, so
 * that the sender is slowed down to the speed of the log, and no failure goes unnoticed.
 */
#include "config.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_all.h"
#include "libflux/log.h"
#include "libflux/log_wire.h"
#include "libutil/strbuf.h"

#define WINDOW 64
#define TIMEOUT 60.

static const struct cmd_opt opts[] = {
    {'l', "level", "LEVEL",
     "emerg, alert, crit, err, warning, notice, info\nor debug (default: notice)"},
    {'s', "source", "NAME", "source of the entry (default: logger)"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [TEXT...]",
    "Add an entry to the log of the session. Without TEXT, each line of standard input is an "
    "entry.",
    opts,
    NULL,
    0,
};

static flux_future_t *append(struct cmd *c, flux_t *h, const struct log_line *line)
{
    flux_future_t *f = flux_rpc_struct(h, "log.append", &log_line_schema, line, FLUX_NODEID_ANY, 0);

    if (!f)
        (void)cmd_error(c, "the text is not UTF-8, or out of memory");
    return f;
}

/* NULL: nothing is under way. */
static int appended(struct cmd *c, flux_future_t *f)
{
    int rc = f && cmd_wait(c, f, TIMEOUT, "log.append") < 0 ? CMD_FAIL : CMD_OK;

    flux_future_destroy(f);
    return rc;
}

static int append_words(struct cmd *c, flux_t *h, struct log_line *line, char **words)
{
    strbuf_t *sb = strbuf_create(0);
    flux_future_t *f;
    char *text;
    int rc;

    for (char **w = words; *w; w++) {
        if (w != words)
            strbuf_addc(sb, ' ');
        strbuf_add(sb, *w);
    }
    if (!(text = strbuf_take(sb)))
        return cmd_error(c, "out of memory");
    line->text = text;
    f = append(c, h, line);
    rc = f ? appended(c, f) : CMD_FAIL;
    free(text);
    return rc;
}

static int append_input(struct cmd *c, flux_t *h, struct log_line *line)
{
    struct pollfd more = {.fd = STDIN_FILENO, .events = POLLIN};
    flux_future_t *window[WINDOW] = {NULL};
    char *text = NULL;
    size_t cap = 0;
    ssize_t len;
    unsigned n = 0;
    int rc = CMD_OK;

    while (rc == CMD_OK && (len = getline(&text, &cap, stdin)) >= 0) {
        flux_future_t **slot = &window[n++ % WINDOW];
        if (len > 0 && text[len - 1] == '\n')
            text[len - 1] = '\0';
        line->text = text;
        rc = appended(c, *slot);
        *slot = rc == CMD_OK ? append(c, h, line) : NULL;
        if (!*slot)
            rc = CMD_FAIL;
        else if (poll(&more, 1, 0) == 0)
            (void)flux_future_wait(*slot, -1.); /* it may be long until the next line */
    }
    for (unsigned i = 0; i < WINDOW; i++, n++) {
        if (rc == CMD_OK)
            rc = appended(c, window[n % WINDOW]);
        else
            flux_future_destroy(window[n % WINDOW]);
    }
    free(text);
    return rc;
}

int cmd_logger(struct cmd *c, int argc, char **argv)
{
    struct log_line line = {.level = LOG_NOTICE, .source = "logger"};
    const char *val;
    flux_t *h;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == 's')
            line.source = val;
        else if ((line.level = flux_log_level_parse(val)) < 0)
            return cmd_usage_error(
                c,
                "--level: '%s' is not one of emerg, alert, crit, err, warning, notice, info, debug",
                val);
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (c->optind < argc)
        return append_words(c, h, &line, argv + c->optind);
    return append_input(c, h, &line);
}
