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
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
var executables = []string{"usr/local/sbin/guest-init", "usr/local/sbin/guest-configure", "usr/local/sbin/guest-shell"}

// services that packages start by themselves would take ports and memory of the guest.
var quietServices = []string{
	"nginx", "haproxy", "openvswitch-switch", "ovs-vswitchd", "ovsdb-server", "ssh", "ssh.socket", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
	"fstrim.timer", "e2scrub_all.timer", "getty@tty1", "serial-getty@ttyS0", "serial-getty@ttyAMA0", "systemd-networkd", "bird", "frr", "etcd",
}

// root returns the folder of a root's disk (root.img) and busybox, and makes it if it is missing: half a minute for this architecture. For
// another one configure has the packages' scripts run, which this machine cannot.
func (c *Cache) root(ctx context.Context, arch string, packages []string, configure func(dir string) error) (string, error) {
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
		if err := finishRoot(ctx, dir, files); err != nil {
			return err
		}
		if arch == runtime.GOARCH {
			return nil
		}
		return configure(dir)
	})
	if err != nil {
		return "", fmt.Errorf("make a root of %s: %w", Suite, err)
	}
	return dir, nil
}

// unpackRoot fills the folder work with Debian's packages.
func unpackRoot(ctx context.Context, dir, arch string, packages []string) error {
	work, include := filepath.Join(dir, "work"), "--include="+strings.Join(packages, ",")
	if arch == runtime.GOARCH {
		err := runTool(ctx, "mmdebstrap", "--variant=minbase", include, `--dpkgopt=path-exclude=/usr/share/doc/*`,
			`--dpkgopt=path-exclude=/usr/share/man/*`, `--dpkgopt=path-exclude=/usr/share/locale/*`, Suite, work)
		if err != nil {
			return err
		}
		return runTool(ctx, "chroot", work, "passwd", "-d", "root")
	}
	mirror, _, err := mirrors(ctx)
	if err != nil {
		return err
	}
	if err := runTool(ctx, "debootstrap", "--foreign", "--arch="+arch, "--variant=minbase", include, Suite, work, mirror); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(work, "var/cache/apt/archives/busybox-static_*.deb"))
	if len(files) != 1 {
		return fmt.Errorf("find busybox-static among the packages: there are %d", len(files))
	}
	return runTool(ctx, "dpkg-deb", "-x", files[0], work)
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
