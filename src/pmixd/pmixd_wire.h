/* Strict readers of the data that the PMIx servers of a job exchange (pmixd.c).  Pure and
 * thread-safe.
 */
#ifndef PMIXD_WIRE_H
#define PMIXD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- names in a mailbox of direct modex: "q-NODE-NUM", "r-NUM" (pmixd_modex.c) --- */

#define BOX_KEY_MAX 80

struct box_name {
    bool answer;   /* r-NUM; else q-NODE-NUM */
    uint32_t node; /* seat of the server that asks; 0 for an answer */
    uint64_t num;
};

/* -1 with EPROTO for anything else. */
int pmixd_wire_box_name_parse(const char *name, struct box_name *out);

/* --- what is published: "NAMESPACE RANK HEX" (pmixd_names.c) --- */

struct published {
    const char *nspace; /* not NUL-terminated */
    size_t nspace_len;
    uint32_t rank;
    uint8_t *value; /* malloc'd */
    size_t len;
};
/* malloc'd text; NULL with ENOMEM. */
char *pmixd_wire_published_format(const struct published *p);
/* -1 with EPROTO or ENOMEM; else value is to be freed. */
int pmixd_wire_published_parse(const char *text, struct published *p);

/* --- contributions to a group, one after the other: u64 context id (0: another node assigns it),
 * u32 length, bytes (pmixd_server.c) --- */

#define GROUP_HEAD 12
struct group_part {
    uint64_t context;
    const uint8_t *data;
    uint32_t len;
};
/* Write the head of a part; its bytes follow. */
void pmixd_wire_group_part_head(void *dst, uint64_t context, uint32_t len);
/* Take the next part off: 1; 0 at the end; -1 with EPROTO. */
int pmixd_wire_group_part_next(const void **p, size_t *left, struct group_part *part);

#endif
