/* record.c - records of the jobs whose epilog is due, for the next launcher.
 *
 * Format:
 *
 *    DIR/epilog-JOB-TOKEN      DIR: directory of the broker's socket; TOKEN: of the launcher
 *
 * A record is u32 length and the payload of RUN (exec_wire.h, in the byte order of the host), then
 * the changes of the environment by plugins: NAME=value or NAME, each with its NUL.  A record
 * exists at most as long as DIR, which belongs to one broker.  The directories of jobs (backing.c)
 * would not do: any launcher of the user removes them when they are not locked.
 *
 * Invariants:
 *  1. The record exists before the prolog starts and until the epilog was reaped.  So an epilog
 *     that was interrupted together with its launcher is run again.
 *  2. When all processes of a lost launcher are gone, the next launcher makes each record of
 *     another token a job without tasks that is about to end (records_run()).  Only its epilog is
 *     run, and the module, which has ended the job, is not notified.
 *
 * Failure: a job whose record cannot be written gets a note, and runs.  A record that cannot be
 * read is reported on standard error, and removed.  If the broker is lost together with its
 * launcher, the records are not read.
 */
#include "config.h"
#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/strutil.h"

#define RECORD_MAX (2u * WIRE_PAYLOAD_MAX)
#define PREFIX "epilog-"

/* Return the directory of the socket of the broker, malloc'd, or NULL with errno. */
static char *record_dir(const struct launcher *l)
{
    const char *path = l->uri ? strchr(l->uri, '/') : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;

    if (!slash || slash == path) {
        errno = ENOENT;
        return NULL;
    }
    while (str_starts(path, "//"))
        path++;
    return strndup(path, (size_t)(slash - path));
}

/* Returns whether a file is the record of another launcher.  *id: its job. */
static bool is_lost(const struct launcher *l, const char *name, uint64_t *id)
{
    const char *digits = name + strlen(PREFIX);
    char text[24];
    size_t n;

    if (!str_starts(name, PREFIX))
        return false;
    n = strspn(digits, "0123456789");
    if (n == 0 || n >= sizeof(text) || digits[n] != '-' || strcmp(digits + n + 1, l->token) == 0)
        return false;
    memcpy(text, digits, n);
    text[n] = '\0';
    return str2u64(text, id) == 0;
}

void record_write(struct nodejob *j)
{
    uint32_t head = (uint32_t)j->len;
    int fd = -1, rc = -1;
    char *dir;

    if (!j->l->epilog || (j->run.flags & WIRE_F_EXEC))
        return;
    if ((dir = record_dir(j->l)) &&
        asprintf(&j->record, "%s/" PREFIX "%" PRIu64 "-%s", dir, j->id, j->l->token) < 0)
        j->record = NULL;
    free(dir);
    if (j->record)
        fd = open(j->record, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        rc = fd_write_all(fd, &head, sizeof(head)) < 0 || fd_write_all(fd, j->body, j->len) < 0 ? -1
                                                                                                : 0;
        close(fd);
    }
    if (rc < 0) {
        launcher_send_note(j, "the epilog will not be run on %s if its launcher is lost: %s",
                           nodejob_node_name(j), strerror(errno));
        record_remove(j);
    }
}

void record_changes(struct nodejob *j)
{
    int fd = j->record && j->changes.n
                 ? open(j->record, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC)
                 : -1;

    for (size_t i = 0; fd >= 0 && i < j->changes.n; i++)
        if (fd_write_all(fd, j->changes.v[i], strlen(j->changes.v[i]) + 1) < 0)
            break;
    if (fd >= 0)
        close(fd);
}

void record_remove(struct nodejob *j)
{
    if (j->record)
        unlink(j->record);
    free(j->record);
    j->record = NULL;
}

/* --- records of a lost launcher --- */

/* Run the epilog of a record.  Takes `path` if it returns true. */
static bool run_one(struct launcher *l, uint64_t id, char *path)
{
    char *data = NULL, *p, *end;
    struct nodejob *j = NULL;
    uint32_t head;
    size_t len;

    if (file_read_all(path, RECORD_MAX, &data, &len) < 0)
        return false;
    if (len >= sizeof(head)) {
        memcpy(&head, data, sizeof(head));
        if (head <= len - sizeof(head))
            j = nodejob_inherit(l, id, data + sizeof(head), head);
    }
    if (j) {
        j->heir = true;
        j->record = path;
        end = data + len;
        for (p = data + sizeof(head) + head; p < end && memchr(p, 0, (size_t)(end - p));
             p += strlen(p) + 1)
            (void)env_changes_set(&j->changes, p);
    }
    free(data);
    return j != NULL;
}

void records_run(struct launcher *l)
{
    char *base = l->epilog ? record_dir(l) : NULL, *path;
    DIR *dir = base ? opendir(base) : NULL;
    struct dirent *de;
    uint64_t id;

    while (dir && (de = readdir(dir))) {
        if (!is_lost(l, de->d_name, &id) || asprintf(&path, "%s/%s", base, de->d_name) < 0)
            continue;
        if (run_one(l, id, path))
            continue;
        fprintf(stderr,
                "flux-launcher: the record of job %" PRIu64 " cannot be used: its epilog is "
                "not run\n",
                id);
        unlink(path);
        free(path);
    }
    if (dir)
        closedir(dir);
    free(base);
}
