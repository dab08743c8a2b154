package northbound

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
)

// large is the state of a busy controller: a subscription to all of it has some 6 MB, more than the kernel takes for a caller.
func large() Source {
	steps := make([]api.ControllerStep, 60)
	for i := range steps {
		steps[i] = api.ControllerStep{At: time.Duration(i) * time.Millisecond, Kind: "flow-mod", From: "controller", To: "access", Label: "flow mod 2"}
	}
	client := func(i int) string { return fmt.Sprintf("10.1.%d.%d:40000", i/250, i%250+1) }
	list := func() (all []api.ControllerHandoff) {
		for i := range 1000 {
			all = append(all, api.ControllerHandoff{
				ID: uint64(i), Client: port(client(i)), Service: port("10.9.9.9:80"), Surrogate: "se1", Request: "GET /a/path", Steps: append([]api.ControllerStep{}, steps...),
			})
		}
		return all
	}
	s := (&fixture{}).source()
	s.Handoffs = list
	s.Sessions = func() (all []api.ControllerSession) {
		for i := range 1000 {
			all = append(all, api.ControllerSession{Client: port(client(i)), Service: port("10.9.9.9:80"), State: api.ControllerEstablished, Since: t0})
		}
		return all
	}
	s.Decisions = func() (all []api.RoutingDecision) {
		for i := range 1000 {
			all = append(all, api.RoutingDecision{Time: t0.Add(time.Duration(i)), Method: "handoff"})
		}
		return all
	}
	return s
}

const subscribeAll = `{"jsonrpc":"2.0","id":%d,"method":"subscribe","params":{"topics":["sessions","handoffs","decisions","topology","rates","surrogates"]}}`

// batchOf is a batch of subscriptions.
func batchOf(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(subscribeAll, i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// sendOnly sends messages, or the request of a REST call, and never reads. It returns the connection once the server has begun to answer.
func (f *fixture) sendOnly(t testing.TB, messages ...string) net.Conn {
	t.Helper()
	c := f.deaf(t)
	_, err := fmt.Fprintf(c, "GET /v1/ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: jsonrpc\r\nAuthorization: Bearer %s\r\n\r\n", f.address, secrets[Viewer])
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(r, err)
	}
	go func() {
		for _, m := range messages {
			frame := binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(m)))
			frame = append(append(frame, 0, 0, 0, 0), m...) // masked by zeros
			if _, err := c.Write(frame); err != nil {
				return
			}
		}
	}()
	return c
}

// deaf is a connection with little room for what it does not read.
func (f *fixture) deaf(t testing.TB) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) }), err)
	}}
	c, err := d.DialContext(t.Context(), "tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// watch measures the heap and the accounting until the function that it returns is called. Far above what is allowed it hangs up, before
// the machine has no memory.
func (f *fixture) watch(t *testing.T, hangUp func()) (stop func()) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	}
	runtime.GC()
	idle, most, held, done := heap(), int64(0), int64(0), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			bytes, _ := f.budget.numbers()
			most, held = max(most, heap()-idle), max(held, bytes)
			if most > 1<<30 {
				hangUp()
				return
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
		t.Logf("the heap is at most %d MiB above idle, of which %d MiB are accounted for", most>>20, held>>20)
		if most > 256<<20 {
			t.Errorf("the heap grew by %d MiB", most>>20)
		}
		if bound := f.limits.Answers + int64(f.limits.Lists)*(8<<20); held > bound {
			t.Errorf("%d bytes are held, more than %d", held, bound)
		}
	}
}

// TestCallersThatDoNotRead: whatever they call for, and as many as they are, memory is bounded and others are answered.
func TestCallersThatDoNotRead(t *testing.T) {
	for name, tt := range map[string]struct {
		callers, messages int
		message           string
	}{
		"one, 5,760 subscriptions in batches":    {1, 64, batchOf(90)},
		"200, a subscription each":               {200, 1, fmt.Sprintf(subscribeAll, 1)},
		"200, 5,760 subscriptions each":          {200, 64, batchOf(90)},
		"200, each with batches that are no use": {200, 100, "[" + strings.Repeat("{},", 99) + "{}]"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(c *Config) { c.Source, c.Limits.Call = large(), time.Minute })
			var all []net.Conn
			var once sync.Once
			hangUp := func() {
				once.Do(func() {
					for _, c := range all {
						_ = c.Close()
					}
				})
			}
			defer f.watch(t, hangUp)()
			messages := make([]string, tt.messages)
			for i := range messages {
				messages[i] = tt.message
			}
			for range tt.callers {
				all = append(all, f.sendOnly(t, messages...))
			}
			defer hangUp()
			f.answersOthers(t, 2*time.Second)
		})
	}
}

// answersOthers asserts that other callers are answered for a while.
func (f *fixture) answersOthers(t *testing.T, during time.Duration) {
	t.Helper()
	var most time.Duration
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		began := time.Now()
		p := f.dial(t, Viewer)
		p.SetReadLimit(16 << 20)
		if result, code, message := p.call("subscribe", `{"topics":["handoffs","sessions"]}`); code != 0 || len(result) < 1<<20 {
			t.Fatalf("%d bytes, %d %s", len(result), code, message)
		}
		_ = p.CloseNow()
		most, began = max(most, time.Since(began)), time.Now()
		if status, body, _ := f.request(t, Viewer, "GET", "/v1/decisions", ""); status != http.StatusOK || len(body) < 1<<10 {
			t.Fatalf("%d: %d bytes", status, len(body))
		}
		most = max(most, time.Since(began))
	}
	t.Logf("calls of others took at most %v", most)
	if most > 10*time.Second { // on an idle machine less than one
		t.Errorf("a call of another took %v", most)
	}
}

// TestRESTCallersThatDoNotRead: they hold neither memory nor the places of those that do.
func TestRESTCallersThatDoNotRead(t *testing.T) {
	f := start(t, func(c *Config) { c.Source, c.Limits.Call = large(), time.Minute })
	defer f.watch(t, func() {})()
	for range 200 {
		if _, err := fmt.Fprintf(f.deaf(t), "GET /v1/handoffs HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", f.address, secrets[Viewer]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Second)
	f.answersOthers(t, 2*time.Second)
}

// TestSlowReaderIsNotCutOff: a caller that reads little by little gets all of its answer, while others that do not read are cut off.
func TestSlowReaderIsNotCutOff(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Source = large()
		c.Limits.Answers, c.Limits.Call, c.Limits.Stall = 8<<20, time.Minute, 2*time.Second
	})
	p := f.dial(t, Viewer)
	p.SetReadLimit(16 << 20)
	whole, _, _ := p.call("subscribe", `{"topics":["sessions","handoffs","decisions","topology","rates","surrogates"]}`)
	slow := f.sendOnly(t, fmt.Sprintf(subscribeAll, 1))
	_ = slow.(*net.TCPConn).SetReadBuffer(64 << 10)
	var read atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for piece := make([]byte, 64<<10); ; time.Sleep(20 * time.Millisecond) {
			n, err := slow.Read(piece)
			if err != nil {
				return
			}
			read.Add(int64(n))
		}
	}()
	for range 20 {
		f.sendOnly(t, fmt.Sprintf(subscribeAll, 1))
	}
	eventually(t, "others are cut off", func() bool {
		f.counts.mu.Lock()
		defer f.counts.mu.Unlock()
		return f.counts.refused["unread"] > 2
	})
	eventually(t, "the slow one has all of its answer", func() bool { return read.Load() > int64(len(whole)) })
	select {
	case <-ended:
		t.Error("it is cut off")
	default:
	}
}

// TestCallersThatReadSlowly: they cannot hold all of the budget, although each reads on.
func TestCallersThatReadSlowly(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Source = large()
		c.Limits.Answers, c.Limits.Call = 8<<20, time.Minute
	})
	for range 8 {
		c := f.sendOnly(t, batchOf(4))
		go func() {
			for piece := make([]byte, 64<<10); ; time.Sleep(100 * time.Millisecond) {
				if _, err := io.ReadFull(c, piece); err != nil {
					return
				}
			}
		}()
	}
	eventually(t, "all is used", func() bool { bytes, _ := f.budget.numbers(); return bytes >= 8<<20 })
	f.answersOthers(t, 2*time.Second)
}

// TestBatchAboveShare: what does not fit into a connection's share is refused, call by call, and works afterwards.
func TestBatchAboveShare(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Source = large()
		c.Limits.Answer = 6 << 20
	})
	p := f.dial(t, Viewer)
	p.SetReadLimit(64 << 20)
	p.send(batchOf(20))
	text := p.receive()
	answered, refused := strings.Count(text, `"result":`), strings.Count(text, `"code":4429`)
	if answered < 2 || refused < 10 || answered+refused != 20 {
		t.Errorf("%d are answered, %d refused", answered, refused)
	}
	if _, code, message := p.call("handoffs", "{}"); code != 0 {
		t.Errorf("afterwards: %d %s", code, message)
	}
	eventually(t, "nothing is held", func() bool { bytes, _ := f.budget.numbers(); return bytes == 0 })
}

// TestEventsOfSubscribersThatDoNotRead: an event counts once, until the last of its subscribers has it or is gone.
func TestEventsOfSubscribersThatDoNotRead(t *testing.T) {
	h := NewHub()
	a, b := h.join(func() {}), h.join(func() {})
	for _, s := range []*subscriber{a, b} {
		h.follow(s, api.TopicHandoffs, true)
	}
	h.Publish(api.TopicHandoffs, api.ControllerHandoff{Request: strings.Repeat("x", 1000)})
	if n := h.unsent.Load(); n < 1000 || n > 2000 {
		t.Fatalf("%d bytes", n)
	}
	h.sent(a, <-a.queue)
	if h.unsent.Load() == 0 {
		t.Error("one has it, and the other is forgotten")
	}
	h.leave(b)
	if n := h.unsent.Load(); n != 0 {
		t.Errorf("%d bytes of nobody", n)
	}
}
