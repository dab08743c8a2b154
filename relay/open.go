package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/worker"
)

// open are the listeners of all workers.
type open struct {
	entries map[string]*config.Entry // by name
	trunks  *config.Trunks
}

// change closes listeners that the next configuration lacks and opens new ones. The workers open theirs in order: see worker.Listen.
// Failures are returned, and the other listeners are opened all the same.
func (o *open) change(workers []*worker.Worker, next *config.Config) error {
	wanted := make(map[string]*config.Entry)
	for i := range next.Entries {
		wanted[next.Entries[i].Name] = &next.Entries[i]
	}
	var errs []error
	for name, e := range o.entries {
		if w := wanted[name]; w == nil || !same(e, w) {
			errs = append(errs, each(workers, func(w *worker.Worker) error { return w.Unlisten(name) }))
			delete(o.entries, name)
		}
	}
	if o.trunks != nil && !reflect.DeepEqual(o.trunks, next.Trunks) {
		errs = append(errs, unlistenTrunks(workers, o.trunks))
		o.trunks = nil
	}
	if o.trunks == nil && next.Trunks != nil {
		if err := listenTrunks(workers, next.Trunks); err != nil {
			errs = append(errs, err, unlistenTrunks(workers, next.Trunks))
		} else {
			o.trunks = next.Trunks
		}
	}
	for i := range next.Entries {
		e := &next.Entries[i]
		if o.entries[e.Name] != nil {
			continue
		}
		if err := each(workers, func(w *worker.Worker) error { return w.Listen(e) }); err != nil {
			errs = append(errs, err, each(workers, func(w *worker.Worker) error { return w.Unlisten(e.Name) }))
			continue
		}
		if o.entries == nil {
			o.entries = make(map[string]*config.Entry)
		}
		o.entries[e.Name] = e
	}
	return errors.Join(errs...)
}

func listenTrunks(workers []*worker.Worker, t *config.Trunks) error {
	for _, at := range t.Listen {
		if err := each(workers, func(w *worker.Worker) error { return w.ListenTrunks(at, t) }); err != nil {
			return err
		}
	}
	return nil
}

func unlistenTrunks(workers []*worker.Worker, t *config.Trunks) error {
	var errs []error
	for _, at := range t.Listen {
		errs = append(errs, each(workers, func(w *worker.Worker) error { return w.UnlistenTrunks(at) }))
	}
	return errors.Join(errs...)
}

// same reports whether an entry is unchanged, wherever it is in the file.
func same(a, b *config.Entry) bool {
	x, y := *a, *b
	x.Line, y.Line = 0, 0
	return reflect.DeepEqual(x, y)
}

// each calls a function for all workers, in order.
func each(workers []*worker.Worker, do func(*worker.Worker) error) error {
	for _, w := range workers {
		if err := do(w); err != nil {
			return err
		}
	}
	return nil
}

// lockOpening prevents relays in one network namespace from opening listeners at the same time, when each would find all addresses free. It
// gives up after a timeout, as any process may hold the name.
func lockOpening(log *slog.Logger) (unlock func()) {
	const atMost = 2 * time.Second
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		log.Warn("cannot lock against other relays that open listeners", "err", err)
		return func() {}
	}
	// an abstract name: per network namespace, released with the process
	name := &unix.SockaddrUnix{Name: "@baton-relay-opening"}
	for end := time.Now().Add(atMost); ; time.Sleep(5 * time.Millisecond) {
		if err = unix.Bind(fd, name); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		log.Warn("cannot lock against other relays that open listeners", "err", err)
	}
	return func() { unix.Close(fd) }
}

// vacant checks that the new addresses of a configuration are free. Without this check the workers' sockets, which set SO_REUSEPORT, would
// share an address with another relay of the same user and take part of its clients.
func (o *open) vacant(next *config.Config) error {
	ports := make(map[uint16]bool)
	for _, e := range o.entries {
		ports[e.Listen.Port()] = true
	}
	if o.trunks != nil {
		for _, at := range o.trunks.Listen {
			ports[at.Port()] = true
		}
	}
	for _, e := range next.Entries {
		if ports[e.Listen.Port()] {
			continue
		}
		if err := bindable(e.Listen, e.Mode == config.Transparent); err != nil {
			return fmt.Errorf("%s:%d: entry %s: %w", next.File, e.Line, e.Name, err)
		}
	}
	if next.Trunks != nil {
		for _, at := range next.Trunks.Listen {
			if ports[at.Port()] {
				continue
			}
			if err := bindable(at, false); err != nil {
				return fmt.Errorf("%s: trunks: %w", next.File, err)
			}
		}
	}
	return nil
}

// bindable tries to bind to an address.
func bindable(at netip.AddrPort, transparent bool) error {
	family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()})
	level, option := unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	if at.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
		level, option = unix.SOL_IP, unix.IP_TRANSPARENT
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if family == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return fmt.Errorf("IPV6_V6ONLY: %w", err)
		}
	}
	if transparent {
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			return fmt.Errorf("mode transparent: missing capability: CAP_NET_ADMIN: %w", err)
		}
	}
	switch err := unix.Bind(fd, sa); err {
	case nil:
		return nil
	case unix.EACCES:
		return fmt.Errorf("listen at %v: missing capability: CAP_NET_BIND_SERVICE: %w", at, err)
	default:
		return fmt.Errorf("listen at %v: %w", at, err)
	}
}
