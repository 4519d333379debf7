#!/bin/bash
# The programs of examples/: they run, and a training that was killed ends with the same weights.
. "$(dirname "$0")/test.sh"
cd "$work" || exit 1
export OMP_NUM_THREADS=1

killed_and_resumed() {
    "$BRASA_BUILD/examples/train" whole || return 1
    for ((kill = 0; kill < 2; kill++)); do
        "$BRASA_BUILD/examples/train" cut >/dev/null &
        while kill -0 $! 2>/dev/null && [ "$(wc -l <cut/epochs.jsonl 2>/dev/null || echo 0)" -le $kill ]; do sleep 0.02; done
        kill -9 $! || { echo "it was over before it could be killed"; return 1; }
        wait $!
        [ ! -e cut/result.json ] || { echo "it was over"; return 1; }
    done
    "$BRASA_BUILD/examples/train" cut && cmp whole/weights.safetensors cut/weights.safetensors
}

check "a training on arrays, killed twice with kill -9, ends with the same weights" killed_and_resumed
check "8-bit images N x H x W x C" "$BRASA_BUILD/examples/photos_u8"
check "the longest example has 60 lines" [ "$(cat "$BRASA_SOURCE/examples/train.c" | wc -l)" -le 60 ]
finish
