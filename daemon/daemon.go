// Package daemon serves the status of a Baton process: to the command line on the control socket, to Prometheus on a listener of its own.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/exporter"
)

// Listeners serve the status of a process. The zero value has none.
type Listeners struct {
	control net.Listener
	metrics net.Listener // nil: no metrics
}

// Listen opens the control socket at a path, and the listener for metrics unless its address is "". The caller calls Serve or Close.
// The error begins with "control" or "metrics", and wraps api.ErrInUse if another daemon has the control socket.
func Listen(control, metrics string) (l Listeners, err error) {
	if l.control, err = api.Listen(control); err != nil {
		return Listeners{}, fmt.Errorf("control: %w", err)
	}
	if metrics == "" {
		return l, nil
	}
	if l.metrics, err = net.Listen("tcp", metrics); err != nil {
		return Listeners{}, errors.Join(fmt.Errorf("metrics: %w", err), l.control.Close())
	}
	return l, nil
}

// Close releases the listeners if Serve was never called, and does nothing after it.
func (l Listeners) Close() error {
	var errs []error
	for _, one := range []net.Listener{l.control, l.metrics} {
		if one == nil {
			continue
		}
		if err := one.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Serve serves requests until ctx ends, and closes the listeners. Failures are only logged: the process continues without them.
func (l Listeners) Serve(ctx context.Context, b api.Backend, metrics http.Handler, log *slog.Logger) {
	var answering sync.WaitGroup
	defer answering.Wait()
	answering.Go(func() {
		if err := api.Serve(ctx, l.control, b); err != nil {
			log.Error("the control socket is not served any more", "err", err)
		}
	})
	if l.metrics == nil {
		return
	}
	answering.Go(func() {
		if err := exporter.Serve(ctx, l.metrics, metrics); err != nil {
			log.Error("metrics are not served any more", "err", err)
		}
	})
}

// Process returns the common part of a status. The caller adds what depends on the configuration.
func Process(part, version string, started time.Time) api.Process {
	var uts unix.Utsname
	_ = unix.Uname(&uts) // cannot fail
	return api.Process{Part: part, Version: version, PID: os.Getpid(), Started: started, Kernel: unix.ByteSliceToString(uts.Release[:])}
}

// Counters returns a backend's function for the numbers of a status that never decrease.
func Counters[Status any](status func() (Status, error), series func(*Status) []exporter.Number) func(context.Context) ([]api.Counter, error) {
	return func(context.Context) ([]api.Counter, error) {
		s, err := status()
		if err != nil {
			return nil, err
		}
		var out []api.Counter
		for _, n := range series(&s) {
			if !n.Gauge {
				out = append(out, api.Counter{Name: n.Name, Help: n.Help, Labels: n.Labels, Value: uint64(n.Value)})
			}
		}
		return out, nil
	}
}
