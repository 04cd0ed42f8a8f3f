/* Declarations that the files of the nursery share.
 *
 *     boot_nursery.c       the loop: brokers, their PMI, and their end
 *     boot_nursery_ssh.c   brokers on other hosts, some of which start late
 */
#ifndef BROKER_BOOT_NURSERY_PRIVATE_H
#define BROKER_BOOT_NURSERY_PRIVATE_H

#include <signal.h>
#include <stdio.h>

#include "boot_late.h"
#include "boot_nursery.h"
#include "boot_private.h"
#include "libpmi/pmi_server.h"
#include "libutil/buf.h"

enum phase { SERVE, GRACE, TERM, KILL };

struct child {
    pid_t pid;           /* 0: gone */
    int fd;              /* our end of the PMI socket; -1: closed */
    bool absent;         /* no broker could be started on its host, or it has none */
    bool added;          /* its host was added, or is to be: it had none at first ... */
    bool adding;         /* ... and rank 0 waits for its start */
    uint32_t request;    /* for which it was added; 0: none, or rank 0 knows that it has failed */
    boot_ssh_t *ssh;     /* of a broker on another host, and pid is that of ssh; else NULL */
    boot_dialog_t *late; /* of a broker that is started again, or late; NULL: the common server's */
    double began;        /* when it was forked */
    double pause;        /* pause before the fork; 0: it is the first broker of its rank */
    double again;        /* time at which another broker is to be forked; 0: never */
};

struct nursery {
    const struct nursery_config *cfg;
    double grace;
    char rundir[BOOT_PATH_MAX];
    struct child *child;
    uint32_t left;      /* children that are alive */
    uint32_t absent;    /* of those that have had a host from the start */
    uint32_t finalized; /* children that have finalized PMI */
    bool met;           /* all brokers have passed PMI's barrier */
    struct pmi_server *pmi;
    boot_late_t *late; /* keeps the exchange if brokers may start late */
    int epfd, sigfd;
    int add[2]; /* connection to rank 0 (boot_add.h), and its end of it; -1: none */
    buf_t *add_in;
    sigset_t signals, old_signals;
    enum phase phase;
    double deadline; /* of the phase; 0: none */
    unsigned interrupts;
    int interrupt; /* the first signal */
    bool failed;
    bool complained;
    bool had_children; /* this process had children before it became a nursery */
    bool orphans;      /* rank 0 was killed: its descendants may still run */
    int exit_code;
};

/* A line of one write(2): brokers write to the same descriptor. */
#define SAY(n, format, ...)                                                                  \
    fprintf(stderr, "%s: " format "\n", (n)->cfg->prefix ? (n)->cfg->prefix : "flux-broker", \
            ##__VA_ARGS__)

/* boot_nursery.c */
bool nursery_fragile(const struct nursery *n); /* does the death of one broker end the session? */
void nursery_give_up(struct nursery *n);
/* Of the broker of this rank: as pmi_server_input() and pmi_server_eof(). */
int nursery_pmi_input(struct nursery *n, uint32_t rank, const void *data, size_t len);
void nursery_pmi_eof(struct nursery *n, uint32_t rank);

/* boot_nursery_ssh.c */
uint32_t nursery_first_size(const struct nursery *n); /* ranks that have a host from the start */
/* Start ssh for a rank; `child` is set.  -1 with errno and an error message. */
int nursery_start_ssh(struct nursery *n, uint32_t rank, errmsg_t *err);
void nursery_ssh_readable(struct nursery *n, uint32_t rank);
/* ssh has ended.  Was that only the end of the connection?  Says so. */
bool nursery_ssh_ended(struct nursery *n, uint32_t rank, int status);
/* Enter the barrier for a broker that is absent.  -1 with errno and an error message. */
int nursery_stand_in(struct nursery *n, uint32_t rank, errmsg_t *err);
bool nursery_starts_later(const struct nursery *n); /* may brokers be started later? */
/* The broker of this rank has ended, with a signal or an exit code. */
void nursery_added_ended(struct nursery *n, uint32_t rank, int status);
/* The broker of a rank that was absent has been started; or could not be. */
void nursery_has_come(struct nursery *n, uint32_t rank);
void nursery_has_not_come(struct nursery *n, uint32_t rank, int errnum, const char *why);
void nursery_try_later(struct nursery *n, uint32_t rank);
/* The connection to rank 0, if hosts may be added.  -1 with errno and an error message. */
int nursery_prepare_adding(struct nursery *n, errmsg_t *err);
void nursery_add_readable(struct nursery *n);
void nursery_add_close(struct nursery *n);

#endif
