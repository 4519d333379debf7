#!/bin/bash
# check.sh - builds, proves all ops and networks on this machine's GPU, and says what failed. Logs go to $1 (build).
#   bench/gpu/check.sh [FOLDER]
# Engines of cuDNN are not timed meanwhile, which takes long: its first proposals are what is proved.
set -u
export BRASA_TEST_DEVICE=cuda BRASA_TUNE=off
failed=0
cd "$(dirname "$0")/../.."
logs=${1:-build}
mkdir -p build "$logs"
cmake -S . -B build -G Ninja >"$logs/configure.log" 2>&1 || { tail -5 "$logs/configure.log"; exit 1; }
ninja -C build brasa_program brasa_cuda test_backend test_ops test_device >"$logs/build.log" 2>&1 || {
    grep -E "error|FAILED" "$logs/build.log" | head -30
    exit 1
}
echo "built after $SECONDS s"
build/brasa doctor | grep -A3 CUDA
build/tests/test_backend >"$logs/backend.log" 2>&1 || failed=1
tail -5 "$logs/backend.log"
for precision in f32 tf32 bf16; do
    BRASA_TEST_PRECISION=$precision timeout 150 build/tests/test_ops >"$logs/ops-$precision.log" 2>&1
    rc=$?
    [ $rc = 0 ] || failed=1
    echo "test_ops $precision: $rc after $SECONDS s: $(tail -1 "$logs/ops-$precision.log")"
    grep -v passed "$logs/ops-$precision.log" | cut -c1-200 | head -15
done
timeout 120 build/tests/test_device >"$logs/device.log" 2>&1
rc=$?
[ $rc = 0 ] || failed=1 # also 77, all skipped: there is no GPU to prove anything on
echo "test_device: $rc after $SECONDS s: $(tail -1 "$logs/device.log")"
cut -c1-220 "$logs/device.log" | head -25
exit $failed
