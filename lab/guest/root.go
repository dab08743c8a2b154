package guest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// basePackages are in every root: what the guest's own shell needs, and what Baton's labs use on every host.
var basePackages = []string{
	"busybox-static", "ca-certificates", "curl", "ethtool", "iproute2", "iputils-ping", "kmod", "libc-bin", "nftables", "openssh-server", "procps",
	"socat", "systemd-sysv", "tcpdump", "udev", "util-linux",
}

// overlay is what a root gets beside Debian's packages, by its path there.
//
//go:embed all:overlay
var overlay embed.FS

// executables of the overlay; embed keeps no modes.
var executables = []string{"usr/local/sbin/guest-init", "usr/local/sbin/guest-shell"}

// services that packages start by themselves would take ports and memory of the guest.
var quietServices = []string{
	"nginx", "caddy", "varnish", "varnishncsa", "haproxy", "openvswitch-switch", "ovs-vswitchd", "ovsdb-server", "ssh", "ssh.socket", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
	"fstrim.timer", "e2scrub_all.timer", "getty@tty1", "serial-getty@ttyS0", "serial-getty@ttyAMA0", "systemd-networkd", "bird", "frr", "etcd",
}

// ensureRoot returns the folder of a root's disk (root.img) and busybox, and makes it if it is missing: half a minute for this architecture, some
// minutes for another one.
func (c *Cache) ensureRoot(ctx context.Context, arch string, packages []string) (string, error) {
	all := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(basePackages), packages...))))
	key := sha256.New()
	fmt.Fprintln(key, all, quietServices)
	files := map[string][]byte{}
	err := fs.WalkDir(overlay, "overlay", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := overlay.ReadFile(path)
		files[strings.TrimPrefix(path, "overlay/")] = b
		fmt.Fprintf(key, "%s %d\n%s", path, len(b), b)
		return err
	})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("root-%s-%s-%s", Suite, arch, hex.EncodeToString(key.Sum(nil))[:12])
	dir, err := c.make(ctx, name, func(dir string) error {
		if err := unpackRoot(ctx, dir, arch, all); err != nil {
			return err
		}
		return finishRoot(ctx, dir, files)
	})
	if err != nil {
		return "", fmt.Errorf("make a root of %s: %w", Suite, err)
	}
	return dir, nil
}

// foreign is how a machine runs programs of another architecture: by an emulator, for files that begin with magic where mask has a bit
// (binfmt_misc; e_ident, e_type and e_machine of ELF).
var foreign = map[string]struct{ emulator, magic, mask string }{
	"arm64": {
		"qemu-aarch64-static", `\x7fELF\x02\x01\x01` + nine + `\x02\x00\xb7\x00`,
		`\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff`,
	},
	"amd64": {
		"qemu-x86_64-static", `\x7fELF\x02\x01\x01` + nine + `\x02\x00\x3e\x00`,
		`\xff\xff\xff\xff\xff\xfe\xfe\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff`,
	},
}

const nine = `\x00\x00\x00\x00\x00\x00\x00\x00\x00`

// unpackRoot fills the folder work with Debian's packages.
func unpackRoot(ctx context.Context, dir, arch string, packages []string) error {
	args := []string{
		"mmdebstrap", "--mode=root", "--arch=" + arch, "--variant=minbase", "--include=" + strings.Join(packages, ","),
		`--dpkgopt=path-exclude=/usr/share/doc/*`, `--dpkgopt=path-exclude=/usr/share/man/*`, `--dpkgopt=path-exclude=/usr/share/locale/*`,
		`--customize-hook=chroot "$1" passwd -d root`, Suite, filepath.Join(dir, "work"),
	}
	if arch == runtime.GOARCH {
		return runTool(ctx, args[0], args[1:]...)
	}
	// A user namespace has formats of binaries of its own (Linux 6.7): the machine's stay as they are.
	f := foreign[arch]
	emulator, err := exec.LookPath(f.emulator)
	if err != nil {
		return err
	}
	const script = `mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && printf %s "$0" >/proc/sys/fs/binfmt_misc/register && exec "$@"`
	register := fmt.Sprintf(":foreign:M::%s:%s:%s:F", f.magic, f.mask, emulator)
	ids := []syscall.SysProcIDMap{{Size: 1 << 16}} // as they are outside
	return runAs(ctx, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
	}, "sh", append([]string{"-c", script, register}, args...)...)
}

// finishRoot adds what is ours, and makes the disk.
func finishRoot(ctx context.Context, dir string, files map[string][]byte) error {
	work := filepath.Join(dir, "work")
	for path, b := range files {
		mode := fs.FileMode(0o644)
		if slices.Contains(executables, path) {
			mode = 0o755
		}
		to := filepath.Join(work, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, mode)); err != nil {
			return err
		}
	}
	units := filepath.Join(work, "etc/systemd/system")
	for _, service := range quietServices {
		if !strings.Contains(service, ".") {
			service += ".service"
		}
		if err := os.Symlink("/dev/null", filepath.Join(units, service)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	wants := filepath.Join(units, "basic.target.wants")
	if err := errors.Join(os.MkdirAll(wants, 0o755), os.Symlink("../guest-shell.service", filepath.Join(wants, "guest-shell.service"))); err != nil {
		return err
	}
	for _, name := range []string{"etc/machine-id", "etc/resolv.conf", "etc/hostname"} {
		if err := os.WriteFile(filepath.Join(work, name), nil, 0o644); err != nil {
			return err
		}
	}
	busybox, err := os.ReadFile(filepath.Join(work, "usr/bin/busybox"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "busybox"), busybox, 0o755); err != nil {
		return err
	}
	if err := makeDisk(ctx, filepath.Join(dir, "root.img"), work, 2<<30); err != nil {
		return err
	}
	return os.RemoveAll(work)
}
