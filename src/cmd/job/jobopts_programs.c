/* jobopts_programs.c - the programs of a job: one command, or several separated by ':'.
 *
 *    OPTION... COMMAND ARG...  :  [-n N] [--env=...]... COMMAND ARG...  : ...
 *
 * A word that consists of ':' separates programs, as in other launchers of MPI programs.  Options
 * before the first COMMAND apply to the job, except -n, which applies to the first program;
 * options after a ':' apply to the program that follows.  If -- ended the options, all words are
 * arguments.
 *
 * Failure: an error message and -1; the object keeps the previous programs, or has none.
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "jobopts_private.h"

static const struct cmd_opt opts[] = {
    {'n', "ntasks", "N", "run N tasks of this program (default: 1)"},
    {JOBOPTS_KEY_ENV, "env", "NAME=VALUE", "set a variable for its tasks; -NAME removes one"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] COMMAND [ARG...] [: [OPTION...] COMMAND [ARG...]]...",
    "Options of a program after a ':'. Options before the first COMMAND apply to the whole job.",
    opts,
    NULL,
    CMD_STOP,
};

void jobopts_programs_clear(jobopts_t *jo)
{
    for (size_t i = 0; i < jo->nprograms; i++) {
        strvec_destroy(jo->words[i]);
        json_decref((json_t *)jo->programs[i].env);
    }
    free(jo->words);
    free(jo->programs);
    jo->words = NULL;
    jo->programs = NULL;
    jo->nprograms = 0;
}

static int take_change(jobopts_t *jo, const char *val, json_t *env)
{
    const char *eq = strchr(val, '='), *text = eq ? eq + 1 : NULL;
    bool unset = !eq && val[0] == '-' && val[1];
    char *name = eq ? strndup(val, (size_t)(eq - val)) : strdup(unset ? val + 1 : val);
    int rc = 0;

    if (!eq && !unset && name)
        text = getenv(name);
    if (!name)
        rc = jobopts_no_memory(jo);
    else if (!*name ||
             ((text || unset) &&
              json_object_set_new(env, name, text ? jobspec_text(text) : json_null()) < 0))
        rc = (cmd_usage_error(jo->c, "--env: '%s' is not NAME=VALUE, NAME or -NAME", val), -1);
    free(name);
    return rc;
}

/* Options of a program, from its ':' on; its command begins at *first. */
static int take_options(jobopts_t *jo, int argc, char **argv, struct jobspec_program *p, int *first)
{
    const char *val;
    int key;

    cmd_option_restart(jo->c);
    while ((key = cmd_option(jo->c, &usage, argc, argv, &val)) > 0) {
        if (key == JOBOPTS_KEY_ENV) {
            if (take_change(jo, val, (json_t *)p->env) < 0)
                return -1;
        } else if (cmd_parse_u32(jo->c, "--ntasks", val, &p->ntasks) < 0) {
            return -1;
        } else if (p->ntasks == 0) {
            return cmd_usage_error(jo->c, "--ntasks: the number must be at least 1"), -1;
        }
    }
    *first = jo->c->optind;
    return key < 0 ? -1 : 0;
}

/* argv[0] is the ':' before it, or stands for that. */
static int add_program(jobopts_t *jo, int argc, char **argv, bool options)
{
    struct jobspec_program *p = &jo->programs[jo->nprograms];
    int first = 1;

    *p = (struct jobspec_program){.ntasks = 1, .env = json_object()};
    jo->words[jo->nprograms++] = NULL;
    if (!p->env)
        return jobopts_no_memory(jo);
    if (options && take_options(jo, argc, argv, p, &first) < 0)
        return -1;
    if (first >= argc)
        return cmd_usage_error(jo->c,
                               "a COMMAND is required %s a word ':'; to pass ':' as an argument, "
                               "write -- before the first COMMAND",
                               options ? "after" : "before"),
               -1;
    if (!(jo->words[jo->nprograms - 1] = strvec_create()))
        return jobopts_no_memory(jo);
    for (; first < argc; first++)
        if (strvec_add(jo->words[jo->nprograms - 1], argv[first]) < 0)
            return jobopts_no_memory(jo);
    p->argv = (const char *const *)strvec_argv(jo->words[jo->nprograms - 1]);
    return 0;
}

static bool is_separator(const char *word)
{
    return strcmp(word, ":") == 0;
}

/* argv[0] stands before the first command. */
static int split(jobopts_t *jo, char **argv, size_t count)
{
    char **from = argv, **to;

    jobopts_programs_clear(jo);
    jo->programs = calloc(count, sizeof(*jo->programs));
    jo->words = calloc(count, sizeof(struct strvec *));
    if (!jo->programs || !jo->words)
        return jobopts_no_memory(jo);
    for (; jo->nprograms < count; from = to) {
        for (to = from + 1; *to && !is_separator(*to); to++)
            ;
        if (add_program(jo, (int)(to - from), from, from != argv) < 0)
            return -1;
    }
    return 0;
}

int jobopts_programs(jobopts_t *jo, char *const *words)
{
    size_t count = 1, n = 0;
    char **argv;
    int rc;

    jo->usage_error = true;
    for (; words[n]; n++)
        count += is_separator(words[n]);
    if (count == 1) {
        jobopts_programs_clear(jo);
        return jobopts_command(jo, words);
    }
    if (count > JOBSPEC_PROGRAMS_MAX)
        return cmd_usage_error(jo->c, "more than %d programs", JOBSPEC_PROGRAMS_MAX), -1;
    /* getopt may move words: of a copy. */
    if (!(argv = calloc(n + 2, sizeof(*argv))))
        return jobopts_no_memory(jo);
    argv[0] = (char *)jo->c->name;
    memcpy(argv + 1, words, n * sizeof(*argv));
    if ((rc = split(jo, argv, count)) < 0)
        jobopts_programs_clear(jo);
    free(argv);
    return rc;
}

int jobopts_operands(jobopts_t *jo, char *const *argv)
{
    int first = jo->c->optind;
    bool literal = first > 1 && strcmp(argv[first - 1], "--") == 0;

    if (!literal)
        return jobopts_programs(jo, argv + first);
    jobopts_programs_clear(jo);
    return jobopts_command(jo, argv + first);
}
