/* What the files of the PMI server share: pmi_server.c has the states and the flow,
 * pmi_server_cmd.c what each command means. */
#ifndef PMI_SERVER_PRIVATE_H
#define PMI_SERVER_PRIVATE_H

#include "libpmi/pmi_pack.h"
#include "libpmi/pmi_server.h"
#include "libpmi/pmi_spawn.h"
#include "libpmi/pmi_table.h"
#include "libpmi/pmi_wire.h"
#include "libutil/buf.h"

#define PMI_REPLY_MAX ((size_t)1024) /* of a reply without names and values */
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
    enum pmi_cmd name_cmd; /* in state NAME: what is pending, a name or a spawn */
    bool inited;
    bool finalized;
    bool acked; /* said initack */
    bool deaf;  /* a send failed */
    struct pmi_spawn spawn;
    buf_t *in; /* an incomplete line; NULL when there never was one */
};

struct pmi_server {
    const struct pmi_server_ops *ops;
    void *arg;
    struct pmi_server_params p;
    char *kvsname;
    struct pmi_table *table;
    struct pmi_pack *batch; /* put by local tasks since the last barrier */
    buf_t *out;             /* for the task `cur` */
    struct pmi_task *cur;   /* whose input is being handled */
    size_t entered;         /* tasks in state BARRIER */
    size_t left;            /* tasks in a state of LEFT */
    size_t absent;          /* of them, those that went without a word */
    bool handed;            /* the barrier is with the embedding */
    bool busy;              /* in pmi_server_input() */
    struct pmi_task tasks[];
};

static inline size_t pmi_server_index(const struct pmi_server *s, const struct pmi_task *t)
{
    return (size_t)(t - s->tasks);
}

void pmi_server_set_state(struct pmi_server *s, struct pmi_task *t, enum pmi_task_state state);
/* The dialog with a task is lost: why, to follow "rank N". */
void pmi_server_give_up(struct pmi_server *s, struct pmi_task *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A reply goes into the output of the task whose input is being handled; to any other task it is
 * sent right away. */
struct pmi_reply {
    struct pmi_out o;
    char *mem; /* of its own */
    char small[PMI_REPLY_MAX];
};
/* `extra`: bytes of names and values that it has. */
void pmi_reply_begin(struct pmi_server *s, struct pmi_task *t, struct pmi_reply *r,
                     enum pmi_cmd cmd, size_t extra);
void pmi_reply_end(struct pmi_server *s, struct pmi_task *t, struct pmi_reply *r);
void pmi_reply_rc(struct pmi_reply *r, int rc, const char *text);
/* Say no, in the words that readers of this command look for. */
void pmi_server_refuse(struct pmi_server *s, struct pmi_task *t, enum pmi_cmd cmd,
                       const char *text);

/* pmi_server_cmd.c: a whole line of a task, without its newline. */
void pmi_server_line(struct pmi_server *s, struct pmi_task *t, const char *line, size_t len);

#endif
