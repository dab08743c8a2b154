package forwarder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"baton/openflow"
	"baton/openflow/channel"
)

// controllerAddress is where the switch finds its controller, which is this process, on the switch's own host.
const controllerAddress = "127.0.0.1:6653"

// Control is the controller's end of the channel to a switch.
type Control struct{ conn *channel.Conn }

// accept waits for the switch to connect. The channel is the caller's to close.
func accept(ctx context.Context, l net.Listener) (*Control, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	raw, err := l.Accept()
	if err != nil {
		return nil, fmt.Errorf("no switch connects: %w", errors.Join(context.Cause(ctx), err))
	}
	// A switch that takes 100,000 entries at once may say nothing meanwhile.
	c := &Control{channel.Start(raw, channel.Options{Dead: 2 * time.Minute, In: 16 << 20, Out: 4 << 20})}
	if err := c.conn.Up(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the channel: %w", err), c.conn.Close())
	}
	return c, nil
}

func (c *Control) close() error { return c.conn.Close() }

// send sends messages that have no answer.
func (c *Control) send(ctx context.Context, messages ...openflow.Message) error {
	for _, m := range messages {
		if err := c.conn.SendWait(ctx, c.conn.NextXID(), m); err != nil {
			return fmt.Errorf("send to the switch: %w", err)
		}
	}
	return nil
}

// barrier returns when all that was sent is in force, or the error that the switch has answered with.
func (c *Control) barrier(ctx context.Context) error {
	if _, err := c.conn.Request(ctx, &openflow.BarrierRequest{}); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // only what has come already
	for {
		r, err := c.conn.Receive(now)
		if err != nil {
			return c.conn.Err()
		}
		if refusal, ok := r.Message.(*openflow.Error); ok {
			return fmt.Errorf("the switch refuses: %v", refusal.Code)
		}
	}
}

// Install has the switch take flow mods, with a barrier behind every so many of them and at the end.
func (c *Control) Install(ctx context.Context, every int, mods ...openflow.Message) error {
	for len(mods) > 0 {
		n := min(every, len(mods))
		if err := c.send(ctx, mods[:n]...); err != nil {
			return err
		}
		if err := c.barrier(ctx); err != nil {
			return err
		}
		mods = mods[n:]
	}
	return nil
}

// atOnce is for Install: one barrier, at the end.
const atOnce = 1 << 30

// clear deletes all entries.
func (c *Control) clear(ctx context.Context) error {
	m := openflow.NewFlowMod(openflow.FlowDelete)
	m.Table = openflow.TableAll
	return c.Install(ctx, atOnce, m)
}

// packetIns hands the packets that come from the switch to f until ctx ends, which is no error.
func (c *Control) packetIns(ctx context.Context, f func(*openflow.PacketIn) error) error {
	for {
		r, err := c.conn.Receive(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive from the switch: %w", err)
		}
		switch m := r.Message.(type) {
		case *openflow.PacketIn:
			if err := f(m); err != nil {
				return err
			}
		case *openflow.Error:
			return fmt.Errorf("the switch refuses: %v", m.Code)
		}
	}
}
