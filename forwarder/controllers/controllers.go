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

// Handler is what the forwarder does itself. Its functions are called one at a time, in the turn (see [Controllers.Do]), and may be
// before Open has returned.
type Handler struct {
	// Features says who the forwarder is.
	Features func() openflow.FeaturesReply
	// Handle carries out a message that [openflow.Check] lets pass and its sender's role allows: a flow, group, port, table or
	// meter mod, a packet-out, a part of a bundle, a multipart request that is whole, and a SetConfig that changes the handling
	// of fragments. It answers with Reply and Refuse, before it returns. m aliases raw, which is not used again.
	Handle func(c *Channel, xid uint32, m openflow.Message, raw []byte)
	// OnChange is called when the first of the configured controllers has a channel, and when the last has lost it: for the fail
	// modes [6.3.3]. At the start there is none. Others that connect by themselves do not count, and no channel is lost by the end
	// of the forwarder itself. Nil: nobody asks.
	OnChange func(connected bool)
}

// Controllers are the channels of a forwarder.
type Controllers struct {
	cfg   *config.Config // that it was opened with: where it listens and connects to may have changed since
	h     Handler
	log   *slog.Logger
	begin func(*origin, net.Listener) // has an origin serve channels until it is stopped, or all are
	ended func() bool                 // the forwarder itself ends
	stop  context.CancelFunc
	tasks sync.WaitGroup

	configuring sync.RWMutex // guards origins
	origins     []*origin    // in the order of the configuration, controllers first

	// The turn: whoever has put a value in may handle a message. Those who wait get it in the order in which they came.
	turn chan struct{}
	// What follows is of the turn alone.
	fence fence
	frag  openflow.ConfigFlags

	channels atomic.Pointer[[]*Channel] // those that are up: replaced in the turn, never changed
	active   atomic.Int32               // of them, those to configured controllers
}

// origin is a configured endpoint: channels go to it or come in at it.
type origin struct {
	endpoint config.Endpoint
	listens  bool
	name     string // that the peer's certificate must be for
	peers    config.Peers
	stop     context.CancelFunc // ends its channels
	counts   counts

	mu          sync.Mutex
	failed      failure
	connections int        // that others have opened
	pending     []*pending // of them, those that have not said hello; the oldest first
	crowded     bool       // there have been more than there may be
}

// Open listens where the configuration says so, begins to connect to its controllers, and goes on with both until Close is
// called or ctx ends. The caller closes it.
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

// Close ends all channels and waits until nothing of them is left. It must not be called in the turn.
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

// Connected is how many of the configured controllers have a channel.
func (c *Controllers) Connected() int { return int(c.active.Load()) }

// serve is the life of one channel over a connection, which it closes. When the hellos have been said it asks settle whether the channel may
// be; nil: it may. It returns why the channel ended, and whether it was up.
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
		level = slog.LevelDebug // tools come and go
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

// join makes a channel one of those that get asynchronous messages. It is called in the turn.
func (c *Controllers) join(ch *Channel) {
	if c.change(append(slices.Clip(*c.channels.Load()), ch)) == 1 && !ch.origin.listens && c.h.OnChange != nil {
		c.h.OnChange(true)
	}
}

// leave undoes join. It is called in the turn.
func (c *Controllers) leave(ch *Channel) {
	rest := slices.DeleteFunc(slices.Clone(*c.channels.Load()), func(o *Channel) bool { return o == ch })
	if c.change(rest) == 0 && !ch.origin.listens && c.h.OnChange != nil && !c.ended() {
		c.h.OnChange(false)
	}
}

// change replaces the channels and returns how many are to configured controllers.
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
