/* fuzz_streamtape.c - any bytes as a recording of a stream.
 *
 * The checks of the input are made right first, since nothing but damage would be tried otherwise:
 * of its beginning, and of each section that follows the one before it.  What is accepted has steps
 * with rising numbers, whose blocks are in the input.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/block.h"
#include "libstream/tape.h"
#include "libstream/tape_format.h"

/* The check of the contents, and those of the blocks of a step. */
static void contents_seal(uint8_t *p, uint32_t writers, uint64_t len)
{
    uint8_t *data = p + TAPE_SECTION;
    uint64_t table = (uint64_t)writers * TAPE_TABLE_ENTRY;
    uint64_t off = tape_align(table);

    if (p[3] == TAPE_STEP && table <= len) {
        for (uint32_t w = 0; w < writers; w++) {
            uint64_t n = le_get64(data + (uint64_t)w * TAPE_TABLE_ENTRY);

            if (off > len || n > len - off)
                break;
            le_put64(data + (uint64_t)w * TAPE_TABLE_ENTRY + 8, tape_check(data + off, n));
            off += tape_align(n);
        }
        len = table;
    }
    le_put64(p + 32, tape_check(data, len));
}

static void seal(uint8_t *data, size_t size)
{
    uint64_t at = TAPE_HEAD;

    if (size < TAPE_HEAD)
        return;
    le_put64(data + TAPE_HEAD - 8, tape_check(data, TAPE_HEAD - 8));
    while (size - at >= TAPE_SECTION) {
        uint64_t len = le_get64(data + at + 24);

        if (len > size - at - TAPE_SECTION || tape_align(len) > size - at - TAPE_SECTION)
            len = 0;
        contents_seal(data + at, le_get32(data + 12), len);
        le_put64(data + at + 56, tape_check(data + at, 56));
        at += TAPE_SECTION + tape_align(len);
    }
}

/* What is pinned lies within the file. */
static void pins_check(const tape_t *t, const uint8_t *buf, size_t size)
{
    struct tape_pin *pins = calloc(tape_info(t)->writers, sizeof(*pins));
    errmsg_t err = {""};

    MUST(pins);
    for (size_t i = 0; i < tape_count(t); i++) {
        if (tape_pins(t, i, pins, &err) < 0) {
            MUST(errno == EPROTO && err.text[0]);
            continue;
        }
        for (uint32_t w = 0; w < tape_info(t)->writers; w++) {
            const uint8_t *p = pins[w].block.data;
            uint64_t len = pins[w].block.len;

            if (!p) {
                MUST(len == 0 && pins[w].number == 0);
                continue;
            }
            MUST(p >= buf && p <= buf + size && len <= (uint64_t)(buf + size - p));
            block_destroy(block_read(p, len, NULL));
        }
    }
    free(pins);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    struct tape_block *blocks;
    uint64_t id;
    uint8_t *buf = aligned_alloc(64, tape_align(size + 1));
    tape_t *t;

    MUST(buf);
    memcpy(buf, data, size);
    seal(buf, size);
    if (!(t = tape_read(buf, size, "input", &err))) {
        MUST(errno == EPROTO && err.text[0]);
        free(buf);
        return 0;
    }
    MUST(tape_info(t)->end <= size && tape_info(t)->writers > 0);
    MUST((blocks = calloc(tape_info(t)->writers, sizeof(*blocks))));
    for (size_t i = 0; i < tape_count(t); i++) {
        MUST(i == 0 || tape_at(t, i - 1).number < tape_at(t, i).number);
        MUST(tape_find(t, tape_at(t, i).number) == i);
        if (tape_blocks(t, i, blocks, &err) < 0) {
            MUST(errno == EPROTO && err.text[0] && tape_info(t)->complete);
            continue;
        }
        for (uint32_t w = 0; w < tape_info(t)->writers; w++) {
            const uint8_t *p = blocks[w].data;

            MUST(p >= buf && p <= buf + size && blocks[w].len <= (uint64_t)(buf + size - p));
            block_destroy(block_read(p, blocks[w].len, NULL));
        }
    }
    for (size_t pos = 0; tape_record_next(t, &pos, &id);) {
        const char *text = tape_record_format(t, id);

        MUST(text && *text && strlen(text) <= TAPE_RECORDS_MAX);
    }
    pins_check(t, buf, size);
    free(blocks);
    tape_destroy(t);
    free(buf);
    return 0;
}
