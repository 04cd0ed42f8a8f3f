/* Labelled output in files: "TASK: " before each line.
 *
 * The tasks write into pipes, and whole lines go to the file in one write(2) that appends, so that
 * lines of different tasks, and of different nodes, do not mix.  A line of more than
 * LINE_MAX_LEN bytes is cut into several.  Tasks of a node that write to one file share its
 * descriptor.
 *
 * Failure: a fifo or a terminal is refused; a file that cannot be written to fails the job, once;
 * what follows is read and thrown away, so that no task stands still.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define LINE_MAX_LEN 65536

struct outfile {
    int fd;
    bool broken;
    char *name;
};

static void outfile_free(void *arg)
{
    struct outfile *f = arg;

    if (f->fd >= 0)
        close(f->fd);
    free(f->name);
    free(f);
}

/* Writes here are by the launcher: what can make them wait would stop all tasks of the node. */
static bool can_block(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || isatty(fd));
}

static int open_file(struct stream *s, const char *path, char **name, errmsg_t *err)
{
    struct job *j = s->task->job;
    mode_t before = umask(0077);
    struct spawn_file f;
    int fd = -1;

    umask(j->run.mask ? (mode_t)(j->run.mask - 1) & 0777 : before);
    if (job_file(j, path, s->task->rank, O_WRONLY | O_CREAT | O_APPEND, &f) < 0) {
        errmsg_fail(err, ENOMEM, "no memory to open '%s'", path);
    } else {
        *name = (char *)f.path;
        if ((fd = open(f.path, f.flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666)) < 0)
            errmsg_fail(err, errno, "cannot open '%s': %s", f.name,
                        errno == ENXIO ? "nobody reads from it" : strerror(errno));
        else
            fcntl(fd, F_SETFL, O_APPEND);
        if (fd < 0)
            free(*name);
        free((char *)f.name);
    }
    umask(before);
    return fd;
}

int file_attach(struct stream *s, const char *path, errmsg_t *err)
{
    struct job *j = s->task->job;
    struct outfile *f;
    char *name = NULL;
    int fd = open_file(s, path, &name, err);

    if (fd < 0)
        return -1;
    if (can_block(fd)) {
        errmsg_fail(err, EINVAL, "'%s' takes no labelled output: it is a fifo or a terminal", name);
        close(fd);
        free(name);
        return -1;
    }
    if (!j->outfiles)
        j->outfiles = hmap_create_str(outfile_free);
    if (j->outfiles && (f = hmap_get(j->outfiles, name))) {
        close(fd);
        free(name);
        s->file = f;
    } else if (!j->outfiles || !(f = calloc(1, sizeof(*f)))) {
        close(fd);
        free(name);
        return errmsg_fail(err, ENOMEM, "no memory for output");
    } else {
        f->fd = fd;
        f->name = name;
        if (hmap_put(j->outfiles, name, f) < 0) {
            outfile_free(f);
            return errmsg_fail(err, ENOMEM, "no memory for output");
        }
        s->file = f;
    }
    if (!(s->line = buf_create(0)))
        return errmsg_fail(err, ENOMEM, "no memory for output");
    return 0;
}

static void put(struct stream *s, const void *a, size_t alen, const void *b, size_t blen, bool nl)
{
    struct outfile *f = s->file;
    char label[16];
    int n = snprintf(label, sizeof(label), "%u: ", task_number(s->task));
    struct iovec iov[4] = {
        {label, (size_t)n}, {(void *)a, alen}, {(void *)b, blen}, {(char *)"\n", nl ? 1 : 0}};
    int i = 0;

    while (i < 4 && !f->broken) {
        ssize_t w = writev(f->fd, iov + i, 4 - i);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0) {
            f->broken = true;
            send_fail(s->task->job, 1, (int32_t)s->task->rank, 1, "cannot write to '%s': %s",
                      f->name, strerror(errno));
            return;
        }
        for (; i < 4 && (size_t)w >= iov[i].iov_len; i++)
            w -= (ssize_t)iov[i].iov_len;
        if (i < 4) {
            iov[i].iov_base = (char *)iov[i].iov_base + w;
            iov[i].iov_len -= (size_t)w;
        }
    }
}

void file_output(struct stream *s, const void *data, size_t len)
{
    const char *p = data, *end = p + len, *nl;

    if (!s->line)
        return;
    while (p < end && (nl = memchr(p, '\n', (size_t)(end - p)))) {
        put(s, buf_data(s->line), buf_len(s->line), p, (size_t)(nl + 1 - p), false);
        buf_consume(s->line, buf_len(s->line));
        p = nl + 1;
    }
    if (p < end && buf_append(s->line, p, (size_t)(end - p)) < 0)
        put(s, p, (size_t)(end - p), NULL, 0, true);
    if (buf_len(s->line) >= LINE_MAX_LEN || (len == 0 && buf_len(s->line) > 0)) {
        put(s, buf_data(s->line), buf_len(s->line), NULL, 0, true);
        buf_consume(s->line, buf_len(s->line));
    }
    if (len == 0) {
        buf_destroy(s->line);
        s->line = NULL;
    }
}

void files_close(struct job *j)
{
    for (uint32_t i = 0; i < j->ntasks; i++) {
        for (int k = 0; k < 2; k++) {
            buf_destroy(j->tasks[i].out[k].line);
            j->tasks[i].out[k].line = NULL;
        }
    }
    hmap_destroy(j->outfiles);
    j->outfiles = NULL;
}
