/* port_file.c - the steps of a stream as files, to compare with.
 *
 * A writer makes one file of each step, STREAM.STEP.RANK, in a directory that readers know; a
 * reader finds all that writers have made before it came, and does not wait for more.  A file has,
 * for each variable, a header and the elements, filled up to a multiple of 64 bytes: numbers as
 * this host has them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "port.h"
#include "port_file.h"

#define ALIGN 64

struct header {
    char var[24];
    char type[8];
    uint64_t rows;
    uint64_t columns;
    uint64_t len; /* of the elements */
    uint64_t unused;
};
_Static_assert(sizeof(struct header) == ALIGN, "elements follow without a gap");

struct image {
    char *data;
    size_t len;
    size_t room;
};

struct port_file {
    const char *dir;
    const char *stream;
    uint64_t step;
    FILE *out;
    uint32_t writers; /* that have made files */
    struct image *in; /* of the step, by writer */
};

static const char *path_of(const port_file_t *f, uint32_t rank)
{
    static char path[4096];

    if (snprintf(path, sizeof(path), "%s/%s.%" PRIu64 ".%" PRIu32, f->dir, f->stream, f->step,
                 rank) >= (int)sizeof(path))
        stage_die("the name of directory %s is too long", f->dir);
    return path;
}

static size_t padded(size_t len)
{
    return (len + ALIGN - 1) / ALIGN * ALIGN;
}

static port_file_t *file_create(const char *dir, const char *stream)
{
    port_file_t *f = stage_alloc(NULL, 1, sizeof(*f));

    *f = (port_file_t){.dir = dir, .stream = stream};
    return f;
}

port_file_t *port_file_read(const char *dir, const char *stream)
{
    port_file_t *f = file_create(dir, stream);

    while (access(path_of(f, f->writers), R_OK) == 0)
        f->writers++;
    f->in = stage_alloc(NULL, f->writers, sizeof(*f->in));
    memset(f->in, 0, f->writers * sizeof(*f->in));
    return f;
}

port_file_t *port_file_write(const char *dir, const char *stream)
{
    return file_create(dir, stream);
}

static bool image_read(struct image *i, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return false;
    if (fd < 0 || fstat(fd, &st) < 0)
        stage_die("%s: %s", path, strerror(errno));
    if ((size_t)st.st_size > i->room) {
        i->room = (size_t)st.st_size;
        free(i->data);
        if (!(i->data = aligned_alloc(ALIGN, padded(i->room))))
            stage_die("no memory for %zu bytes", i->room);
    }
    for (i->len = 0; i->len < (size_t)st.st_size;) {
        ssize_t n = read(fd, i->data + i->len, (size_t)st.st_size - i->len);

        if (n <= 0)
            stage_die("%s: %s", path, n < 0 ? strerror(errno) : "it has become shorter");
        i->len += (size_t)n;
    }
    close(fd);
    return true;
}

bool port_file_next(port_file_t *f)
{
    for (uint32_t w = 0; w < f->writers; w++) {
        if (!image_read(&f->in[w], path_of(f, w)))
            return false;
    }
    return f->writers > 0;
}

uint32_t port_file_writers(const port_file_t *f)
{
    return f->writers;
}

size_t port_file_get(port_file_t *f, uint32_t writer, const char *var, const char *type,
                     uint64_t columns, const void **data, size_t *len)
{
    const struct image *i = &f->in[writer];

    for (size_t at = 0; at + sizeof(struct header) <= i->len;) {
        const struct header *h = (const struct header *)(i->data + at);

        at += sizeof(*h);
        if (strncmp(h->var, var, sizeof(h->var)) == 0 && h->len <= i->len - at) {
            if (strncmp(h->type, type, sizeof(h->type)) != 0 || h->columns != columns)
                break;
            *data = i->data + at;
            *len = h->len;
            return (size_t)h->rows;
        }
        at += padded(h->len);
    }
    stage_die("%s: there is no %s of type %s with %" PRIu64 " in a row", path_of(f, writer), var,
              type, columns);
}

void port_file_put(port_file_t *f, const char *var, const char *type, uint64_t rows,
                   uint64_t columns, const void *data)
{
    static const char zero[ALIGN];
    struct header h = {.rows = rows, .columns = columns};

    if (!f->out && !(f->out = fopen(path_of(f, stage.rank), "we")))
        stage_die("%s: %s", path_of(f, stage.rank), strerror(errno));
    strncpy(h.var, var, sizeof(h.var) - 1);
    strncpy(h.type, type, sizeof(h.type) - 1);
    h.len = rows * columns * (uint64_t)(atoi(type + 1) / 8); /* "f64": 8 bytes */
    fwrite(&h, sizeof(h), 1, f->out);
    fwrite(data, 1, h.len, f->out);
    fwrite(zero, 1, padded(h.len) - h.len, f->out);
}

void port_file_end(port_file_t *f)
{
    FILE *out = f->out;

    f->out = NULL;
    if (out && (ferror(out) | fclose(out)))
        stage_die("%s: cannot write: %s", path_of(f, stage.rank), strerror(errno));
    f->step++;
}

void port_file_close(port_file_t *f)
{
    for (uint32_t w = 0; w < f->writers; w++)
        free(f->in[w].data);
    free(f->in);
    free(f);
}
