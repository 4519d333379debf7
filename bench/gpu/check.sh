#!/bin/bash
# check.sh - builds, proves all ops and networks on this machine's GPU, and says what failed.
#   bench/gpu/check.sh [FOLDER]                        ops, networks, trainings, PyTorch's numbers; logs go to FOLDER (build)
#   bench/gpu/check.sh --sanitize [SECONDS] [FOLDER]   instead: ops, updates, parts, pictures under compute-sanitizer
#   bench/gpu/check.sh --kills N [FOLDER]              instead: N kills of trainings, whose ends must have the same bits
# Exit codes: 0 all is well; 1 something failed; 3 --sanitize: nothing failed, but the time was over, the same again goes on.
# Engines of cuDNN are not timed meanwhile, which takes long: its first proposals are what is proved. They are timed with
# --kills, and at the end, where networks are compared with PyTorch once more.
set -u
export BRASA_TEST_DEVICE=cuda BRASA_TUNE=off
cd "$(dirname "$0")/../.." || exit 1
sanitize='' seconds=0 kills='' logs=build failed=0

is_number() {
    [[ $1 =~ ^[0-9]+$ ]]
}

while [ $# != 0 ]; do
    case $1 in
    --sanitize)
        sanitize=yes
        if is_number "${2:-}"; then
            seconds=$2
            shift
        fi
        ;;
    --kills)
        is_number "${2:-}" || { echo "check.sh: --kills takes a number" >&2; exit 2; }
        kills=$2
        shift
        ;;
    -h | --help)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    -*)
        echo "check.sh: unknown option '$1', expected --sanitize or --kills" >&2
        exit 2
        ;;
    *) logs=$1 ;;
    esac
    shift
done
mkdir -p build "$logs"

# name, seconds, command...; the log is the name's. That all was skipped is a failure too: there is no GPU to prove anything on.
prove() {
    local name=$1 limit=$2 rc end
    shift 2
    timeout "$limit" "$@" >"$logs/$name.log" 2>&1
    rc=$? end=$(tail -n 1 "$logs/$name.log")
    echo "$name: $rc after $SECONDS s: $end"
    if [ $rc = 0 ] && [[ $end != "0 passed"* ]]; then return; fi
    failed=1
    grep -Ev '^(ok|[0-9]+ passed)' "$logs/$name.log" | cut -c1-220 | head -25
}

cmake -S . -B build -G Ninja >"$logs/configure.log" 2>&1 || { tail -n 5 "$logs/configure.log"; exit 1; }
ninja -C build brasa_program brasa_cuda test_open_device test_ops test_device test_device_updates test_parts test_pictures \
    test_train_device test_train_pictures test_parity test_parity_large >"$logs/build.log" 2>&1 || {
    grep -E "error|FAILED" "$logs/build.log" | head -30
    exit 1
}
echo "built after $SECONDS s"
build/brasa doctor | grep -A3 CUDA
if [ -n "$kills" ]; then
    prove kills 3600 env -u BRASA_TUNE python3 tests/test_resume_cuda.py "$kills" # whose engines are timed, as those of users
    grep -E 'kills,' "$logs/kills.log"
fi
if [ -n "$sanitize" ]; then
    left=$((seconds > SECONDS ? seconds - SECONDS : 1)) # the build counts
    [ "$seconds" != 0 ] || left=0
    python3 bench/gpu/sanitize.py --seconds $left --logs "$logs"
    rc=$?
    [ $rc = 0 ] || [ $rc = 3 ] || failed=1
    [ $failed = 1 ] || exit $rc
fi
[ -z "$kills$sanitize" ] || exit $failed

prove open_device 60 build/tests/test_open_device
for precision in f32 tf32 bf16; do
    BRASA_TEST_PRECISION=$precision prove "ops-$precision" 200 build/tests/test_ops
done
for name in device device_updates parts pictures train_device train_pictures; do
    prove "$name" 200 "build/tests/test_$name"
done
prove parity 200 build/tests/test_parity
prove parity-large 300 build/tests/test_parity_large
prove parity-timed 400 env -u BRASA_TUNE build/tests/test_parity # layers that are fused, too
exit $failed
