/* pmixd_wire.c - strict readers of the data that PMIx servers exchange (see pmixd_wire.h). */
#include "pmixd_wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hex.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

/* A number that ends at `end`. */
static int number(const char *p, const char *end, uint32_t *out)
{
    char text[16];

    if ((size_t)(end - p) >= sizeof(text))
        return -1;
    memcpy(text, p, (size_t)(end - p));
    text[end - p] = '\0';
    return str2u32(text, out);
}

int pmixd_wire_box_name_parse(const char *name, struct box_name *out)
{
    const char *dash;

    *out = (struct box_name){0};
    if (str_starts(name, "r-")) {
        out->answer = true;
        if (str2u64(name + 2, &out->num) == 0)
            return 0;
    } else if (str_starts(name, "q-") && (dash = strchr(name + 2, '-')) != NULL) {
        if (number(name + 2, dash, &out->node) == 0 && str2u64(dash + 1, &out->num) == 0)
            return 0;
    }
    return fail(EPROTO);
}

char *pmixd_wire_published_format(const struct published *p)
{
    char *text = malloc(p->nspace_len + 16 + 2 * p->len);
    size_t at;

    if (!text)
        return NULL;
    memcpy(text, p->nspace, p->nspace_len);
    at = p->nspace_len + (size_t)sprintf(text + p->nspace_len, " %u ", p->rank);
    *hex_encode(text + at, p->value, p->len) = '\0';
    return text;
}

int pmixd_wire_published_parse(const char *text, struct published *p)
{
    const char *sp = strchr(text, ' '), *end = sp ? strchr(sp + 1, ' ') : NULL;
    size_t n = end ? strlen(end + 1) : 0;

    if (!end || sp == text || n % 2 || number(sp + 1, end, &p->rank) < 0)
        return fail(EPROTO);
    p->nspace = text;
    p->nspace_len = (size_t)(sp - text);
    p->len = n / 2;
    if (!(p->value = malloc(p->len + 1)))
        return fail(ENOMEM);
    if (hex_decode(p->value, end + 1, p->len) < 0) {
        free(p->value);
        p->value = NULL;
        return fail(EPROTO);
    }
    return 0;
}

void pmixd_wire_group_part_head(void *dst, uint64_t context, uint32_t len)
{
    le_put64(dst, context);
    le_put32((uint8_t *)dst + 8, len);
}

int pmixd_wire_group_part_next(const void **p, size_t *left, struct group_part *part)
{
    const uint8_t *at = *p;

    if (*left == 0)
        return 0;
    if (*left < GROUP_HEAD || (part->len = le_get32(at + 8)) > *left - GROUP_HEAD)
        return fail(EPROTO);
    part->context = le_get64(at);
    part->data = at + GROUP_HEAD;
    *p = part->data + part->len;
    *left -= GROUP_HEAD + part->len;
    return 1;
}
