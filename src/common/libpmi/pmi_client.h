/* A PMI-1 client: for brokers that another launcher started, and for libpmi.so.
 *
 * All calls block until the server has answered.  They are meant for program start, before a
 * reactor runs.  A client is to be used by one thread at a time.
 *
 * Every call returns 0 or -1 with errno and an error message in `err` (which may be NULL).  Common
 * errors: EPROTO (the server violated the PMI-1 protocol), ECONNRESET (it closed the connection),
 * EIO and the errors of send(2) and recv(2), EREMOTEIO (it reported a failure).  After any error
 * except EREMOTEIO, the connection is unusable and every call fails.
 */
#ifndef PMI_CLIENT_H
#define PMI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "libutil/errmsg.h"

struct pmi_client;

/* Create a client from the environment: PMI_FD, PMI_RANK and PMI_SIZE, or PMI_PORT ("host:port")
 * and PMI_ID; with neither, a singleton.  This includes the init dialog.  NULL with errno: EINVAL
 * (variables missing or malformed), an error of connect(2), or a common error. */
struct pmi_client *pmi_client_create_env(errmsg_t *err);

/* Create a client from a connected stream socket, which then belongs to the client. */
struct pmi_client *pmi_client_create_fd(int fd, int rank, int size, errmsg_t *err);

/* Create a client without a server: rank 0 of 1, which can get the pairs that it put itself. */
struct pmi_client *pmi_client_create_singleton(errmsg_t *err);

/* Close the connection.  Unless pmi_client_finalize() was called before, servers take this for a
 * failure of this process.  NULL-safe, keeps errno. */
void pmi_client_destroy(struct pmi_client *c);

/* After this, only pmi_client_destroy() may be called. */
int pmi_client_finalize(struct pmi_client *c, errmsg_t *err);

int pmi_client_rank(const struct pmi_client *c);
int pmi_client_size(const struct pmi_client *c);
bool pmi_client_is_singleton(const struct pmi_client *c);
const char *pmi_client_kvsname(const struct pmi_client *c);
size_t pmi_client_name_max(const struct pmi_client *c);  /* bytes without NUL */
size_t pmi_client_key_max(const struct pmi_client *c);   /* of a key */
size_t pmi_client_value_max(const struct pmi_client *c); /* of a value: the server's limit */

int pmi_client_universe_size(struct pmi_client *c, int *size, errmsg_t *err);
int pmi_client_appnum(struct pmi_client *c, int *appnum, errmsg_t *err);

/* The maximum size of a value, whatever the server's limit for one value is.  A longer value is
 * stored in segments, as by MPICH's clients: KEY has "segments=N", and KEY-seg-1/N to KEY-seg-N/N
 * have the pieces. */
#define PMI_CLIENT_VALUE_LIMIT ((size_t)16 << 20)

/* EINVAL: key or value have too many bytes, or bytes that the protocol cannot carry; or a value
 * needs segments whose keys would be too long. */
int pmi_client_put(struct pmi_client *c, const char *key, const char *value, errmsg_t *err);

/* ENOENT: no such key (yet).  ERANGE: `cap` is too small for the value and its NUL.  Segments are
 * joined; EREMOTEIO when some are missing. */
int pmi_client_get(struct pmi_client *c, const char *key, char *value, size_t cap, errmsg_t *err);

int pmi_client_barrier(struct pmi_client *c, errmsg_t *err);

/* Ask the launcher to end the job, and wait up to 5 seconds for that: returns when the launcher
 * closes the dialog or does not kill this process.  `text` may be NULL. */
int pmi_client_abort(struct pmi_client *c, int exitcode, const char *text, errmsg_t *err);

/* One command of a spawn. */
struct pmi_client_command {
    const char *program;
    const char *const *argv; /* without the program, NULL-terminated; may be NULL */
    int nprocs;              /* 1.. */
    size_t ninfo;
    const char *const *info; /* key, value, key, value, ... */
};
/* Ask the server to start programs as a job of their own.  `preput`: npreput keys and values in
 * turn for the space of that job.  EREMOTEIO: the server refused, with its reason; EINVAL: a text
 * that the protocol cannot carry. */
int pmi_client_spawn(struct pmi_client *c, const struct pmi_client_command *cmds, size_t ncmds,
                     const char *const *preput, size_t npreput, errmsg_t *err);

int pmi_client_publish(struct pmi_client *c, const char *service, const char *port, errmsg_t *err);
int pmi_client_unpublish(struct pmi_client *c, const char *service, errmsg_t *err);
/* ERANGE as in get. */
int pmi_client_lookup(struct pmi_client *c, const char *service, char *port, size_t cap,
                      errmsg_t *err);

#endif
