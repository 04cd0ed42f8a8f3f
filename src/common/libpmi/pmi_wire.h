/* Lines of the PMI-1 "simple" wire protocol: a strict parser and a bounded formatter.
 *
 * PMI-1 is the process management interface of Balaji et al., "PMI: A Scalable Parallel
 * Process-Management Interface for Extreme-Scale Systems" (EuroMPI 2010); the wire form is the one
 * that MPICH's clients speak.  Nothing here allocates, does I/O or has state: every function is
 * thread-safe.
 */
#ifndef PMI_WIRE_H
#define PMI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMI_WIRE_LINE_MAX 65536 /* bytes of one line, its newline included */
#define PMI_WIRE_FIELDS_MAX 32

/* A part of a buffer that belongs to another object; not NUL-terminated. */
struct pmi_slice {
    const char *p;
    size_t len;
};

/* In the order of the command table in pmi_wire.c, which is sorted by name. */
enum pmi_cmd {
    PMI_CMD_ABORT,
    PMI_CMD_APPNUM,
    PMI_CMD_BARRIER_IN,
    PMI_CMD_BARRIER_OUT,
    PMI_CMD_CREATE_KVS,
    PMI_CMD_DESTROY_KVS,
    PMI_CMD_FINALIZE,
    PMI_CMD_FINALIZE_ACK,
    PMI_CMD_GET,
    PMI_CMD_GET_APPNUM,
    PMI_CMD_GET_MAXES,
    PMI_CMD_GET_MY_KVSNAME,
    PMI_CMD_GET_RESULT,
    PMI_CMD_GET_UNIVERSE_SIZE,
    PMI_CMD_GETBYIDX,
    PMI_CMD_GETBYIDX_RESULTS,
    PMI_CMD_INIT,
    PMI_CMD_INITACK,
    PMI_CMD_KVS_DESTROYED,
    PMI_CMD_LOOKUP_NAME,
    PMI_CMD_LOOKUP_RESULT,
    PMI_CMD_MAXES,
    PMI_CMD_MY_KVSNAME,
    PMI_CMD_NEWKVS,
    PMI_CMD_PUBLISH_NAME,
    PMI_CMD_PUBLISH_RESULT,
    PMI_CMD_PUT,
    PMI_CMD_PUT_RESULT,
    PMI_CMD_RESPONSE_TO_INIT,
    PMI_CMD_SET,
    PMI_CMD_SPAWN,
    PMI_CMD_SPAWN_RESULT,
    PMI_CMD_UNIVERSE_SIZE,
    PMI_CMD_UNPUBLISH_NAME,
    PMI_CMD_UNPUBLISH_RESULT,
    PMI_CMD_COUNT,
};

struct pmi_field {
    struct pmi_slice name;
    struct pmi_slice value;
};

struct pmi_msg {
    enum pmi_cmd cmd;
    bool block; /* `mcmd=`: lines of the block follow, up to `endcmd` */
    size_t nfields;
    struct pmi_field fields[PMI_WIRE_FIELDS_MAX]; /* without the leading cmd= */
};

/* Length of the first line of `data` without its newline, or -1 when there is no newline yet. */
ptrdiff_t pmi_wire_line(const char *data, size_t len);

/* Parse one line (without its newline) in place: the slices of `msg` point into `line`.
 * Returns 0, or -1 with errno: EPROTO (not of this grammar: control bytes, no leading cmd= or
 * mcmd=, a field without name, a field twice), ENOSYS (well formed, unknown command) or E2BIG (too
 * long, or too many fields). */
int pmi_wire_parse(const char *line, size_t len, struct pmi_msg *msg);

/* Parse one line within a block.  Returns 0 with `field` filled, 1 for the closing `endcmd`, or -1
 * with EPROTO or E2BIG. */
int pmi_wire_parse_block(const char *line, size_t len, struct pmi_field *field);

/* Look up a field.  False when the message does not have it; then *value is { "", 0 }. */
bool pmi_msg_get(const struct pmi_msg *msg, const char *name, struct pmi_slice *value);

/* The same for a decimal number in lo..hi.  -1 with ENOENT (no such field) or EPROTO (not a number,
 * or out of range). */
int pmi_msg_get_int(const struct pmi_msg *msg, const char *name, int lo, int hi, int *value);

/* Strict decimal, optional '-'.  -1 with EPROTO. */
int pmi_slice_int(struct pmi_slice s, int lo, int hi, int *value);

bool pmi_slice_eq(struct pmi_slice s, const char *str);

/* The name of a command, and the command that responds to it (PMI_CMD_COUNT: none). */
const char *pmi_cmd_name(enum pmi_cmd cmd);
enum pmi_cmd pmi_cmd_response(enum pmi_cmd cmd);

/* May these bytes be a key, a name or a port on the wire?  1..max bytes, no blank, no control
 * byte. */
bool pmi_wire_word_ok(const char *p, size_t len, size_t max);

/* May these bytes be a value?  0..max bytes, no control bytes other than tab. */
bool pmi_wire_value_ok(const char *p, size_t len, size_t max);

/* Build lines in memory of the caller.  When the memory is full, `bad` is set and nothing more is
 * written, so one check at the end is sufficient. */
struct pmi_out {
    char *p;
    size_t cap;
    size_t len;
    bool bad;
};

void pmi_out_init(struct pmi_out *o, void *mem, size_t cap);
void pmi_out_cmd(struct pmi_out *o, enum pmi_cmd cmd); /* cmd=NAME */
void pmi_out_str(struct pmi_out *o, const char *name, const char *value);
void pmi_out_bytes(struct pmi_out *o, const char *name, const char *p, size_t len);
void pmi_out_int(struct pmi_out *o, const char *name, long value);
/* Append an error message: blanks become '_', since old clients split at every blank; cut at 200
 * bytes. */
void pmi_out_text(struct pmi_out *o, const char *name, const char *text);
void pmi_out_end(struct pmi_out *o); /* the newline */

#endif
