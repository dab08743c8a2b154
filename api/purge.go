package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// PurgeStatus is the status of a purge. Counters start with the process.
type PurgeStatus struct {
	Process

	Features []Feature `json:"features"`
	Cgroups  []string  `json:"cgroups"` // control groups whose connections are watched

	CgroupsMissing []string `json:"cgroups_missing,omitempty"` // those that do not exist

	Waiting  Usage         `json:"waiting"`  // marked connections that may still respond
	Policies []PurgePolicy `json:"policies"` // in the order of the configuration, then removed ones

	Verdicts     map[string]uint64 `json:"verdicts"`      // connections and timeouts, by the kernel's verdict
	Resets       uint64            `json:"resets"`        // sent in addition to the kernel's
	ResetsFailed uint64            `json:"resets_failed"` // could not be sent
}

// PurgePolicy defines when connections of some servers are dormant, and counts the outcomes of marked ones.
type PurgePolicy struct {
	Name       string         `json:"name"`
	InForce    bool           `json:"in_force"` // false: removed, only its counters remain
	Addresses  []netip.Prefix `json:"addresses,omitempty"`
	Ports      []string       `json:"ports,omitempty"` // "443", "8000-8100"
	MaxRetries int            `json:"max_retries"`
	Wait       int            `json:"wait_percent"`
	Floor      time.Duration  `json:"floor_ns"`
	Ceiling    time.Duration  `json:"ceiling_ns"`
	Exempt     []netip.Prefix `json:"exempt,omitempty"`
	DryRun     bool           `json:"dry_run,omitempty"`

	Marked  uint64 `json:"marked"`            // one for each unresponsive period
	Found   uint64 `json:"found"`             // of these, unresponsive before the purge started
	Ended   uint64 `json:"ended"`             // connections
	Spared  uint64 `json:"spared"`            // not ended because of dry_run
	Heard   uint64 `json:"heard"`             // responded in time
	Gone    uint64 `json:"gone"`              // ended by themselves in time
	Dropped uint64 `json:"dropped,omitempty"` // their policy was removed
	Failed  uint64 `json:"failed,omitempty"`  // the kernel refused to end them
}

// PurgeBackend serves the requests to a purge.
type PurgeBackend struct {
	Status func(ctx context.Context) (PurgeStatus, error)
}

func (PurgeBackend) name() string { return "purge" }

func (b PurgeBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
}

// Purge returns the status of the purge.
func (c *Client) Purge(ctx context.Context) (PurgeStatus, error) {
	return ask[PurgeStatus](ctx, c, http.MethodGet, "/v1/purge", nil)
}
