/* cmd_help.c - flux help: print the list of commands, or show a manual page.
 *
 * A page of the build tree is shown with `man -l`, an installed page by its name.  Without a man
 * command or a page, `flux COMMAND --help` runs instead.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd_all.h"
#include "cmd_private.h"
#include "libflux/paths.h"

static const struct cmd_usage usage = {
    "[COMMAND]", "Print the list of commands, or the manual page of a command.", NULL, NULL, 0,
};

/* The manual has one page for these three. */
static const char *page_of(const char *name)
{
    if (strcmp(name, "setattr") == 0 || strcmp(name, "lsattr") == 0)
        return "getattr";
    return name;
}

/* Run man; true when it could show the page. */
static bool show_page(const char *page)
{
    char *file = flux_path_man(page, NULL);
    char *const by_file[] = {"man", "-l", file, NULL};
    char *const by_name[] = {"man", "1", (char *)page, NULL};
    int status = -1;
    pid_t pid;

    fflush(stdout);
    if ((pid = fork()) == 0) {
        if (!file)
            (void)!freopen("/dev/null", "w", stderr);
        execvp("man", file ? by_file : by_name);
        _exit(127);
    }
    free(file);
    if (pid < 0)
        return false;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int cmd_help(struct cmd *c, int argc, char **argv)
{
    int key = cmd_option(c, &usage, argc, argv, NULL);
    const char *name;
    char *self;
    char page[64] = "flux", words[160];

    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind > 1)
        return cmd_usage_error(c, "at most one COMMAND is expected");
    if (argc == c->optind) {
        cmd_print_list();
        return CMD_OK;
    }
    name = argv[c->optind];
    if (strcmp(name, "flux") != 0) {
        if (!cmd_summary(name))
            return cmd_error(c, "there is no command '%s'%s", name,
                             cmd_nearest(name, words, sizeof(words)));
        snprintf(page, sizeof(page), "flux-%s", page_of(name));
    }
    if (show_page(page))
        return CMD_OK;
    if ((self = flux_path_exec("flux", NULL))) {
        if (strcmp(name, "flux") == 0)
            execl(self, "flux", "--help", (char *)NULL);
        else
            execl(self, "flux", name, "--help", (char *)NULL);
        free(self);
    }
    return cmd_error(c, "the manual page %s(1) is not installed", page);
}
