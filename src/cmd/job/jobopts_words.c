/* jobopts_words.c - options in a line of text, such as "#FLUX: -N4 --name='a b'".
 *
 * The line is split into words like in a shell, but nothing is expanded, so that a script means
 * the same wherever it is submitted.  A '#' at the beginning of a word starts a comment.
 *
 * Failure: an error message that begins with the location of the line, and -1.
 */
#include "config.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobopts_private.h"
#include "libutil/strbuf.h"

#define WORDS_MAX 1024

/* The next word of *p, as a shell reads it, without expansion: 1, 0 at the end, -1 after a
 * sentence. */
static int next_word(jobopts_t *jo, const char **p, bool comments, strvec_t *words)
{
    strbuf_t *sb;
    char quote = 0;
    char *word;
    int rc;

    while (isspace((unsigned char)**p))
        (*p)++;
    if (**p == '\0' || (**p == '#' && comments))
        return 0;
    sb = strbuf_create(0);
    for (; **p && (quote || !isspace((unsigned char)**p)); (*p)++) {
        char ch = **p;

        if (quote ? ch == quote : (ch == '\'' || ch == '"')) {
            quote = quote ? 0 : ch;
            continue;
        }
        if (ch == '\\' && quote != '\'' && (*p)[1])
            ch = *++*p;
        strbuf_addc(sb, ch);
    }
    word = strbuf_take(sb);
    if (quote)
        rc = (cmd_error(jo->c, "a quote (%c) is not closed", quote), -1);
    else
        rc = word && strvec_add(words, word) == 0 ? 1 : jobopts_no_memory(jo);
    free(word);
    return rc;
}

static int take_words(jobopts_t *jo, const struct cmd_usage *usage, strvec_t *words,
                      int (*own)(void *arg, int key, const char *val), void *arg)
{
    int argc = (int)strvec_count(words);
    const char *val;
    int key, rc;

    cmd_option_restart(jo->c);
    while ((key = cmd_option(jo->c, usage, argc, strvec_argv(words), &val)) > 0) {
        if ((rc = jobopts_option(jo, key, val)) == 0)
            rc = own ? own(arg, key, val) : 0;
        if (rc < 0)
            return -1;
        if (rc == 0)
            return cmd_error(jo->c, "an option that is allowed on the command line only"), -1;
    }
    if (key < 0)
        return -1;
    if (jo->c->optind < argc)
        return cmd_error(jo->c, "'%s' is not an option", strvec_at(words, (size_t)jo->c->optind)),
               -1;
    return 0;
}

int jobopts_split(jobopts_t *jo, const char *line, const char *where, strvec_t *words)
{
    const char *before = jo->c->where;
    int rc;

    jo->c->where = where;
    while ((rc = next_word(jo, &line, true, words)) == 1 && strvec_count(words) <= WORDS_MAX)
        ;
    if (rc == 1)
        rc = (cmd_error(jo->c, "more than %d words", WORDS_MAX), -1);
    jo->c->where = before;
    return rc;
}

int jobopts_take(jobopts_t *jo, const struct cmd_usage *usage, strvec_t *words, const char *where,
                 int (*own)(void *arg, int key, const char *val), void *arg)
{
    const char *before = jo->c->where;
    int rc;

    jo->c->where = where;
    rc = take_words(jo, usage, words, own, arg);
    jo->c->where = before;
    return rc;
}

int jobopts_words(jobopts_t *jo, const struct cmd_usage *usage, const char *line, const char *where,
                  int (*own)(void *arg, int key, const char *val), void *arg)
{
    strvec_t *words = strvec_create();
    int rc;

    if (!words || strvec_add(words, jo->c->name) < 0)
        rc = jobopts_no_memory(jo);
    else if ((rc = jobopts_split(jo, line, where, words)) == 0)
        rc = jobopts_take(jo, usage, words, where, own, arg);
    strvec_destroy(words);
    return rc;
}

int jobopts_command_line(jobopts_t *jo, const char *line)
{
    strvec_t *words = strvec_create();
    int rc;

    while ((rc = next_word(jo, &line, false, words)) == 1)
        ;
    if (rc == 0)
        rc = jobopts_programs(jo, strvec_argv(words));
    strvec_destroy(words);
    return rc;
}
