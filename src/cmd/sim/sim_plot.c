/* sim_plot.c - figures drawn by gnuplot.
 *
 * gnuplot runs once for each figure, without the settings of the user, and with files in memory as
 * its standard input, output and error: neither side waits for the other.  Of its output the XML
 * declaration is cut off, so that a figure can stand in a page, and so are the shapes of points,
 * which no figure has: their ids would be the same in all figures of a page.
 *
 * Invariants:
 *  1. Equal scripts give equal figures, whatever the environment says.
 *  2. A string constant ends where it was meant to end, whatever it holds.
 *
 * Failure: errno and an error message with what gnuplot said.
 */
#include "config.h"
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "sim_plot.h"

#define SVG_MAX (64 * 1024 * 1024)
#define SAID_MAX (64 * 1024)

void sim_plot_begin(FILE *f, const char *name, int height, const char *title, const char *xlabel,
                    const char *ylabel)
{
    /* Colors that most eyes tell apart [Okabe and Ito 2008]. */
    static const char *const colors[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                         "#56b4e9", "#d55e00", "#f0e442", "#666666"};

    fprintf(f,
            "set terminal svg size 760,%d dynamic noenhanced font 'sans-serif,12' name '%s'\n"
            "set style fill solid 0.85 noborder\nset border 3\nset tics nomirror out\n"
            "set grid ytics linetype 1 linecolor rgb '#dddddd'\n"
            "set key tmargin center horizontal\n",
            height ? height : 340, name);
    for (size_t i = 0; i < sizeof(colors) / sizeof(colors[0]); i++)
        fprintf(f, "set linetype %zu linecolor rgb '%s' linewidth 1\n", i + 1, colors[i]);
    fputs("set title ", f);
    sim_plot_quote(f, title);
    fputs("\nset xlabel ", f);
    sim_plot_quote(f, xlabel);
    fputs("\nset ylabel ", f);
    sim_plot_quote(f, ylabel);
    putc('\n', f);
}

static void put_quoted(FILE *f, const char *text, const char *doubled)
{
    putc('\'', f);
    for (const char *s = text; *s; s++) {
        if (strchr(doubled, *s))
            putc(*s, f);
        putc((unsigned char)*s < ' ' || *s == 0x7f ? '?' : *s, f);
    }
    putc('\'', f);
}

void sim_plot_quote(FILE *f, const char *text)
{
    put_quoted(f, text, "'");
}

void sim_plot_quote_tick(FILE *f, const char *text)
{
    put_quoted(f, text, "'%");
}

void sim_plot_quote_value(FILE *f, const char *text)
{
    putc('"', f);
    for (const char *s = text; *s; s++)
        putc((unsigned char)*s < ' ' || *s == 0x7f || *s == '"' ? '?' : *s, f);
    putc('"', f);
}

void sim_plot_data(FILE *f, const char *name, size_t i, const char *columns)
{
    fprintf(f, "$%s%zu << EOD\n# %s\n", name, i, columns);
}

void sim_plot_data_end(FILE *f)
{
    fputs("EOD\n", f);
}

/* --- drawing --- */

enum { SCRIPT, SVG, SAID, FILES };

/* Standard input, output and error are the three files.  The exit code, or -1 with errno. */
static int run_gnuplot(const int fd[FILES])
{
    char *const argv[] = {"gnuplot", "--default-settings", NULL};
    char path[4096], *envp[] = {path, "LC_ALL=C.UTF-8", NULL};
    posix_spawn_file_actions_t actions;
    int rc, status;
    pid_t pid;

    snprintf(path, sizeof(path), "PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    if ((rc = posix_spawn_file_actions_init(&actions)) == 0) {
        for (int i = 0; i < FILES && rc == 0; i++)
            rc = posix_spawn_file_actions_adddup2(&actions, fd[i], i);
        if (rc == 0)
            rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, envp);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (rc != 0) {
        errno = rc;
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Cut out what lies between the two texts, these included. */
static void cut(char *svg, const char *from, const char *to)
{
    char *begin = strstr(svg, from), *end = begin ? strstr(begin + strlen(from), to) : NULL;

    if (end) {
        end += strlen(to);
        memmove(begin, end, strlen(end) + 1);
    }
}

/* gnuplot repeats the command that is wrong, and then says why. */
static const char *last_line(char *said)
{
    size_t len = strlen(said);
    char *line;

    while (len > 0 && (said[len - 1] == '\n' || said[len - 1] == ' '))
        said[--len] = '\0';
    line = strrchr(said, '\n');
    line = line ? line + 1 : said;
    return line + strspn(line, " ");
}

/* What gnuplot printed, when it ended with exit code `rc`. */
static char *result(const int fd[FILES], int rc, errmsg_t *err)
{
    char *svg = NULL, *said = NULL, *begin;
    size_t len;
    int saved;

    if (lseek(fd[SVG], 0, SEEK_SET) < 0 || lseek(fd[SAID], 0, SEEK_SET) < 0 ||
        fd_read_all(fd[SAID], SAID_MAX, &said, &len) < 0 ||
        fd_read_all(fd[SVG], SVG_MAX, &svg, &len) < 0) {
        errmsg_set(err, "cannot read what gnuplot printed: %s", strerror(errno));
    } else if (rc != 0 || !(begin = strstr(svg, "<svg")) || !strstr(svg, "</svg>")) {
        errmsg_fail(err, EIO, "gnuplot failed with exit code %d: %.160s", rc, last_line(said));
    } else {
        memmove(svg, begin, strlen(begin) + 1);
        cut(svg, "<defs>", "</defs>\n");
        cut(svg, " id=\"gnuplot_canvas", "\"");
        free(said);
        return svg;
    }
    saved = errno;
    free(svg);
    free(said);
    errno = saved;
    return NULL;
}

char *sim_plot_draw(const char *script, size_t len, errmsg_t *err)
{
    int fd[FILES], rc = 0, saved;
    char *svg = NULL;

    for (int i = 0; i < FILES; i++)
        if ((fd[i] = memfd_create("flux-sim", MFD_CLOEXEC)) < 0)
            rc = -1;
    if (rc < 0 || fd_write_all(fd[SCRIPT], script, len) < 0 || lseek(fd[SCRIPT], 0, SEEK_SET) < 0)
        errmsg_set(err, "cannot make files for gnuplot: %s", strerror(errno));
    else if ((rc = run_gnuplot(fd)) < 0)
        errmsg_set(err, "cannot draw figures: gnuplot does not start: %s%s", strerror(errno),
                   errno == ENOENT ? " (Debian: apt-get install gnuplot-nox)" : "");
    else
        svg = result(fd, rc, err);
    saved = errno;
    for (int i = 0; i < FILES; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    errno = saved;
    return svg;
}
