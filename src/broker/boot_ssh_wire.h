/* What `flux start` and a broker that it has started on another host say over the ssh connection;
 * the frames are used between `flux start` and rank 0, too.
 *
 * Thread-safe: pure functions.
 */
#ifndef BROKER_BOOT_SSH_WIRE_H
#define BROKER_BOOT_SSH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"
#include "libutil/strvec.h"

#define BOOT_FRAME_MAX (128 * 1024) /* bytes of data in a frame */
#define BOOT_FRAME_HEADER 5
#define BOOT_GREETING_NOISE (64 * 1024)

enum {
    BOOT_FRAME_ARGS = 'A',    /* to the broker, first: struct boot_remote_args */
    BOOT_FRAME_PMI = 'P',     /* both ways: a part of the PMI dialog */
    BOOT_FRAME_PMI_END = 'E', /* from the broker: it has closed the dialog */
    BOOT_FRAME_SIGNAL = 'S',  /* to the broker: one byte, the number of a signal to send to it */
    /* Between rank 0 and `flux start` (boot_add.h). */
    BOOT_FRAME_ADD = 'H',   /* from rank 0: struct boot_add_request */
    BOOT_FRAME_ADDED = 'R', /* to rank 0: struct boot_add_result */
};

struct boot_frame {
    char type;
    const char *data; /* within the bytes that were read */
    size_t len;
};

/* The header of a frame with `len` bytes of data. */
void boot_frame_header(char header[BOOT_FRAME_HEADER], char type, size_t len);

/* The first frame of data[0..len).  1 with the number of its bytes in *used; 0: it is incomplete;
 * -1 with EPROTO: that is not a frame. */
int boot_frame_first(const char *data, size_t len, struct boot_frame *f, size_t *used);

/* The greeting of a broker of this version. */
const char *boot_greeting(void);

/* Look for a greeting in data[0..len), which may begin with output of the remote shell.  1: it is
 * there; its version is in `version`, and *used is the number of bytes up to its end.  0: not yet.
 * -1 with EPROTO: it will not come. */
int boot_greeting_find(const char *data, size_t len, char *version, size_t size, size_t *used);

/* Why did the command `ssh` for `host` end with this exit code before the greeting?  `line` is the
 * last one of its standard error ("": none), `broker` the program that it was to run.  Sets errno:
 * EACCES (ssh is not let in), ENOENT (no such program), EHOSTUNREACH, or EPROTO; and an error
 * message.  Returns -1. */
int boot_ssh_explain(const char *host, int code, const char *line, const char *broker,
                     errmsg_t *err);

/* What the frame BOOT_FRAME_ARGS holds. */
struct boot_remote_args {
    const char *dir;
    uint32_t rank;
    uint32_t size;
    uint32_t again;    /* 1: it was absent when the session began; 0: it was not */
    strvec_t *options; /* of flux-broker */
};

/* As data of a frame, which the caller frees.  NULL with ENOMEM, or E2BIG: they do not fit. */
char *boot_remote_args_encode(const struct boot_remote_args *a, size_t *len);
/* 0, and the caller destroys a->options; a->dir lies within the data.  -1 with EPROTO or ENOMEM. */
int boot_remote_args_decode(const char *data, size_t len, struct boot_remote_args *a);

#endif
