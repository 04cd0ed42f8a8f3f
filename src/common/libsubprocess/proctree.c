/* Processes as /proc shows them.
 *
 * A subreaper finds the processes that its jobs left behind among its own children, since it adopts
 * those that lose their parent.  Children are read from /proc/self/task/TID/children if the kernel
 * has these files, with one read per thread; otherwise from the parent id in /proc/PID/stat of all
 * processes.
 */
#include "libsubprocess/proctree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/fdutil.h"

#define ENVIRON_MAX (16u << 20)
#define CHILDREN_MAX (8u << 20)

struct stat_line {
    char state;
    pid_t parent;
    unsigned long long start; /* clock ticks since the system started */
};

/* Parse /proc/PID/stat.  -1: there is no such process. */
static int stat_of(pid_t pid, struct stat_line *st)
{
    char path[64], text[512], *p;
    ssize_t n;
    int fd, ppid;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    /* The name, in parentheses, may contain anything, even parentheses. */
    p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %c %d%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s %llu",
                     &st->state, &ppid, &st->start) != 3)
        return -1;
    st->parent = ppid;
    return 0;
}

int proctree_all(proctree_f cb, void *arg)
{
    DIR *dir = opendir("/proc");
    struct dirent *de;
    int rc = 0;

    if (!dir)
        return -1;
    while (rc == 0 && (de = readdir(dir)))
        if (isdigit((unsigned char)de->d_name[0]))
            rc = cb((pid_t)atoi(de->d_name), arg);
    closedir(dir);
    return rc;
}

struct filter {
    proctree_f cb;
    void *arg;
    pid_t parent;
};

static int if_child(pid_t pid, void *arg)
{
    struct filter *f = arg;
    struct stat_line st;

    if (stat_of(pid, &st) < 0 || st.parent != f->parent)
        return 0;
    return f->cb(pid, f->arg);
}

/* Children of one thread: 0, the callback's result, or -1 if the kernel does not list them. */
static int thread_children(const char *tid, proctree_f cb, void *arg)
{
    char path[300], *text, *p, *end;
    size_t len;
    int rc = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%s/children", tid);
    if (file_read_all(path, CHILDREN_MAX, &text, &len) < 0)
        return -1;
    for (p = text; rc == 0; p = end) {
        long pid = strtol(p, &end, 10);

        if (end == p)
            break;
        rc = cb((pid_t)pid, arg);
    }
    free(text);
    return rc;
}

int proctree_children(proctree_f cb, void *arg)
{
    struct filter f = {cb, arg, getpid()};
    DIR *dir = opendir("/proc/self/task");
    struct dirent *de;
    int rc = dir ? 0 : -1;

    while (rc == 0 && (de = readdir(dir)))
        if (isdigit((unsigned char)de->d_name[0]))
            rc = thread_children(de->d_name, cb, arg);
    if (dir)
        closedir(dir);
    return rc < 0 ? proctree_all(if_child, &f) : rc;
}

int proctree_has_env(pid_t pid, const char *assignment)
{
    size_t len, want = strlen(assignment);
    bool any = want > 0 && assignment[want - 1] == '=';
    char path[64], *text;
    int found = 0;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    if (file_read_all(path, ENVIRON_MAX, &text, &len) < 0)
        return -1;
    if (len == 0) {
        free(text);
        errno = EAGAIN;
        return -1;
    }
    for (char *p = text, *end; !found && p < text + len; p = end + 1) {
        end = memchr(p, '\0', (size_t)(text + len - p));
        if (!end)
            end = text + len;
        found = ((size_t)(end - p) == want || (any && (size_t)(end - p) > want)) &&
                memcmp(p, assignment, want) == 0;
    }
    free(text);
    return found;
}

bool proctree_dead(pid_t pid)
{
    struct stat_line st;

    return stat_of(pid, &st) < 0 || st.state == 'Z' || st.state == 'X';
}

pid_t proctree_parent(pid_t pid)
{
    struct stat_line st;

    return stat_of(pid, &st) < 0 ? -1 : st.parent;
}

bool proctree_older(pid_t pid, const struct timespec *boot)
{
    long hz = sysconf(_SC_CLK_TCK);
    unsigned long long then;
    struct stat_line st;

    if (hz <= 0 || stat_of(pid, &st) < 0)
        return false;
    then = (unsigned long long)boot->tv_sec * (unsigned long long)hz +
           (unsigned long long)boot->tv_nsec / (unsigned long long)(1000000000 / hz);
    return st.start < then;
}
