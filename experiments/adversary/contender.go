package adversary

import (
	"context"
	"time"
)

// contender is a program between clients and surrogates.
type contender struct {
	name, is string
	start    func(ctx context.Context, n *network, program string) (subject, error)
}

// subject is a running contender.
type subject interface {
	// version of a third-party program.
	version() string
	// check checks its invariants under load.
	check(ctx context.Context)
	// settle waits until all sessions of a batch are gone, and reports those that are not.
	settle(ctx context.Context, b Batch)
	// dump is context for a finding.
	dump() string
	stop() error
}

// settleWithin is how long sessions may outlast their clients: several times the timeouts, and far less than timeouts.idle.
const settleWithin = 15 * time.Second
