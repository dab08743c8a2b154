// Package probe measures round-trip times to TCP ports as in the paper (Pied Piper, section 2.2): the minimum of several times from a SYN
// to its SYN-ACK. It needs no ICMP, and a port that refuses works as well: its RST is as fast.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options of a measurement. A zero field means its default.
type Options struct {
	Count   int           // SYNs; default 20, at most 1000
	Every   time.Duration // interval; default 100 ms
	Timeout time.Duration // for each answer; default and at most 1 s, when the kernel retransmits a SYN (RFC 6298, section 2)
}

const (
	mostSYNs       = 1000
	longestTimeout = time.Second
)

func (o Options) withDefaults() Options {
	if o.Count == 0 {
		o.Count = 20
	}
	if o.Every == 0 {
		o.Every = 100 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = longestTimeout
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.Count < 1 || o.Count > mostSYNs:
		return fmt.Errorf("%d SYNs: want 1 to %d", o.Count, mostSYNs)
	case o.Every < 0:
		return fmt.Errorf("every %s: want no less than 0", o.Every)
	case o.Timeout < 0 || o.Timeout > longestTimeout:
		return fmt.Errorf("timeout %s: want 0 to %s", o.Timeout, longestTimeout)
	}
	return nil
}

// Result is the result of a measurement. A SYN is accepted, refused or lost.
type Result struct {
	Accepted int
	Refused  int
	Lost     int           // unanswered in time, or undeliverable by ICMP
	Min      time.Duration // of those answered; 0: none was
	Median   time.Duration
	Why      string // of the last loss, "" without one
}

// RTT measures the round-trip time to a TCP port. It resets an accepted connection at once, so that nothing remains here, nor at the other
// end unless the reset is lost; so a port that refuses, or a server that closes idle connections, is the better target. A failure of this
// host or the end of the context is an error; the result is then what was measured before.
func RTT(ctx context.Context, target netip.AddrPort, o Options) (Result, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return Result{}, fmt.Errorf("probe %s: %w", target, err)
	}
	if !target.IsValid() || target.Port() == 0 {
		return Result{}, fmt.Errorf("probe %s: no address and port", target)
	}
	// Keep the caller's deadline apart from that of a SYN.
	whole := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(whole))
	defer cancel(nil)
	defer context.AfterFunc(whole, func() { cancel(context.Cause(whole)) })()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		r    Result
		rtts []time.Duration
	)
	pace := time.NewTimer(0)
	defer pace.Stop()
	for range o.Count {
		select {
		case <-ctx.Done():
		case <-pace.C:
			pace.Reset(o.Every)
			wg.Go(func() {
				rtt, err := syn(ctx, target, o.Timeout)
				mu.Lock()
				defer mu.Unlock()
				switch why := lost(err); {
				case err == nil, errors.Is(err, unix.ECONNREFUSED):
					rtts = append(rtts, rtt)
					if err == nil {
						r.Accepted++
					} else {
						r.Refused++
					}
				case ctx.Err() != nil:
				case why != "":
					r.Lost++
					r.Why = why
				default:
					cancel(err)
				}
			})
		}
	}
	wg.Wait()
	r.Min, r.Median = least(rtts)
	if err := context.Cause(ctx); err != nil {
		return r, fmt.Errorf("probe %s: %w", target, err)
	}
	return r, nil
}

// least returns the minimum and the median.
func least(rtts []time.Duration) (first, median time.Duration) {
	if len(rtts) == 0 {
		return 0, 0
	}
	slices.Sort(rtts)
	n := len(rtts)
	return rtts[0], (rtts[(n-1)/2] + rtts[n/2]) / 2
}

// lost returns why a SYN was lost, "" if the error is this host's.
func lost(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "no answer"
	}
	// Firewalls, local and remote, cause the last two.
	for _, e := range []unix.Errno{unix.ETIMEDOUT, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENETDOWN, unix.ENOPROTOOPT,
		unix.ECONNRESET, unix.EACCES, unix.EPERM} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return ""
}

// syn opens a connection and resets it. The RTT of an accepted one is measured by the kernel, that of a refused one by the clock, from just
// before connect(2).
func syn(ctx context.Context, target netip.AddrPort, timeout time.Duration) (time.Duration, error) {
	var started time.Time
	d := net.Dialer{Timeout: timeout, KeepAlive: -1}
	d.SetMultipathTCP(false)
	d.Control = func(_, _ string, _ syscall.RawConn) error {
		started = time.Now()
		return nil
	}
	c, err := d.DialContext(ctx, "tcp", target.String())
	took := time.Since(started)
	if err != nil {
		return took, err
	}
	conn := c.(*net.TCPConn)
	defer conn.Close()
	if err := conn.SetLinger(0); err != nil {
		return 0, fmt.Errorf("set SO_LINGER: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var info *unix.TCPInfo
	var infoErr error
	if err := raw.Control(func(fd uintptr) { info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) }); err != nil {
		return 0, err
	}
	if infoErr != nil {
		return 0, fmt.Errorf("get TCP_INFO: %w", infoErr)
	}
	if info.Rtt == 0 {
		return took, nil
	}
	return time.Duration(info.Rtt) * time.Microsecond, nil
}
