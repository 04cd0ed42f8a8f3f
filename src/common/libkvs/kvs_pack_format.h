/* Constants of the format of packs, for its reader and its writer.  See kvs_pack.c. */
#ifndef KVS_PACK_FORMAT_H
#define KVS_PACK_FORMAT_H

#define KVS_PACK_DIGITS 18 /* of a number in a key */

enum {
    KVS_PACK_ONE = 0,  /* an item is one key, */
    KVS_PACK_SAME = 1, /* a run of one value, */
    KVS_PACK_NEW = 2,  /* a run with a new value for each key */
};

#endif
