package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// PurgeStatus is a purge at a glance. Counters are since its start.
type PurgeStatus struct {
	Process

	Features []Feature `json:"features"`
	Cgroups  []string  `json:"cgroups"` // control groups whose processes' connections are watched

	CgroupsMissing []string `json:"cgroups_missing,omitempty"` // of them, those that there are not

	Waiting  Usage         `json:"waiting"`  // connections that are dormant unless they are heard of
	Policies []PurgePolicy `json:"policies"` // in the order of the configuration; then those that are gone

	Verdicts     map[string]uint64 `json:"verdicts"`      // connections and timeouts, by what the kernel made of them
	Resets       uint64            `json:"resets"`        // that were sent besides the kernel's
	ResetsFailed uint64            `json:"resets_failed"` // that could not be sent
}

// PurgePolicy is when connections of some servers are dormant, and what became of those that were marked.
type PurgePolicy struct {
	Name       string         `json:"name"`
	InForce    bool           `json:"in_force"` // false: only its counters are left
	Addresses  []netip.Prefix `json:"addresses,omitempty"`
	Ports      []string       `json:"ports,omitempty"` // "443", "8000-8100"
	MaxRetries int            `json:"max_retries"`
	Wait       int            `json:"wait_percent"`
	Floor      time.Duration  `json:"floor_ns"`
	Ceiling    time.Duration  `json:"ceiling_ns"`
	Exempt     []netip.Prefix `json:"exempt,omitempty"`
	DryRun     bool           `json:"dry_run,omitempty"`

	Marked  uint64 `json:"marked"`            // each for one silence
	Found   uint64 `json:"found"`             // of them, silent before the purge was there
	Ended   uint64 `json:"ended"`             // connections
	Spared  uint64 `json:"spared"`            // that would have been ended, but for dry_run
	Heard   uint64 `json:"heard"`             // that were heard of in time
	Gone    uint64 `json:"gone"`              // that ended by themselves in time
	Dropped uint64 `json:"dropped,omitempty"` // whose policy had gone
	Failed  uint64 `json:"failed,omitempty"`  // that the kernel did not end
}

// PurgeBackend is what a purge answers.
type PurgeBackend struct {
	Status func(ctx context.Context) (PurgeStatus, error)
}

func (PurgeBackend) name() string { return "purge" }

func (b PurgeBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
}

// Purge asks how the purge is.
func (c *Client) Purge(ctx context.Context) (PurgeStatus, error) {
	return ask[PurgeStatus](ctx, c, http.MethodGet, "/v1/purge", nil)
}
