/* Inside PMIx: what pmix.c and pmix_server.c share. */
#ifndef LAUNCHER_PMIX_PRIVATE_H
#define LAUNCHER_PMIX_PRIVATE_H

#include "launcher.h"

struct pmix {
    struct nodejob *job;
    struct source src;
    pid_t pid;           /* 0: reaped */
    struct offer *offer; /* source of the tasks' variables instead of the server; NULL: none */
    bool ready;
    int gate; /* a follower's, as long as the server does not know it; -1: none */
    bool known;
    bool leaving; /* the tasks of this node are over, those of its followers may not be */
    bool over;
    buf_t *in;
    char *body; /* of PMIX_READY */
    char **env; /* all strings in it */
    uint32_t common;
    uint32_t each;
    uint8_t *clients; /* by local number: what was said last, PMIXD_* or 0 */
    bool begun;       /* some task has connected */
};

/* The program, whether or not it is there; malloc'd.  NULL: not known, or no memory. */
char *pmix_server_path(void);
/* Does the job name the library that its tasks use (FLUX_PMIX_LIBRARY)?  Which, then. */
bool pmix_server_library(const struct nodejob *j, const char **lib);
/* Start the server.  Takes `fd`, its end of the connection to this launcher.  `door`: the
 * connections of tasks come through it; -1: the server listens itself.  -1 with an error
 * message. */
int pmix_server_spawn(struct pmix *px, int fd, int door, errmsg_t *err);

#endif
