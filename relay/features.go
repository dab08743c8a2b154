package relay

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/relay/config"
)

// look finds out what a configuration asks of the kernel and does not get, and says so: flows go on without it.
func (r *Relay) look(cfg *config.Config) {
	programs := api.Feature{Name: "programs", Used: r.kernel != nil}
	if r.kernel == nil {
		programs.Reason = fmt.Sprintf("trunks begin as the system has it, and SYNs are not seen: %v", r.without)
	}
	features := append([]api.Feature{programs}, tunings(cfg)...)
	for _, f := range features[1:] {
		if !f.Used {
			r.log.Warn("not as configured", "what", f.Name, "why", f.Reason)
		}
	}
	r.features.Store(&features)
}

// tunings are what the sockets of a configuration are given, as far as not everybody may choose it.
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
		return fmt.Errorf("the kernel does not have it (modprobe tcp_%s): sockets have the system's", name)
	case errors.Is(err, unix.EPERM):
		return errors.New("it is not in net.ipv4.tcp_allowed_congestion_control, and CAP_NET_ADMIN is missing: sockets have the system's")
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
	if have/2 < window { // the kernel has doubled it for its own records: socket(7)
		return fmt.Errorf("CAP_NET_ADMIN is missing: no more than net.core.rmem_max, %d bytes of %d", have/2, window)
	}
	return nil
}
