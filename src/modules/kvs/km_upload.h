/* km_upload.h - the part of a namespace that belongs to km_upload.c. */
#ifndef KM_UPLOAD_H
#define KM_UPLOAD_H

#include "km_ns.h"

struct km_uploads {
    struct list_node sent;    /* pieces of values on their way to the master, and */
    size_t bytes;             /* their bytes */
    hmap_t *uploaders;        /* clients that have sent pieces */
    uint32_t last;            /* the last number that was given to a client */
    struct list_node leaving; /* master: clients that have disconnected */
    bool expiring;            /* master: there may be pieces that arrived before `expire_before`, */
    uint32_t expire_before;   /* and to which no commit has referred */
};

#endif
