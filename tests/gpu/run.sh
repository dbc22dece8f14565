#!/bin/sh
# Runs a command with a software Vulkan: SwiftShader, as Debian's package chromium-common has it.
# With VK_DRIVER_FILES set, with that driver instead; with VULKAN=system, on the machine's GPU.
set -eu
if [ "${VULKAN:-}" != system ]; then
	folder=$PWD/build/vulkan
	mkdir -p "$folder"
	driver=/usr/lib/chromium/libvk_swiftshader.so
	if [ -z "${VK_DRIVER_FILES:-}" ] && [ ! -f "$driver" ]; then
		driver=$folder/usr/lib/chromium/libvk_swiftshader.so
		[ -f "$driver" ] || (
			cd "$folder"
			apt-get download chromium-common
			dpkg -x chromium-common_*.deb .
		)
	fi
	if [ -z "${VK_DRIVER_FILES:-}" ]; then
		VK_DRIVER_FILES=$folder/icd.json
		printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.1.0"}}\n' \
			"$driver" >"$VK_DRIVER_FILES"
		# the Vulkan loader lies beside the driver
		LD_LIBRARY_PATH=$(dirname "$driver")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
		export LD_LIBRARY_PATH
	fi
	export VK_DRIVER_FILES
	export VK_ICD_FILENAMES="$VK_DRIVER_FILES"
	export ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1
fi
exec "$@"
