/* Names in a mailbox of direct modex (pmixd_modex.c).  Pure and thread-safe. */
#ifndef WREXEC_PMIXD_BOX_H
#define WREXEC_PMIXD_BOX_H

#include <stdbool.h>
#include <stdint.h>

#define BOX_KEY_MAX 80

struct box_name {
    bool answer;   /* r-NUM; else q-NODE-NUM */
    uint32_t node; /* who asks; 0 for an answer */
    uint64_t num;
};

/* Strict: -1 with EPROTO for anything else. */
int box_name_parse(const char *name, struct box_name *out);

#endif
