package datapath

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Release is that of the running kernel, as of uname -r; "unknown" if it does not say.
func Release() string {
	release, _, err := kernel()
	if err != nil && release == "" {
		return "unknown"
	}
	return release
}

func kernel() (release string, is func(major, minor int) bool, err error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "", nil, fmt.Errorf("read the kernel's version: %w", err)
	}
	release = unix.ByteSliceToString(uts.Release[:])
	var a, b int
	if _, err := fmt.Sscanf(release, "%d.%d", &a, &b); err != nil {
		return release, nil, fmt.Errorf("read the kernel's version %q: %w", release, err)
	}
	return release, func(major, minor int) bool { return a > major || a == major && b >= minor }, nil
}

// newerKernel says how this distribution gets a kernel that is new enough.
func newerKernel() string {
	text, _ := os.ReadFile("/etc/os-release") // without it the remedy is a general one
	return newerKernelOf(string(text), Release(), runtime.GOARCH)
}

// newerKernelOf is by os-release(5) and uname -r.
func newerKernelOf(osRelease, release, arch string) string {
	switch valueOf(osRelease, "ID") + " " + valueOf(osRelease, "VERSION_ID") {
	case "debian 12":
		return fmt.Sprintf("apt install -t bookworm-backports linux-image-%s (with bookworm-backports in apt's sources), then reboot", flavourOf(release, arch))
	case "ubuntu 24.04":
		return "apt install linux-generic-hwe-24.04, then reboot"
	}
	return "boot a newer kernel, or a distribution that has one (Debian 13, Ubuntu 25.04, RHEL 10)"
}

// valueOf is that of a line NAME=VALUE or NAME="VALUE".
func valueOf(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// debianKernel is the release of a kernel of Debian's own, such as 6.1.0-56-cloud-amd64.
var debianKernel = regexp.MustCompile(`^\d+\.\d+\.\d+-\d+-([a-z0-9-]+)$`)

// flavourOf is that of the running kernel: cloud-amd64, arm64.
func flavourOf(release, arch string) string {
	if m := debianKernel.FindStringSubmatch(release); m != nil && strings.HasSuffix(m[1], arch) {
		return m[1]
	}
	return arch
}
