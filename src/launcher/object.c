/* object.c - maps the shared objects that only some launchers need, each with the libraries that it
 * uses: Lua for plugins, hwloc for binding.
 */
#include "config.h"
#include "launcher.h"
#include "libutil/filetrust.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The objects are beside the program of the launcher, after an installation and in the build
 * directory. */
void *object_open(const char *name, errmsg_t *err)
{
    static const char *const places[] = {"", ".libs/"};
    char self[3500], path[4096], *slash;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    void *dl = NULL;

    self[n > 0 ? n : 0] = '\0';
    if ((slash = strrchr(self, '/')))
        slash[1] = '\0';
    errmsg_set(err, "%s does not exist in %s: the installation is incomplete", name, self);
    for (int i = 0; !dl && i < 2; i++) {
        snprintf(path, sizeof(path), "%s%s%s", self, places[i], name);
        if (access(path, F_OK) == 0 && file_is_trusted(path, err) &&
            !(dl = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
            errmsg_set(err, "%s", dlerror());
    }
    return dl;
}
