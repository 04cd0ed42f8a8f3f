/* jobopts_set.c - options that a command sets or reads by itself, not from the command line.
 *
 * `flux batch` and `flux alloc`, for example, parse the user's options with jobopts.c and then put
 * the program, its files and some attributes in place with these functions.
 *
 * Failure: -1 after an error message.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobopts_private.h"
#include "libutil/strutil.h"

int jobopts_command(jobopts_t *jo, char *const *argv)
{
    strvec_t *v = strvec_copy_argv(argv);

    if (!v)
        return jobopts_no_memory(jo);
    strvec_destroy(jo->argv);
    jo->argv = v;
    return 0;
}

static int empty_file(jobopts_t *jo, const char *path)
{
    int fd;

    if (!path || strstr(path, "{{"))
        return 0;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0 && errno != ENXIO)
        return cmd_error(jo->c, "cannot open '%s': %s", path, strerror(errno)), -1;
    if (fd >= 0)
        close(fd);
    return 0;
}

int jobopts_empty_files(jobopts_t *jo)
{
    if (jo->dry_run)
        return 0;
    return empty_file(jo, jo->out) < 0 || empty_file(jo, jo->err) < 0 ? -1 : 0;
}

int jobopts_add_file(jobopts_t *jo, const char *name, const char *text)
{
    if (str_utf8_span(text, strlen(text)) != strlen(text)) {
        cmd_error(jo->c, "'%s' is not UTF-8 text", name);
        return -1;
    }
    if (!jo->files)
        jo->files = json_object();
    return json_object_set_new(jo->files, name, json_string(text)) < 0 ? jobopts_no_memory(jo) : 0;
}

/* A value for a path below "attributes"; the path is checked when it is put there. */
static int setting(jobopts_t *jo, const char *lead, const char *key, json_t *value)
{
    char path[512];

    if ((size_t)snprintf(path, sizeof(path), "%s%s", lead, key) >= sizeof(path)) {
        json_decref(value);
        return cmd_usage_error(jo->c, "a key is longer than %zu bytes", sizeof(path) - 1), -1;
    }
    if (!jo->settings)
        jo->settings = json_object();
    return json_object_set_new(jo->settings, path, value) < 0 ? jobopts_no_memory(jo) : 0;
}

int jobopts_setopt(jobopts_t *jo, const char *key, json_t *value)
{
    return setting(jo, "system.shell.options.", key, value);
}

int jobopts_setattr(jobopts_t *jo, const char *key, json_t *value)
{
    bool bare = !str_starts(key, "user.") && !str_starts(key, "system.");

    return setting(jo, bare ? "user." : "", key, value);
}

void jobopts_one_task_per_node(jobopts_t *jo)
{
    jo->one_per_node = true;
}

static int set_path(jobopts_t *jo, char **dst, const char *path)
{
    char *full = path ? jobopts_absolute(jo->c, path) : NULL;

    if (path && !full)
        return -1;
    free(*dst);
    *dst = full;
    return 0;
}

int jobopts_set_output(jobopts_t *jo, const char *path)
{
    return set_path(jo, &jo->out, path);
}

int jobopts_set_error(jobopts_t *jo, const char *path)
{
    return set_path(jo, &jo->err, path);
}

int jobopts_set_stdin(jobopts_t *jo, const char *who)
{
    int mode = who ? job_stdin_parse(who) : JOB_STDIN_FIRST;

    if (mode < 0)
        return cmd_usage_error(jo->c, "--stdin: '%s' is not one of first, all, none", who), -1;
    jo->options.stdin_mode = (enum job_stdin)mode;
    jo->who = who ? job_stdin_name(jo->options.stdin_mode) : NULL;
    return 0;
}

char *const *jobopts_env(const jobopts_t *jo)
{
    return strvec_argv(jo->env);
}

uint32_t jobopts_urgency(const jobopts_t *jo)
{
    return jo->urgency;
}

int jobopts_exit(const jobopts_t *jo)
{
    return jo->usage_error ? CMD_USAGE : CMD_FAIL;
}

bool jobopts_dry_run(const jobopts_t *jo)
{
    return jo->dry_run;
}

bool jobopts_label(const jobopts_t *jo)
{
    return jo->options.label;
}

const char *jobopts_stdin(const jobopts_t *jo)
{
    return jo->who;
}

const char *jobopts_input(const jobopts_t *jo)
{
    return jo->in;
}

const char *jobopts_output(const jobopts_t *jo)
{
    return jo->out;
}

const char *jobopts_error(const jobopts_t *jo)
{
    return jo->err;
}

const char *jobopts_name(const jobopts_t *jo)
{
    return jo->name;
}
