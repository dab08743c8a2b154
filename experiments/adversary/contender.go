package adversary

import (
	"context"
	"time"
)

// contender is what stands between the clients and the surrogates.
type contender struct {
	name, is string
	start    func(ctx context.Context, n *network, program string) (subject, error)
}

// subject is a contender that runs.
type subject interface {
	// version is of a program that is not ours.
	version() string
	// check holds its state against the invariants, while all is busy.
	check(ctx context.Context)
	// settle waits until nothing is left of the sessions of a batch, and says what is.
	settle(ctx context.Context, b Batch)
	// dump is what a finding should be read with.
	dump() string
	stop() error
}

// settleWithin is how long sessions may take to be gone once their clients are: several times what the timeouts allow, and far less than
// timeouts.idle.
const settleWithin = 15 * time.Second
