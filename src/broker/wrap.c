/* wrap.c - run a broker under a debugger or a checker.
 *
 * Purpose: `flux start --size=4 --wrap=2:gdb COMMAND` makes rank 2 the program `gdb --args
 * flux-broker ...`.  The nursery has forked the broker of that rank and given it its PMI
 * connection; instead of continuing, the child becomes COMMAND, which starts flux-broker again with
 * the same settings.
 *
 * Two commands get the arguments that they always need: "gdb" becomes "gdb --args", and "rr"
 * becomes "rr record".
 *
 * Failure: a text that is not RANKS:COMMAND, or a program that cannot be run, is reported by an
 * error message.
 */
#include "config.h"
#include "wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/strutil.h"

struct wrap {
    idset_t *ranks;
    strvec_t *command;
};

static const char *const needed[][2] = {{"gdb", "--args"}, {"rr", "record"}};

static int parse_command(wrap_t *w, const char *text)
{
    strvec_t *words = strvec_split(text, ' ');
    int rc = words ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < strvec_count(words); i++) {
        if (strvec_at(words, i)[0])
            rc = strvec_add(w->command, strvec_at(words, i));
    }
    strvec_destroy(words);
    for (size_t i = 0; rc == 0 && i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (strvec_count(w->command) == 1 && strcmp(strvec_at(w->command, 0), needed[i][0]) == 0) {
            rc = strvec_add(w->command, needed[i][1]);
            break;
        }
    }
    return rc;
}

wrap_t *wrap_parse(const char *text, errmsg_t *err)
{
    const char *colon = strchr(text, ':');
    wrap_t *w = calloc(1, sizeof(*w));
    char *ranks = colon ? strndup(text, (size_t)(colon - text)) : NULL;
    errmsg_t why;

    if (!colon)
        errmsg_fail(err, EINVAL, "'%.80s' is not RANKS:COMMAND, such as 0:gdb", text);
    else if (!w || !ranks || !(w->command = strvec_create()))
        errmsg_fail(err, ENOMEM, "out of memory");
    else if (!(w->ranks = idset_parse(ranks, &why)))
        errmsg_fail(err, EINVAL, "'%.80s' is not a set of ranks: %s", ranks, why.text);
    else if (parse_command(w, colon + 1) < 0)
        errmsg_fail(err, ENOMEM, "out of memory");
    else if (strvec_count(w->command) == 0)
        errmsg_fail(err, EINVAL, "'%.80s' names no command after the ranks", text);
    else {
        free(ranks);
        return w;
    }
    free(ranks);
    wrap_destroy(w);
    return NULL;
}

void wrap_destroy(wrap_t *w)
{
    if (w) {
        int saved = errno;
        idset_destroy(w->ranks);
        strvec_destroy(w->command);
        free(w);
        errno = saved;
    }
}

const idset_t *wrap_ranks(const wrap_t *w)
{
    return w->ranks;
}

int wrap_exec(const wrap_t *w, const strvec_t *args, errmsg_t *err)
{
    strvec_t *all = strvec_copy_argv(strvec_argv(w->command));
    const char *fd = getenv("PMI_FD");
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    uint32_t num;
    int rc = all && len > 0 ? 0 : -1;

    if (rc == 0) {
        self[len] = '\0';
        rc = strvec_add(all, self);
    }
    for (size_t i = 0; rc == 0 && i < strvec_count(args); i++)
        rc = strvec_add(all, strvec_at(args, i));
    if (rc == 0 && fd && str2u32(fd, &num) == 0 && num <= INT_MAX)
        fcntl((int)num, F_SETFD, 0);
    if (rc == 0)
        execvp(strvec_at(all, 0), strvec_argv(all));
    errmsg_fail(err, errno, "%s cannot be run: %s", strvec_at(w->command, 0), strerror(errno));
    strvec_destroy(all);
    return -1;
}
