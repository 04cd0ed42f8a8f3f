/* tape_write.c - writing recordings of streams.
 *
 * doc/stream-format.rst describes the file, in the section "Recordings".  Sections are only
 * appended, each by one call of pwritev(2) if the system accepts it as a whole; blocks are written
 * directly from the memory of the stream's writers.
 *
 * Invariants:
 *  1. The file is complete up to `end`, and bytes before it are not written again.
 *  2. One process at a time has a file open for writing: it is locked.
 *
 * Failure: if a section cannot be written as a whole, its written part is cut off, so that the next
 * section takes its place.  If that fails as well, or if the process or the host ends, readers
 * detect the incomplete section by its checksums, and ignore it.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include "libstream/tape_format.h"
#include "libstream/tape_write.h"
#include "libutil/fdutil.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"

#define IOV_BATCH 1024

struct pin_id {
    uint64_t owner;
    uint64_t number;
};

struct tape_write {
    int fd;
    char *path;
    uint32_t writers;
    uint64_t end;
    uint64_t format_at; /* the last format; 0: none */
    char *format;
    uint64_t records_at; /* the last format of records; 0: none */
    hmap_t *records;     /* ids of these that are in the file; NULL: none */
    struct iovec *iov;   /* for a step: header, table, and block and gap of each writer */
    unsigned char *table;
    unsigned char *pins; /* table of what is pinned */
    unsigned char *more; /* the same, while it is made anew */
    uint64_t pins_at;    /* section in which it is; 0: nothing is pinned */
    struct pin_id *ids;  /* of the blocks in it */
    struct tape_step *steps;
    size_t n;
    size_t room;
};

static const unsigned char gap[TAPE_SECTION];

void tape_write_destroy(tape_write_t *w)
{
    int saved = errno;

    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    free(w->path);
    free(w->format);
    hmap_destroy(w->records);
    free(w->iov);
    free(w->table);
    free(w->pins);
    free(w->more);
    free(w->ids);
    free(w->steps);
    free(w);
    errno = saved;
}

/* --- sections --- */

/* Write all of the list at an offset.  Changes the list. */
static int write_at(int fd, struct iovec *iov, size_t n, uint64_t at)
{
    while (n > 0) {
        ssize_t done = pwritev(fd, iov, n < IOV_BATCH ? (int)n : IOV_BATCH, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        at += (uint64_t)done;
        while (n > 0 && (size_t)done >= iov->iov_len) {
            done -= (ssize_t)iov->iov_len;
            iov++;
            n--;
        }
        if (n > 0) {
            iov->iov_base = (char *)iov->iov_base + done;
            iov->iov_len -= (size_t)done;
        }
    }
    return 0;
}

/* Append a section, whose contents are iov[1] to iov[n - 1]. */
static int section_add(tape_write_t *w, const struct tape_section *s, struct iovec *iov, size_t n,
                       errmsg_t *err)
{
    unsigned char head[TAPE_SECTION];
    int saved;

    tape_section_encode(s, head);
    iov[0] = (struct iovec){head, sizeof(head)};
    INVARIANT(1, w->end % TAPE_SECTION == 0);
    if (write_at(w->fd, iov, n, w->end) == 0) {
        w->end += TAPE_SECTION + tape_align(s->len);
        return 0;
    }
    saved = errno;
    if (ftruncate(w->fd, (off_t)w->end) < 0)
        return errmsg_fail(err, saved,
                           "cannot write %.120s: %s; a part that was written cannot be cut off",
                           w->path, strerror(saved));
    return errmsg_fail(err, saved, "cannot write %.120s: %s", w->path, strerror(saved));
}

static struct iovec gap_after(uint64_t len)
{
    return (struct iovec){(void *)gap, tape_align(len) - len};
}

int tape_write_format(tape_write_t *w, const char *text, errmsg_t *err)
{
    size_t len = strlen(text);
    struct tape_section s = {.kind = TAPE_FORMAT, .len = len, .check = tape_check(text, len)};
    struct iovec iov[3] = {[1] = {(void *)text, len}, [2] = gap_after(len)};
    uint64_t at = w->end;
    char *copy;

    if (w->format && strcmp(w->format, text) == 0)
        return 0;
    if (len == 0 || len > TAPE_FORMAT_MAX)
        return errmsg_fail(err, len == 0 ? EINVAL : E2BIG,
                           "%.120s: a format has 1 to %" PRIu64 " bytes", w->path, TAPE_FORMAT_MAX);
    if (!(copy = strdup(text)))
        return errmsg_fail(err, ENOMEM, "%.120s: out of memory for a format", w->path);
    if (section_add(w, &s, iov, 3, err) < 0) {
        free(copy);
        return -1;
    }
    free(w->format);
    w->format = copy;
    w->format_at = at;
    return 0;
}

static int records_known(tape_write_t *w, uint64_t id)
{
    if ((!w->records && !(w->records = hmap_create_u64(NULL))) ||
        hmap_put_u64(w->records, id, w) < 0) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

bool tape_write_knows(const tape_write_t *w, uint64_t id)
{
    return w->records && hmap_get_u64(w->records, id);
}

int tape_write_records(tape_write_t *w, uint64_t id, const char *text, errmsg_t *err)
{
    size_t len = strlen(text);
    struct tape_section s = {.kind = TAPE_RECORDS,
                             .number = id,
                             .time = w->records_at,
                             .len = len,
                             .check = tape_check(text, len)};
    struct iovec iov[3] = {[1] = {(void *)text, len}, [2] = gap_after(len)};
    uint64_t at = w->end;

    if (tape_write_knows(w, id))
        return 0;
    if (len == 0 || len > TAPE_RECORDS_MAX || id == 0)
        return errmsg_fail(err, len > 0 ? E2BIG : EINVAL,
                           "%.120s: a format of records has 1 to %" PRIu64 " bytes", w->path,
                           TAPE_RECORDS_MAX);
    if (section_add(w, &s, iov, 3, err) < 0)
        return -1;
    w->records_at = at;
    if (records_known(w, id) < 0)
        return errmsg_fail(err, ENOMEM, "%.120s: out of memory for a format", w->path);
    return 0;
}

/* Make the new table in `more`, and the list of blocks that are not in the file yet.  Returns the
 * end of the list. */
static struct iovec *pins_lay_out(tape_write_t *w, const struct tape_pin *pins,
                                  const uint64_t *owners, struct iovec *iov, uint64_t *len,
                                  bool *any)
{
    for (uint32_t i = 0; i < w->writers; i++) {
        const struct tape_block *b = &pins[i].block;
        unsigned char *entry = w->more + (size_t)i * TAPE_PIN_ENTRY;

        if (b->len == 0) {
            memset(entry, 0, TAPE_PIN_ENTRY);
            continue;
        }
        *any = true;
        if (w->ids[i].owner == owners[i] && w->ids[i].number == pins[i].number &&
            le_get64(entry) > 0)
            continue;
        le_put64(entry, w->end + TAPE_SECTION + *len);
        le_put64(entry + 8, b->len);
        le_put64(entry + 16, tape_check(b->data, b->len));
        *iov++ = (struct iovec){(void *)b->data, b->len};
        *iov++ = gap_after(b->len);
        *len += tape_align(b->len);
    }
    return iov;
}

int tape_write_pins(tape_write_t *w, const struct tape_pin *pins, const uint64_t *owners,
                    errmsg_t *err)
{
    size_t table = (size_t)w->writers * TAPE_PIN_ENTRY;
    struct tape_section s = {.kind = TAPE_PINS, .len = tape_align(table)};
    struct iovec *iov = w->iov + 1;
    uint64_t at = w->end;
    bool any = false;

    memcpy(w->more, w->pins, tape_align(table));
    *iov++ = (struct iovec){w->more, tape_align(table)};
    iov = pins_lay_out(w, pins, owners, iov, &s.len, &any);
    if (memcmp(w->more, w->pins, table) != 0) {
        s.check = tape_check(w->more, table);
        if (any && section_add(w, &s, w->iov, (size_t)(iov - w->iov), err) < 0)
            return -1;
        memcpy(w->pins, w->more, table);
        w->pins_at = any ? at : 0;
    }
    for (uint32_t i = 0; i < w->writers; i++)
        w->ids[i] = (struct pin_id){owners[i], pins[i].number};
    return 0;
}

int tape_write_step(tape_write_t *w, uint64_t number, uint64_t time,
                    const struct tape_block *blocks, errmsg_t *err)
{
    size_t table = (size_t)w->writers * TAPE_TABLE_ENTRY;
    struct tape_section s = {.kind = TAPE_STEP, .number = number, .time = time, .link = w->pins_at};
    struct iovec *iov = w->iov + 1;

    if (w->n > 0 && number <= w->steps[w->n - 1].number)
        return errmsg_fail(err, EEXIST,
                           "%.120s has step %" PRIu64 " already: step %" PRIu64 " cannot follow it",
                           w->path, w->steps[w->n - 1].number, number);
    if (w->n == w->room) {
        size_t room = w->room > 0 ? 2 * w->room : 64;
        struct tape_step *more = realloc(w->steps, room * sizeof(*more));

        if (!more)
            return errmsg_fail(err, ENOMEM, "%.120s: out of memory for the index", w->path);
        w->steps = more;
        w->room = room;
    }
    *iov++ = (struct iovec){w->table, tape_align(table)};
    s.len = tape_align(table);
    for (uint32_t i = 0; i < w->writers; i++) {
        unsigned char *entry = w->table + (size_t)i * TAPE_TABLE_ENTRY;

        le_put64(entry, blocks[i].len);
        le_put64(entry + 8, tape_check(blocks[i].data, blocks[i].len));
        *iov++ = (struct iovec){(void *)blocks[i].data, blocks[i].len};
        *iov++ = gap_after(blocks[i].len);
        s.len += tape_align(blocks[i].len);
    }
    s.check = tape_check(w->table, table);
    w->steps[w->n] = (struct tape_step){number, time, w->end};
    if (section_add(w, &s, w->iov, (size_t)(iov - w->iov), err) < 0)
        return -1;
    w->n++;
    return 0;
}

int tape_write_sync(tape_write_t *w, errmsg_t *err)
{
    if (fdatasync(w->fd) < 0)
        return errmsg_fail(err, errno, "cannot write %.120s to the disk: %s", w->path,
                           strerror(errno));
    return 0;
}

int tape_write_end(tape_write_t *w, errmsg_t *err)
{
    size_t len = w->n * TAPE_INDEX_ENTRY;
    unsigned char *index = malloc(len > 0 ? len : 1);
    struct tape_section s = {.kind = TAPE_INDEX,
                             .number = w->n,
                             .time = w->format_at,
                             .len = len,
                             .link = w->records_at};
    struct tape_section end = {.kind = TAPE_END, .number = w->end, .check = tape_check("", 0)};
    struct iovec iov[3] = {[1] = {index, len}, [2] = gap_after(len)};
    struct iovec last[1];
    int rc = -1;

    if (!index)
        return errmsg_fail(err, ENOMEM, "%.120s: out of memory for the index", w->path);
    for (size_t i = 0; i < w->n; i++) {
        le_put64(index + i * TAPE_INDEX_ENTRY, w->steps[i].number);
        le_put64(index + i * TAPE_INDEX_ENTRY + 8, w->steps[i].time);
        le_put64(index + i * TAPE_INDEX_ENTRY + 16, w->steps[i].at);
    }
    s.check = tape_check(index, len);
    if (section_add(w, &s, iov, 3, err) == 0) {
        if (tape_write_sync(w, err) == 0)
            rc = section_add(w, &end, last, 1, err);
    }
    free(index);
    return rc;
}

/* --- opening --- */

static int begin(tape_write_t *w, const char *name, errmsg_t *err)
{
    unsigned char head[TAPE_HEAD] = TAPE_MAGIC;
    struct iovec iov = {head, sizeof(head)};
    size_t len = strlen(name);

    if (len == 0 || len > TAPE_NAME_MAX)
        return errmsg_fail(err, EINVAL, "the name of a stream has 1 to %d bytes", TAPE_NAME_MAX);
    le_put32(head + 8, TAPE_VERSION);
    le_put32(head + 12, w->writers);
    le_put32(head + 16, (uint32_t)len);
    memcpy(head + TAPE_NAME_AT, name, len);
    le_put64(head + TAPE_HEAD - 8, tape_check(head, TAPE_HEAD - 8));
    if (write_at(w->fd, &iov, 1, 0) < 0)
        return errmsg_fail(err, errno, "cannot write %.120s: %s", w->path, strerror(errno));
    w->end = TAPE_HEAD;
    return 0;
}

/* Continue a file: read its index, and cut off an incomplete section. */
static int resume(tape_write_t *w, const char *name, errmsg_t *err)
{
    tape_t *t = tape_open_fd(w->fd, w->path, err);
    const struct tape_info *info;
    size_t pos = 0;
    uint64_t id;
    int rc = -1;

    if (!t)
        return -1;
    info = tape_info(t);
    w->end = info->end;
    w->n = w->room = tape_count(t);
    if (strcmp(info->name, name) != 0 || info->writers != w->writers)
        errmsg_fail(err, EINVAL,
                    "%.120s has stream '%s' of %u writers: it cannot be continued with '%.128s' of "
                    "%u",
                    w->path, info->name, info->writers, name, w->writers);
    else if ((w->n > 0 && !(w->steps = calloc(w->n, sizeof(*w->steps)))) ||
             (info->format && !(w->format = strdup(info->format))))
        errmsg_fail(err, ENOMEM, "%.120s: out of memory for the index", w->path);
    else {
        for (size_t i = 0; i < w->n; i++)
            w->steps[i] = tape_at(t, i);
        w->format_at = info->format_at;
        w->records_at = info->records_at;
        for (rc = 0; rc == 0 && tape_record_next(t, &pos, &id);)
            if ((rc = records_known(w, id)) < 0)
                errmsg_fail(err, ENOMEM, "%.120s: out of memory for the formats", w->path);
    }
    tape_destroy(t);
    if (rc == 0 && ftruncate(w->fd, (off_t)w->end) < 0)
        return errmsg_fail(err, errno, "cannot continue %.120s: %s", w->path, strerror(errno));
    return rc;
}

tape_write_t *tape_write_open(const char *path, const char *name, uint32_t writers, bool append,
                              errmsg_t *err)
{
    tape_write_t *w = calloc(1, sizeof(*w));
    size_t table = tape_align((uint64_t)writers * TAPE_TABLE_ENTRY);
    size_t pins = tape_align((uint64_t)writers * TAPE_PIN_ENTRY);
    int rc = -1;

    if (w)
        w->fd = -1;
    if (writers == 0 || writers > TAPE_WRITERS_MAX)
        errmsg_fail(err, EINVAL, "a recording has 1 to %d writers", TAPE_WRITERS_MAX);
    else if (!w || !(w->path = strdup(path)) ||
             !(w->iov = calloc(2 + 2 * (size_t)writers, sizeof(*w->iov))) ||
             !(w->table = calloc(1, table)) || !(w->pins = calloc(1, pins)) ||
             !(w->more = calloc(1, pins)) || !(w->ids = calloc(writers, sizeof(*w->ids))))
        errmsg_fail(err, ENOMEM, "out of memory for the recording %.120s", path);
    else if ((w->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (append ? 0 : O_EXCL), 0666)) < 0)
        errmsg_fail(err, errno, errno == EEXIST ? "%.120s exists" : "cannot open %.120s: %s", path,
                    strerror(errno));
    else if (flock(w->fd, LOCK_EX | LOCK_NB) < 0)
        errmsg_fail(err, errno,
                    errno == EWOULDBLOCK ? "%.120s is being written by another process"
                                         : "cannot lock %.120s: %s",
                    path, strerror(errno));
    else if (file_sync_dir(path) < 0) /* a file whose contents are on disk has a name there */
        errmsg_fail(err, errno, "cannot make %.120s durable: %s", path, strerror(errno));
    else {
        w->writers = writers;
        rc = append && lseek(w->fd, 0, SEEK_END) > 0 ? resume(w, name, err) : begin(w, name, err);
    }
    if (rc < 0) {
        tape_write_destroy(w);
        w = NULL;
    }
    return w;
}
