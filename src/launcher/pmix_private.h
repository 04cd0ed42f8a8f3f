/* Declarations that pmix.c and pmix_server.c share. */
#ifndef LAUNCHER_PMIX_PRIVATE_H
#define LAUNCHER_PMIX_PRIVATE_H

#include "launcher.h"

struct pmix {
    struct nodejob *job;
    struct source src;
    pid_t pid;           /* 0: reaped */
    struct offer *offer; /* source of the variables of tasks instead of the server; NULL: none */
    bool ready;
    int gate; /* gate of a follower until the server knows it; -1: none */
    bool known;
    bool leaving; /* the tasks of this node have ended, those of followers perhaps not */
    bool over;
    buf_t *in;
    char *body; /* payload of PMIX_READY */
    char **env; /* all strings of `body` */
    uint32_t common;
    uint32_t each;
    uint8_t *clients; /* last PMIXD_* of each task, by local number; 0: none */
    bool begun;       /* a task has connected */
};

/* Return the path of the program, whether it exists or not; malloc'd.  NULL: it is not known, or
 * ENOMEM. */
char *pmix_server_path(void);
/* Returns whether the job names the library that its tasks use (FLUX_PMIX_LIBRARY).  *lib: the
 * library. */
bool pmix_server_library(const struct nodejob *j, const char **lib);
/* Start the server.  Takes `fd`, its end of the connection to this launcher.  The connections of
 * tasks come through `door`; -1: the server listens itself.  Returns -1 with an error message. */
int pmix_server_spawn(struct pmix *px, int fd, int door, errmsg_t *err);

#endif
