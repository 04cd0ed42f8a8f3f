/* Constants of the format of packs, for its reader and its writer.  See kvs_pack.c. */
#ifndef KVS_PACK_FORMAT_H
#define KVS_PACK_FORMAT_H

#define KVS_PACK_DIGITS 18 /* maximum digits of a run's number in a key */

/* Kinds of items. */
enum {
    KVS_PACK_ONE = 0,  /* one key */
    KVS_PACK_SAME = 1, /* a run of keys with one value */
    KVS_PACK_NEW = 2,  /* a run of keys, each with a new value */
};

#endif
