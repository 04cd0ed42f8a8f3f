/* The messages by which the two ends of a local connection identify themselves: see
 * ulink_wire.c. */
#ifndef ULINK_WIRE_H
#define ULINK_WIRE_H

#include <stdint.h>

#include "libschema/schema.h"

#define ULINK_VERSION 2

enum ulink_word {
    ULINK_HELLO,    /* struct ulink_hello: the first message of the end that connects */
    ULINK_ACCEPTED, /* struct ulink_key: the first message of the end that listens */
    ULINK_REFUSED,  /* struct ulink_reason: its only message */
    ULINK_BEAT,     /* a sign of life */
    ULINK_PULSE,    /* the same, with a descriptor of the sender's pulse */
    ULINK_VIEWED,   /* the sender views the pulse of the receiver, and needs no ULINK_BEAT */
    ULINK_NWORDS
};

/* Texts point into the decoded message. */
struct ulink_hello {
    int version;
    uint32_t rank;     /* rank of the sender */
    const char *plane; /* "tree" or "ring" */
    const char *key;   /* key of the sender; "": keys are not used */
};
struct ulink_key {
    const char *key; /* key of the sender */
};
struct ulink_reason {
    const char *reason;
};

/* `request` describes the payload; FLUX_METHOD_END follows. */
extern const struct flux_method ulink_words[ULINK_NWORDS + 1];

#endif
