/* tape.c - reading recordings of streams.
 *
 * doc/stream-format.rst describes the file, in the section "Recordings".  It is mapped, and blocks
 * are used where they are.  A complete file ends with an index, and opening the file reads only
 * that.  Any other file was interrupted, or is being written: its sections are read from the first
 * one on, and all their checksums verified, up to the first incomplete section.
 *
 * Invariants:
 *  1. Numbers of steps rise, and so do their offsets.
 *  2. The blocks from tape_blocks() are within the file.
 *
 * Failure: a file that is not a recording is EPROTO, with an error message that names the path.  A
 * section that was cut off, or did not reach the disk, is not an error: it is ignored.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libstream/tape.h"
#include "libstream/tape_format.h"
#include "libstream/stream_wire.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"

struct tape {
    const unsigned char *data;
    uint64_t size;
    void *map; /* NULL: the memory belongs to the caller */
    char *path;
    char name[TAPE_NAME_MAX + 1];
    char *format;
    struct tape_info info;
    hmap_t *records; /* texts of formats of records, by id; NULL: none */
    struct tape_step *steps;
    size_t n;
    size_t room;
};

void tape_destroy(tape_t *t)
{
    int saved = errno;

    if (!t)
        return;
    if (t->map)
        munmap(t->map, t->size);
    free(t->path);
    free(t->format);
    hmap_destroy(t->records);
    free(t->steps);
    free(t);
    errno = saved;
}

static bool zeros(const unsigned char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

/* Read the head of the file. */
static int head_read(tape_t *t, errmsg_t *err)
{
    const unsigned char *p = t->data;
    uint32_t len;

    if (t->size < TAPE_HEAD || memcmp(p, TAPE_MAGIC, 8) != 0)
        return errmsg_fail(err, EPROTO, "%.120s is not a recording of a stream", t->path);
    if (le_get32(p + 8) != TAPE_VERSION)
        return errmsg_fail(err, EPROTO,
                           "%.120s is a recording of version %u: this program reads version %d",
                           t->path, le_get32(p + 8), TAPE_VERSION);
    len = le_get32(p + 16);
    t->info.writers = le_get32(p + 12);
    if (le_get64(p + TAPE_HEAD - 8) != tape_check(p, TAPE_HEAD - 8) || t->info.writers == 0 ||
        t->info.writers > TAPE_WRITERS_MAX || len == 0 || len > TAPE_NAME_MAX ||
        le_get32(p + 20) != 0 || !zeros(p + TAPE_NAME_AT + len, TAPE_HEAD - 8 - TAPE_NAME_AT - len))
        return errmsg_fail(err, EPROTO, "%.120s is a recording whose beginning is damaged",
                           t->path);
    memcpy(t->name, p + TAPE_NAME_AT, len);
    if (str_utf8_span(t->name, len) != len || !stream_title_ok(t->name, len))
        return errmsg_fail(err, EPROTO, "%.120s: the name of the stream is malformed", t->path);
    t->info.name = t->name;
    return 0;
}

/* Read the header of a section whose contents end within `end`.  false: there is none at this
 * place. */
static bool section_read(const tape_t *t, uint64_t at, uint64_t end, struct tape_section *s)
{
    const unsigned char *p;

    if (at % TAPE_SECTION != 0 || at < TAPE_HEAD || at > end || end - at < TAPE_SECTION)
        return false;
    p = t->data + at;
    if (memcmp(p, TAPE_SECTION_MAGIC, 3) != 0 || le_get64(p + 56) != tape_check(p, 56) ||
        p[3] < TAPE_FORMAT || p[3] > TAPE_PINS || !zeros(p + 4, 4) || !zeros(p + 48, 8) ||
        (p[3] != TAPE_INDEX && p[3] != TAPE_STEP && !zeros(p + 40, 8)))
        return false;
    *s = (struct tape_section){(enum tape_kind)p[3], le_get64(p + 8),  le_get64(p + 16),
                               le_get64(p + 24),     le_get64(p + 32), le_get64(p + 40)};
    end -= at + TAPE_SECTION;
    return s->len <= end && tape_align(s->len) <= end;
}

static uint64_t section_end(uint64_t at, const struct tape_section *s)
{
    return at + TAPE_SECTION + tape_align(s->len);
}

static bool text_ok(const unsigned char *p, uint64_t len)
{
    return len > 0 && !memchr(p, 0, len) && str_utf8_span((const char *)p, len) == len;
}

/* Has a section valid fields for its kind, and contents that match its checksum? For a step, and
 * for what is pinned, this verifies the table. */
static bool section_ok(const tape_t *t, uint64_t at, const struct tape_section *s)
{
    const unsigned char *p = t->data + at + TAPE_SECTION;
    uint64_t len = s->len;

    switch (s->kind) {
    case TAPE_FORMAT:
        if (s->number != 0 || s->time != 0 || len > TAPE_FORMAT_MAX || !text_ok(p, len))
            return false;
        break;
    case TAPE_RECORDS:
        if (s->number == 0 || s->time >= at || len > TAPE_RECORDS_MAX || !text_ok(p, len))
            return false;
        break;
    case TAPE_STEP:
        len = (uint64_t)t->info.writers * TAPE_TABLE_ENTRY;
        if (s->len < len || !zeros(p + len, tape_align(len) - len))
            return false;
        break;
    case TAPE_PINS:
        len = (uint64_t)t->info.writers * TAPE_PIN_ENTRY;
        if (s->number != 0 || s->time != 0 || s->len < len ||
            !zeros(p + len, tape_align(len) - len))
            return false;
        break;
    case TAPE_INDEX:
        if (len % TAPE_INDEX_ENTRY != 0 || s->number != len / TAPE_INDEX_ENTRY)
            return false;
        break;
    case TAPE_END:
        if (len != 0 || s->time != 0)
            return false;
    }
    return tape_check(p, len) == s->check && zeros(p + s->len, tape_align(s->len) - s->len);
}

/* Find the blocks of a step that is section_ok(): `blocks` may be NULL.  false: they do not match
 * the table, or, if they are to be verified, their checksums. */
static bool blocks_read(const tape_t *t, uint64_t at, const struct tape_section *s,
                        struct tape_block *blocks, bool verify)
{
    const unsigned char *p = t->data + at + TAPE_SECTION;
    uint64_t off = tape_align((uint64_t)t->info.writers * TAPE_TABLE_ENTRY);

    for (uint32_t w = 0; w < t->info.writers; w++) {
        uint64_t len = le_get64(p + (uint64_t)w * TAPE_TABLE_ENTRY);

        if (off > s->len || len > s->len - off || tape_align(len) > s->len - off)
            return false;
        if (verify &&
            (tape_check(p + off, len) != le_get64(p + (uint64_t)w * TAPE_TABLE_ENTRY + 8) ||
             !zeros(p + off + len, tape_align(len) - len)))
            return false;
        if (blocks)
            blocks[w] = (struct tape_block){p + off, len};
        off += tape_align(len);
    }
    INVARIANT(2, off <= s->len);
    return off == s->len;
}

/* The same of what is pinned, in a section that is section_ok(): blocks are in it, one behind the
 * other, or in an earlier section of its kind. */
static bool pins_read(const tape_t *t, uint64_t at, const struct tape_section *s,
                      struct tape_pin *pins, bool verify)
{
    const unsigned char *entry = t->data + at + TAPE_SECTION;
    uint64_t table = tape_align((uint64_t)t->info.writers * TAPE_PIN_ENTRY);
    uint64_t next = at + TAPE_SECTION + table;
    uint64_t end = section_end(at, s);

    for (uint32_t w = 0; w < t->info.writers; w++, entry += TAPE_PIN_ENTRY) {
        uint64_t off = le_get64(entry);
        uint64_t len = le_get64(entry + 8);
        uint64_t limit = off < at ? at : end;

        if (off > 0 &&
            (off % TAPE_SECTION != 0 || off < TAPE_HEAD || off > limit || len == 0 ||
             len > limit - off || tape_align(len) > limit - off || (off >= at && off != next)))
            return false;
        if (off == 0 && !zeros(entry, TAPE_PIN_ENTRY))
            return false;
        if (verify && off > at &&
            (tape_check(t->data + off, len) != le_get64(entry + 16) ||
             !zeros(t->data + off + len, tape_align(len) - len)))
            return false;
        if (pins)
            pins[w] = (struct tape_pin){{off > 0 ? t->data + off : NULL, len}, off};
        if (off >= at)
            next += tape_align(len);
    }
    return next == end;
}

static int step_add(tape_t *t, const struct tape_step *s)
{
    if (t->n == t->room) {
        size_t room = t->room > 0 ? 2 * t->room : 64;
        struct tape_step *more = realloc(t->steps, room * sizeof(*more));

        if (!more)
            return -1;
        t->steps = more;
        t->room = room;
    }
    t->steps[t->n++] = *s;
    INVARIANT(1,
              t->n < 2 || (t->steps[t->n - 2].number < s->number && t->steps[t->n - 2].at < s->at));
    return 0;
}

static int format_set(tape_t *t, uint64_t at, const struct tape_section *s)
{
    char *format = strndup((const char *)t->data + at + TAPE_SECTION, s->len);

    if (!format)
        return -1;
    free(t->format);
    t->format = format;
    t->info.format_at = at;
    return 0;
}

/* Keep the format of records in a section.  0 or -1. */
static int records_add(tape_t *t, uint64_t at, const struct tape_section *s)
{
    char *text = strndup((const char *)t->data + at + TAPE_SECTION, s->len);

    if (!text || (!t->records && !(t->records = hmap_create_u64(free))) ||
        hmap_put_u64(t->records, s->number, text) < 0) {
        free(text);
        return -1;
    }
    if (t->info.records_at < at)
        t->info.records_at = at;
    return 0;
}

/* Read the formats of records that precede the index, each of which says where the one before it
 * is.  1; 0: they are damaged; -1. */
static int records_read(tape_t *t, uint64_t at, uint64_t end)
{
    struct tape_section s;

    for (; at > 0; end = at, at = s.time) {
        if (!section_read(t, at, end, &s) || s.kind != TAPE_RECORDS || !section_ok(t, at, &s))
            return 0;
        if (!tape_record_format(t, s.number) && records_add(t, at, &s) < 0)
            return -1;
    }
    return 1;
}

/* Read the index at the end of the file.  1; 0: there is no valid one; -1. */
static int index_read(tape_t *t)
{
    uint64_t at = t->size - t->size % TAPE_SECTION - TAPE_SECTION;
    struct tape_section end;
    struct tape_section index;
    struct tape_section s;
    const unsigned char *p;
    int rc;

    if (t->size % TAPE_SECTION != 0 || !section_read(t, at, t->size, &end) ||
        end.kind != TAPE_END || !section_ok(t, at, &end) ||
        !section_read(t, end.number, at, &index) || index.kind != TAPE_INDEX ||
        section_end(end.number, &index) != at || !section_ok(t, end.number, &index))
        return 0;
    p = t->data + end.number + TAPE_SECTION;
    for (uint64_t i = 0; i < index.number; i++, p += TAPE_INDEX_ENTRY) {
        struct tape_step st = {le_get64(p), le_get64(p + 8), le_get64(p + 16)};
        const struct tape_step *last = t->n > 0 ? &t->steps[t->n - 1] : NULL;

        if (st.at >= end.number || st.at < TAPE_HEAD || st.at % TAPE_SECTION != 0 ||
            (last && (st.number <= last->number || st.at <= last->at)))
            return 0;
        if (step_add(t, &st) < 0)
            return -1;
    }
    if (index.time > 0) {
        if (!section_read(t, index.time, end.number, &s) || s.kind != TAPE_FORMAT ||
            !section_ok(t, index.time, &s))
            return 0;
        if (format_set(t, index.time, &s) < 0)
            return -1;
    }
    if ((rc = records_read(t, index.link, end.number)) <= 0)
        return rc;
    t->info.end = t->size;
    t->info.complete = true;
    return 1;
}

/* Read all complete sections. */
static int sections_read(tape_t *t)
{
    struct tape_section s;
    uint64_t at = TAPE_HEAD;
    uint64_t pins = 0; /* the last section of its kind */

    t->n = 0;
    hmap_destroy(t->records);
    t->records = NULL;
    t->info.records_at = 0;
    while (section_read(t, at, t->size, &s) && section_ok(t, at, &s)) {
        struct tape_step st = {s.number, s.time, at};

        if (s.kind == TAPE_STEP) {
            if (!blocks_read(t, at, &s, NULL, true) || (s.link > 0 && s.link != pins) ||
                (t->n > 0 && t->steps[t->n - 1].number >= s.number))
                break;
            if (step_add(t, &st) < 0)
                return -1;
        } else if (s.kind == TAPE_PINS) {
            if (!pins_read(t, at, &s, NULL, true))
                break;
            pins = at;
        } else if (s.kind == TAPE_RECORDS && s.time != t->info.records_at)
            break;
        else if ((s.kind == TAPE_FORMAT && format_set(t, at, &s) < 0) ||
                 (s.kind == TAPE_RECORDS && records_add(t, at, &s) < 0))
            return -1;
        at = section_end(at, &s);
    }
    t->info.end = at;
    return 0;
}

tape_t *tape_read(const void *data, uint64_t size, const char *path, errmsg_t *err)
{
    tape_t *t = calloc(1, sizeof(*t));
    int rc;

    if (!t || !(t->path = strdup(path))) {
        tape_destroy(t);
        errmsg_fail(err, ENOMEM, "out of memory for the recording %.120s", path);
        return NULL;
    }
    t->data = data;
    t->size = size;
    if (head_read(t, err) < 0) {
        tape_destroy(t);
        return NULL;
    }
    if ((rc = index_read(t)) < 0 || (rc == 0 && sections_read(t) < 0)) {
        errmsg_fail(err, ENOMEM, "out of memory for the recording %.120s", path);
        tape_destroy(t);
        return NULL;
    }
    t->info.format = t->format;
    return t;
}

tape_t *tape_open_fd(int fd, const char *path, errmsg_t *err)
{
    struct stat st;
    void *map = NULL;
    tape_t *t;

    if (fstat(fd, &st) < 0) {
        errmsg_fail(err, errno, "cannot read %.120s: %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        errmsg_fail(err, EPROTO, "%.120s is not a recording of a stream", path);
        return NULL;
    }
    if ((map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        errmsg_fail(err, errno, "cannot map %.120s: %s", path, strerror(errno));
        return NULL;
    }
    if (!(t = tape_read(map, (uint64_t)st.st_size, path, err))) {
        int saved = errno;

        munmap(map, (size_t)st.st_size);
        errno = saved;
        return NULL;
    }
    t->map = map;
    return t;
}

tape_t *tape_open(const char *path, errmsg_t *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    tape_t *t;
    int saved;

    if (fd < 0) {
        errmsg_fail(err, errno, "cannot open %.120s: %s", path, strerror(errno));
        return NULL;
    }
    t = tape_open_fd(fd, path, err);
    saved = errno;
    close(fd);
    errno = saved;
    return t;
}

const struct tape_info *tape_info(const tape_t *t)
{
    return &t->info;
}

size_t tape_count(const tape_t *t)
{
    return t->n;
}

struct tape_step tape_at(const tape_t *t, size_t i)
{
    return t->steps[i];
}

size_t tape_find(const tape_t *t, uint64_t number)
{
    size_t low = 0;
    size_t high = t->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (t->steps[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int tape_blocks(const tape_t *t, size_t i, struct tape_block *blocks, errmsg_t *err)
{
    const struct tape_step *st = &t->steps[i];
    struct tape_section s;

    if (!section_read(t, st->at, t->info.end, &s) || s.kind != TAPE_STEP ||
        s.number != st->number || s.time != st->time || !section_ok(t, st->at, &s) ||
        !blocks_read(t, st->at, &s, blocks, false))
        return errmsg_fail(err, EPROTO, "step %" PRIu64 " of the recording %.120s is damaged",
                           st->number, t->path);
    return 0;
}

int tape_pins(const tape_t *t, size_t i, struct tape_pin *pins, errmsg_t *err)
{
    const struct tape_step *st = &t->steps[i];
    struct tape_section step;
    struct tape_section s;

    if (section_read(t, st->at, t->info.end, &step) && step.kind == TAPE_STEP) {
        if (step.link == 0) {
            memset(pins, 0, t->info.writers * sizeof(*pins));
            return 0;
        }
        if (section_read(t, step.link, st->at, &s) && s.kind == TAPE_PINS &&
            section_ok(t, step.link, &s) && pins_read(t, step.link, &s, pins, false))
            return 0;
    }
    return errmsg_fail(err, EPROTO,
                       "what is pinned in step %" PRIu64 " of the recording %.120s is damaged",
                       st->number, t->path);
}

const char *tape_record_format(const tape_t *t, uint64_t id)
{
    return t->records ? hmap_get_u64(t->records, id) : NULL;
}

bool tape_record_next(const tape_t *t, size_t *pos, uint64_t *id)
{
    return t->records && hmap_next(t->records, pos, NULL, id, NULL);
}
