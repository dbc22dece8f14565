#!/bin/sh
# What run.sh runs inside the ARM64 system: the wheel, the demo, then pytest with the arguments.
set -eu
cd /source
rm -rf /tmp/dist
python3 -W ignore setup.py --quiet bdist_wheel --dist-dir /tmp/dist 2> /tmp/build.log || {
    cat /tmp/build.log
    exit 1
}
wheel=$(ls /tmp/dist/*_aarch64.whl)
echo "built $(basename "$wheel")"
python3 -m zipfile --extract "$wheel" /source

python3 -m ep_nnapi check models/digits.onnx
python3 -m ep_nnapi run models/digits.onnx --input models/digits/samples.npz
exec python3 -m pytest -p no:cacheprovider "$@"
