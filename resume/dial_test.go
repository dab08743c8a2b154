package resume_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"baton/resume"
)

// names is what a name means, and how often it was asked for.
type names struct {
	mu    sync.Mutex
	asked int
	now   func(asked int) []string // from 1; none: there is no such name
}

func (n *names) lookup(_ context.Context, _, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	var all []netip.Addr
	for _, text := range n.now(n.asked) {
		all = append(all, netip.MustParseAddr(text))
	}
	if all == nil {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return all, nil
}

// named are options of a client whose names are looked up so.
func named(d resume.Dialer, now func(asked int) []string) (resume.Options, *names) {
	n := &names{now: now}
	d.Lookup = n.lookup
	if d.Timeout == 0 {
		d.Timeout = 2 * time.Second
	}
	o := quick()
	o.Lanes = 1
	o.Base.DialContext = d.DialContext
	return o, n
}

func fixed(all ...string) func(int) []string { return func(int) []string { return all } }

// pair is two servers of the file at two addresses and one port, and the URL of a name for both.
func pair(t *testing.T, file []byte, first, second act) (a, b *origin, at string) {
	t.Helper()
	a = startOrigin(t, &origin{t: t, file: file, etag: `"one"`, script: []act{first}})
	u, err := url.Parse(a.url)
	if err != nil {
		t.Fatal(err)
	}
	b = startOrigin(t, &origin{t: t, file: file, etag: `"one"`, script: []act{second}, at: "127.0.0.2:" + u.Port()})
	return a, b, "http://files.test:" + u.Port() + "/file"
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	file := body(1, 300_000)
	get := func(t *testing.T, o resume.Options, url string) outcome {
		t.Helper()
		got := download(t, o, resume.Request{URLs: []string{url}}, true)
		if got.err == nil {
			same(t, got.bytes, file)
		}
		return got
	}
	t.Run("in turn, after breaks", func(t *testing.T) {
		a, b, at := pair(t, file, resetAfter(40_000), resetAfter(40_000))
		o, _ := named(resume.Dialer{}, fixed("127.0.0.1", "127.0.0.2"))
		if got := get(t, o, at); got.err != nil || len(a.requests()) != 4 || len(b.requests()) != 4 {
			t.Errorf("%d and %d requests, %v", len(a.requests()), len(b.requests()), got.err)
		}
	})
	t.Run("the first one as long as it is well", func(t *testing.T) {
		a, b, at := pair(t, file, valid, valid)
		o, _ := named(resume.Dialer{}, fixed("127.0.0.1", "127.0.0.2"))
		for range 3 {
			if got := get(t, o, at); got.err != nil {
				t.Fatal(got.err)
			}
		}
		if len(a.requests()) != 3 || len(b.requests()) != 0 {
			t.Errorf("%d and %d requests", len(a.requests()), len(b.requests()))
		}
	})
	t.Run("one that has not what is wanted", func(t *testing.T) {
		_, b, at := pair(t, file, answer(503, nil), valid)
		o, _ := named(resume.Dialer{}, fixed("127.0.0.1", "127.0.0.2"))
		if got := get(t, o, at); got.err != nil || len(b.requests()) != 1 {
			t.Errorf("%d requests, %v", len(b.requests()), got.err)
		}
	})
	t.Run("one that refuses connections", func(t *testing.T) {
		_, _, at := pair(t, file, resetAfter(100_000), valid)
		o, _ := named(resume.Dialer{}, fixed("127.0.0.3", "127.0.0.1"))
		if got := get(t, o, at); got.err != nil || got.result.Account.Failures != 0 {
			t.Errorf("%+v, %v", got.result.Account, got.err)
		}
	})
	t.Run("one that does not answer", func(t *testing.T) {
		_, _, at := pair(t, file, valid, valid)
		unresponsive := resume.Dialer{Control: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			if host, _, _ := net.SplitHostPort(address); host == "127.0.0.3" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		o, _ := named(unresponsive, fixed("127.0.0.3", "127.0.0.1"))
		if got := get(t, o, at); got.err != nil {
			t.Error(got.err)
		}
		unresponsive.Timeout = 50 * time.Millisecond
		o, _ = named(unresponsive, fixed("127.0.0.3"))
		if got := get(t, o, at); got.kind != resume.Connect {
			t.Errorf("kind %q: %v", got.kind, got.err)
		}
	})
	t.Run("the name moves to another address", func(t *testing.T) {
		a, b, at := pair(t, file, resetAfter(100_000), valid)
		o, n := named(resume.Dialer{}, func(asked int) []string { return []string{fmt.Sprintf("127.0.0.%d", min(asked, 2))} })
		got := get(t, o, at)
		if got.err != nil || len(a.requests()) != 1 || len(b.requests()) != 1 || n.asked != 2 || got.result.Account.Switches != 1 {
			t.Errorf("%d and %d requests, the name was looked up %d times, %+v, %v", len(a.requests()), len(b.requests()), n.asked, got.result.Account, got.err)
		}
		if r := b.requests()[0]; r.Header.Get("If-Range") != `"one"` || r.Header.Get("Range") != "bytes=100000-" {
			t.Errorf("the second server was asked with %v", r.Header)
		}
	})
	t.Run("the name moves to a site that has another file", func(t *testing.T) {
		_, b, at := pair(t, file, resetAfter(100_000), valid)
		b.file, b.etag = body(2, 300_000), `"two"`
		o, _ := named(resume.Dialer{}, func(asked int) []string { return []string{fmt.Sprintf("127.0.0.%d", min(asked, 2))} })
		if got := get(t, o, at); got.kind != resume.Changed || len(got.bytes) != 100_000 {
			t.Errorf("%d bytes, %v", len(got.bytes), got.err)
		}
	})
	t.Run("the name goes", func(t *testing.T) {
		_, _, at := pair(t, file, resetAfter(100_000), valid)
		o, _ := named(resume.Dialer{}, func(asked int) []string {
			if asked > 1 {
				return nil
			}
			return []string{"127.0.0.1"}
		})
		if got := get(t, o, at); got.kind != resume.Resolve || len(got.bytes) != 100_000 {
			t.Errorf("%d bytes, %v", len(got.bytes), got.err)
		}
	})
	t.Run("families", func(t *testing.T) {
		_, _, at := pair(t, file, valid, valid)
		o, _ := named(resume.Dialer{Network: "tcp4"}, fixed("::ffff:127.0.0.1", "::1"))
		if got := get(t, o, at); got.err != nil {
			t.Error(got.err)
		}
		o, _ = named(resume.Dialer{Network: "tcp6"}, fixed("127.0.0.1"))
		var none *net.DNSError
		if got := get(t, o, at); got.kind != resume.Resolve || !errors.As(got.err, &none) {
			t.Errorf("kind %q: %v", got.kind, got.err)
		}
	})
}
