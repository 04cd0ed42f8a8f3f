/* file.c - labeled output in files: "TASK: " before each line.
 *
 * Purpose: the tasks write into pipes.  All complete lines that have arrived go to the file in one
 * write(2) with O_APPEND, so lines of different tasks and nodes do not mix.  A line of more than
 * LINE_MAX_LEN bytes is split.  Tasks of a node that write to one file share its descriptor.
 *
 * Works: a file may hang, so starters open, write and close it (starter.c), one operation per file
 * at a time.  The file is opened before the first task that writes to it starts.  When PENDING_MAX
 * bytes wait for the file, the output of its tasks is no longer read.  The job ends after the file
 * is closed, unless the job is killed.
 *
 * Failure: a fifo or a terminal is refused.  A file that cannot be written fails the job once; the
 * output that follows is read and discarded, so the tasks do not block.
 */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/fdutil.h"

#define LINE_MAX_LEN 65536

#define PENDING_MAX (1u << 20)

struct outfile {
    struct nodejob *job;
    struct batch batch; /* the works that write and close the file */
    char *name;
    int fd;        /* -1: not open */
    buf_t *lines;  /* complete lines that have still to be written */
    uint32_t rank; /* the task that wrote the first of these lines */
    bool busy;     /* a work writes lines */
    bool broken;
    bool closing;
};

/* A work that opens a file, writes lines, or closes it. */
struct filework {
    struct work w;
    struct outfile *f;
    struct spawn_file sf; /* names of the file; NULL: it is open */
    unsigned mask;        /* 1 + umask; 0: the umask of the launcher */
    buf_t *lines;         /* NULL: the file is to be closed */
    int fd;
    uint32_t rank;
};

static void outfile_free(void *arg)
{
    struct outfile *f = arg;

    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    buf_destroy(f->lines);
    free(f->name);
    free(f);
}

static void filework_free(struct work *w)
{
    struct filework *fw = (struct filework *)w;

    buf_destroy(fw->lines);
    free((char *)fw->sf.path);
    free((char *)fw->sf.name);
    free(fw);
}

static struct filework *filework_create(struct outfile *f, uint32_t rank,
                                        void (*run)(struct work *, pid_t *),
                                        void (*done)(struct work *))
{
    struct filework *fw = calloc(1, sizeof(*fw));

    if (!fw)
        return NULL;
    fw->w = (struct work){.run = run, .done = done, .drop = filework_free};
    fw->f = f;
    fw->fd = f->fd;
    fw->rank = rank;
    return fw;
}

/* --- opening: before the first task that writes to the file --- */

/* Returns whether a write may block although the file is in order: a fifo or a terminal. */
static bool can_block(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || isatty(fd));
}

static void open_run(struct work *w, pid_t *pid)
{
    struct filework *fw = (struct filework *)w;
    const struct spawn_file *sf = &fw->sf;
    mode_t before = umask(0077); /* the umask of this thread */

    umask(fw->mask ? (mode_t)(fw->mask - 1) & 0777 : before);
    fw->fd = open(sf->path, sf->flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fw->fd < 0) {
        errmsg_fail(&w->err, errno, "cannot open '%s': %s", sf->name,
                    errno == ENXIO ? "nobody reads from it" : strerror(errno));
    } else if (can_block(fw->fd)) {
        errmsg_set(&w->err, "'%s' takes no labeled output: it is a fifo or a terminal", sf->path);
        close(fw->fd);
        fw->fd = -1;
    } else {
        fcntl(fw->fd, F_SETFL, O_APPEND);
    }
    w->failed = fw->fd < 0;
    umask(before);
}

static void opened(struct work *w)
{
    struct filework *fw = (struct filework *)w;
    struct nodejob *j = w->job;

    fw->f->fd = fw->fd;
    fw->f->broken = w->failed;
    if (w->failed)
        nodejob_file_failed(j, w->err.text);
    filework_free(w);
}

int file_attach(struct stream *s, const char *path, errmsg_t *err)
{
    struct nodejob *j = s->task->job;
    struct filework *fw = NULL;
    struct outfile *f = NULL;
    struct spawn_file sf = {0};

    if ((!j->outfiles && !(j->outfiles = hmap_create_str(outfile_free))) ||
        !(s->line = buf_create(0)) ||
        task_file(j, path, s->task->rank, O_WRONLY | O_CREAT | O_APPEND, &sf) < 0)
        goto nomem;
    if (!(f = hmap_get(j->outfiles, sf.path))) {
        if (!(f = calloc(1, sizeof(*f))))
            goto nomem;
        f->fd = -1;
        f->job = j;
        starter_batch_init(&f->batch, false);
        if (!(f->lines = buf_create(0)) || !(f->name = strdup(sf.path)) ||
            !(fw = filework_create(f, s->task->rank, open_run, opened)) ||
            hmap_put(j->outfiles, f->name, f) < 0) {
            free(fw);
            outfile_free(f);
            goto nomem;
        }
        fw->sf = sf;
        fw->mask = j->run.mask;
        nodejob_work(j, &j->first, &fw->w);
    } else {
        free((char *)sf.path);
        free((char *)sf.name);
    }
    s->file = f;
    return 0;
nomem:
    free((char *)sf.path);
    free((char *)sf.name);
    return errmsg_fail(err, ENOMEM, "no memory for output in '%s'", path);
}

/* --- writing --- */

static void write_run(struct work *w, pid_t *pid)
{
    struct filework *fw = (struct filework *)w;

    if (fd_write_all(fw->fd, buf_data(fw->lines), buf_len(fw->lines)) < 0)
        w->errnum = errno;
}

static void close_run(struct work *w, pid_t *pid)
{
    if (close(((struct filework *)w)->fd) < 0)
        w->errnum = errno;
}

static void file_flush(struct outfile *f);

static void worked(struct work *w)
{
    struct filework *fw = (struct filework *)w;
    struct outfile *f = fw->f;
    struct nodejob *j = w->job;

    f->busy = false;
    if (w->errnum && !f->broken && !j->ghost) {
        f->broken = true;
        launcher_send_fail(j, 1, (int32_t)fw->rank, 1, "cannot write to '%s': %s", f->name,
                           strerror(w->errnum));
    }
    filework_free(w);
    if (j->ghost)
        return;
    file_flush(f);
    for (uint32_t i = 0; i < j->ntasks; i++)
        for (int k = 0; k < 2; k++)
            if (j->tasks[i].out[k].file == f && j->paused)
                launcher_source_resume(j->l, &j->tasks[i].out[k].src);
}

/* Write the lines that were collected during the previous write. */
static void file_flush(struct outfile *f)
{
    struct filework *fw;
    buf_t *next;

    if (f->broken)
        buf_consume(f->lines, buf_len(f->lines));
    if (f->busy || f->fd < 0 || f->closing || buf_len(f->lines) == 0)
        return;
    next = buf_create(0);
    if (!next || !(fw = filework_create(f, f->rank, write_run, worked))) {
        buf_destroy(next);
        f->broken = true;
        launcher_send_fail(f->job, 1, (int32_t)f->rank, 1, "no memory to write to '%s'", f->name);
        return;
    }
    fw->lines = f->lines;
    f->lines = next;
    f->busy = true;
    nodejob_work(f->job, &f->batch, &fw->w);
}

bool file_full(const struct stream *s)
{
    return !s->file->broken && buf_len(s->file->lines) >= PENDING_MAX;
}

/* Returns whether all lines are written and the file is closed. */
static bool file_done(struct outfile *f)
{
    struct filework *fw;

    file_flush(f);
    if (f->busy)
        return false;
    if (f->closing || f->fd < 0)
        return true;
    if (!(fw = filework_create(f, f->rank, close_run, worked)))
        return true; /* outfile_free() closes it */
    f->closing = f->busy = true;
    f->fd = -1;
    nodejob_work(f->job, &f->batch, &fw->w);
    return false;
}

bool files_done(struct nodejob *j)
{
    size_t pos = 0;
    bool done = true;
    void *val;

    while (j->outfiles && hmap_next(j->outfiles, &pos, NULL, NULL, &val))
        done &= file_done(val);
    return done;
}

static void put(struct stream *s, const void *a, size_t alen, const void *b, size_t blen, bool nl)
{
    struct outfile *f = s->file;
    char label[16];
    int n = snprintf(label, sizeof(label), "%u: ", task_number(s->task));

    if (f->broken)
        return;
    if (buf_len(f->lines) == 0)
        f->rank = s->task->rank;
    if (buf_append(f->lines, label, (size_t)n) < 0 || (alen && buf_append(f->lines, a, alen) < 0) ||
        (blen && buf_append(f->lines, b, blen) < 0) || (nl && buf_append(f->lines, "\n", 1) < 0)) {
        f->broken = true;
        launcher_send_fail(s->task->job, 1, (int32_t)s->task->rank, 1, "no memory to write to '%s'",
                           f->name);
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
    file_flush(s->file);
}

void files_drop(struct nodejob *j)
{
    size_t pos = 0;
    void *val;

    while (j->outfiles && hmap_next(j->outfiles, &pos, NULL, NULL, &val))
        nodejob_drop(j, &((struct outfile *)val)->batch);
}

void files_close(struct nodejob *j)
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
