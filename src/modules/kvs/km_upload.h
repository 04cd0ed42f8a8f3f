/* km_upload.h - the part of a namespace that belongs to km_upload.c. */
#ifndef KM_UPLOAD_H
#define KM_UPLOAD_H

#include "km_ns.h"

struct km_uploads {
    struct list_node sent;    /* pieces of values on their way to the master, */
    size_t bytes;             /* with this many bytes */
    hmap_t *uploaders;        /* clients that have sent some */
    uint32_t last;            /* number that was given to one */
    struct list_node leaving; /* master: those that have disconnected */
    bool expiring;            /* master: there may be pieces that came before, */
    uint32_t expire_before;   /* and nobody has used */
};

#endif
