/* Declarations that the files of the PMI client share: pmi_client.c has the dialog,
 * pmi_client_call.c the requests of programs. */
#ifndef PMI_CLIENT_PRIVATE_H
#define PMI_CLIENT_PRIVATE_H

#include "libpmi/pmi_client.h"
#include "libpmi/pmi_wire.h"

#define PMI_CLIENT_NAME_MAX ((size_t)1024)

struct pmi_client {
    int fd;                    /* -1: loopback */
    struct pmi_server *server; /* loopback */
    int rank;
    int size;
    int broken;
    bool finalized;
    char kvsname[PMI_CLIENT_NAME_MAX + 1];
    size_t name_max;
    size_t key_max;
    size_t value_max;
    size_t used; /* bytes of `in` that belong to the last response */
    size_t len;  /* bytes in `in` */
    char in[PMI_WIRE_LINE_MAX];
    char out[PMI_WIRE_LINE_MAX];
};

/* Mark the dialog as lost, so that every later call fails.  Returns -1. */
int pmi_client_broken(struct pmi_client *c, errmsg_t *err, int errnum, const char *what);
/* Send what was formatted in c->out. */
int pmi_client_request(struct pmi_client *c, const struct pmi_out *o, errmsg_t *err);
/* Read the next line, which has to be `want`. */
int pmi_client_response(struct pmi_client *c, enum pmi_cmd want, struct pmi_msg *msg,
                        errmsg_t *err);
/* Send a request and read its response; more data after the response is an error. */
int pmi_client_call(struct pmi_client *c, struct pmi_out *o, enum pmi_cmd want, struct pmi_msg *msg,
                    errmsg_t *err);
/* Check that the response has rc=0, or no rc. */
int pmi_client_check_rc(struct pmi_client *c, const struct pmi_msg *msg, const char *doing,
                        errmsg_t *err);
/* A request without fields. */
int pmi_client_simple_call(struct pmi_client *c, enum pmi_cmd cmd, struct pmi_msg *msg,
                           errmsg_t *err);

#endif
