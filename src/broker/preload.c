/* preload.c - load files of modules before they are needed (interface: preload.h).
 *
 * A broker that is forked afterwards finds the files in its memory: dlopen(3) only counts one more
 * user.  The work that a module does once for its process (`prepare` in libflux/module.h) is
 * inherited, too.
 *
 * Invariants:
 *  1. A file is loaded only if the module host would load it: no other user can change it, and it
 *     describes a module of this version.
 *  2. The process that preloads drops the files once modules have started.  Otherwise a module that
 *     is reloaded would find the old file in memory.
 *
 * Failure: a file that cannot be loaded is skipped; the module host reports the reason when the
 * module is to be started.
 */
#include "config.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/module.h"
#include "libflux/paths.h"
#include "libutil/filetrust.h"
#include "preload.h"

struct preload {
    size_t n;
    void *files[];
};

/* `name`: not a path, which names a module of the site. */
static void *load(const char *name)
{
    char *path = strchr(name, '/') ? NULL : flux_path_module(name, NULL);
    const struct flux_module *desc;
    char symbol[128];
    void *file = NULL;

    if (path && file_is_trusted(path, NULL))
        file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    if (!file)
        return NULL;
    snprintf(symbol, sizeof(symbol), "flux_module_%.100s", name);
    desc = dlsym(file, symbol);
    if (!desc || desc->abi != FLUX_MODULE_ABI || strcmp(desc->name, name) != 0) {
        dlclose(file);
        return NULL;
    }
    if (desc->prepare)
        desc->prepare();
    return file;
}

preload_t *preload_create(const strvec_t *names)
{
    preload_t *p = calloc(1, sizeof(*p) + strvec_count(names) * sizeof(p->files[0]));

    for (size_t i = 0; p && i < strvec_count(names); i++) {
        if ((p->files[p->n] = load(strvec_at(names, i))))
            p->n++;
    }
    return p;
}

void preload_destroy(preload_t *p)
{
    if (p) {
        int saved = errno;

        while (p->n > 0)
            dlclose(p->files[--p->n]);
        free(p);
        errno = saved;
    }
}
