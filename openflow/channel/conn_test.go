package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/openflow"
)

// within is a context that ends long after any of this should.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pair is a controller and a switch on one connection, both up.
func pair(t *testing.T, o Options) (controller, node *Conn) {
	t.Helper()
	a, b := net.Pipe()
	controller, node = Start(a, o), Start(b, o)
	t.Cleanup(func() { controller.Close(); node.Close() })
	for _, c := range []*Conn{controller, node} {
		if err := c.Up(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	return controller, node
}

// bare is a channel whose peer is the connection that is returned.
func bare(t *testing.T, o Options) (*Conn, net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	c := Start(a, o)
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, b
}

// ends requires that the channel ends, for that reason.
func ends(t *testing.T, c *Conn, why error) {
	t.Helper()
	select {
	case <-c.Done():
	case <-within(t).Done():
		t.Fatal("the channel lives")
	}
	if err := c.Err(); !errors.Is(err, why) {
		t.Errorf("ended with %v, want %v", err, why)
	}
}

func encode(t *testing.T, xid uint32, m openflow.Message) []byte {
	t.Helper()
	b, err := openflow.Append(nil, xid, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send writes a message as the peer.
func send(t *testing.T, peer io.Writer, xid uint32, m openflow.Message) {
	t.Helper()
	if _, err := peer.Write(encode(t, xid, m)); err != nil {
		t.Fatal(err)
	}
}

// await reads as the peer until a message of that type comes, and returns its xid.
func await(t *testing.T, peer io.Reader, want openflow.Type) uint32 {
	t.Helper()
	for {
		head := make([]byte, openflow.HeaderSize)
		if _, err := io.ReadFull(peer, head); err != nil {
			t.Fatal(err)
		}
		h, err := openflow.ParseHeader(head)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, peer, int64(h.Length)-openflow.HeaderSize); err != nil {
			t.Fatal(err)
		}
		if h.Type == want {
			return h.XID
		}
	}
}

// serve answers what the switch gets until the channel ends: multiparts in three parts, flow mods of table 9 with an error.
func serve(node *Conn) error {
	for {
		r, err := node.Receive(context.Background())
		if err != nil {
			return err
		}
		var answers []openflow.Message
		switch m := r.Message.(type) {
		case *openflow.FeaturesRequest:
			answers = append(answers, &openflow.FeaturesReply{DatapathID: 5})
		case *openflow.MultipartRequest:
			for i := range 3 {
				flags := openflow.MultipartMore
				if i == 2 {
					flags = 0
				}
				answers = append(answers, &openflow.PacketIn{}, &openflow.MultipartReply{
					Flags: flags, Body: openflow.TableStatsReply{{Table: openflow.TableID(i)}},
				})
			}
		case *openflow.FlowMod:
			if m.Table == 9 {
				answers = append(answers, (&openflow.Fault{Code: openflow.FlowModFailedTableFull}).Answer(r.Raw))
			}
		case *openflow.BarrierRequest:
			answers = append(answers, &openflow.BarrierReply{})
		}
		for _, a := range answers {
			if err := node.SendWait(context.Background(), r.XID, a); err != nil {
				return err
			}
		}
	}
}

func TestRequests(t *testing.T) {
	controller, node := pair(t, Options{})
	served := make(chan error, 1)
	go func() { served <- serve(node) }()
	ctx := within(t)

	reply, err := controller.Request(ctx, &openflow.FeaturesRequest{})
	if f, ok := reply.(*openflow.FeaturesReply); err != nil || !ok || f.DatapathID != 5 {
		t.Errorf("features: got %+v, %v", reply, err)
	}
	parts, err := controller.Multipart(ctx, openflow.TableStatsRequest{})
	if err != nil || len(parts) != 3 || parts[2].(openflow.TableStatsReply)[0].Table != 2 {
		t.Errorf("multipart: got %+v, %v", parts, err)
	}
	good, bad := openflow.NewFlowMod(openflow.FlowAdd), openflow.NewFlowMod(openflow.FlowAdd)
	bad.Table = 9
	if err := controller.Commit(ctx, good, good); err != nil {
		t.Errorf("commit: %v", err)
	}
	err = controller.Commit(ctx, good, bad, good, bad)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Answer.Code != openflow.FlowModFailedTableFull || refused.Request != bad ||
		strings.Count(err.Error(), "refused") != 2 {
		t.Errorf("commit of refused messages: %v", err)
	}
	// The packet-ins in between have the request's xid, but answer nothing.
	for range 3 {
		if r, err := controller.Receive(ctx); err != nil || r.Message.Type() != openflow.TypePacketIn {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	controller.mu.Lock()
	if n := len(controller.waiters); n != 0 {
		t.Errorf("%d requests are remembered", n)
	}
	controller.mu.Unlock()
	controller.Close()
	if err := <-served; !errors.Is(err, io.EOF) {
		t.Errorf("the switch's channel ended with %v", err)
	}
	if _, err := controller.Request(ctx, &openflow.FeaturesRequest{}); !errors.Is(err, ErrClosed) {
		t.Errorf("request on a closed channel: %v", err)
	}
}

func TestRequestsAtOnce(t *testing.T) {
	controller, node := pair(t, Options{})
	go serve(node) //nolint:errcheck // ends with the channel
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				if parts, err := controller.Multipart(within(t), openflow.TableStatsRequest{}); err != nil || len(parts) != 3 {
					t.Errorf("got %d parts, %v", len(parts), err)
				}
				if r, err := controller.Receive(within(t)); err != nil || r.Message.Type() != openflow.TypePacketIn {
					t.Errorf("got %+v, %v", r, err)
				}
			}
		})
	}
	all.Wait()
}

// TestOrder: messages arrive in the order in which they were sent, so that a barrier stands where it was put.
func TestOrder(t *testing.T) {
	controller, node := pair(t, Options{})
	const n = 5000
	go func() {
		for i := range uint32(n) {
			if err := controller.SendWait(context.Background(), i, &openflow.BarrierRequest{}); err != nil {
				return
			}
		}
	}()
	for i := range uint32(n) {
		if r, err := node.Receive(within(t)); err != nil || r.XID != i {
			t.Fatalf("got %d, %v, want %d", r.XID, err, i)
		}
	}
}

// TestOwnXIDs: a request of the peer's that has the xid of ours is not its answer.
func TestOwnXIDs(t *testing.T) {
	c, peer := bare(t, Options{})
	answered := make(chan error, 1)
	go func() {
		_, err := c.Request(context.Background(), &openflow.RoleRequest{})
		answered <- err
	}()
	await(t, peer, openflow.TypeHello)
	if err := c.Send(1, &openflow.EchoRequest{}); !errors.Is(err, ErrNotUp) {
		t.Errorf("sent before the version was agreed upon: %v", err)
	}
	send(t, peer, 1, openflow.NewHello())
	xid := await(t, peer, openflow.TypeRoleRequest)
	send(t, peer, xid, &openflow.RoleRequest{})
	if r, err := c.Receive(within(t)); err != nil || r.XID != xid {
		t.Fatalf("got %+v, %v", r, err)
	}
	send(t, peer, xid, &openflow.RoleReply{})
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestFlood: a peer that sends without end fills the queue and then waits; nothing is lost.
func TestFlood(t *testing.T) {
	controller, node := pair(t, Options{In: leastQueue, Out: leastQueue, Idle: time.Hour, Dead: 2 * time.Hour})
	sent := uint32(0)
	packet := &openflow.PacketIn{Data: make([]byte, 1000)}
	full := func() bool { // when the controller's queue is, too
		controller.mu.Lock()
		defer controller.mu.Unlock()
		return controller.held
	}
	for {
		if err := node.Send(sent, packet); err == nil {
			sent++
		} else if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		} else if full() {
			break
		}
	}
	controller.mu.Lock()
	if controller.inBytes < leastQueue || controller.inBytes > leastQueue+openflow.MaxLength {
		t.Errorf("%d bytes wait in a queue of %d", controller.inBytes, leastQueue)
	}
	controller.mu.Unlock()
	for i := range sent {
		if r, err := controller.Receive(within(t)); err != nil || r.XID != i {
			t.Fatalf("got %d, %v, want %d of %d", r.XID, err, i, sent)
		}
	}
	if err := node.SendWait(within(t), sent, packet); err != nil {
		t.Error(err)
	}
}

// TestEchoFlood: a peer that asks for echoes and reads none neither grows memory nor stays.
func TestEchoFlood(t *testing.T) {
	t.Parallel()
	c, peer := bare(t, Options{Out: leastQueue, Idle: 10 * time.Millisecond, Dead: time.Second})
	go func() {
		b := encode(t, 1, openflow.NewHello())
		for echo := encode(t, 2, &openflow.EchoRequest{Data: make([]byte, 10000)}); ; b = echo {
			if _, err := peer.Write(b); err != nil {
				return
			}
		}
	}()
	ends(t, c, ErrStalled)
	if n := len(c.out) + c.writing; n > leastQueue {
		t.Errorf("%d bytes wait in a queue of %d", n, leastQueue)
	}
}

// TestStall: what finds no room is refused, and a peer that talks but does not read is left.
func TestStall(t *testing.T) {
	t.Parallel()
	c, peer := bare(t, Options{Idle: 10 * time.Millisecond, Dead: time.Second})
	go func() {
		b := encode(t, 1, openflow.NewHello())
		for ; ; b = encode(t, 2, &openflow.EchoReply{}) {
			if _, err := peer.Write(b); err != nil {
				return
			}
		}
	}()
	packet := &openflow.PacketIn{Data: make([]byte, 1000)}
	for {
		if err := c.Send(0, packet); errors.Is(err, ErrFull) || errors.Is(err, ErrStalled) {
			break
		} else if err != nil && !errors.Is(err, ErrNotUp) {
			t.Fatal(err)
		}
	}
	if err := c.SendWait(within(t), 0, packet); !errors.Is(err, ErrStalled) {
		t.Errorf("got %v", err)
	}
	ends(t, c, ErrStalled)
}

func TestSilence(t *testing.T) {
	c, peer := bare(t, Options{Idle: 10 * time.Millisecond, Dead: 50 * time.Millisecond})
	go io.Copy(io.Discard, peer) //nolint:errcheck // ends with the channel
	ends(t, c, ErrSilent)
}

// TestLives: a peer that has nothing to say is asked for echoes, and keeps its channel by answering them.
func TestLives(t *testing.T) {
	c, peer := bare(t, Options{Idle: 5 * time.Millisecond, Dead: time.Minute})
	send(t, peer, 1, openflow.NewHello())
	for range 3 {
		xid := await(t, peer, openflow.TypeEchoRequest)
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		send(t, peer, xid, &openflow.EchoReply{})
	}
}

// TestLastWords: before a channel ends for what the peer did wrong, it says so.
func TestLastWords(t *testing.T) {
	hello := "\x04\x00\x00\x08\x00\x00\x00\x01"
	tests := []struct {
		name, sends string
		want        openflow.Code
		err         string
	}{
		{"version", "\x01\x00\x00\x08\x00\x00\x00\x01", openflow.HelloFailedIncompatible, "no common version"},
		{"no hello", "\x04\x05\x00\x08\x00\x00\x00\x01", openflow.HelloFailedIncompatible, "before the hello"},
		{"a length below the header's", hello + "\x04\x05\x00\x07\x00\x00\x00\x01", openflow.BadRequestBadLen, "message of 7 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := bare(t, Options{})
			go io.WriteString(peer, tt.sends) //nolint:errcheck // ends with the channel
			said, err := io.ReadAll(peer)
			if err != nil {
				t.Fatal(err)
			}
			ours := encode(t, 1, openflow.NewHello())
			rest, ok := bytes.CutPrefix(said, ours)
			if !ok {
				t.Fatalf("got % x", said)
			}
			_, m, err := openflow.Decode(rest)
			if e, ok := m.(*openflow.Error); err != nil || !ok || e.Code != tt.want {
				t.Errorf("got %+v, %v, want %v", m, err, tt.want)
			}
			<-c.Done()
			if err := c.Err(); err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestCutOff(t *testing.T) {
	for _, left := range []int{4, 50} { // of a message, in bytes
		c, peer := bare(t, Options{})
		await(t, peer, openflow.TypeHello)
		whole := encode(t, 1, &openflow.EchoRequest{Data: make([]byte, 100)})
		if _, err := peer.Write(append(encode(t, 1, openflow.NewHello()), whole[:left]...)); err != nil {
			t.Fatal(err)
		}
		peer.Close()
		ends(t, c, io.ErrUnexpectedEOF)
	}
}

// TestAnswerTooLong: a multipart reply without end does not fill the memory.
func TestAnswerTooLong(t *testing.T) {
	a, b := net.Pipe()
	controller, node := Start(a, Options{Answer: 10000}), Start(b, Options{})
	defer controller.Close()
	defer node.Close()
	go func() {
		r, err := node.Receive(context.Background())
		for err == nil {
			err = node.SendWait(context.Background(), r.XID, &openflow.MultipartReply{
				Flags: openflow.MultipartMore, Body: openflow.PortDescReply(make([]openflow.Port, 10)),
			})
		}
	}()
	if err := controller.Up(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Multipart(within(t), openflow.PortDescRequest{}); !errors.Is(err, ErrAnswer) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkPacketIns(b *testing.B) {
	client, server := net.Pipe()
	controller, node := Start(client, Options{}), Start(server, Options{})
	defer controller.Close()
	defer node.Close()
	packet := &openflow.PacketIn{Buffer: openflow.NoBuffer, Match: openflow.Match{}.Port(1), Data: make([]byte, 64)}
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			if err := node.SendWait(context.Background(), 0, packet); err != nil {
				return
			}
		}
	}()
	for i := range b.N {
		if _, err := controller.Receive(context.Background()); err != nil {
			b.Fatal(fmt.Errorf("packet %d: %w", i, err))
		}
	}
}
