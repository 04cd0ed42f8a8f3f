# shellcheck shell=bash
# Run the test with a /dev/shm that nobody else writes to, and in which nothing may be left; to be sourced before lib.sh.
# What is mounted is seen by this test alone, and gone with it.  Where that cannot be done, it runs as it is.

if [ -z "${MPI_TEST_NAMESPACE-}" ] && unshare -m mount -t tmpfs tmpfs /dev/shm 2>/dev/null; then
    MPI_TEST_NAMESPACE=1 exec unshare -m bash "$0"
fi
if [ -n "${MPI_TEST_NAMESPACE-}" ]; then
    mount -t tmpfs tmpfs /dev/shm && : >/dev/shm/.of-this-test
fi
