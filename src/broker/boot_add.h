/* Hosts that are added to a running session: the request overlay.add, and its way to `flux start`,
 * which starts the brokers.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_BOOT_ADD_H
#define BROKER_BOOT_ADD_H

#include "boot_roster.h"
#include "core.h"
#include "libschema/schema.h"
#include "libutil/errmsg.h"

typedef struct boot_add boot_add_t;

/* Serve overlay.add, and overlay.admit at rank 0.  `fd`: the connection to `flux start` (taken
 * over); -1: there is none.  `roster`: at rank 0 of a session by configuration file to which hosts
 * may be added (taken over); NULL: it is another one.  Without both, every overlay.add fails.  NULL
 * with errno. */
boot_add_t *boot_add_create(core_t *core, int fd, boot_roster_t *roster);
/* Requests that are not answered yet get an error.  NULL-safe, keeps errno. */
void boot_add_destroy(boot_add_t *a);
/* For the callback admit() of the core: ask rank 0 (core.h). */
void boot_add_admit(boot_add_t *a, uint32_t rank, const char *host, uint32_t number);

/* --- the connection, for both ends --- */

/* Frames of boot_ssh_wire.h, with JSON of one of these structs. */
#define BOOT_ADD_FRAME_MAX 4096 /* bytes of data */

/* Pointers refer to the decoded message. */
struct boot_add_request {
    uint32_t id; /* of this request: from 1 */
    const char *host;
};
extern const struct flux_schema boot_add_request_schema;

struct boot_add_result {
    uint32_t id; /* of the request */
    uint32_t rank;
    int errnum; /* 0: its broker has been started; EEXIST: the host has this rank, whose broker has
                 * not ended; else: it has not been started, or has ended since */
    const char *text;
};
extern const struct flux_schema boot_add_result_schema;

/* Send a frame; does not block.  -1 with errno: it was not sent. */
int boot_add_send(int fd, char type, const struct flux_schema *schema, const void *in);

#endif
