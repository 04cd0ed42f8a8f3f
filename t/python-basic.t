#!/usr/bin/env bash
# The Python package: handles, requests, events, the key-value store, jobs, asyncio.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/python/lib.sh
. "$SRCDIR/t/python/lib.sh"

SESSION_LIMIT=180 python_tests 2 test_handle test_kvs test_job test_asyncio test_stream test_stream_values test_adios2 test_doc

# A program in a session finds the package with nothing set by hand.
run env -u PYTHONPATH "$FLUX" env
like "$out" "PYTHONPATH='[^:]*python[^:]*'" "flux env says where the package is"
run env PYTHONPATH=/a:/b "$FLUX" env
like "$out" "PYTHONPATH='[^:]*python[^:]*:/a:/b'" "in front of what was there"
run "$FLUX" env "$FLUX" env
is "$(grep -o 'bindings/python' <<<"$out" | wc -l)" 1 "once, in an environment that has it"
if [ -z "${FLUX_TEST_SANITIZERS:-}" ]; then
    run session 1 -- "$PYTHON_PROGRAM" -B -c 'import flux; print(flux.open().size)'
    is "$out" 1 "a program in a session"
    run session 2 -- "$FLUX" wreckrun -N2 "$PYTHON_PROGRAM" -B -c 'import os, flux; os.write(1, b"%d\n" % flux.open().rank)'
    is "$(sort <<<"$out")" $'0\n1' "a program in a job"
    run env -u FLUX_URI "$FLUX" env "$PYTHON_PROGRAM" -B -c 'import flux; flux.open()'
    like "$err" "FluxError: not inside a session" "a program outside of one is told so"
fi
finish
