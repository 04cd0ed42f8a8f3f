/* km_entries.h - a response of many entries under construction: a listing, or the changes of a
 * directory.
 */
#ifndef KM_ENTRIES_H
#define KM_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "libkvs/kvs_wire.h"
#include "libutil/errmsg.h"

#define KM_ENTRIES_MAX_MIB 128

/* The sum of the memory of all responses under construction. */
struct km_entries_sum;
struct km_entries_sum *km_entries_sum_create(void); /* NULL with ENOMEM */
void km_entries_sum_destroy(struct km_entries_sum *sum);
size_t km_entries_sum_bytes(const struct km_entries_sum *sum);

struct km_entries {
    struct km_entries_sum *sum;
    const char *too_large; /* error message for more than KM_ENTRIES_MAX_MIB */
    uint8_t *buf;
    size_t len, cap;
    uint32_t count;
};

/* -1 with ENOMEM. */
int km_entries_init(struct km_entries *es, struct km_entries_sum *sum, const char *too_large);
/* Free the memory; keeps errno. */
void km_entries_clear(struct km_entries *es);
/* Make room for an entry.  Returns the place of its data, which the caller fills; NULL with
 * EMSGSIZE or ENOMEM, and an error message. */
uint8_t *km_entries_reserve(struct km_entries *es, size_t namelen, size_t datalen, errmsg_t *err);
/* Add the entry for which room was made, and whose data is in place. */
void km_entries_add(struct km_entries *es, const struct kvs_answer_entry *e, const char *name);
/* Take the whole response, which the caller frees, with the header `a`; sets a->count. */
uint8_t *km_entries_take(struct km_entries *es, struct kvs_answer *a, size_t *len);

#endif
