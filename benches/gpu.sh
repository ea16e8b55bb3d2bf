#!/usr/bin/env bash
# Checks and measures pronk on an NVIDIA GPU, in one command:
#
#     benches/gpu.sh                 # on cuda:0
#     DEVICE=cuda:1 benches/gpu.sh
#     DEVICE=cpu benches/gpu.sh      # without a GPU: tries out the script itself
#
# 1. Every kind of network on the GPU agrees with `CpuNetwork` to 1e-4, outputs and gradients.
# 2. Rows a second of the Nature and residual CNNs, beside PyTorch on the same GPU.
# 3. A run with loader stacks: its learner's throughput is at least 95 % of what the learner reaches alone.
# 4. The timeline of that run: how much of the loading overlaps with learning.
#
# It needs a driver, Rust, a C++ compiler, and Python 3.11 or newer with `venv`. Without `nvcc` in PATH it installs
# CUDA 13.0 below target/; PyTorch goes there too, unless TORCH_PYTHON names an interpreter that has it. Other settings:
# ROWS, TORCH, RUN_SECONDS, PASSES, WORKERS (see below). What the programs print is in target/gpu/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DEVICE=${DEVICE:-cuda}
# Rows of the batches that are compared with PyTorch; residual CNNs take some 15 MB of memory for each.
ROWS=${ROWS:-32,256,1024}
# What pip installs to compare with.
TORCH=${TORCH:-torch==2.15.0 numpy}
# Seconds of each measurement of a run, and its passes over each train batch: enough that the learner is the limit.
RUN_SECONDS=${RUN_SECONDS:-20}
PASSES=${PASSES:-8}
# Rollout threads; by default one for each core, but for two.
WORKERS=${WORKERS:-}

out=target/gpu
mkdir -p "$out"
failed=()

# Runs a part with this title, and goes on if it fails.
part() {
    local title=$1 file=$out/$2
    shift 2
    printf '\n── %s ──\n' "$title"
    "$@" 2>&1 | tee "$file" || failed+=("$title")
}

# Finds or installs what builds and runs programs for CUDA.
set_up_cuda() {
    if ! nvidia-smi > "$out/nvidia-smi.txt" 2>&1; then
        echo 'nvidia-smi finds no GPU; DEVICE=cpu tries out the script without one' >&2
        exit 1
    fi
    grep -o 'Driver Version.*CUDA Version: [0-9.]*' "$out/nvidia-smi.txt" || true
    nvidia-smi --query-gpu=index,name,memory.total,compute_cap --format=csv,noheader
    local newest
    newest=$(sed -n 's/.*CUDA Version: \([0-9]*\).*/\1/p' "$out/nvidia-smi.txt")
    if command -v nvcc > /dev/null; then
        CUDA_HOME=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
    elif ((${newest:-13} < 13)); then
        echo "the driver runs CUDA $newest at most: install that, with nvcc in PATH, or a newer driver" >&2
        exit 1
    else
        CUDA_HOME=$(cargo xtask toolkit)
        PATH=$CUDA_HOME/bin:$PATH
    fi
    # The linker looks for libcuda.so, and the driver may bring no more than libcuda.so.1.
    local driver
    driver=$(/sbin/ldconfig -p | awk '$1 == "libcuda.so.1" && /x86-64|AArch64/ { print $NF; exit }')
    if [[ -n $driver ]]; then
        mkdir -p "$out/driver"
        ln -sf "$driver" "$out/driver/libcuda.so"
        LIBRARY_PATH=$PWD/$out/driver${LIBRARY_PATH:+:$LIBRARY_PATH}
    fi
    LD_LIBRARY_PATH=$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export CUDA_HOME PATH LIBRARY_PATH LD_LIBRARY_PATH
    nvcc --version | tail -n 2
}

# Prints an interpreter that has PyTorch.
torch_python() {
    if [[ -n ${TORCH_PYTHON:-} ]]; then
        echo "$TORCH_PYTHON"
        return
    fi
    local venv=target/torch
    [[ -x $venv/bin/pip ]] || python3 -m venv --clear "$venv" >&2 || return
    # shellcheck disable=SC2086 # several packages
    "$venv/bin/pip" install --quiet --disable-pip-version-check $TORCH >&2 || return
    echo "$venv/bin/python"
}

# In a condition, as `part` is, a shell goes on after a failure: hence `|| return`.
compare_with_torch() {
    local python
    python=$(torch_python) || return
    # Same shapes, same rows, observations on the device. The names have `cnn` in them, and `learning`.
    cargo bench --quiet --bench policy "${features[@]}" -- --device "$DEVICE" --rows "$ROWS" 'cnn learning' \
        | tee "$out/pronk.txt" || return
    # Without the libraries of the toolkit: PyTorch brings its own.
    env -u LD_LIBRARY_PATH "$python" benches/peers/torch_nets.py --device "$DEVICE" --rows "$ROWS" \
        'cnn learning' 'cnn channels_last learning' | tee "$out/torch.txt" || return
    python3 benches/gpu.py ratios "$out/pronk.txt" "$out/torch.txt"
}

run_with_stacks() {
    local flags=(--device "$DEVICE" --seconds "$RUN_SECONDS" --passes "$PASSES" --trace "$out/timeline.json")
    [[ -z $WORKERS ]] || flags+=(--workers "$WORKERS")
    # On the CPU, workers and learner share cores, and 95 % cannot be had.
    [[ $DEVICE == cpu ]] || flags+=(--strict)
    cargo bench --quiet --bench device "${features[@]}" -- "${flags[@]}"
}

features=()
if [[ $DEVICE == cuda* ]]; then
    set_up_cuda
    features=(--features cuda)
fi
git log -1 --format='pronk %h of %cs' || true

part 'every kind of network agrees with CpuNetwork' correctness.txt \
    env PRONK_TEST_DEVICE="$DEVICE" cargo test --release --package pronk-policy "${features[@]}" --lib device::
part 'training beside PyTorch' ratios.txt compare_with_torch
part 'a run and its learner alone' run.txt run_with_stacks
part 'loading and learning' overlap.txt python3 benches/gpu.py overlap "$out/timeline.json"

if ((${#failed[@]})); then
    printf '\nFAILED: %s\n' "${failed[@]}"
    exit 1
fi
printf '\npassed; what was printed is in %s\n' "$out"
