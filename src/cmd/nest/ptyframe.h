/* What flux alloc sends to the far end of its terminal (flux alloc's other half beside the shell),
 * as standard input: frames of
 *
 *    0  u8   type
 *    1  u8   0
 *    2  u16  length of what follows, little-endian
 *
 *    DATA   what was typed
 *    SIZE   u16 rows, u16 columns, little-endian: the window has another size
 *    HUP    (empty): the terminal is gone
 *
 * The other direction needs no frames: it is what the terminal is to show.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef CMD_PTYFRAME_H
#define CMD_PTYFRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libutil/errmsg.h"

enum ptyframe_type { PTYFRAME_DATA = 1, PTYFRAME_SIZE, PTYFRAME_HUP };
#define PTYFRAME_HEAD 4
#define PTYFRAME_DATA_MAX 16384

struct ptyframe {
    enum ptyframe_type type;
    const void *data; /* DATA */
    size_t len;
    uint16_t rows, cols; /* SIZE */
};

/* Header for `len` (at most PTYFRAME_DATA_MAX) bytes of DATA that follow; PTYFRAME_HEAD bytes. */
void ptyframe_data(void *dst, size_t len);
/* A whole frame; its size is returned. */
#define PTYFRAME_SIZE_LEN 8
size_t ptyframe_size(void *dst, uint16_t rows, uint16_t cols);
size_t ptyframe_hup(void *dst);

/* Look for a frame at the start of `data`: its size with *f filled, 0 when more is needed, -1 with
 * EPROTO and an error message. */
ssize_t ptyframe_parse(const void *data, size_t len, struct ptyframe *f, errmsg_t *err);

#endif
