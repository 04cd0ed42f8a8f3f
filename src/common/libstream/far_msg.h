/* The messages between a reader and a writer on different hosts: see doc/stream-format.rst.
 *
 * Thread rules: none; every function works only on its arguments.
 */
#ifndef STREAM_FAR_MSG_H
#define STREAM_FAR_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libstream/array.h"
#include "libstream/far_key.h"
#include "libstream/knock.h"

/* --- joining --- */

#define FAR_GREETING_LEN 48
#define FAR_HELLO_LEN 320
#define FAR_WELCOME_LEN 64

struct far_hello {
    bool secure; /* the reader requests encryption */
    struct knock_want want;
    uint64_t reader; /* of its grant */
    uint64_t expires;
    bool resume;   /* a connection of this reader that was lost goes on: */
    uint64_t have; /* number of the last step that has come by it; want.seen is not said */
};
struct far_welcome {
    int errnum;  /* 0, or the reason why the reader is not admitted */
    bool secure; /* the rest of the connection is encrypted */
};

/* Make the greeting of the writer, with random bytes. */
void far_greeting_make(unsigned char greeting[FAR_GREETING_LEN]);
/* 0, or -1 with EPROTO. */
int far_greeting_check(const unsigned char greeting[FAR_GREETING_LEN]);

/* Make the hello of the reader, with the proof that it knows `secret`. */
void far_hello_make(unsigned char hello[FAR_HELLO_LEN], const struct far_hello *h,
                    const unsigned char *secret, const unsigned char greeting[FAR_GREETING_LEN]);
/* 0, or -1 with EPROTO.  The caller has to check the proof. */
int far_hello_read(const unsigned char hello[FAR_HELLO_LEN], struct far_hello *h);
bool far_hello_proves(const unsigned char hello[FAR_HELLO_LEN], const unsigned char *secret,
                      const unsigned char greeting[FAR_GREETING_LEN]);

void far_welcome_make(unsigned char welcome[FAR_WELCOME_LEN], const struct far_welcome *w,
                      const unsigned char *secret, const unsigned char hello[FAR_HELLO_LEN]);
/* The welcome of a reader that does not prove its capability, which proves nothing either. */
void far_refusal_make(unsigned char welcome[FAR_WELCOME_LEN]);
/* 0, and `w` has EACCES after a refusal; or -1 with EPROTO: malformed, or without the proof that
 * the writer knows `secret`. */
int far_welcome_read(const unsigned char welcome[FAR_WELCOME_LEN], struct far_welcome *w,
                     const unsigned char *secret, const unsigned char hello[FAR_HELLO_LEN]);

struct far_keys {
    unsigned char to_writer[FAR_KEY_LEN];
    unsigned char to_reader[FAR_KEY_LEN];
};
void far_keys_make(struct far_keys *keys, const unsigned char *secret,
                   const unsigned char hello[FAR_HELLO_LEN],
                   const unsigned char greeting[FAR_GREETING_LEN]);

/* --- messages --- */

enum far_type {
    /* from the writer: */
    FAR_STEP = 1, /* number, step, len; payload: its first bytes */
    FAR_AGAIN,    /* the same without payload: the first bytes equal those of the last FAR_STEP */
    FAR_NOTHING,  /* response to FAR_TAKE: no step waits */
    FAR_DATA,     /* number, len: the requested bytes follow */
    FAR_END,      /* number: enum lane_end */
    /* from the reader: */
    FAR_TAKE,    /* request a step, or FAR_NOTHING */
    FAR_WAIT,    /* request the next step, when there is one */
    FAR_RELEASE, /* number */
    FAR_BYTES,   /* number, off, len */
    FAR_BOX,     /* number, off: place of the variable in the table; payload: the box */
    /* of a writer */
    FAR_PINNED, /* number: of the pin block of the next steps; payload: its bytes */
    /* in groups over several writers: */
    FAR_CLAIM, /* of a member: step, or KNOCK_NO_STEP; len: all steps before it are done */
    FAR_NOTE,  /* of a writer: step that is missing, or KNOCK_NO_STEP; len: the same */
    FAR_PARTS, /* of a writer: parts of the next step, which is divided, see struct lane_item */
};

#define FAR_HEAD_LEN 32
#define FAR_BOX_MAX (24 * STREAM_NDIMS_MAX)
#define FAR_QUESTIONS 64                   /* of a reader, not answered */
#define FAR_FIRST_MAX ((uint32_t)32 << 20) /* the first bytes of a step */
#define FAR_PINNED_MAX ((uint32_t)80 << 20)

struct far_msg {
    enum far_type type;
    uint32_t payload; /* number of bytes that follow; for FAR_DATA, `len` bytes follow */
    uint64_t number;  /* of the step on this connection */
    uint64_t step;    /* step or offset */
    uint64_t len;
};

void far_msg_encode(const struct far_msg *m, unsigned char head[FAR_HEAD_LEN]);
/* 0, or -1 with EPROTO: not a message of a writer, or of a reader. */
int far_msg_decode(const unsigned char head[FAR_HEAD_LEN], bool from_writer, struct far_msg *m);

#endif
