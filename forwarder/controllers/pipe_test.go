package controllers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/forwarder/config"
	"baton/openflow"
	"baton/openflow/channel"
)

// stage is Controllers without endpoints of their own, and what they were asked to do.
type stage struct {
	*Controllers
	handle func(c *Channel, xid uint32, m openflow.Message, raw []byte) // nil: it is noted

	quiet   bool // nothing is noted
	mu      sync.Mutex
	handled []openflow.Message
	changes []bool
}

// long is time enough for everything that is to come.
const long = 20 * time.Second

func newStage(t testing.TB, edit func(*config.Config)) *stage {
	t.Helper()
	cfg, err := config.Parse("f", []byte("ports: [eth1]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(cfg)
	}
	s := &stage{}
	s.Controllers, err = Open(t.Context(), cfg, Handler{
		Features: func() openflow.FeaturesReply { return openflow.FeaturesReply{DatapathID: 0x42, Tables: 3} },
		Handle: func(c *Channel, xid uint32, m openflow.Message, raw []byte) {
			if !s.quiet {
				s.mu.Lock()
				s.handled = append(s.handled, m)
				s.mu.Unlock()
			}
			if s.handle != nil {
				s.handle(c, xid, m, raw)
			}
		},
		OnChange: func(connected bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changes = append(s.changes, connected)
		},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// of says what the peer at a connection is: a configured controller unless listens.
type of struct {
	readOnly, listens bool
}

// over serves a channel over one end of a pipe and returns the other end.
func (s *stage) over(t testing.TB, which of) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	o := &origin{
		endpoint: config.Endpoint{Method: "unix", Address: "/test"}, listens: which.listens,
		peers: config.Peers{ReadOnly: which.readOnly, Idle: long, Dead: 2 * long},
	}
	s.mu.Lock()
	s.origins = append(s.origins, o)
	s.mu.Unlock()
	s.tasks.Go(func() {
		_, err := s.serve(t.Context(), o, here, "", nil)
		o.fail(err)
	})
	t.Cleanup(func() { there.Close() })
	return there
}

// controller is a controller that has a channel.
func (s *stage) controller(t testing.TB, which of) *channel.Conn {
	t.Helper()
	c := channel.Start(s.over(t, which), channel.Options{Idle: long, Dead: 2 * long})
	t.Cleanup(func() { c.Close() })
	if err := c.Up(within(t)); err != nil {
		t.Fatal(err)
	}
	ask(t, c, &openflow.BarrierRequest{}) // the other side is up, too
	return c
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	t.Cleanup(cancel)
	return ctx
}

// ask returns the answer to a request, or the code of the error that refuses it.
func ask(t testing.TB, c *channel.Conn, m openflow.Message) any {
	t.Helper()
	answer, err := c.Request(within(t), m)
	var refused *channel.Refused
	if errors.As(err, &refused) {
		return refused.Answer.Code
	}
	if err != nil {
		t.Fatalf("%v: %v", m.Type(), err)
	}
	return answer
}

// submit sends a message that has no answer and returns the code of the error that refuses it, or 0.
func submit(t testing.TB, c *channel.Conn, m openflow.Message) openflow.Code {
	t.Helper()
	err := c.Commit(within(t), m)
	var refused *channel.Refused
	if errors.As(err, &refused) {
		return refused.Answer.Code
	}
	if err != nil {
		t.Fatalf("%v: %v", m.Type(), err)
	}
	return 0
}

// next returns the next message that c has not asked for.
func next(t testing.TB, c *channel.Conn) openflow.Message {
	t.Helper()
	r, err := c.Receive(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return r.Message
}

// waiting returns a message that has come and that c has not asked for, if there is one.
func waiting(t testing.TB, c *channel.Conn) (openflow.Message, bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := c.Receive(ctx)
	return r.Message, err == nil
}

// none fails if anything comes that c has not asked for.
func none(t testing.TB, c *channel.Conn) {
	t.Helper()
	ask(t, c, &openflow.BarrierRequest{})
	if m, ok := waiting(t, c); ok {
		t.Errorf("received %T, want nothing", m)
	}
}

func (s *stage) took() []openflow.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.handled
	s.handled = nil
	return taken
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// eventually polls until ok, which is near.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for ctx := within(t); !ok(); {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}
