package upcall

import (
	"time"

	kernel "baton/datapath/router"
)

// replayed remembers for a moment whose requests have been replayed: packets that come up behind them go back to the
// kernel, which has no entry of them any more.
type replayed map[clientKey]replayedClient

type replayedClient struct {
	client kernel.Pending
	until  time.Time
}

const (
	maxReplayed  = 4096
	replayedLife = 100 * time.Millisecond
)

// keepClient does nothing when there are too many: their clients retransmit.
func (r replayed) keepClient(key clientKey, client *kernel.Pending, now time.Time) {
	if len(r) < maxReplayed {
		r[key] = replayedClient{*client, now.Add(replayedLife)}
	}
}

// isBehind reports whether a packet belongs to a request that has just been replayed.
func (r replayed) isBehind(a *arrival, now time.Time) bool {
	of, ok := r[a.key]
	return ok && now.Before(of.until) && a.isOf(&of.client)
}

// dropOld forgets clients behind whom nothing comes any more.
func (r replayed) dropOld(now time.Time) {
	for key, of := range r {
		if !now.Before(of.until) {
			delete(r, key)
		}
	}
}
