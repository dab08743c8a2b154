package router

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/legs"
	"baton/router/state"
)

// clock has what the data path gets once about legs: their classes, and the offset of the timestamp clock from the host's.
type clock struct {
	mss    []uint16
	offset uint32
}

// setClock chooses the leg classes and the timestamp offset, or keeps those of existing sessions. The kernel must have them before
// the first leg opens, as it validates and acknowledges SYN-ACKs by that clock.
func setClock(dp *kernel.Router, mtu int) (clock, error) {
	have, err := dp.Config()
	if err != nil {
		return clock{}, err
	}
	if dp.Adopted() && len(have.MSS) > 0 {
		return clock{have.MSS, have.TSOffset}, nil
	}
	c := clock{state.MSSClasses(mtu), legs.RandomOffset()}
	return c, dp.SetConfig(c.config(kernel.Config{Closed: true}))
}

// config completes a configuration of the data path.
func (c *clock) config(k kernel.Config) kernel.Config {
	k.MSS, k.TSOffset = c.mss, c.offset
	return k
}

// timestamp is the time of legs' timestamp option.
func (c *clock) timestamp() uint32 { return datapath.Clock() + c.offset }

// queueSize is fixed at start, hence the reserve for larger pools after a reload.
func queueSize(cfg *config.Config) int {
	largest := 4096
	for _, p := range cfg.Pools {
		largest = max(largest, p.Legs.Max)
	}
	return 2 * largest // dead entries stay in the queues for a while
}

// attach attaches the data path to the clients' interfaces.
func attach(dp *kernel.Router, cfg *config.Config) error {
	for _, v := range cfg.VIPs {
		if v.Protocol == config.QUIC {
			continue
		}
		for _, name := range v.Interfaces {
			dev, err := net.InterfaceByName(name)
			if err != nil {
				return fmt.Errorf("%s:%d: vips.interfaces: no interface %q on this host", cfg.File, v.Line, name)
			}
			if err := dp.Attach(dev.Index); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// refusalGrace is how much longer than timeouts.handshake the kernel keeps a client, so that it can be answered (408).
const refusalGrace = 5 * time.Second

// sweep ends what has timed out, until ctx is done.
func sweep(ctx context.Context, dp *kernel.Router, timeouts func() config.Timeouts, log *slog.Logger) {
	tick := time.NewTicker(kernel.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := timeouts()
		t := kernel.Timeouts{Handshake: now.Handshake, Idle: now.Idle, Closing: now.Closing}
		if _, err := dp.Sweep(t); err != nil {
			log.Error("cannot sweep sessions", "err", err)
		}
		t.Handshake += refusalGrace
		if err := dp.SweepClients(t); err != nil {
			log.Error("cannot sweep clients", "err", err)
		}
	}
}
