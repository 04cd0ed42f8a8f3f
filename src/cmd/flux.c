/* flux.c - the command `flux`: finds the subcommand and runs it.
 *
 *    first argument             action
 *    --help, -h, none           print the list of commands (without any argument: exit code 2)
 *    --version, -V              print the version
 *    name in cmd_list.h         call its function in this process
 *    another name               run flux-NAME from the exec directories or from PATH
 *
 * The driver does nothing that a subcommand may not need: it sets no locale, opens no connection
 * and searches no directories, because its start-up time counts for each launch of a job.
 *
 * Failure: for an unknown command, the exit code is 127, and the error message suggests similar
 * names. If standard output could not be written, the exit code of a successful command becomes 1.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_private.h"
#include "libflux/paths.h"
#include "libutil/fdutil.h"
#include "libutil/nearest.h"

struct command {
    const char *name;
    const char *summary;
    int (*fn)(struct cmd *c, int argc, char **argv); /* NULL: a program, or not built */
    bool external;
};

/* A command is there when its file is among the sources. */
#define CMD(name, fn, summary) __attribute__((weak)) int fn(struct cmd *, int, char **);
#define EXTERNAL(name, summary)
#include "cmd_list.h"
#undef CMD
#undef EXTERNAL

static const struct command commands[] = {
#define CMD(name, fn, summary) {name, summary, fn, false},
#define EXTERNAL(name, summary) {name, summary, NULL, true},
#include "cmd_list.h"
#undef CMD
#undef EXTERNAL
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static bool is_there(const struct command *cmd)
{
    return cmd->fn || cmd->external;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (is_there(&commands[i]) && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

const char *cmd_summary(const char *name)
{
    const struct command *cmd = find_command(name);

    return cmd ? cmd->summary : NULL;
}

void cmd_print_list(void)
{
    printf("Usage: flux COMMAND [ARGUMENT...]\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (is_there(&commands[i]))
            printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    printf("\n"
           "'flux COMMAND --help' prints the options of a command, 'flux help COMMAND' its manual "
           "page.\n"
           "Programs named flux-NAME are also available as commands.\n");
}

#define NAME_MAX_LEN 32

/* What other tools, and other versions of this one, call them. */
static const struct {
    const char *name, *ours;
} elsewhere[] = {
    {"run", "wreckrun"}, {"srun", "wreckrun"}, {"sbatch", "batch"},   {"salloc", "alloc"},
    {"ps", "jobs"},      {"squeue", "jobs"},   {"scancel", "cancel"}, {"sinfo", "resource"},
    {"qsub", "batch"},   {"qstat", "jobs"},    {"qdel", "cancel"},
};

const char *cmd_nearest(const char *name, char *buf, size_t size)
{
    struct nearest near;

    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(*elsewhere); i++) {
        if (strcmp(name, elsewhere[i].name) == 0) {
            snprintf(buf, size, "; here it is 'flux %s'", elsewhere[i].ours);
            return buf;
        }
    }

    nearest_init(&near, name);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (is_there(&commands[i]))
            nearest_feed(&near, commands[i].name);
    }
    return near.n > 0 ? nearest_words(&near, buf, size) : "; 'flux help' lists them";
}

static int not_found(const char *name)
{
    char words[160];

    fprintf(stderr, "flux: there is no command '%s'%s\n", name,
            cmd_nearest(name, words, sizeof(words)));
    return CMD_NOT_FOUND;
}

/* Become flux-NAME.  Returns an exit code when there is none, or it cannot be run. */
static int run_external(const char *name, char **argv)
{
    char program[NAME_MAX_LEN + 8];
    char *path;

    if (strlen(name) > NAME_MAX_LEN || strchr(name, '/') || *name == '-')
        return not_found(name);
    snprintf(program, sizeof(program), "flux-%s", name);
    argv[0] = program;
    if ((path = flux_path_exec(program, NULL))) {
        execv(path, argv);
        fprintf(stderr, "flux: cannot run %s: %s\n", path, strerror(errno));
        free(path);
        return 126;
    }
    execvp(program, argv);
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
        fprintf(stderr, "flux: cannot run %s: %s\n", program, strerror(errno));
        return 126;
    }
    return not_found(name);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    const struct command *cmd;

    fd_reserve_standard();
    if (!name || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        cmd_print_list();
        return name ? CMD_OK : CMD_USAGE;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("flux %s\n", PACKAGE_VERSION);
        return CMD_OK;
    }
    if (name[0] == '-') {
        fprintf(stderr, "flux: option '%s' is unknown; try 'flux --help'\n", name);
        return CMD_USAGE;
    }
    cmd = find_command(name);
    if (cmd && cmd->fn)
        return cmd_run(cmd->name, cmd->fn, argc - 1, argv + 1);
    return run_external(name, argv + 1);
}
