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

// Options are the bounds of a channel. A field that is zero has its default.
type Options struct {
	// Idle is how long the peer may say nothing before it is asked for an echo, and Dead how long it may say or read nothing
	// before the channel ends. Defaults: 5 s, 15 s.
	Idle, Dead time.Duration
	// In and Out are how many bytes of messages may wait for the user and for the peer, 128 KiB at least. Default: 1 MiB. One
	// message more than In is read.
	In, Out int
	// Answer is how many bytes the parts of one multipart reply may have. Default: 64 MiB, some 500,000 flow entries.
	Answer int
}

// leastQueue holds two of the longest messages.
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

// Why a message is not sent now, though the channel lives.
var (
	// ErrFull: there is no room among those that wait to be sent.
	ErrFull = errors.New("the peer reads too slowly")
	// ErrNotUp: the version is not agreed upon yet.
	ErrNotUp = errors.New("the channel is not up")
)

// Received is a message from the peer.
type Received struct {
	XID     uint32
	Message openflow.Message
	// Raw are its bytes, which Message aliases: for [openflow.Fault.Answer].
	Raw []byte
}

// Conn is a channel over a connection. Its methods may be called from several goroutines at once.
type Conn struct {
	rw    io.ReadWriteCloser
	o     Options
	began time.Time
	tasks sync.WaitGroup
	done  chan struct{} // closed when all tasks have ended

	mu      sync.Mutex
	changed sync.Cond // of what follows
	m       machine
	up      bool
	err     error         // why the channel ends, nil while it lives
	abrupt  bool          // what waits to be sent is not
	ended   time.Duration // when err was set

	in      []Received
	inBytes int
	held    bool // the reader waits for room, so that the peer cannot be heard

	out      []byte // encoded, waits to be written
	writing  int    // bytes of what is being written
	progress time.Duration

	waiters map[uint32]*waiter
}

// Start makes a channel of a connection and sends the hello. The channel owns rw and closes it when it ends; the caller ends
// it with Close.
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

// lastWords is how long the peer has to take what a channel that has ended by itself says why.
const lastWords = time.Second

// Close ends the channel and waits until nothing of it is left. What waited to be sent is lost, unless the channel had already ended
// by itself: then the peer hears why.
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

// Done is closed when the channel has ended; Err then says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the channel ends, nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Up waits until both sides have said hello and agreed upon 1.3.
func (c *Conn) Up(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait(ctx, func() bool { return c.up })
}

// Receive waits for the next message, in the order in which they came. Answers that a call of [Conn.Request], [Conn.Multipart]
// or [Conn.Commit] waits for are not among them, nor are hello and echo.
func (c *Conn) Receive(ctx context.Context) (Received, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.wait(ctx, func() bool { return len(c.in) > 0 }); err != nil {
		return Received{}, err
	}
	r := c.in[0]
	c.in[0] = Received{} // or the array would hold it
	c.in = c.in[1:]
	c.inBytes -= len(r.Raw)
	c.changed.Broadcast()
	return r, nil
}

// NextXID returns a transaction id for a message of our own.
func (c *Conn) NextXID() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.nextXID()
}

// Send queues a message, without waiting; it returns [ErrNotUp], [ErrFull], or why the channel ends. The message is encoded
// before Send returns.
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

// SendWait queues a message as soon as the channel is up and there is room.
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

// queue encodes a message behind those that wait. The caller holds mu.
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

// wait waits until ok, which it calls with mu held, as the caller must hold it. It fails when the channel ends or with ctx.
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

// end ends the channel, for the first reason that comes; abruptly, what waits to be sent is lost.
func (c *Conn) end(why error, abrupt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err, c.ended = why, c.now()
	}
	if abrupt && !c.abrupt {
		c.abrupt = true
		c.rw.Close() // wakes who reads or writes; an error of it has nobody to go to
	}
	c.changed.Broadcast()
}

func (c *Conn) now() time.Duration { return time.Since(c.began) }

// apply does what a step says, waiting for room where it must. It reports whether the channel goes on.
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
		h, _ := openflow.ParseHeader(raw) // which decoding has read
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

// read is the task that reads.
func (c *Conn) read() {
	r := bufio.NewReaderSize(c.rw, 64<<10)
	for {
		raw, err := frame(r)
		var fault *openflow.Fault
		if errors.As(err, &fault) { // a length behind which no message can be found
			h, _ := openflow.ParseHeader(raw)
			c.apply(raw, step{send: fault.Answer(raw), xid: h.XID, end: err})
			return
		}
		if err != nil {
			c.end(fmt.Errorf("read: %w", err), true)
			return
		}
		d := decode(raw) // without the lock, which those who handle messages want
		c.mu.Lock()
		s := c.m.take(c.now(), raw, d)
		c.mu.Unlock()
		if !c.apply(raw, s) {
			return
		}
	}
}

// frame reads one message into new memory; with a fault, its header alone.
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

// writePiece is how much is written at once, so that a slow reader is seen to read, in bytes.
const writePiece = 64 << 10

// write is the task that writes. When the channel ends it writes what waits, unless that is abrupt, and closes the connection.
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

// watch is the task that watches the time. It ends last.
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
			c.m.heard = now // who is not listened to is not silent
		}
		s := c.m.tick(now)
		if s.send != nil {
			_ = c.queue(s.xid, s.send) // without room there is enough that the peer could answer
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
