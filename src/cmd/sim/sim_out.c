/* sim_out.c - output files that are complete or absent.
 *
 * A file is written under a temporary name beside its target, and renamed once all of it is on
 * disk:  readers see the old or the new file, and a full disk leaves the old one.  An existing
 * target that is not a regular file (a device, a pipe) is written in place.
 *
 * Failure: errno, and an error message that names the target.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "sim.h"

static int fail(struct sim_out *o, errmsg_t *err)
{
    int saved = errno;

    errmsg_set(err, "cannot write %s: %s", o->path ? o->path : "a file", strerror(saved));
    if (o->f)
        fclose(o->f);
    if (o->temporary)
        unlink(o->temporary);
    free(o->temporary);
    free(o->path);
    *o = (struct sim_out){0};
    errno = saved;
    return -1;
}

/* mkstemp() makes files for their owner alone. */
static void usual_mode(int fd)
{
    mode_t mask = umask(0);

    umask(mask);
    (void)fchmod(fd, 0666 & ~mask);
}

int sim_out_open(struct sim_out *o, const char *path, errmsg_t *err)
{
    struct stat st;
    int fd;

    *o = (struct sim_out){.path = strdup(path)};
    if (!o->path)
        return fail(o, err);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (!(o->f = fopen(path, "we")))
            return fail(o, err);
        return 0;
    }
    if (asprintf(&o->temporary, "%s.XXXXXX", path) < 0)
        o->temporary = NULL;
    if (!o->temporary || (fd = mkostemp(o->temporary, O_CLOEXEC)) < 0) {
        free(o->temporary);
        o->temporary = NULL;
        return fail(o, err);
    }
    usual_mode(fd);
    if (!(o->f = fdopen(fd, "w"))) {
        int saved = errno;
        close(fd);
        errno = saved;
        return fail(o, err);
    }
    return 0;
}

int sim_out_close(struct sim_out *o, bool ok, errmsg_t *err)
{
    FILE *f = o->f;
    int rc;

    if (!ok || fflush(f) != 0 || (o->temporary && fsync(fileno(f)) < 0))
        return fail(o, err);
    o->f = NULL;
    rc = fclose(f);
    if (rc != 0 ||
        (o->temporary && (rename(o->temporary, o->path) < 0 || file_sync_dir(o->path) < 0)))
        return fail(o, err);
    free(o->temporary);
    free(o->path);
    *o = (struct sim_out){0};
    return 0;
}
