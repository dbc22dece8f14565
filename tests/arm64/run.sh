#!/usr/bin/env bash
# Proves the wheel for ARM64 Linux under emulation: release/prove.py in a Debian without a compiler.
#
#   tests/arm64/run.sh WHEEL [tests]
#
# Needs Debian or Ubuntu with the packages debootstrap and qemu-user-static, and Linux 6.7 or newer:
# the emulator is registered in a user namespace of its own, so the machine's settings stay as they
# are. The first run downloads about 60 MB of Debian packages and 70 MB of Python packages.
set -euo pipefail
wheel=$(realpath "$1")
shift
cd "$(dirname "$0")/../.."

build=$PWD/build/arm64
root=$build/root
host_python=${HOST_PYTHON:-.venv/bin/python}
emulator=$(command -v qemu-aarch64-static || true)
fetch=$(PATH=$PATH:/usr/sbin command -v debootstrap || true)
if [ -z "$emulator" ] || [ -z "$fetch" ]; then
    echo "NOT RUN: the wheel for ARM64, without an emulator: apt-get install qemu-user-static debootstrap" >&2
    exit 77 # the tests are skipped, in many a tool's terms
fi
mkdir -p "$build"

# A Debian system, unpacked only: nothing of it has to be configured to run Python.
if [ ! -e "$build/.root" ]; then
    rm -rf "$root"
    "$fetch" --download-only --arch=arm64 --variant=minbase --include=python3,python3-venv \
        bookworm "$root"
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    touch "$build/.root"
fi

# Wheels for ARM64, chosen by this machine's pip from what pyproject.toml asks for.
if [ ! -e "$build/.wheels" ] || [ pyproject.toml -nt "$build/.wheels" ]; then
    rm -rf "$root/wheels"
    "$host_python" - > "$build/requirements.txt" <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
tests = [d for d in project["dependency-groups"]["test"] if d.startswith(("pytest>", "hypothesis"))]
onnxruntime = project["project"]["optional-dependencies"]["onnxruntime"]
print(*project["project"]["dependencies"], *onnxruntime, *tests, sep="\n")
PYTHON
    "$host_python" -m pip download --quiet --dest "$root/wheels" --only-binary=:all: \
        --python-version 3.11 --implementation cp \
        --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 \
        --requirement "$build/requirements.txt"
    touch "$build/.wheels"
fi

# The files that git knows, as they are now, and the wheel.
rm -rf "$root/source"
mkdir -p "$root/source"
git ls-files -z --cached --others --exclude-standard --deduplicate |
    while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
    tar -c --null --files-from=- | tar -x -C "$root/source"
cp "$wheel" "$root/source"

# /sys stays unmounted: ONNX Runtime reads the processor's features there and finds the host's.
timeout --signal=KILL "${ARM64_SECONDS:-5400}" unshare --user --map-root-user --mount --pid --fork --kill-child \
    bash -euo pipefail -s -- "$root" "$emulator" "$(basename "$wheel")" "$@" <<'INSIDE'
root=$1 emulator=$2 wheel=$3
shift 3
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf ':ep-nnapi-aarch64:M::%s:%s:%s:F' "$elf" "$mask" "$emulator" \
    > /proc/sys/fs/binfmt_misc/register
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 \
    /usr/bin/python3 /source/release/prove.py --wheels /wheels "/source/$wheel" "$@"
INSIDE
