/* Reading the tree: from a root to an entry, or through a directory.
 *
 * Reading never waits.  The digest of a missing object is noted; the caller loads the object and
 * begins again at the root, since the path is short and the rest of it is in the cache.
 *
 * Thread rules: those of the content store.
 */
#ifndef KVS_KVSWALK_H
#define KVS_KVSWALK_H

#include "libcontent/content.h"
#include "treeobj.h"

/* Digests of objects that are needed and missing. */
#define KVSMISS_MAX 256
struct kvsmiss {
    unsigned n; /* up to KVSMISS_MAX; there may be more */
    uint8_t digest[KVSMISS_MAX][BLOBREF_DIGEST_MAX];
};

/* Find an object; NULL with EAGAIN, and its digest in `miss` (which may be NULL). */
struct content_obj *kvsmiss_get(content_t *c, const uint8_t *digest, struct kvsmiss *miss);

enum {
    KVSWALK_NOFOLLOW = 1, /* a symbolic link at the end is the answer */
};

/* Called for each link that a look-up follows: `path`, valid during the call, is the key that
 * replaces the requested key. */
struct kvswalk_links {
    void (*followed)(struct kvswalk_links *l, const char *path, size_t len);
};

/* Find `key` (valid; or ".") below `root`.  0 with *e, whose pointers are valid until the content
 * store drops or trims objects.  For "." it is a TREEOBJ_DIR.  `links` (may be NULL) is called for
 * each symbolic link that is followed, also when the look-up fails.  -1 with EAGAIN and one digest
 * in `miss`; ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EIO and an error message. */
int kvswalk_find(content_t *c, const uint8_t *root, const char *key, size_t keylen, unsigned flags,
                 struct treeobj_entry *e, struct kvswalk_links *links, struct kvsmiss *miss,
                 errmsg_t *err);

/* One name in the directory `dir`: 1 with *e, 0 when it is not there, -1 as above. */
int kvswalk_entry(content_t *c, const uint8_t *dir, const char *name, size_t len,
                  struct treeobj_entry *e, struct kvsmiss *miss, errmsg_t *err);

/* Call back for all entries of a directory, in the order of the trie (at most 32 entries: sorted by
 * name).  Nonzero from the callback ends the walk.  0; what the callback returned; -1 with EAGAIN
 * (objects noted in `miss`; the callback was called for the entries of all others), or EIO. */
typedef int (*kvswalk_f)(const struct treeobj_entry *e, void *arg);
int kvswalk_dir(content_t *c, const uint8_t *dir, kvswalk_f cb, void *arg, struct kvsmiss *miss,
                errmsg_t *err);

/* One page of a directory: the first `count` (1 or more) entries after `cursor` (cursorlen 0: from
 * the beginning), in the order of the hashes of their names, which does not depend on other names:
 * a caller that continues after the last name of each page gets every name that stays in the
 * directory exactly once, even if the directory changes meanwhile.  `cursor` need not exist. *more:
 * there are entries after the page.  Returns as kvswalk_dir(); after -1 with EAGAIN the caller
 * begins the page again.  It needs only the objects of the page and of the path to it. */
int kvswalk_page(content_t *c, const uint8_t *dir, const char *cursor, size_t cursorlen,
                 uint32_t count, kvswalk_f cb, void *arg, bool *more, struct kvsmiss *miss,
                 errmsg_t *err);

/* Find the leaf or branch of this digest, which must be at this depth (or any: depth < 0).  NULL
 * with EAGAIN or EIO. */
const void *kvswalk_node(content_t *c, const uint8_t *digest, int depth, struct kvsmiss *miss,
                         errmsg_t *err);

#endif
