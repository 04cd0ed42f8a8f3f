/* What hostlist.c (the list) and hostlist_parse.c (its text) share.  Not installed. */
#ifndef IDSET_HOSTLIST_PRIVATE_H
#define IDSET_HOSTLIST_PRIVATE_H

#include "hostlist.h"

#define HOSTLIST_TEXT_MAX ((size_t)64 << 20) /* bytes of names in one list */
#define HOSTLIST_DIGITS_MAX 9                /* digits of a number that is folded */

/* The state before an append, to be restored if it fails halfway. */
struct hostlist_mark {
    size_t n;
    uint32_t hi; /* of the last group, which an append may extend */
};
struct hostlist_mark hostlist_set_mark(const hostlist_t *hl);
void hostlist_go_back(hostlist_t *hl, struct hostlist_mark m);

/* Append one host.  -1 with E2BIG or ENOMEM; then nothing was added. */
int hostlist_add_name(hostlist_t *hl, const char *name, size_t len);

/* Number of digits of a number without padding. */
unsigned hostlist_digits(uint32_t n);
/* Number of characters of a number that is padded with zeros to `width`, and these. */
size_t hostlist_number_len(uint32_t n, unsigned width);
void hostlist_put_number(char *to, uint32_t n, size_t len);

#endif
