package controllers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"baton/forwarder/config"
	"baton/openflow"
	"baton/openflow/channel"
)

// Handler is implemented by the forwarder. Its functions are called one at a time, in the turn (see [Controllers.Do]), perhaps before Open has
// returned.
type Handler struct {
	// Features returns the forwarder's identity.
	Features func() openflow.FeaturesReply
	// Handle handles a message that passes [openflow.Check] and that the sender's role allows: a flow, group, port, table or meter mod, a
	// packet-out, a bundle message, a complete multipart request, or a SetConfig that changes the handling of fragments. It calls Reply or
	// Refuse before it returns. m aliases raw, which is not reused.
	Handle func(c *Channel, xid uint32, m openflow.Message, raw []byte)
	// OnChange is called when the first of the configured controllers has connected, and when the last one is lost: for the fail modes
	// [6.3.3]. Initially none is connected. Controllers that connect to us do not count, and the forwarder's own end loses no channel. May be
	// nil.
	OnChange func(connected bool)
}

// Controllers manages the channels of a forwarder.
type Controllers struct {
	cfg   *config.Config // as of Open; listeners and controllers may have changed since
	h     Handler
	log   *slog.Logger
	begin func(*origin, net.Listener) // starts serving an origin's channels, until it or everything is stopped
	ended func() bool                 // the forwarder is ending
	stop  context.CancelFunc
	tasks sync.WaitGroup

	configuring sync.RWMutex // guards origins
	origins     []*origin    // in the configuration's order, controllers first

	// The turn is a lock for handling messages: it is held while a value is in the channel. Waiters get it in order of arrival.
	turn chan struct{}
	// The fields below are accessed in the turn only.
	fence fence
	frag  openflow.ConfigFlags

	channels atomic.Pointer[[]*Channel] // channels that are up: copy on write, in the turn
	active   atomic.Int32               // number of those to configured controllers
}

// origin is a configured endpoint.
type origin struct {
	endpoint config.Endpoint
	listens  bool
	name     string // required in the peer's certificate
	peers    config.Peers
	stop     context.CancelFunc // ends its channels
	counts   counts

	mu          sync.Mutex
	failed      failure
	connections int        // accepted ones
	pending     []*pending // those without hello, oldest first
	crowded     bool       // the limit was reached
}

// Open starts the configured listeners, and connects to the controllers. This continues until Close is called or ctx ends. The caller must
// call Close.
func Open(ctx context.Context, cfg *config.Config, h Handler, log *slog.Logger) (*Controllers, error) {
	if cfg.TLS != nil {
		if _, _, err := cfg.TLS.Read(); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	c := &Controllers{cfg: cfg, h: h, log: log, stop: stop, turn: make(chan struct{}, 1), ended: func() bool { return ctx.Err() != nil }}
	c.begin = func(o *origin, l net.Listener) {
		var own context.Context
		own, o.stop = context.WithCancel(ctx)
		if o.listens {
			c.tasks.Go(func() { c.accept(own, o, l) })
		} else {
			c.tasks.Go(func() { c.connect(own, o) })
		}
	}
	c.channels.Store(&[]*Channel{})
	if err := c.Update(cfg); err != nil {
		stop()
		return nil, err
	}
	return c, nil
}

// Close ends all channels and waits for their goroutines. It must not be called in the turn.
func (c *Controllers) Close() {
	c.stop()
	c.tasks.Wait()
}

// Do calls f in the turn: no message is handled meanwhile. It must not be called in the turn.
func (c *Controllers) Do(f func()) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	f()
}

// Connected is the number of configured controllers with a channel.
func (c *Controllers) Connected() int { return int(c.active.Load()) }

// serve runs a channel over a connection, which it closes. After the hellos it calls settle, if not nil, to ask whether the channel may stay.
// It returns why the channel ended, and whether it was up.
func (c *Controllers) serve(ctx context.Context, o *origin, rw io.ReadWriteCloser, peer string, settle func() bool) (up bool, err error) {
	conn := channel.Start(rw, channel.Options{Idle: o.peers.Idle, Dead: o.peers.Dead})
	defer conn.Close()
	if err := conn.Up(ctx); err != nil {
		return false, err
	}
	if settle != nil && !settle() {
		return false, errEvicted
	}
	ch := newChannel(ctx, c, o, conn, peer)
	defer ch.close()
	o.counts.opened.Add(1)
	level := slog.LevelInfo
	if o.listens {
		level = slog.LevelDebug // frequent for tools
	}
	c.log.Log(ctx, level, "channel is up", "channel", ch.String())
	c.Do(func() { c.join(ch) })
	defer c.Do(func() { c.leave(ch) })
	for {
		r, err := conn.Receive(ch.ctx)
		if err != nil {
			return true, ch.why(err)
		}
		c.Do(func() { ch.take(r.XID, r.Message, r.Raw) })
		if err := ch.drained(); err != nil {
			return true, err
		}
	}
}

// join adds a channel to those that get asynchronous messages. Called in the turn.
func (c *Controllers) join(ch *Channel) {
	if c.change(append(slices.Clip(*c.channels.Load()), ch)) == 1 && !ch.origin.listens && c.h.OnChange != nil {
		c.h.OnChange(true)
	}
}

// leave reverts join. Called in the turn.
func (c *Controllers) leave(ch *Channel) {
	rest := slices.DeleteFunc(slices.Clone(*c.channels.Load()), func(o *Channel) bool { return o == ch })
	if c.change(rest) == 0 && !ch.origin.listens && c.h.OnChange != nil && !c.ended() {
		c.h.OnChange(false)
	}
}

// change replaces the channels, and returns the number of those to configured controllers.
func (c *Controllers) change(now []*Channel) int {
	active := 0
	for _, ch := range now {
		if !ch.origin.listens {
			active++
		}
	}
	c.channels.Store(&now)
	c.active.Store(int32(active))
	return active
}
