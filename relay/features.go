package relay

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/relay/config"
)

// checkFeatures finds and logs the optional kernel features that a configuration asks for and the host lacks. Flows work without them.
func (r *Relay) checkFeatures(cfg *config.Config) {
	features := append(r.kernelFeatures(), tunings(cfg)...)
	var before []api.Feature
	if p := r.features.Load(); p != nil {
		before = *p
	}
	for _, f := range features {
		if !f.Used && !strings.HasPrefix(f.Name, "programs") && !slices.Contains(before, f) { // openPrograms has logged it
			r.log.Warn("feature unavailable", "feature", f.Name, "reason", f.Reason)
		}
	}
	r.features.Store(&features)
}

func (r *Relay) kernelFeatures() []api.Feature {
	if r.kernel == nil {
		return []api.Feature{feature("programs for packets", r.kernelErr), feature("programs for trunks", r.kernelErr)}
	}
	return []api.Feature{feature("programs for packets", nil), feature("programs for trunks", r.kernel.trunksErr)}
}

// tunings are the socket settings of a configuration that need a module or a capability.
func tunings(cfg *config.Config) []api.Feature {
	algorithms, window := make(map[string]bool), 0
	for _, t := range cfg.Peers {
		algorithms[t.Tuning.Congestion] = true
		window = max(window, t.Tuning.Buffer)
	}
	if t := cfg.Trunks; t != nil {
		algorithms[t.Tuning.Congestion] = true
		window = max(window, t.Tuning.Buffer)
	}
	for _, e := range cfg.Entries {
		algorithms[e.Congestion] = true
	}
	var out []api.Feature
	for _, name := range slices.Sorted(maps.Keys(algorithms)) {
		if name != "" {
			out = append(out, feature("congestion "+name, withSocket(func(fd int) error { return tryCongestion(fd, name) })))
		}
	}
	out = append(out, feature("pipes", tryPipes(cfg.Limits.Pipe)))
	if window > 0 {
		out = append(out, feature("window", withSocket(func(fd int) error { return tryWindow(fd, window) })))
	}
	return out
}

func feature(name string, err error) api.Feature {
	if err != nil {
		return api.Feature{Name: name, Reason: err.Error()}
	}
	return api.Feature{Name: name, Used: true}
}

func withSocket(try func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	return try(fd)
}

func tryCongestion(fd int, name string) error {
	err := unix.SetsockoptString(fd, unix.SOL_TCP, unix.TCP_CONGESTION, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the kernel lacks it (modprobe tcp_%s): using the system's", name)
	case errors.Is(err, unix.EPERM):
		return errors.New("it is not in net.ipv4.tcp_allowed_congestion_control, and CAP_NET_ADMIN is missing: using the system's")
	}
	return err
}

func tryWindow(fd, window int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, window); err == nil {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, window); err != nil {
		return fmt.Errorf("SO_RCVBUF: %w", err)
	}
	have, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return fmt.Errorf("SO_RCVBUF: %w", err)
	}
	if have/2 < window { // the kernel doubles it for its own bookkeeping: socket(7)
		return fmt.Errorf("CAP_NET_ADMIN is missing: limited by net.core.rmem_max to %d bytes of %d", have/2, window)
	}
	return nil
}

// tryPipes returns what pipes of a size lack without privileges: pipe(7).
func tryPipes(size int) error {
	most, err := sysctl("fs/pipe-max-size")
	if err != nil {
		return err
	}
	pages, err := sysctl("fs/pipe-user-pages-soft")
	if err != nil {
		return err
	}
	resource, err := capable(unix.CAP_SYS_RESOURCE)
	if err != nil {
		return err
	}
	admin, err := capable(unix.CAP_SYS_ADMIN)
	if err != nil {
		return err
	}
	return pipesLack(size, most, pages*os.Getpagesize(), resource, admin)
}

// pipesLack is pure. most is the maximum size of one pipe and soft that of all of a user's pipes, in bytes; soft 0 is no limit.
func pipesLack(size, most, soft int, resource, admin bool) error {
	switch {
	case resource:
		return nil
	case size > most:
		return fmt.Errorf("CAP_SYS_RESOURCE is missing: limited by fs.pipe-max-size to %d bytes of %d", most, size)
	case soft > 0 && !admin:
		return fmt.Errorf("CAP_SYS_RESOURCE is missing: all but %d are limited to two pages (fs.pipe-user-pages-soft)", soft/size)
	}
	return nil
}

func sysctl(name string) (int, error) {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read /proc/sys/%s: %w", name, err)
	}
	return n, nil
}

// capable reports whether this process has a capability.
func capable(bit int) (bool, error) {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return false, fmt.Errorf("read capabilities: %w", err)
	}
	return data[bit/32].Effective&(1<<(bit%32)) != 0, nil
}
