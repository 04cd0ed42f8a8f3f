/* ptyframe.c - see ptyframe.h.  Strict: what is not as described there ends the connection. */
#include "ptyframe.h"

#include <errno.h>

static void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void head(uint8_t *p, enum ptyframe_type type, size_t len)
{
    p[0] = (uint8_t)type;
    p[1] = 0;
    put16(p + 2, (uint16_t)len);
}

void ptyframe_data(void *dst, size_t len)
{
    head(dst, PTYFRAME_DATA, len);
}

size_t ptyframe_size(void *dst, uint16_t rows, uint16_t cols)
{
    uint8_t *p = dst;

    head(p, PTYFRAME_SIZE, 4);
    put16(p + 4, rows);
    put16(p + 6, cols);
    return PTYFRAME_SIZE_LEN;
}

size_t ptyframe_hup(void *dst)
{
    head(dst, PTYFRAME_HUP, 0);
    return PTYFRAME_HEAD;
}

ssize_t ptyframe_parse(const void *data, size_t len, struct ptyframe *f, errmsg_t *err)
{
    const uint8_t *p = data;
    size_t n;

    if (len < PTYFRAME_HEAD)
        return 0;
    n = get16(p + 2);
    f->type = (enum ptyframe_type)p[0];
    if (p[1] != 0 || (p[0] == PTYFRAME_DATA && n > PTYFRAME_DATA_MAX) ||
        (p[0] == PTYFRAME_SIZE && n != 4) || (p[0] == PTYFRAME_HUP && n != 0) || p[0] == 0 ||
        p[0] > PTYFRAME_HUP)
        return errmsg_fail(err, EPROTO, "standard input does not come from flux alloc");
    if (len < PTYFRAME_HEAD + n)
        return 0;
    f->data = p + PTYFRAME_HEAD;
    f->len = n;
    if (f->type == PTYFRAME_SIZE) {
        f->rows = get16(p + 4);
        f->cols = get16(p + 6);
    }
    return (ssize_t)(PTYFRAME_HEAD + n);
}
