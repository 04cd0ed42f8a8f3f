/* cmd_logger.c - flux logger: add lines to the log of the session.
 *
 * Of many lines (standard input) most are sent without asking for an answer; every SYNC-th and the
 * last wait for one, so that a flood is held back and a failure is noticed.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_all.h"
#include "libflux/log.h"
#include "libflux/proto_log.h"
#include "libutil/strbuf.h"

#define SYNC 256
#define TIMEOUT 60.

static const struct cmd_opt opts[] = {
    {'l', "level", "LEVEL",
     "emerg, alert, crit, err, warning, notice, info\nor debug (default: notice)"},
    {'s', "source", "NAME", "who speaks (default: logger)"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [TEXT...]",
    "Add a line to the log of the session; without TEXT, each line of standard input.",
    opts,
    NULL,
    0,
};

/* `wait`: for the answer of the log. */
static int append(struct cmd *c, flux_t *h, const struct log_line *line, bool wait)
{
    flux_future_t *f = flux_rpc_struct(h, "log.append", &log_line_schema, line, FLUX_NODEID_ANY,
                                       wait ? 0 : FLUX_MSGF_NORESPONSE);
    int rc;

    if (!f)
        return cmd_error(c, "the text is not UTF-8, or memory is out");
    rc = cmd_wait(c, f, TIMEOUT, "log.append") < 0 ? CMD_FAIL : CMD_OK;
    flux_future_destroy(f);
    return rc;
}

static int append_words(struct cmd *c, flux_t *h, struct log_line *line, char **words)
{
    strbuf_t *sb = strbuf_create(0);
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
    rc = append(c, h, line, true);
    free(text);
    return rc;
}

static int append_input(struct cmd *c, flux_t *h, struct log_line *line)
{
    char *next = NULL;
    char *text = NULL;
    size_t next_cap = 0;
    size_t cap = 0;
    ssize_t len = getline(&text, &cap, stdin);
    int rc = CMD_OK;

    for (unsigned n = 1; len >= 0 && rc == CMD_OK; n++) {
        ssize_t next_len = getline(&next, &next_cap, stdin);
        char *swap = text;
        size_t swap_cap = cap;

        if (len > 0 && text[len - 1] == '\n')
            text[len - 1] = '\0';
        line->text = text;
        rc = append(c, h, line, next_len < 0 || n % SYNC == 0);
        text = next, cap = next_cap, len = next_len;
        next = swap, next_cap = swap_cap;
    }
    free(text);
    free(next);
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
            return cmd_usage_error(c,
                                   "--level: '%s' is none of emerg, alert, crit, err, warning, "
                                   "notice, info, debug",
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
