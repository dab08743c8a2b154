package channel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"baton/openflow"
)

// Options are the limits of a channel. Zero fields have defaults.
type Options struct {
	// Idle is how long the peer may be silent before it is sent an echo request; Dead is how long it may be silent or not read before the
	// channel ends. Defaults: 5 s, 15 s.
	Idle, Dead time.Duration
	// In and Out are the sizes of the queues to the user and to the peer in bytes, at least 128 KiB. Default: 1 MiB. In may be exceeded by one
	// message.
	In, Out int
	// Answer is the maximum size of all parts of a multipart reply. Default: 64 MiB, about 500,000 flow entries.
	Answer int
}

// leastQueue is the size of two messages of maximum length.
const leastQueue = 128 << 10

func (o Options) withDefaults() Options {
	if o.Idle <= 0 {
		o.Idle = 5 * time.Second
	}
	if o.Dead <= 0 {
		o.Dead = 15 * time.Second
	}
	if o.In <= 0 {
		o.In = 1 << 20
	}
	if o.Out <= 0 {
		o.Out = 1 << 20
	}
	if o.Answer <= 0 {
		o.Answer = 64 << 20
	}
	o.In, o.Out = max(o.In, leastQueue), max(o.Out, leastQueue)
	return o
}

// Reasons why a message is not sent now, while the channel stays up.
var (
	// ErrFull: the queue to the peer is full.
	ErrFull = errors.New("the peer reads too slowly")
	// ErrNotUp: the version has not been negotiated yet.
	ErrNotUp = errors.New("the channel is not up")
)

// Received is a message from the peer.
type Received struct {
	XID     uint32
	Message openflow.Message
	// Raw are its bytes, aliased by Message: for [openflow.Fault.Answer].
	Raw []byte
}

// Conn is a channel over a connection. Its methods may be called concurrently.
type Conn struct {
	rw    io.ReadWriteCloser
	o     Options
	began time.Time
	tasks sync.WaitGroup
	done  chan struct{} // closed when all tasks have ended

	mu      sync.Mutex
	changed sync.Cond // for the fields below
	m       machine
	up      bool
	err     error         // why the channel ended, nil while it is up
	abrupt  bool          // discard the queue to the peer
	ended   time.Duration // when err was set

	in      []Received
	inBytes int
	held    bool // the reader waits for space, so that silence does not count

	out      []byte // encoded and queued
	writing  int    // bytes being written
	progress time.Duration

	waiters map[uint32]*waiter
}

// Start starts a channel over a connection, and sends the hello. The channel owns rw and closes it when it ends; the caller must call Close.
func Start(rw io.ReadWriteCloser, o Options) *Conn {
	o = o.withDefaults()
	c := &Conn{
		rw: rw, o: o, began: time.Now(), done: make(chan struct{}),
		m: machine{idle: o.Idle, dead: o.Dead}, waiters: map[uint32]*waiter{},
	}
	c.changed.L = &c.mu
	c.apply(nil, c.m.start())
	c.tasks.Go(c.read)
	c.tasks.Go(c.write)
	go c.watch()
	return c
}

// lastWords is how long the peer has to read the reason when the channel has ended.
const lastWords = time.Second

// Close ends the channel and waits for its goroutines. Queued messages are discarded, unless the channel had already ended by itself: then the
// peer is told the reason.
func (c *Conn) Close() error {
	if c.Err() != nil {
		select {
		case <-c.done:
		case <-time.After(lastWords):
		}
	}
	c.end(ErrClosed, true)
	<-c.done
	return nil
}

// Done is closed when the channel has ended; Err then returns the reason.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the channel ended, nil while it is up.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Up waits until both sides have agreed on version 1.3.
func (c *Conn) Up(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait(ctx, func() bool { return c.up })
}

// Receive waits for the next message, in order of arrival. It skips hellos, echoes, and the replies that [Conn.Request], [Conn.Multipart] or
// [Conn.Commit] wait for.
func (c *Conn) Receive(ctx context.Context) (Received, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.wait(ctx, func() bool { return len(c.in) > 0 }); err != nil {
		return Received{}, err
	}
	r := c.in[0]
	c.in[0] = Received{} // release the memory
	c.in = c.in[1:]
	c.inBytes -= len(r.Raw)
	c.changed.Broadcast()
	return r, nil
}

// NextXID returns a transaction id for a message of this side.
func (c *Conn) NextXID() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.nextXID()
}

// Send queues a message without waiting; it returns [ErrNotUp], [ErrFull], or why the channel ended. The message is encoded before Send
// returns.
func (c *Conn) Send(xid uint32, m openflow.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trySend(xid, m)
}

func (c *Conn) trySend(xid uint32, m openflow.Message) error {
	switch {
	case c.err != nil:
		return c.err
	case !c.up:
		return ErrNotUp
	}
	return c.queue(xid, m)
}

// SendWait queues a message once the channel is up and the queue has space.
func (c *Conn) SendWait(ctx context.Context, xid uint32, m openflow.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if ended := c.wait(ctx, func() bool {
		err = c.trySend(xid, m)
		return !errors.Is(err, ErrFull) && !errors.Is(err, ErrNotUp)
	}); ended != nil {
		return ended
	}
	return err
}

// queue encodes and queues a message. The caller holds mu.
func (c *Conn) queue(xid uint32, m openflow.Message) error {
	before := len(c.out)
	out, err := openflow.Append(c.out, xid, m)
	if err != nil {
		return err
	}
	if len(out)+c.writing > c.o.Out {
		c.out = out[:before]
		return ErrFull
	}
	c.out = out
	c.changed.Broadcast()
	return nil
}

// wait waits until ok, which is called with mu held, returns true. The caller holds mu. It fails if the channel or ctx ends.
func (c *Conn) wait(ctx context.Context, ok func() bool) error {
	if ok() {
		return nil
	}
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})()
	for {
		if ok() {
			return nil
		}
		if c.err != nil {
			return c.err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.changed.Wait()
	}
}

// end ends the channel; the first reason counts. If abrupt, the queue is discarded.
func (c *Conn) end(why error, abrupt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err, c.ended = why, c.now()
	}
	if abrupt && !c.abrupt {
		c.abrupt = true
		c.rw.Close() // wakes reader and writer; its error does not matter
	}
	c.changed.Broadcast()
}

func (c *Conn) now() time.Duration { return time.Since(c.began) }

// apply executes a step, waiting for space if needed. It reports whether the channel stays up.
func (c *Conn) apply(raw []byte, s step) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.up {
		c.up = true
		c.changed.Broadcast()
	}
	room := func(ok func() bool) bool {
		c.held = true
		err := c.wait(context.Background(), ok)
		c.held = false
		return err == nil
	}
	if s.send != nil && !room(func() bool { return !errors.Is(c.queue(s.xid, s.send), ErrFull) }) {
		return false
	}
	if s.deliver != nil && !c.answers(s.deliver, raw) {
		if !room(func() bool { return c.inBytes < c.o.In }) {
			return false
		}
		h, _ := openflow.ParseHeader(raw) // decoded successfully before
		c.in = append(c.in, Received{h.XID, s.deliver, raw})
		c.inBytes += len(raw)
		c.changed.Broadcast()
	}
	if s.end != nil && c.err == nil {
		c.err, c.ended = s.end, c.now()
		c.changed.Broadcast()
	}
	return c.err == nil
}

// read is the reading goroutine.
func (c *Conn) read() {
	r := bufio.NewReaderSize(c.rw, 64<<10)
	for {
		raw, err := frame(r)
		var fault *openflow.Fault
		if errors.As(err, &fault) { // the next message cannot be found
			h, _ := openflow.ParseHeader(raw)
			c.apply(raw, step{send: fault.Answer(raw), xid: h.XID, end: err})
			return
		}
		if err != nil {
			c.end(fmt.Errorf("read: %w", err), true)
			return
		}
		d := decode(raw) // without holding the lock
		c.mu.Lock()
		s := c.m.take(c.now(), raw, d)
		c.mu.Unlock()
		if !c.apply(raw, s) {
			return
		}
	}
}

// frame reads a message into new memory; with a fault, its header only.
func frame(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(openflow.HeaderSize)
	if err != nil && len(head) > 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	h, err := openflow.ParseHeader(head)
	if err != nil {
		return slices.Clone(head), err
	}
	raw := make([]byte, h.Length)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, fmt.Errorf("in the middle of a message: %w", err)
	}
	return raw, nil
}

// writePiece is the size of a single write in bytes, small enough to notice that a slow peer is reading.
const writePiece = 64 << 10

// write is the writing goroutine. When the channel ends it writes the queue, unless abrupt, and closes the connection.
func (c *Conn) write() {
	var b []byte
	for {
		c.mu.Lock()
		for len(c.out) == 0 && c.err == nil {
			c.changed.Wait()
		}
		if len(c.out) == 0 || c.abrupt {
			c.mu.Unlock()
			break
		}
		b, c.out = c.out, b[:0]
		c.writing, c.progress = len(b), c.now()
		c.mu.Unlock()
		if err := c.writeAll(b); err != nil {
			c.end(fmt.Errorf("write: %w", err), true)
			return
		}
	}
	c.end(ErrClosed, true)
}

func (c *Conn) writeAll(b []byte) error {
	for len(b) > 0 {
		n, err := c.rw.Write(b[:min(len(b), writePiece)])
		b = b[n:]
		c.mu.Lock()
		c.writing, c.progress = len(b), c.now()
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// watch is the goroutine that watches the time. It ends last.
func (c *Conn) watch() {
	rest := make(chan struct{})
	go func() {
		c.tasks.Wait()
		close(rest)
	}()
	ticker := time.NewTicker(max(min(c.o.Idle, c.o.Dead)/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-rest:
			close(c.done)
			return
		case <-ticker.C:
			c.tick()
		}
	}
}

func (c *Conn) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	why := error(nil)
	switch {
	case c.writing > 0 && now-c.progress >= c.o.Dead:
		why = fmt.Errorf("%w for %v", ErrStalled, now-c.progress)
	case c.err != nil:
		if now-c.ended < c.o.Dead {
			return
		}
	default:
		if c.held {
			c.m.heard = now // silence does not count while nothing is read
		}
		s := c.m.tick(now)
		if s.send != nil {
			_ = c.queue(s.xid, s.send) // if the queue is full, the peer has enough to read
		}
		if s.end == nil {
			return
		}
		why = s.end
	}
	if c.err == nil {
		c.err, c.ended = why, now
	}
	c.abrupt = true
	c.rw.Close()
	c.changed.Broadcast()
}
