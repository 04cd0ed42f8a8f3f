/* Declarations that the files of the PMI server share: pmi_server.c has the states and the flow,
 * pmi_server_cmd.c the commands. */
#ifndef PMI_SERVER_PRIVATE_H
#define PMI_SERVER_PRIVATE_H

#include "libpmi/pmi_pack.h"
#include "libpmi/pmi_server.h"
#include "libpmi/pmi_spawn.h"
#include "libpmi/pmi_table.h"
#include "libpmi/pmi_wire.h"
#include "libutil/buf.h"

#define PMI_REPLY_MAX ((size_t)1024) /* bytes of a reply without names and values */
#define PMI_NAME_HARD_MAX ((size_t)1024)

enum pmi_task_state {
    NEW = 1,
    READY = 2,
    BARRIER = 4,
    NAME = 8,
    DONE = 16,
    ABORTED = 32,
    GONE = 64
};

#define LEFT (DONE | ABORTED | GONE)

struct pmi_task {
    uint32_t rank;
    int appnum;
    enum pmi_task_state state;
    enum pmi_cmd name_cmd; /* in state NAME: the pending command, a name call or a spawn */
    bool inited;
    bool finalized;
    bool acked; /* it sent initack */
    bool deaf;  /* a send failed */
    struct pmi_spawn spawn;
    buf_t *in; /* an incomplete line; NULL until there is one */
};

struct pmi_server {
    const struct pmi_server_ops *ops;
    void *arg;
    struct pmi_server_params p;
    char *kvsname;
    struct pmi_table *table;
    struct pmi_pack *batch; /* pairs that local tasks put since the last barrier */
    buf_t *out;             /* for the task `cur` */
    struct pmi_task *cur;   /* the task whose input is being handled */
    size_t entered;         /* tasks in state BARRIER */
    size_t left;            /* tasks in a state of LEFT */
    size_t absent;          /* those of them that left without any message */
    bool handed;            /* the embedding has the barrier */
    bool busy;              /* in pmi_server_input() */
    struct pmi_task tasks[];
};

static inline size_t pmi_server_index(const struct pmi_server *s, const struct pmi_task *t)
{
    return (size_t)(t - s->tasks);
}

void pmi_server_set_state(struct pmi_server *s, struct pmi_task *t, enum pmi_task_state state);
/* End the dialog with a task.  The reason follows "rank N" in the error message. */
void pmi_server_give_up(struct pmi_server *s, struct pmi_task *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A reply is appended to the output of the task whose input is being handled; to any other task it
 * is sent at once. */
struct pmi_reply {
    struct pmi_out o;
    char *mem; /* memory of its own */
    char small[PMI_REPLY_MAX];
};
/* `extra`: bytes of names and values in the reply. */
void pmi_reply_begin(struct pmi_server *s, struct pmi_task *t, struct pmi_reply *r,
                     enum pmi_cmd cmd, size_t extra);
void pmi_reply_end(struct pmi_server *s, struct pmi_task *t, struct pmi_reply *r);
void pmi_reply_rc(struct pmi_reply *r, int rc, const char *text);
/* Refuse a request, in the format that clients expect for this command. */
void pmi_server_refuse(struct pmi_server *s, struct pmi_task *t, enum pmi_cmd cmd,
                       const char *text);

/* pmi_server_cmd.c: handle a whole line of a task, without its newline. */
void pmi_server_line(struct pmi_server *s, struct pmi_task *t, const char *line, size_t len);

#endif
